"""The reference page of the command `komd`: made of what the commands say of themselves."""

from __future__ import annotations

from typing import Any

import typer.main

from komd.cli.main import app

__all__ = ["commands_page"]


def commands_page() -> str:
    """The page in Markdown: a section with a table of options for each command."""
    group: Any = typer.main.get_command(app)
    parts = [
        "# Commands",
        str(group.help),
        "`komd COMMAND --help` shows the same in a terminal. Long options may be given as `--name=value`.",
    ]
    for name, command in group.commands.items():
        rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
        table = ["| option | default | meaning |", "| --- | --- | --- |", *rows]
        parts += [f"## komd {name}", _plain(command.help), "\n".join(table)]
    return "\n\n".join(parts) + "\n"


def _row(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    shown = " ".join(f"`{name if name.startswith('-') else name.upper()}`" for name in names)
    default = parameter.default
    known = default is not None and default is not False and default != [] and not callable(default)
    value = f"`{getattr(default, 'value', default)}`" if known and str(default) not in ("", "Sentinel.UNSET") else ""
    cells = (shown, "required" if parameter.required else value, _plain(getattr(parameter, "help", "") or ""))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _plain(text: str) -> str:
    """A text that holds no markup, as Markdown that shows it so; blank lines stay."""
    for mark in "\\`*_<>[]#{}$":
        text = text.replace(mark, f"\\{mark}")
    return text
