"""Rank threshold: one response fewer than ``ceil(d/c)`` never identifies a state, that many do.

Random probes are Gaussian moment increments of scale 1e4 that add up, from ``default_rng(sequence)``, sequences 0 to 4;
the paper does not state its seeds. Responses: one below the bound, the bound, and 64/52 of it. A is found by QR; the
last columns have the same answers solved by an SVD, by NumPy's ``pinv`` and by its ``lstsq``. The paper says "SVD/QR".
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.cells import CellSpec
from exhume.paper.study import Study
from exhume.paper.table import Results, Table, TableRow, designed_cell, row, split
from exhume.paper.values import Count, Mean, Number, Range, Value
from exhume.paper.work import Job, Result, StateBefore

__all__ = ["TABLES"]


_SOLVERS = {"RelErr(A)": "state_error", "RelErr(A), pinv": "state_error_pinv", "RelErr(A), lstsq": "state_error_lstsq"}


def _cases(study: Study) -> dict[str, list[Job]]:
    bound = study.bound
    cases = {}
    for m in (bound - 1, bound, round(bound * 64 / 52)):
        cells = [
            CellSpec("random", "float64", split(study, study.seed), responses=m, sequence=study.seed + s)
            for s in range(study.sizes.sequences)
        ]
        cases[f"random, m = {m}"] = [Job(study.source, StateBefore(cell)) for cell in cells]
    cases[f"designed, m = {bound}"] = [Job(study.source, StateBefore(designed_cell(study)))]
    return cases


def _jobs(study: Study) -> list[Job]:
    return [job for jobs in _cases(study).values() for job in jobs]


def _average(values: list[float]) -> Value | None:
    if len(values) == 1 or float("inf") in values:
        return Number(values[0])
    return Mean.of(values)


def _cells(found: list[Result]) -> dict[str, Value | None]:
    facts = [f["diagnostics"] for f in found]
    whole = all(f["identified"] for f in found)
    return {
        "success": Count.over([f["identified"] for f in found]),
        "rank(Q)": Range.of(f["rank_Z"] for f in facts),
        "κ(Q)": _average([f["kappa_Z"] for f in facts]),
        "κ(R)": _average([f["kappa_X"] for f in facts]),
        **{name: _average([f[key] for f in found]) if whole else None for name, key in _SOLVERS.items()},
    }


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    return [
        row(study, name, _cells([results[job] for job in jobs]), len(jobs))
        for study in studies
        for name, jobs in _cases(study).items()
    ]


TABLES = (
    Table(
        "rank_threshold",
        "Rank threshold: identification of one hidden state",
        ("success", "rank(Q)", "κ(Q)", "κ(R)", *_SOLVERS),
        _jobs,
        _rows,
        order=10,
    ),
)
