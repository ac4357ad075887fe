"""Answers, messages and pairs of whole attacks, counted while they run against the server with everybody's rows.

"Probe answers" go into the stacks; "server answers" are all heads: baseline, probes, cancellations, deletion, replay.
"Pairs" are the constituent add/delete summaries inside the messages, cancellations and replay included; the paper
counts them and gives no number. Each state is tried with one probe answer fewer too. "One part an answer" allows only
one rank-one part before each head. The label swap uses the attacker's own features.
"""

from __future__ import annotations

from collections.abc import Sequence

from exhume.paper.counting import CountedAttack, CountedState
from exhume.paper.study import Study
from exhume.paper.table import Results, Table, TableRow, row, split
from exhume.paper.values import Count, Number, Value
from exhume.paper.work import Job, Result

__all__ = ["TABLES"]

_COUNTS = {"probe answers": "probes", "server answers": "responses", "messages": "messages", "pairs": "pairs"}
_STATES = {
    "one state, designed": "designed",
    "one state, label swap": "label swap",
    "one state, one part an answer": "one part an answer",
}


def _states(study: Study) -> dict[str, Job]:
    place = split(study, study.seed)
    return {name: Job(study.source, CountedState(probe, place)) for name, probe in _STATES.items()}


def _attack(study: Study) -> Job:
    return Job(study.source, CountedAttack(split(study, study.seed)))


def _jobs(study: Study) -> list[Job]:
    return [*_states(study).values(), _attack(study)]


def _cells(found: Result) -> dict[str, Value | None]:
    fewer = found.get("one fewer")
    return {
        **{column: Number(found[key]) for column, key in _COUNTS.items()},
        "identified": Count.over([found["identified"]]),
        "with one answer fewer": None if fewer is None else Count.over([fewer]),
    }


def _rows(studies: Sequence[Study], results: Results) -> list[TableRow]:
    rows = []
    for study in studies:
        found = {name: results[job] for name, job in _states(study).items()}
        whole = results[_attack(study)]
        found |= {"first attack, designed": whole["first"], "next attack, designed": whole["next"]}
        rows += [row(study, name, _cells(counts), 1) for name, counts in found.items()]
    return rows


TABLES = (
    Table(
        "answers",
        "Answers, messages and pairs of an attack",
        (*_COUNTS, "identified", "with one answer fewer"),
        _jobs,
        _rows,
        order=15,
    ),
)
