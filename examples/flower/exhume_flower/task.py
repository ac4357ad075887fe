"""What this app learns: features of a data set, dealt out to partitions, and what each node wants when."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from flwr.app import Context

from exhume.data import FeatureSet, load_features
from exhume.flower.server import setting


@dataclass(frozen=True)
class Task:
    """The run's configuration, as far as nodes and server share it."""

    data: str = "digits"
    encoder: str = "random-relu"
    dim: int = 64
    seed: int = 0
    partitions: int = 4
    rows: int = 100
    """Rows of each node."""
    adding: int = 3
    """Rounds over which a node adds its rows."""
    unlearn_round: int = 4
    """The round in which nodes are asked for deletions; 0 for none."""
    forget: int = 10
    """How many rows a node then wants deleted."""
    forgetful: int = -1
    """Which partition wants that; -1 for all."""

    @classmethod
    def of(cls, context: Context) -> "Task":
        """Read it."""
        return cls(**{name: setting(context, name.replace("_", "-"), value) for name, value in vars(cls()).items()})

    def features(self) -> FeatureSet:
        """Load the features; `EXHUME_DATA_PATH` says where those of a network are kept."""
        return _features(self.data, self.encoder, self.dim, self.seed)

    def partition(self, number: int) -> np.ndarray:
        """Return the rows of one node."""
        order = np.random.default_rng(self.seed).permutation(len(self.features().train_labels))
        return np.sort(order[self.rows * number : self.rows * (number + 1)])

    def wanted(self, partition: int, number: int) -> range:
        """Return which of its rows a node wants in the ledger after a round."""
        going = self.unlearn_round and number >= self.unlearn_round and self.forgetful in (-1, partition)
        return range(self.forget if going else 0, self.rows * min(number, self.adding) // self.adding)


@lru_cache(maxsize=1)
def _features(data: str, encoder: str, dim: int, seed: int) -> FeatureSet:
    return load_features(data, encoder, dim=dim if encoder == "random-relu" else None, seed=seed)
