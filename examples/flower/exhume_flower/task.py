"""What this app learns: features of a data set, dealt out to partitions, and what each node wants when."""

from functools import lru_cache

import numpy as np
from flwr.app import Context

from exhume.data import FeatureSet, load_features
from exhume.flower.server import setting

ROWS = 100
"""Rows of each node: enough for a demonstration, few enough to be quick."""


@lru_cache(maxsize=1)
def features(data: str, encoder: str, dim: int, seed: int) -> FeatureSet:
    """Load the features; `EXHUME_DATA_PATH` says where those of a network are kept."""
    return load_features(data, encoder, dim=dim if encoder == "random-relu" else None, seed=seed)


def loaded(context: Context) -> FeatureSet:
    """Return the features that the run asks for."""
    asked = (("data", "digits"), ("encoder", "random-relu"), ("dim", 64), ("seed", 0))
    data, encoder, dim, seed = (setting(context, name, default) for name, default in asked)
    return features(data, encoder, dim, seed)


def partition(found: FeatureSet, number: int, partitions: int, seed: int) -> np.ndarray:
    """Return the rows of one node."""
    order = np.random.default_rng(seed).permutation(len(found.train_labels))
    return np.sort(np.array_split(order[: ROWS * partitions], partitions)[number])


def wanted(number: int, rounds: int, unlearn: int) -> range:
    """Return which of its rows a node wants in the ledger after a round.

    It adds a share of them in every round. Where deletions are asked for, and after it, the first ten are to go.
    """
    upto = ROWS * min(number, rounds) // rounds
    return range(10 if unlearn and number >= unlearn else 0, upto)
