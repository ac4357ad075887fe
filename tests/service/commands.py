"""The command line, in this process."""

from typer.testing import CliRunner

from exhume.cli.main import app


def run(*words):
    """Run a command; its errors have their exit code and one line."""
    return CliRunner().invoke(app, [str(word) for word in words])
