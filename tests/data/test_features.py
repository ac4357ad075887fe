import numpy as np
import pytest

from exhume.data import load, load_features
from exhume.data.encoders import REGISTRY
from exhume.errors import DataError, InputError


def test_digits_under_random_relu(home):
    found = load_features("digits", "random-relu", dim=256, seed=0)
    assert repr(found) == (
        "FeatureSet(data='digits', encoder='random-relu', dim=256, train=1438, test=359, source='computed')"
    )
    assert found.train_features.dtype == np.float64
    assert found.train_labels.dtype == np.intp
    assert found.classes == 10
    assert found.images is None
    assert not home.exists()


def test_features_are_read_only():
    found = load_features("digits", dim=8)
    for array in (found.train_features, found.train_labels, found.test_features, found.test_labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_same_request_same_features():
    first, second, other = (load_features("digits", dim=16, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.train_features, second.train_features)
    assert first.fingerprint == second.fingerprint != other.fingerprint


def test_cached_features_are_bitwise_the_computed_ones():
    computed = load_features("digits", dim=16)
    assert load_features("digits", dim=16, keep=True).source == "computed"
    cached = load_features("digits", dim=16)
    assert cached.source == "cache"
    assert cached.path is not None
    assert np.array_equal(cached.train_features, computed.train_features)
    assert np.array_equal(cached.test_features, computed.test_features)
    assert cached.fingerprint == computed.fingerprint


def test_images_come_along_when_asked_for():
    found = load_features("digits", "none", limit=12, images=True)
    assert np.array_equal(found.images.train_images.reshape(12, 64), found.train_features)
    assert len(found.images.test_labels) == len(found.test_labels) == 12


def test_limit_takes_the_first_rows():
    whole, part = load_features("digits", "none"), load_features("digits", "none", limit=30)
    assert np.array_equal(part.train_features, whole.train_features[:30])
    assert part.fingerprint != whole.fingerprint
    with pytest.raises(InputError, match="limit"):
        load_features("digits", limit=0)


@pytest.fixture
def given_folder(tmp_path, monkeypatch):
    """A folder on EXHUME_DATA_PATH with precomputed features of digits under resnet18."""
    folder = tmp_path / "given"
    (folder / "features").mkdir(parents=True)
    rng = np.random.default_rng(0)
    images = load("digits")
    for split, labels in (("train", images.train_labels), ("test", images.test_labels)):
        features = rng.standard_normal((len(labels), 512)).astype(np.float16)
        np.savez(
            folder / "features" / f"digits_resnet18_{split}.npz", features=features, labels=labels.astype(np.uint8)
        )
    monkeypatch.setenv("EXHUME_DATA_PATH", str(folder))
    return folder


def test_precomputed_features_serve_and_say_so(given_folder):
    found = load_features("digits", "resnet18")
    with np.load(given_folder / "features/digits_resnet18_train.npz") as stored:
        assert np.array_equal(found.train_features, stored["features"].astype(float))
    assert (found.source, found.dim, found.path) == ("EXHUME_DATA_PATH", 512, given_folder / "features")
    assert np.array_equal(load_features("digits", "resnet18", limit=5).test_features, found.test_features[:5])


def test_precomputed_features_of_another_shape_are_refused(given_folder):
    np.savez(given_folder / "features/digits_resnet18_test.npz", features=np.ones((3, 512)), labels=np.ones(3, int))
    with pytest.raises(DataError, match=r"shape \(3, 512\), not \(359, 512\)"):
        load_features("digits", "resnet18")
    (given_folder / "features/digits_resnet18_test.npz").write_bytes(b"?")
    with pytest.raises(DataError, match="not a file of precomputed features"):
        load_features("digits", "resnet18")


@pytest.mark.parametrize("options", [{"given": False}, {"resize": "8-bit"}])
def test_precomputed_features_are_not_used_for_another_request(given_folder, monkeypatch, options):
    monkeypatch.setattr("exhume.data.features.extract", lambda *_, **__: pytest.fail("as it should"))
    with pytest.raises(pytest.fail.Exception, match="as it should"):
        load_features("digits", "resnet18", **options)


def test_unknown_names():
    with pytest.raises(InputError, match="data must be one of cifar10, digits"):
        load_features("digitz")
    with pytest.raises(InputError, match=f"encoder must be one of {', '.join(sorted(REGISTRY))}"):
        load_features("digits", "resnet")


def test_features_on_demand_are_those_that_are_computed_at_once(tmp_path):
    eager = load_features("digits", dim=40, home=tmp_path)
    lazy = load_features("digits", dim=40, home=tmp_path, on_demand=True)
    assert (lazy.fingerprint, lazy.dim, lazy.classes) == (eager.fingerprint, 40, 10)
    assert np.array_equal(lazy.train_labels, eager.train_labels)
    for split in ("train_features", "test_features"):
        rows, whole = getattr(lazy, split), getattr(eager, split)
        assert rows.shape == whole.shape and len(rows) == len(whole) and rows.nbytes == 64 * len(rows)
        for which in (slice(None), slice(3, 9), np.array([5, 2, 5]), np.arange(len(rows)) % 7 == 0, 4, -1):
            got = rows[which]
            assert got.dtype == np.float64 and got.shape == whole[which].shape
            # 64 products in float32, in another order.
            assert np.abs(got - whole[which]).max() <= 64 * 2.0**-24 * np.abs(whole).max()
        assert np.array_equal(rows[7], rows[[7]][0])
    with pytest.raises(IndexError):
        lazy.test_features[len(lazy.test_features)]
