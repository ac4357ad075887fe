"""What to do now: the lines after the verdict. Each names a command or a setting, with its measured effect if known."""

from __future__ import annotations

import os
import textwrap
from datetime import UTC, datetime

from exhume.audit.commands import command_of, shown
from exhume.audit.levels import Level
from exhume.audit.records import LiveRecord, Report, Verdict
from exhume.audit.records_defence import REMEDY_FILE, DefenceRecord, RemedyRecord
from exhume.audit.settings import Settings
from exhume.audit.verdict_defended import CERTAIN, best_siege, is_proved, price_of

__all__ = ["TITLE", "in_full", "next_steps", "next_steps_live", "today"]

TITLE = "What to do now"

EPOCH = "SOURCE_DATE_EPOCH"
"""The usual variable of reproducible builds: seconds since 1970 that stand for now."""


def today() -> str:
    """Return the time, UTC and to the minute."""
    fixed = os.environ.get(EPOCH, "")
    now = datetime.fromtimestamp(int(fixed), UTC) if fixed.isdecimal() else datetime.now(UTC)
    return now.strftime("%Y-%m-%d %H:%M UTC")


def next_steps(settings: Settings, report: Report, remedy: RemedyRecord | None) -> tuple[str, ...]:
    """Return what an operator does after an audit by simulation."""
    if report.verdict.severity is None:
        return _unblock(report)
    if remedy is not None:
        return _replace(settings, remedy)
    if report.verdict.severity != "none":
        return (
            "Give up more accuracy for more noise, and see what that buys: exhume advise --max-accuracy-loss 1",
            "Until then, treat what the verdict names as public: whoever sees the heads can have it.",
        )
    return _keep(settings, report)


def _unblock(report: Report) -> tuple[str, ...]:
    """Say what would let the next run show something."""
    text = report.verdict.text
    if "too faint" in text:
        return ("Let the probes be larger: add --scale 10000, or leave --scale out.",)
    if "rank" in text:
        return (
            "Let the attacker have more rows than features (fewer --clients, a smaller --dim), or let it change the "
            "state first: --probe ballast.",
        )
    return ("See 'What failed' in the report for each reason, and run the same command again.",)


def _replace(settings: Settings, remedy: RemedyRecord) -> tuple[str, ...]:
    file, found = shown(settings.out / REMEDY_FILE), remedy.measured
    copy = f"Copy {file} to your server, and audit it: {remedy.command}"
    if found is None:
        return (f"Put the {remedy.name} server in its place. It was not measured: {remedy.reason}.", copy)
    if found.severity_with == "none":
        first = f"Put the {remedy.name} server in its place. The same attacks then reached NONE: {_left(found)}."
    else:
        first = (
            f"The {remedy.name} server is not enough here: the same attacks still reached "
            f"{found.severity_with.upper()} ({_left(found)})."
        )
    return (first, f"It costs {price_of(found)}.", *_warned(found), copy)


def _left(found: DefenceRecord) -> str:
    """Say what the attacks on the proposal got."""
    sample = [e for e in found.effects if e.labels_with is not None]
    parts = []
    if sample:
        most = max(sample, key=lambda e: e.labels_with or 0)
        tried = most.labels_with or most.feature_error_with is not None
        parts.append(f"{most.labels_with}/{most.trials} labels right" if tried else "no estimate of any record")
    if best := best_siege(found):
        parts.append(f"attackers that know it at best {best.labels_correct}/{best.trials}")
    return ", ".join(parts) or "nothing came out"


def _warned(found: DefenceRecord) -> tuple[str, ...]:
    worst = max((one.worst.advantage_total or 0.0 for one in found.privacy), default=None)
    if worst is None or is_proved(worst):
        return ()
    others = f"lets others beat guessing by up to {worst:.0%}"
    left = "leaves room for a cleverer attack" if worst >= CERTAIN else others
    return (f"That is not a proof: the privacy account {left}. Weigh more noise: exhume advise --max-accuracy-loss 1",)


def _keep(settings: Settings, report: Report) -> tuple[str, ...]:
    own = {} if settings.defence is None else {"defence": settings.defence}
    guard = f"Keep it so: run {command_of(settings, **own)} --fail-on label with every change of the server."
    if is_proved(report.verdict.guarantee):
        return (guard,)
    if settings.defence is None:
        return (f"Play attackers that adapt, too: {command_of(settings, defence='hardened')}", guard)
    return ("Weigh more noise against accuracy: exhume advise --max-accuracy-loss 1", guard)


def next_steps_live(live: LiveRecord, severity: Level | None) -> tuple[str, ...]:
    """Return what an operator does after an audit of the running server."""
    if not live.restored:
        return ("Look at the head of your server first. Send what is left: exhume audit --undo FILE --target ...",)
    if severity is None:
        return ("Mend what the verdict names, and run the same command again.",)
    measure = "exhume audit --features FILE --defence hardened"
    if severity == "none":
        return (f"Measure what adapting attackers get from features like yours: {measure}",)
    return (
        f"Measure what the hardened server changes on features like yours: {measure}",
        f"Then copy the {REMEDY_FILE} that it writes beside its report to your server.",
    )


def in_full(verdict: Verdict, width: int | None = None) -> str:
    """Return verdict and next steps as people read them, folded at words if a width is given."""
    lines = [
        *verdict.text.splitlines(),
        *([f"{TITLE}:", *(f"  {s}" for s in verdict.next_steps)] if verdict.next_steps else []),
    ]
    return "\n".join(lines if width is None else [folded for line in lines for folded in _folded(line, width)])


def _folded(line: str, width: int) -> list[str]:
    indent = "    " if line.startswith("  ") else "  "
    return textwrap.wrap(line, max(width, 40), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
