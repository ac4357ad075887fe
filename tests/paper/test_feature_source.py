import numpy as np
import pytest

from exhume.data import encoders
from exhume.paper import feature_source as module
from exhume.paper.feature_source import WIDE, FeatureSource, lifted, wide


def test_the_wide_encoder_is_the_papers_and_is_asked_for_by_its_own_name(monkeypatch):
    """`dinov2` once was asked for, which no registry has: with the weights at hand the stand-in still ran."""
    assert encoders.REGISTRY[WIDE].dim == 768
    asked = []
    monkeypatch.setattr(module, "load_features", lambda data, encoder, **_: asked.append((data, encoder)))
    wide.cache_clear()
    assert wide(FeatureSource("mnist", "resnet18")) == FeatureSource("mnist", WIDE)
    assert asked == [("mnist", WIDE)]
    wide.cache_clear()


def test_without_it_a_lift_stands_in_and_says_so():
    wide.cache_clear()
    found = wide(FeatureSource("digits", "random-relu", 32))
    assert found.lift == 48 and found.title == "48 LayerNorm features lifted from random-relu"
    assert found.load().dim == 48 and found.fingerprint == found.load().fingerprint


@pytest.mark.parametrize("dim", [48, 100])
def test_the_lift_has_full_rank_and_the_constant_in_its_span(dim):
    rows = np.random.default_rng(0).standard_normal((400, 32))
    features = lifted(rows, dim)
    assert np.linalg.matrix_rank(features) == dim
    weights, residual, *_ = np.linalg.lstsq(features, np.ones(400), rcond=None)
    assert residual[0] < 1e-18 and np.allclose(features @ weights, 1)
    assert np.array_equal(features, lifted(rows, dim))
