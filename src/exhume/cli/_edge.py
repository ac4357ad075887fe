"""The edge of the program: whatever ends a command becomes one line on standard error and an exit code.

Exit code 1 means a finding and nothing else, so nothing that goes wrong may end with it, nor with 0.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import typer

from exhume.errors import ExhumeError

__all__ = ["BAD", "INTERRUPTED", "TRACEBACK_VARIABLE", "carry_out"]

BAD = 2
"""Bad usage or input, and anything else that kept a command from its end."""
INTERRUPTED = 130
CLOSED = 141
"""Whoever read our output has gone: what a shell reports of a program that SIGPIPE ended."""
SIGNALLED = 128
"""Exit codes from here on are those of signals."""

TRACEBACK_VARIABLE = "EXHUME_TRACEBACK"
"""Set to anything, it lets errors that nobody foresaw through with their traceback."""

LONGEST = 1500
"""Characters of a message, at most: some come from servers, files and other people's code."""

# typer may bring its own click or use the installed one; either way this is the base of its usage errors.
_USAGE: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def carry_out(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run a command line; returns the exit code, having said in one line what went wrong."""
    try:
        code = typer.main.get_command(app).main(list(arguments), prog_name="exhume", standalone_mode=False)
        sys.stdout.flush()  # here, where a full disk or a closed pipe can still be told
    except KeyboardInterrupt:
        return _ended(INTERRUPTED, "interrupted")
    except SystemExit as exit:
        return _exited(exit)
    except _USAGE as error:
        return _misused(error)
    except BrokenPipeError:
        return _closed()
    except typer.Abort:  # what typer makes of an input that ended
        return _ended(BAD, "the input ended early")
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE) and not isinstance(error, ExhumeError):
            raise
        _discard_output()
        return _ended(BAD, _words(error))
    return code if isinstance(code, int) else 0


def _exited(exit: SystemExit) -> int:
    """Tell exits that mean something from those of other people's code, which must not pass for a clean bill."""
    cause = exit.__context__
    if isinstance(cause, OSError) and cause.errno == errno.EPIPE:  # typer turns it into exit code 1
        return _closed()
    if isinstance(exit.code, int) and exit.code >= SIGNALLED:
        return exit.code
    if _raised_by(exit).partition(".")[0] in ("typer", "click"):  # shell completion has said all it has to say
        raise exit
    return _ended(BAD, f"code outside Exhume ended the program (exit code {exit.code}), so there is no result")


def _raised_by(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))


def _misused(error: Any) -> int:
    """Say typer's complaint in one line; a group without a command shows its help, as it should."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        if text := error.format_message().strip():  # else it has been shown already
            typer.echo(text, err=True)
        return BAD
    command = "exhume" if context is None else context.command_path
    return _ended(BAD, f"{error.format_message().rstrip('.')} (see {command} --help)")


def _closed() -> int:
    _discard_output()
    return CLOSED


def _discard_output() -> None:
    """Drop what is still to be written to an output that does not take it, or Python's own exit would complain."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):  # no such file descriptor: nothing will be written
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _words(error: Exception) -> str:
    if isinstance(error, ExhumeError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"'{os.fsdecode(error.filename)}': "
        return f"{place}{error.strerror}"
    if isinstance(error, MemoryError):
        return f"not enough memory{f' ({error})' if str(error) else ''}; try a smaller --dim or fewer --jobs"
    text = f": {error}" if str(error) else ""
    return f"unexpected {type(error).__name__}{text} ({TRACEBACK_VARIABLE}=1 shows where)"


def _ended(code: int, text: str) -> int:
    line = " ".join(text.split())
    line = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
    shown = line if len(line) <= LONGEST else f"{line[:LONGEST]}..."
    with suppress(OSError):  # if nobody reads it, the exit code still counts
        typer.secho(f"exhume: {shown}", err=True, fg="red", bold=True)
    return code
