"""Work that is counting: answers, messages and pairs of whole attacks, and the rank that batches must give."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from exhume.attack.estimate import direct
from exhume.attack.probes.base import Probe
from exhume.attack.probes.designed import designed
from exhume.attack.probes.label_swap import label_swap
from exhume.attack.recover import difference
from exhume.attack.session import Attack, Cost
from exhume.errors import NotIdentifiedError, unknown_name
from exhume.paper.cells import CellSpec, Split, Victim, scenario, victim_rows
from exhume.paper.feature_source import FeatureSource
from exhume.paper.work import Result
from exhume.simulate.federation import Federation
from exhume.simulate.scenario import Scenario

__all__ = ["CountedAttack", "CountedState", "ExpectedRank"]


@dataclass(frozen=True)
class ExpectedRank:
    """The rank of attacker-data answers after the deletion of a class, from the batches' labels alone.

    Once everybody's rows of a class are deleted, its column of the head is zero until the attacker's batches bring the
    class back. So the batches before the first with that class move c - 1 columns, the others c.
    """

    cell: CellSpec
    deleted: int

    def run(self, source: FeatureSource) -> Result:
        """Look the labels of the batches up; nothing is attacked."""
        stage = scenario(source, self.cell.split, self.cell.gamma)
        labels = stage.own[1]
        m = self.cell.responses or 2 * -(-stage.d // stage.classes)
        batches = np.array_split(np.random.default_rng(self.cell.sequence).permutation(len(labels)), m)
        first = next((j for j, rows in enumerate(batches) if self.deleted in labels[rows]), m)
        return {"first": first, "rank": min(stage.d, m * (stage.classes - 1) + m - first)}


def _probe(name: str, stage: Scenario) -> Probe:
    match name:
        case "designed":
            return designed(stage.d, stage.classes)
        case "one part an answer":
            return designed(stage.d, stage.classes, spare=stage.classes - 1)
        case "label swap":
            return label_swap(stage.own[0], stage.classes)
    raise unknown_name("probe", name, ["designed", "one part an answer", "label swap"])


def _spent(after: Cost, before: Cost, deletions: int = 0) -> Result:
    """Return what was spent between two moments; an honest deletion is a message too, and its head is among ours."""
    spent = {name: value - asdict(before)[name] for name, value in asdict(after).items()}
    return spent | {"messages": spent["messages"] + deletions}


@dataclass(frozen=True)
class CountedState:
    """One state identified by a moment probe of the least number of answers, and tried with one answer fewer."""

    probe: str
    split: Split

    def run(self, source: FeatureSource) -> Result:
        """Probe a server with everybody's rows."""
        stage = scenario(source, self.split)
        probe = _probe(self.probe, stage)
        attack = Attack(Federation.bare(stage).target())
        transcript = attack.run(probe)
        return {
            **_spent(attack.cost, Cost()),
            "identified": _identifies(transcript.X, transcript.Z),
            "one fewer": _identifies(transcript.X[:, : -stage.classes], transcript.Z[:, : -stage.classes]),
        }


def _identifies(X: np.ndarray, Z: np.ndarray) -> bool:
    return all(np.linalg.matrix_rank(stack, tol=1e-10 * np.linalg.norm(stack, 2)) == len(stack) for stack in (X, Z))


@dataclass(frozen=True)
class CountedAttack:
    """Two deletions under the designed probe: the first costs two states, the next one only the state after it."""

    split: Split

    def run(self, source: FeatureSource) -> Result:
        """Identify, let delete, identify, replay; then let delete, identify, replay."""
        stage = scenario(source, self.split)
        probe = _probe("designed", stage)
        federation = Federation.bare(stage)
        attack = Attack(federation.target())
        spent = []
        state = None
        for number in range(2):
            before = attack.cost
            try:
                state = direct(attack.run(probe)) if state is None else state
                federation.delete(victim_rows(stage, self.split, Victim("record", number)))
                attack.replay(difference(state, direct(attack.run(probe))).block)
                identified = True
            except NotIdentifiedError:
                identified = False
            spent.append({**_spent(attack.cost, before, deletions=1), "identified": identified})
        return {"first": spent[0], "next": spent[1]}
