"""All records of an audit, in the order of its plan, and how they come about."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from exhume.audit.plan import Plan
from exhume.audit.records import CellRecord, TrialRecord
from exhume.audit.records_defence import SiegeRecord
from exhume.audit.work import KINDS_OF_RECORD, AnyRecord, work
from exhume.errors import DataError
from exhume.jobs.progress import Progress
from exhume.jobs.run import run
from exhume.jobs.store import Store

__all__ = ["Outcome", "carry_out"]


@dataclass(frozen=True)
class Outcome:
    """What the units of a plan gave."""

    cells: tuple[CellRecord, ...]
    trials: tuple[TrialRecord, ...]
    sieges: tuple[SiegeRecord, ...]
    reused: int
    """How many of them an earlier run had finished."""

    @property
    def total(self) -> int:
        """How many units there were."""
        return len(self.cells) + len(self.trials) + len(self.sieges)


def carry_out(plan: Plan, folder: Path, *, fresh: bool = False, progress: Progress | None = None) -> Outcome:
    """Do every unit that is not yet done. Interrupted, it leaves what is finished on disk and raises on."""
    tasks = plan.tasks(work)
    store = Store(folder / "trials.jsonl", fresh=fresh)
    reused = sum(task.key in store for task in tasks)
    # A lean plan has one process, whose matrices are large enough for all cores.
    workers, threads = (1, os.cpu_count() or 1) if plan.lean else (plan.settings.jobs, 1)
    found = run(tasks, work, store, shared=plan, workers=workers, threads=threads, progress=progress)
    records = [_record(found[task.key]) for task in tasks]
    return Outcome(
        tuple(r for r in records if isinstance(r, CellRecord)),
        tuple(r for r in records if isinstance(r, TrialRecord)),
        tuple(r for r in records if isinstance(r, SiegeRecord)),
        reused,
    )


def _record(result: dict[str, Any]) -> AnyRecord:
    try:
        return KINDS_OF_RECORD[result["kind"]].model_validate(result["record"])
    except (KeyError, TypeError, ValidationError) as error:
        raise DataError("a stored result is not what this version wrote; --fresh does all anew") from error
