"""Exposure as records: what each client of a federation could know after a probe sequence."""

from __future__ import annotations

from exhume.attack.session import Attack
from exhume.audit.federation import Federation
from exhume.audit.listening import listen
from exhume.audit.plan import Plan
from exhume.audit.records_defence import ExposureRecord
from exhume.defence.accountants import Identification
from exhume.protocol.rules import Exposure

__all__ = ["bare_exposures", "exposures"]

_IDENTIFICATION = ("rank", "needed", "current", "responses", "condition", "state_error")


def exposures(federation: Federation) -> tuple[ExposureRecord, ...]:
    """Return every client's exposure as it now is."""
    return tuple(_record(name, found, federation.attacker) for name, found in federation.exposures())


def bare_exposures(plan: Plan, probe: str, heads: str) -> tuple[ExposureRecord, ...]:
    """Return every client's exposure on the paper's server, by an accountant that only watches.

    The uploads and the probe are played once more on a server of their own: the cell that is judged stays as it is.
    """
    federation = Federation.bare(plan.scenario, heads)
    listen(Attack(federation.target()), plan.probe(probe))
    return exposures(federation)


def _record(name: str, found: Exposure, attacker: str) -> ExposureRecord:
    more = {n: getattr(found, n) for n in _IDENTIFICATION} if isinstance(found, Identification) else {}
    return ExposureRecord(client=name, attacker=name == attacker, value=found.value, meaning=found.meaning, **more)
