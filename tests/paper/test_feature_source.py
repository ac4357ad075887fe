from dataclasses import replace

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


def test_with_its_features_at_hand_the_study_is_of_them_and_not_of_the_stand_in(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    (tmp_path / "features").mkdir()
    for split, rows in (("train", 1438), ("test", 359)):
        found = {"features": rng.standard_normal((rows, 768)).astype(np.float16), "labels": np.arange(rows) % 10}
        np.savez(tmp_path / "features" / f"digits_{WIDE}_{split}.npz", **found)
    monkeypatch.setenv("EXHUME_DATA_PATH", str(tmp_path))
    monkeypatch.setenv("EXHUME_HOME", str(tmp_path / "home"))
    wide.cache_clear()
    found = wide(FeatureSource("digits", "random-relu", 512))
    assert (found.encoder, found.lift, found.title) == (WIDE, None, "dinov2-vitb14")
    assert found.load().dim == 768 and found.load().source == "EXHUME_DATA_PATH"
    wide.cache_clear()


def test_with_its_weights_at_hand_they_are_what_encodes(tmp_path, monkeypatch):
    """The network is a stand-in of 768 numbers a picture; the registry, the cache and the study are the real ones."""

    class Small:
        name, dim, device, fingerprint = WIDE, 768, "cpu", "small"

        def encode(self, images):
            return np.repeat(images.reshape(len(images), 64), 12, axis=1).astype(np.float32)

    entry = replace(encoders.REGISTRY[WIDE], build=lambda _options: Small())
    monkeypatch.setitem(encoders.REGISTRY._entries, WIDE, entry)
    monkeypatch.delenv("EXHUME_DATA_PATH", raising=False)
    monkeypatch.setenv("EXHUME_HOME", str(tmp_path))
    wide.cache_clear()
    found = wide(FeatureSource("digits", "random-relu", 512))
    assert (found.encoder, found.load().dim, found.load().encoder) == (WIDE, 768, WIDE)
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
