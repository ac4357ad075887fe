"""How the documentation site is built: `make docs` (Sphinx, MyST, Furo; decision 0046)."""

from __future__ import annotations

from exhume import __version__

project = "Exhume"
author = "The Exhume developers"
copyright = "The Exhume developers"
release = version = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
nitpicky = False

# Notebooks are run by tests/test_notebooks.py and shown as they were saved: a page must not take minutes to build.
nb_execution_mode = "off"
myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "colon_fence"]
myst_links_external_new_tab = False

autosummary_generate = True
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = True
napoleon_google_docstring = False

html_theme = "furo"
html_title = "Exhume"
html_static_path: list[str] = []
html_show_sphinx = False


def _commands(app: object) -> None:
    """Write the page of the command line from the commands themselves: what can be found is not kept by hand."""
    from pathlib import Path

    import typer

    from exhume.cli.main import app as commands

    lines = ["# Command line", "", "Made from the commands' own help.", ""]

    def tell(command: object, path: str, depth: int) -> None:
        lines.extend([f"{'#' * min(depth, 5)} `{path}`", "", (getattr(command, "help", "") or "").strip(), ""])
        rows = [
            (", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts)), option.help)
            for option in getattr(command, "params", [])
            if getattr(option, "help", None) and not getattr(option, "hidden", False)
        ]
        if rows:
            cells = [f"| {flags} | {text} |".replace("\n", " ") for flags, text in rows]
            lines.extend(["| option | meaning |", "|---|---|", *cells, ""])
        for name, inner in sorted(getattr(command, "commands", {}).items()):
            tell(inner, f"{path} {name}", depth + 1)

    tell(typer.main.get_command(commands), "exhume", 2)
    Path(__file__).with_name("reference").joinpath("commands.md").write_text("\n".join(lines), encoding="utf-8")


def setup(app: object) -> None:
    """Let Sphinx make the page of commands first."""
    app.connect("builder-inited", _commands)  # type: ignore[attr-defined]
