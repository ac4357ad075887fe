"""768-dimensional robustness: one-state identification from attacker data at the lower bound and at 104/77 of it.

The paper uses DINOv2 ViT-B/14. Where its features are not at hand, a frozen lift of the study's encoder stands in (768
for 512), and the heading says so: random Fourier features under a LayerNorm, which is how DINOv2 ends. A LayerNorm puts
the constant into the span of the features. The columns of a head then sum to a nearly fixed vector, so that each answer
gives c - 1 strong columns and a weak one, and 77 answers do not identify the state, as in the paper; 104 do. Where
X has rank 768 with 77 answers, Z = AX has not: rank(Z) stands beside rank(X), both at the tolerance of 1e-10. Without
the LayerNorm the same lift was identified with 77.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from exhume.paper.feature_source import wide
from exhume.paper.study import Study
from exhume.paper.table import Results, Table, TableRow, own_states, row, usable_jobs
from exhume.paper.values import Count, Range, Value
from exhume.paper.work import Job

__all__ = ["TABLES"]


def _wide(study: Study) -> Study:
    return replace(study, source=wide(study.source))


def _cases(study: Study) -> dict[str, list[Job]]:
    return {f"m = {m}": own_states(study, responses=m) for m in (study.bound, round(study.bound * 104 / 77))}


def _jobs(study: Study) -> list[Job]:
    lifted = _wide(study)
    return [*usable_jobs(lifted), *(job for jobs in _cases(lifted).values() for job in jobs)]


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in map(_wide, studies):
        usable = Range.of(results[job]["usable"] for job in usable_jobs(study))
        for name, jobs in _cases(study).items():
            found = [results[job] for job in jobs]
            done = [f for f in found if f["identified"]]
            cells: dict[str, Value | None] = {
                "success": Count(len(done), len(found)),
                "rank(X)": Range.of(f["diagnostics"]["rank_X"] for f in found),
                "rank(Z)": Range.of(f["diagnostics"]["rank_Z"] for f in found),
                "usable": usable,
                "κ(X)": Range.of(f["diagnostics"]["kappa_X"] for f in done),
                "RelErr(A)": Range.of(f["state_error"] for f in done),
                "RelErr(G)": Range.of(f["moment_error"] for f in done),
            }
            rows.append(row(study, name, cells, len(found)))
    return rows


TABLES = (
    Table(
        "dinov2",
        "768-dimensional robustness",
        ("success", "rank(X)", "rank(Z)", "usable", "κ(X)", "RelErr(A)", "RelErr(G)"),
        _jobs,
        _rows,
        order=110,
    ),
)
