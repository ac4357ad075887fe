"""The `exhume` command: gathers the subcommands and turns errors into exit codes.

Exit codes: 0 clean, 1 a finding at or above ``--fail-on`` and nothing else, 2 bad usage or input or anything that kept
the command from its end, 130 interrupted, 141 nobody reads the output any more.
"""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer

from exhume._version import __version__
from exhume.cli import advise, audit, data, decode, paper, serve
from exhume.cli._edge import carry_out
from exhume.cli._options import Command
from exhume.errors import NoteWarning, OldNameWarning

__all__ = ["app", "main"]

app = typer.Typer(
    name="exhume",
    help="Can a client dig up what exact federated unlearning deleted, and what stops it?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("advise", cls=Command)(advise.advise)
app.command("audit", cls=Command)(audit.audit)
app.add_typer(data.app, name="data")
app.add_typer(decode.app, name="decode")
app.add_typer(paper.app, name="paper")
app.add_typer(serve.app, name="serve")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"exhume {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def _note(message: Warning | str, category: type[Warning], *rest: object, **more: object) -> None:
    """Say what Exhume has to note in one line; other packages' warnings are not for users of the command."""
    if issubclass(category, (OldNameWarning, NoteWarning)):
        typer.echo(f"exhume: note: {message}", err=True)


def main() -> None:
    """Run the command line; whatever goes wrong becomes one line on standard error and exit code 2."""
    warnings.showwarning = _note
    sys.exit(carry_out(app, sys.argv[1:]))
