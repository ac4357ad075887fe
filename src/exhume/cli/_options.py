"""What the commands share: options that mean the same everywhere, and where their output goes."""

from __future__ import annotations

import glob
import importlib
import json
import re
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from exhume.cli._help import EXAMPLES, panel_of
from exhume.errors import InputError
from exhume.files import write_files

if TYPE_CHECKING:
    from exhume.audit.records import Verdict

__all__ = [
    "MOST_SEED",
    "STDOUT",
    "Command",
    "Jobs",
    "JsonTo",
    "check_file",
    "check_folder",
    "command_line",
    "completing",
    "completing_files",
    "console_for",
    "json_text",
    "listed",
    "put_json",
    "say",
    "tell",
]

STDOUT = "-"

JsonTo = Annotated[
    str | None,
    typer.Option("--json", metavar="[FILE]", help="Also give JSON: to a file, or to standard output without one."),
]
"""The option ``--json [FILE]`` of a command that is made with ``cls=Command``."""

Jobs = Annotated[int, typer.Option("--jobs", min=0, help="Processes; 0 is one per core.")]
"""The option ``--jobs``; its default is 0 everywhere."""

MOST_SEED = 2**63 - 1
"""The largest seed: what other languages' integers hold, so that a report's seed can be read anywhere."""

PLACES = {
    "data": "exhume.data.sets:REGISTRY",
    "encoders": "exhume.data.encoders:REGISTRY",
    "probes": "exhume.attack.probes:REGISTRY",
    "estimators": "exhume.attack.estimate:REGISTRY",
    "recoveries": "exhume.attack.recover:REGISTRY",
    "attacks": "exhume.simulate.attackers:REGISTRY",
    "kinds": "exhume.audit.settings:KINDS",
    "engines": "exhume.audit.engines:ENGINES",
    "levels": "exhume.audit.levels:LEVELS",
    "fail_on": "exhume.audit.settings:FAIL_ON",
    "backends": "exhume.jobs.run:BACKENDS",
    "shipped": "exhume.audit.settings:SHIPPED",
    "admission": "exhume.defence.admission:REGISTRY",
    "release": "exhume.defence.release:REGISTRY",
    "accountants": "exhume.defence.accountants:REGISTRY",
    "defences": "exhume.advise.defences:DEFENCES",
    "decoders": "exhume.decode:REGISTRY",
    "tables": "exhume.paper.registry:REGISTRY",
}
"""Where the names are found that help and completion offer: what other packages bring is among them."""


def names_of(what: str) -> list[str]:
    """Return the known names of a kind of thing."""
    module, _, attribute = PLACES[what].partition(":")
    return [str(name) for name in getattr(importlib.import_module(module), attribute)]


def completing_files(what: str) -> Callable[[str], list[str]]:
    """Return what completes a name of a kind of thing, or a TOML file."""

    def complete(incomplete: str) -> list[str]:
        known = [name for name in names_of(what) if name.startswith(incomplete)]
        return known + sorted(str(path) for path in Path().glob(f"{glob.escape(incomplete)}*.toml"))

    return complete


def completing(what: str) -> Callable[[str], list[str]]:
    """Return what completes the last item of a comma list of names."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names_of(what) if name.startswith(last)]

    return complete


class Command(TyperCommand):
    """A command whose ``--json`` may stand alone (then it is ``-``), and whose help names what is there to choose."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words after the command; none of them may be empty."""
        words = _completed(args)
        # Asked before the types are made: an empty path would mean this folder.
        given, _, _ = self.make_parser(ctx).parse_args(list(words))
        for parameter in self.params:
            value = given.get(str(parameter.name))
            if value == "" or (isinstance(value, (list, tuple)) and "" in value):
                raise typer.BadParameter("must not be empty.", ctx=ctx, param_hint="/".join(parameter.opts))
        return super().parse_args(ctx, words)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with ``{probes}`` and the like replaced by the names that are known."""
        for parameter in self.params:
            text = getattr(parameter, "help", None)
            if text:
                vars(parameter)["help"] = re.sub(r"\{(\w+)\}", lambda m: ", ".join(names_of(m[1])), text)
            named = next((word[2:] for word in parameter.opts if word.startswith("--")), "")
            vars(parameter)["rich_help_panel"] = panel_of(named)
            if getattr(parameter, "is_flag", False):
                vars(parameter)["metavar"] = ""  # a flag takes no value
            elif named == "seed":
                vars(parameter)["metavar"] = "<int>"  # without a range whose end nobody reads
        if lines := EXAMPLES.get(ctx.command_path):
            self.epilog = "\n\n".join(["Examples:", *lines])
        super().format_help(ctx, formatter)


def _completed(args: list[str]) -> list[str]:
    """Give every ``--json`` without a value its default, which typer's options cannot."""
    words: list[str] = []
    for i, word in enumerate(args):
        following = args[i + 1] if i + 1 < len(args) else None
        alone = following is None or (following.startswith("-") and following != STDOUT)
        words.append(f"--json={STDOUT}" if word == "--json" and alone else word)
        if word == "--":
            return [*words, *args[i + 1 :]]
    return words


