"""Replay of attacker-data blocks, raw and projected to positive semidefinite.

The published errors of S and G in this table are all of the size of a state error, whatever the size of the deletion
(and far below those of the recovery table): they are errors of the replayed ledger relative to the whole ledger. That
is what these columns hold; the last column has the error relative to the deleted block. From float32 heads the paper
gives the raw replay alone, in its text. The last row has the largest of the mean errors of projected replays, which the
paper bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from exhume.paper.attacker_data import own_jobs
from exhume.paper.study import Study
from exhume.paper.table import IN_PAPER, KINDS, Results, Table, TableRow, own_deletions, row
from exhume.paper.values import Number, Value
from exhume.paper.work import Result

__all__ = ["TABLES"]

_COLUMNS: dict[str, Callable[[Result], float]] = {
    "ledger RelErr(S) raw": lambda t: float(t["replay"]["ledger_error_gram"]),
    "ledger RelErr(S) PSD": lambda t: float(t["replay"]["ledger_error_gram_psd"]),
    "ledger RelErr(G)": lambda t: float(t["replay"]["ledger_error_moment"]),
    "replay raw": lambda t: float(t["replay"]["head_error"]),
    "replay PSD": lambda t: float(t["replay"]["head_error_psd"]),
    "block RelErr(S) PSD": lambda t: float(t["replay"]["relerr_gram_psd"]),
}


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        for kind in KINDS:
            jobs = own_deletions(study, "float64", kind)
            done = [r for r in (results[job] for job in jobs) if r["identified"]]
            cells: dict[str, Value | None] = {name: Number.mean([of(t) for t in done]) for name, of in _COLUMNS.items()}
            if done:
                cells["min λ(S_del)"] = Number(min(t["difference"]["min_eigenvalue"] for t in done))
            rows.append(row(study, IN_PAPER[kind], cells, len(jobs)))
        for kind in KINDS:
            jobs = own_deletions(study, "float32", kind)
            raw = [r["replay"]["head_error"] for r in (results[job] for job in jobs) if r["identified"]]
            cells = {"replay raw": Number.mean(raw)}
            rows.append(row(study, f"{IN_PAPER[kind]}, float32", cells, len(jobs)))
    return [*rows, *_largest(studies, rows)]


def _largest(studies: Sequence[Study], rows: Sequence[TableRow]) -> list[TableRow]:
    """Return the largest mean error of projected replays over all rows."""
    found = [r for r in rows if r.cells.get("replay PSD") is not None]
    if not found:
        return []
    worst = max(value.value for r in found if isinstance(value := r.cells["replay PSD"], Number))
    data = "+".join(study.data for study in studies)
    title = studies[0].source.title
    return [TableRow(data, title, "largest mean", {"replay PSD": Number(worst)}, sum(r.trials for r in found))]


TABLES = (
    Table(
        "replay_psd", "Replay, raw and projected, attacker data", ("min λ(S_del)", *_COLUMNS), own_jobs, _rows, order=90
    ),
)
