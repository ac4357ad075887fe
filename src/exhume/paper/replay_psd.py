"""Replay of attacker-data blocks, raw and projected to positive semidefinite.

The published errors of S and G in this table are all of the size of a state error, whatever the size of the deletion
(and far below those of the recovery table): they are errors of the replayed ledger relative to the whole ledger. That
is what these columns hold; the last column has the error relative to the deleted block. From float32 heads the paper
gives the raw replay alone, in its text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from exhume.paper.plan import Study
from exhume.paper.table import HEADS, LEVELS, Results, Row, Table, own_deletions
from exhume.paper.values import Mean, Number, Value
from exhume.paper.work import Job, Result

__all__ = ["TABLE"]

_COLUMNS: dict[str, Callable[[Result], float]] = {
    "ledger RelErr(S) raw": lambda t: float(t["replay"]["ledger_error_gram"]),
    "ledger RelErr(S) PSD": lambda t: float(t["replay"]["ledger_error_gram_psd"]),
    "ledger RelErr(G)": lambda t: float(t["replay"]["ledger_error_moment"]),
    "replay raw": lambda t: float(t["replay"]["head_error"]),
    "replay PSD": lambda t: float(t["replay"]["head_error_psd"]),
    "block RelErr(S) PSD": lambda t: float(t["replay"]["relerr_gram_psd"]),
}


def _jobs(study: Study) -> list[Job]:
    return [job for heads in HEADS for level in LEVELS for job in own_deletions(study, heads, level)]


def _mean(values: list[float]) -> Value | None:
    found = Mean.of(values)
    return None if found is None else Number(found.mean)


def _rows(studies: Sequence[Study], results: Results) -> list[Row]:
    rows = []
    for study in studies:
        for level in LEVELS:
            jobs = own_deletions(study, "float64", level)
            done = [r for r in (results[job] for job in jobs) if r["identified"]]
            cells: dict[str, Value | None] = {name: _mean([of(t) for t in done]) for name, of in _COLUMNS.items()}
            if done:
                cells["min λ(S_del)"] = Number(min(t["difference"]["min_eigenvalue"] for t in done))
            rows.append(Row(study.data, study.source.title, level, cells, len(jobs)))
        for level in LEVELS:
            jobs = own_deletions(study, "float32", level)
            raw = [r["replay"]["head_error"] for r in (results[job] for job in jobs) if r["identified"]]
            cells = {"replay raw": _mean(raw)}
            rows.append(Row(study.data, study.source.title, f"{level}, float32", cells, len(jobs)))
    return rows


TABLE = Table("replay_psd", "Replay, raw and projected, attacker data", ("min λ(S_del)", *_COLUMNS), _jobs, _rows)
