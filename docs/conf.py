"""The settings of the documentation site (`make docs`), and how pages outside docs/ come into it."""

from __future__ import annotations

import atexit
import inspect
import logging
import os
import re
import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from command_pages import commands_page
from docutils import nodes
from message_pages import messages_page
from sphinx.domains.python import PyObject

import komd
from komd.engine.recommender import Recommender

DOCS = Path(__file__).parent
ROOT = DOCS.parent

project = "komd"
author = "The komd authors"
copyright = author
release = version = metadata.version("komd")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "README.md"]  # README.md is the table of contents on GitHub
templates_path = ["_templates"]
language = "en"
smartquotes = False  # quoted values are to be copied

# Docstrings: numpydoc sections; types come from the annotations, names in backticks are links where there is a page.
default_role = "py:obj"
add_module_names = False
autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# Pages are written for GitHub as well: anchors are those that GitHub makes of headings.
myst_heading_anchors = 4

# Tutorials are executed in a temporary folder; an error in a cell fails the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 600  # for a cell, on a busy machine
nb_execution_excludepatterns = [] if shutil.which("java") else ["tutorials/on-spark*"]  # Spark needs it
nb_output_stderr = "remove"  # progress and notes to the reader of a terminal
# Kernels have settings of their own, not those of whoever builds the site, and say nothing but errors.
_ipython = Path(tempfile.mkdtemp(prefix="komd-docs-"))
atexit.register(shutil.rmtree, _ipython, ignore_errors=True)
(_ipython / "profile_default").mkdir()
(_ipython / "profile_default" / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 40\n", "utf-8")
os.environ["IPYTHONDIR"] = str(_ipython)
logging.getLogger("traitlets").setLevel(logging.WARNING)
# Spark writes nothing but errors beside the build.
(_ipython / "log4j2.properties").write_text(
    "appender.console.type = Console\nappender.console.name = console\nappender.console.target = SYSTEM_ERR\n"
    "appender.console.layout.type = PatternLayout\nappender.console.layout.pattern = %p %c: %m%n%ex\n"
    "rootLogger.level = error\nrootLogger.appenderRef.stdout.ref = console\n",
    "utf-8",
)
os.environ |= {"SPARK_CONF_DIR": str(_ipython), "SPARK_LOCAL_IP": "127.0.0.1"}
nb_ipywidgets_js: dict[str, Any] = {}  # no widgets: nothing is loaded from another host

# `make linkcheck`: links to other sites. Those into the project are checked by tests.
linkcheck_ignore = [r"https?://(localhost|127\.0\.0\.1|recs\.example|collector)\b"]
linkcheck_timeout = 20

html_theme = "furo"
html_title = f"komd {release}"
html_static_path = ["_static"]
html_favicon = "../src/komd/serve/static/icon.svg"
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

# ---- reference pages ------------------------------------------------------------------------------------------------

# What users of a model call. Its other public methods serve other parts of the package.
MODEL_MEMBERS = (
    *("fit", "recommend", "explain", "score", "similar_items", "update", "save", "tune", "recommended", "solve"),
    *("fitted", "text", "get_params", "set_params", "clone", "serves_strangers", "uses_weights", "last_update"),
)


def _model_members() -> dict[str, str]:
    models = {
        name: found
        for name in komd.__all__
        if inspect.isclass(found := getattr(komd, name)) and issubclass(found, Recommender)
    }
    return {
        f"komd.{name}": ", ".join(member for member in MODEL_MEMBERS if hasattr(model, member))
        for name, model in models.items()
    }


autosummary_context = {"model_members": _model_members()}


def _as_restructured_text(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Bars as bars, an indented block after a plain line as it is typed, pages of docs/ as links."""
    out: list[str] = []
    before, literal = "", False
    for line in lines:
        if line.strip():
            blank, indented = bool(out) and not out[-1].strip(), line.startswith("    ")
            if not literal and blank and indented and before and not before.startswith((" ", ">>>", "...", "-")):
                out += ["::", ""]
                literal = True
            literal = literal and indented
            before = line
        plain = literal or line.lstrip().startswith((">>>", "..."))
        out.append(line if plain else _PAGE.sub(r":doc:`/\1`", _BAR.sub(r"\\|", line)))
    lines[:] = out


def _one_return_type(app: Any, domain: str, kind: str, content: Any) -> None:
    """The docstring's type of what is returned, without the annotation below it, which says the same."""
    for fields in content.findall(nodes.field_list):
        named = {field[0].astext().split()[0]: field for field in fields}
        if {"returns", "rtype"} <= set(named):
            fields.remove(named["rtype"])


for _field in PyObject.doc_field_types:
    if _field.name == "variable":
        _field.label = "Attributes"  # as the docstrings say

_BAR = re.compile(r"\|(?![^`]*`(?:[^`]*`[^`]*`)*[^`]*$)")  # outside backticks
_PAGE = re.compile(r"`?\bdocs/((?:guide|results|decisions)/[\w-]+)\.md`?")

# ---- pages outside docs/ --------------------------------------------------------------------------------------------

# A page in docs/project/ is one line on GitHub, a link to a file outside docs/; on the site it is that file.
OUTSIDE = {
    f"project/{name}": path
    for name, path in {
        "architecture": "ARCHITECTURE.md",
        "changelog": "CHANGELOG.md",
        "contributing": "CONTRIBUTING.md",
        "security": "SECURITY.md",
        "experiments": "experiments/README.md",
    }.items()
}
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")


def _site_target(target: str, folder: Path) -> str:
    """A link of a page in `folder` as the site has it: from the root of docs/, whatever file it leads to."""
    there = (folder / target).resolve()
    for page, path in OUTSIDE.items():
        if there == (ROOT / path).resolve():
            return f"/{page}.md"
    if there.is_relative_to(DOCS) and there != DOCS / "README.md":
        return "/" + (there / "README.md" if there.is_dir() else there).relative_to(DOCS).as_posix()
    return "/index.md" if there in (DOCS / "README.md", ROOT / "README.md") else target


def _for_the_site(app: Any, page: str, source: list[str]) -> None:
    """Links as the site has them; a page outside docs/ in place of its stub; the pages that a README lists."""
    path = app.env.doc2path(page)
    if Path(path).suffix != ".md":
        return
    folder, text = (DOCS / page).parent, source[0]
    if page in OUTSIDE:
        origin = ROOT / OUTSIDE[page]
        app.env.note_dependency(str(origin))
        folder, text = origin.parent, origin.read_text(encoding="utf-8")
    elif page == "reference/commands":
        text = commands_page()
    elif page == "reference/messages":
        text = messages_page()
    elif page.endswith("/README"):
        listed = re.findall(r"^- \[[^]]*\]\(([\w-]+)\.md\)", text, re.M)
        text = re.sub(r"^- \[[\w-]+\.md\]", "- []", text, flags=re.M)  # the site names pages by their titles
        text += "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(listed) + "\n```\n"
    source[0] = _LINK.sub(lambda found: _site_target(found[1], folder), text)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _for_the_site)
    app.connect("autodoc-process-docstring", _as_restructured_text, priority=400)  # before the sections are parsed
    app.connect("object-description-transform", _one_return_type, priority=900)  # after annotations are merged
    return {"parallel_read_safe": True, "parallel_write_safe": True}
