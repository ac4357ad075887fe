"""The configuration that an audit proposes: made for the audited data, and put through the same trials where cheap."""

from __future__ import annotations

from dataclasses import replace

from exhume._version import __version__
from exhume.audit.commands import command_of
from exhume.audit.effect import effect_of
from exhume.audit.findings import judge
from exhume.audit.levels import Level
from exhume.audit.outcome import carry_out
from exhume.audit.plan import Plan, dealt_out
from exhume.audit.records_defence import REMEDY_FILE, DefenceRecord, RemedyRecord
from exhume.audit.settings import BARE, Settings
from exhume.defence.config import Config, dump
from exhume.errors import ExhumeError
from exhume.jobs.progress import Progress
from exhume.simulate.rules import HARDENED, resolve

__all__ = ["CHEAP", "remedy_for"]

CHEAP = 100_000_000
"""Rows times squared features up to which the proposal is measured without being asked: about a minute or two."""

HEADER = f"""\
# The hardened server, as `exhume audit` (version {__version__}) proposes it for the audited data.
# The bounds were measured on the audited rows. Measure yours on rows that are your own to look at:
#   exhume.defence.Bounds.measure(features, client_rows=...)
# Start a server with it: exhume.defence.build_server(ledger, "{REMEDY_FILE}")
"""


def remedy_for(plan: Plan, severity: Level | None, *, progress: Progress | None = None) -> RemedyRecord | None:
    """Return what to put in place of the audited server; None where nothing came out, or it was this one already."""
    settings = plan.settings
    if severity in (None, "none") or settings.defence == HARDENED:
        return None
    file = settings.out / REMEDY_FILE
    try:
        config = resolve(HARDENED, plan.scenario.d, len(plan.scenario.features), plan.scenario)
    except ExhumeError:  # such data cannot be bounded: there is nothing to propose
        return None
    made = RemedyRecord(
        name=HARDENED,
        configuration=f"{HEADER}{dump(config)}",
        command=command_of(settings, defence=str(file)),
    )
    if why := _too_dear(plan):
        return made.model_copy(update={"reason": why})
    try:
        return made.model_copy(update={"measured": _measured(plan, config, progress)})
    except ExhumeError as error:
        return made.model_copy(update={"reason": str(error)})


def _too_dear(plan: Plan) -> str | None:
    wanted, work = plan.settings.remedy, len(plan.scenario.features) * plan.scenario.d**2
    if wanted is False:
        return "not asked for"
    return None if wanted or work <= CHEAP else "it would take long (--remedy measures it all the same)"


def _measured(plan: Plan, config: Config, progress: Progress | None) -> DefenceRecord | None:
    """Attack the proposal with the same deletions; trials on the bare server that are done already are not repeated."""
    asked: Settings = plan.settings.model_copy(update={"defence": HARDENED, "precision": BARE})
    proposed = replace(plan, settings=asked, defence=config, dealt=dealt_out(asked, plan.features))
    outcome = carry_out(proposed, asked.out / ".trials", progress=progress)
    return effect_of(proposed, outcome, judge(proposed, outcome))
