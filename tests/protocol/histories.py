"""Random histories of additions and deletions, and what is retained at their end."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st


@dataclass
class History:
    features: np.ndarray
    labels: np.ndarray
    classes: int
    steps: list[tuple[str, list[int]]]  # ("add" | "delete", row numbers)

    @property
    def retained(self) -> list[int]:
        rows: list[int] = []
        for kind, numbers in self.steps:
            rows = rows + numbers if kind == "add" else [r for r in rows if r not in numbers]
        return rows

    def batch(self, numbers):
        return self.features[numbers], self.labels[numbers]


@st.composite
def histories(draw, most_d=6, most_rows=30):
    d = draw(st.integers(1, most_d))
    classes = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    total = draw(st.integers(d + 2, most_rows))
    features = rng.normal(size=(total, d))
    labels = rng.integers(0, classes, total)
    fresh, held, steps = list(range(total)), [], []
    while fresh:
        size = draw(st.integers(1, len(fresh)))
        batch, fresh = fresh[:size], fresh[size:]
        steps.append(("add", batch))
        held += batch
        if draw(st.booleans()):
            out = list(rng.permutation(held)[: draw(st.integers(1, len(held)))])
            steps.append(("delete", [int(r) for r in out]))
            held = [r for r in held if r not in out]
    return History(features, labels, classes, steps)
