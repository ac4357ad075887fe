"""Float64 state identification: equation residuals, agreement, smallest eigenvalues, and what cancellation leaves.

Attacker-data rows give the least favourable value over the seeds; the cancellation residuals are maxima over all
successful attacker-data deletions, read from hidden ledgers by the evaluator.
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.study import Study
from exhume.paper.table import KINDS, Results, Table, TableRow, designed_cell, own_deletions, own_states, row
from exhume.paper.values import Number, Value
from exhume.paper.work import Job, Result, StateBefore

__all__ = ["TABLES"]

_RESIDUALS = ("e_AR", "e_HQ", "e_AH")
_LEFT = ("e_S", "e_G", "e_W")


def _states(study: Study) -> dict[str, list[Job]]:
    return {
        "designed": [Job(study.source, StateBefore(designed_cell(study)))],
        "attacker data": own_states(study),
    }


def _trials(study: Study) -> list[Job]:
    return [job for kind in KINDS for job in own_deletions(study, "float64", kind)]


def _jobs(study: Study) -> list[Job]:
    return [*(job for jobs in _states(study).values() for job in jobs), *_trials(study)]


def _cells(found: list[Result]) -> dict[str, Value | None]:
    facts = [f["diagnostics"] for f in found if f["identified"]]
    if not facts:
        return {}
    return {
        **{name: Number(max(f[name] for f in facts)) for name in _RESIDUALS},
        "λ_min(A)": Number(min(f["min_eigenvalue_A"] for f in facts)),
        "λ_min(H)": Number(min(f["min_eigenvalue_H"] for f in facts)),
    }


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        for name, jobs in _states(study).items():
            cells = _cells([results[job] for job in jobs])
            if name != "designed":
                done = [r for r in (results[job] for job in _trials(study)) if r["identified"]]
                cells |= {f"max {e}": Number(max(r["residuals"][e] for r in done)) for e in _LEFT if done}
            rows.append(row(study, name, cells, len(jobs)))
    return rows


TABLES = (
    Table(
        "state_diagnostics",
        "State-identification diagnostics, float64",
        (*_RESIDUALS, "λ_min(A)", "λ_min(H)", *(f"max {e}" for e in _LEFT)),
        _jobs,
        _rows,
        order=80,
    ),
)