def listed(values: Iterable[str] | None) -> list[str]:
    """Return the items of an option that takes a comma list and may be repeated, each once, in order."""
    items = (item.strip() for value in values or () for item in value.split(","))
    return list(dict.fromkeys(item for item in items if item))


def json_text(content: object) -> str:
    """Return JSON as every command writes it."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def put_json(text: str, target: str | None) -> None:
    """Write JSON to where ``--json`` says; nowhere if it was not given."""
    if target == STDOUT:
        typer.echo(text, nl=False)
    elif target is not None:
        write_files({Path(target): text})


def say(console: Console, text: str, style: str = "") -> None:
    """Print a sentence as it is: no markup, no colours but a style, no folding of paths."""
    if console.is_terminal:
        text = "\n".join(folded for line in text.splitlines() for folded in _folded(line, console.width))
    console.print(text, soft_wrap=True, markup=False, highlight=False, style=style or None)


def _folded(line: str, width: int) -> list[str]:
    """Return a line in pieces that fit, broken at spaces only: paths and commands stay whole."""
    margin = line[: len(line) - len(line.lstrip())] + "  "
    return textwrap.wrap(
        line, max(width, 40), subsequent_indent=margin, break_long_words=False, break_on_hyphens=False
    ) or [""]


def console_for(target: str | None = None) -> Console:
    """Return where people read: standard output, or standard error if JSON goes there."""
    error = target == STDOUT
    console = Console(stderr=error)
    # Piped output must not be folded to a width that nobody sees.
    return console if console.is_terminal else Console(stderr=error, width=240)


ENOUGH = bytes(1 << 16)
"""What a folder must be able to take: less than any report."""


def check_folder(option: str, folder: Path) -> None:
    """Make sure that files can be written into a folder, which need not be there yet. Leaves nothing behind."""
    there = folder.expanduser()
    while not _exists(option, there):
        there = there.parent
    if not there.is_dir():
        raise InputError(option, "a folder, or the name of one to make", f"'{folder}' ('{there}' is a file)")
    try:
        with tempfile.TemporaryFile(dir=there) as stream:
            stream.write(ENOUGH)
    except OSError as error:
        raise InputError(option, "a folder that can be written", f"'{folder}' ({error.strerror})") from None


def check_file(option: str, file: str | Path | None) -> None:
    """Make sure that a file can be written; nothing and standard output always can."""
    if file is None or str(file) == STDOUT:
        return
    path = Path(file)
    if _exists(option, path):
        if path.is_dir():
            raise InputError(option, "a file to write", f"'{path}' (a folder)")
        if not path.is_file():  # a device or a pipe
            return
    check_folder(option, path.parent)


def _exists(option: str, path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return path == path.parent
    except (OSError, ValueError) as error:
        raise InputError(option, "a place that can be reached", f"'{path}' ({error})") from None
    return True


def tell(verdict: Verdict, json: str | None = None) -> None:
    """Print verdict and next steps: folded at words and coloured by level on a terminal, line by line elsewhere."""
    from exhume.audit.next_steps import TITLE, in_full

    console = console_for(json)
    lines = in_full(verdict, console.width if console.is_terminal else None).splitlines()
    tone = {"none": "cyan", "aggregate": "yellow", "replay": "red", None: "yellow"}.get(
        verdict.severity, "dark_orange3"
    )
    for number, line in enumerate(lines):
        style = f"bold {tone}" if number == 0 else "bold" if line == f"{TITLE}:" else ""
        say(console, line, style)


def command_line() -> str:
    """Return the command as it was given."""
    return shlex.join(["exhume", *sys.argv[1:]])
