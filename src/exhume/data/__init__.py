"""Images to features to client splits: data sets and encoders by name, the feature cache, partitions.

>>> from exhume.data import load_features
>>> load_features("digits", "random-relu", dim=256, seed=0)
FeatureSet(data='digits', encoder='random-relu', dim=256, train=1438, test=359, source='computed')
"""

from __future__ import annotations

from exhume.data.features import FeatureSet, given_features, load_features
from exhume.data.partition import dirichlet, iid, is_full_rank, select_attacker, usable_clients
from exhume.data.sets import ImageSet, load

__all__ = [
    "FeatureSet",
    "ImageSet",
    "dirichlet",
    "given_features",
    "iid",
    "is_full_rank",
    "load",
    "load_features",
    "select_attacker",
    "usable_clients",
]
