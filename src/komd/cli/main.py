"""The `komd` command: its parts, and how errors leave it.

An error that the caller can do something about (bad input, a missing file, a full disk) is one line on stderr and exit
code 2. Anything else keeps its traceback: it is a bug. Only light modules are imported here and at the top of the
commands, so that `komd --help` is instant.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from komd.cli import interrupt
from komd.cli.analyze_command import analyze
from komd.cli.compare_command import compare
from komd.cli.demo_command import demo
from komd.cli.evaluate_command import evaluate
from komd.cli.explain_command import explain
from komd.cli.fit_command import fit
from komd.cli.forgotten_command import forgotten
from komd.cli.generate_command import generate
from komd.cli.recommend_command import recommend
from komd.cli.score_command import score
from komd.cli.serve_command import serve
from komd.cli.similar_command import similar
from komd.cli.tune_command import tune
from komd.cli.update_command import update
from komd.errors import FallbackWarning, KomdError, WordedWarning

__all__ = ["app", "run"]


class Guarded(TyperGroup):
    """Runs a command and turns errors into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                for category in (FallbackWarning, WordedWarning):
                    warnings.simplefilter("always", category)
                warnings.showwarning = _noted
                result = super().invoke(ctx)
                sys.stdout.flush()
                return result
        except BrokenPipeError:  # the reader of our output has closed it
            _discard_stdout()
            raise typer.Exit(0) from None
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            _stopped()
        except Exception as error:
            if interrupt.heard():  # some libraries turn Ctrl-C into an error of their own
                _stopped()
            if not isinstance(error, KomdError | OSError | MemoryError):
                raise
            _say(_worded(error))
            if isinstance(error, OSError):
                _flush_or_discard()
        raise typer.Exit(2)


app = typer.Typer(
    rich_markup_mode=None,
    cls=Guarded,
    name="komd",
    help="Top-N recommendation from implicit feedback. Start with: komd demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    fit,
    update,
    recommend,
    explain,
    score,
    similar,
    evaluate,
    compare,
    tune,
    analyze,
    generate,
    serve,
    forgotten,
    demo,
):
    app.command()(command)


def _version(asked: bool) -> None:
    if asked:
        import komd

        print(f"komd {komd.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """--version is the only option before a command."""


def run() -> None:
    """The command, from its arguments to its exit code."""
    interrupt.watch()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the process that started us
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(getattr(sys, name), "reconfigure"):  # a terminal that lacks a character shows "?"
            getattr(sys, name).reconfigure(errors="replace")
    try:
        app(prog_name="komd")
    except KeyboardInterrupt:
        interrupt.leave()
    except SystemExit as done:
        if done.code == interrupt.CODE or interrupt.heard():
            interrupt.leave()
        interrupt.finish()
        raise


def _stopped() -> NoReturn:
    interrupt.say_stopped()
    raise typer.Exit(interrupt.CODE) from None


def _worded(error: KomdError | OSError | MemoryError) -> str:
    if isinstance(error, KomdError):
        return error.worded(_option)
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}" if str(error) else "not enough memory"
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _say(message: str) -> None:
    print(f"komd: {' '.join(message.split())}", file=sys.stderr)


def _option(name: str, value: str) -> str:
    """An argument of the library as the option that it is here.

    >>> _option("min_rating", ""), _option("on_unknown", '"skip"'), _option("header", "False")
    ('--min-rating', '--on-unknown skip', '--no-header')
    """
    no = "no-" if value == "False" else ""
    shown = "" if value in ("True", "False") else value.strip('"')
    return f"--{no}{name.replace('_', '-')} {shown}".rstrip()


def _noted(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if isinstance(message, WordedWarning):
        _say(f"note: {message.worded(_option)}")
    elif issubclass(category, FallbackWarning):
        _say(f"note: {message}")
    else:
        print(warnings.formatwarning(message, category, filename, lineno, line), end="", file=sys.stderr)


def _flush_or_discard() -> None:
    """Print what is left, unless standard output itself failed: the interpreter would try again."""
    try:
        sys.stdout.flush()
    except OSError:
        _discard_stdout()


def _discard_stdout() -> None:
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is no file of the system
        pass
