"""Two heads and a public sample."""

import numpy as np
import pytest

from exhume.attack.recover import passive
from exhume.errors import InputError
from tests.attack.worlds import clustered, gap


def test_passive_finds_some_labels_with_a_public_sample_and_all_with_the_truth():
    world = clustered(n=1200, inside=600)
    rows = world.others[:40]
    start = world.state.baseline

    def hits(features):
        found = [passive(start, world.head_after(r), features=features, rows=len(world.features)) for r in rows]
        return sum(f.label == world.labels[r] for f, r in zip(found, rows, strict=True))

    assert hits(world.own_features) > 0.5 * len(rows)
    assert hits(world.features) == len(rows)
    with pytest.raises(InputError, match="at least one public row"):
        passive(world.state.baseline, world.state.baseline, features=world.features[:0], rows=10)
    with pytest.raises(InputError, match="features must be rows of 24 features"):
        passive(world.state, world.state.baseline, features=world.features[:, 1:], rows=10)


def test_of_a_state_only_its_head_is_used():
    world = clustered()
    options = {"features": world.own_features, "rows": len(world.features), "gamma": 1e-2}
    one = passive(world.state.baseline, world.head_after(300), **options)
    other = passive(world.state, world.head_after(300), **options)
    assert one.label == other.label and (one.feature == other.feature).all()


def test_the_public_gram_is_scaled_to_the_size_of_the_training_set():
    """Every row twice is a sample of twice the size: scaled, its gram is the hidden one, and the record comes out."""
    world = clustered()
    twice = np.vstack([world.features, world.features])
    for row in (200, 300, 400):
        found = passive(world.state, world.head_after(row), features=twice, rows=len(world.features), gamma=1e-2)
        assert found.label == world.labels[row]
        assert gap(found.feature, world.features[row]) < 1e-6


def test_a_short_sample_is_kept_invertible():
    world = clustered()
    found = passive(world.state, world.head_after(300), features=world.features[:5], rows=len(world.features))
    assert np.isfinite(found.feature).all()
