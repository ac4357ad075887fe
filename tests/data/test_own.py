import numpy as np
import pytest
from safetensors.numpy import save_file

from exhume.data import load_features
from exhume.errors import DataError, InputError

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((23, 4)), np.arange(23) % 3
TX, TY = RNG.standard_normal((6, 4)), np.arange(6) % 4


def test_npz_without_test_rows_holds_out_every_fifth(tmp_path):
    np.savez(tmp_path / "mine.npz", features=X, labels=Y)
    found = load_features("features", "none", path=tmp_path / "mine.npz")
    test = np.arange(23) % 5 == 4
    assert np.array_equal(found.train_features, X[~test])
    assert np.array_equal(found.test_labels, Y[test])
    assert (found.classes, found.dim, found.source) == (3, 4, "file")


@pytest.mark.parametrize("prefix", ["", "train_"])
def test_safetensors_with_test_rows(tmp_path, prefix):
    arrays = {f"{prefix}features": X, f"{prefix}labels": Y, "test_features": TX, "test_labels": TY}
    save_file(arrays, tmp_path / "mine.safetensors")
    found = load_features("features", "none", path=tmp_path / "mine.safetensors")
    assert np.array_equal(found.train_features, X)
    assert np.array_equal(found.test_features, TX)
    assert found.classes == 4


def test_npy_pair_and_limit(tmp_path):
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    np.save(tmp_path / "y.npy", Y.astype(np.uint8))
    found = load_features("features", "none", path=tmp_path / "x.npy", labels=tmp_path / "y.npy", limit=3)
    assert found.train_features.shape == (3, 4)
    assert found.train_features.dtype == np.float64


def test_projection_of_own_features(tmp_path):
    np.savez(tmp_path / "mine.npz", features=X, labels=Y)
    found = load_features("features", "random-relu", path=tmp_path / "mine.npz", dim=7)
    assert found.dim == 7
    assert found.fingerprint != load_features("features", "none", path=tmp_path / "mine.npz").fingerprint


@pytest.mark.parametrize(
    ("arrays", "field"),
    [
        ({"X": X, "y": Y}, "arrays"),
        ({"features": X, "labels": Y, "test_features": TX}, "arrays"),
        ({"features": X[:, 0], "labels": Y}, "features"),
        ({"features": X * 1j, "labels": Y}, "features"),
        ({"features": X[:0], "labels": Y[:0]}, "features"),
        ({"features": np.where(X > 1, np.nan, X), "labels": Y}, "features"),
        ({"features": X, "labels": Y[:-1]}, "labels"),
        ({"features": X, "labels": Y.astype(float)}, "labels"),
        ({"features": X, "labels": Y - 1}, "labels"),
        ({"features": X, "labels": Y, "test_features": TX[:, 1:], "test_labels": TY}, "test_features"),
    ],
)
def test_bad_arrays_name_their_field(tmp_path, arrays, field):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(InputError) as caught:
        load_features("features", "none", path=tmp_path / "mine.npz")
    assert caught.value.field.split()[0] == field


def test_bad_files(tmp_path):
    for name in ("broken.npz", "broken.npy", "broken.safetensors", "mine.csv"):
        (tmp_path / name).write_bytes(b"not what it says")
    labels = tmp_path / "broken.npy"
    with pytest.raises(DataError, match="is not a file"):
        load_features("features", "none", path=tmp_path / "absent.npz")
    with pytest.raises(DataError, match="cannot be read"):
        load_features("features", "none", path=tmp_path / "broken.npz")
    with pytest.raises(DataError, match="cannot be read"):
        load_features("features", "none", path=tmp_path / "broken.safetensors")
    with pytest.raises(DataError, match="cannot be read"):
        load_features("features", "none", path=tmp_path / "broken.npy", labels=labels)
    with pytest.raises(InputError, match=r"labels must be the \.npy file"):
        load_features("features", "none", path=tmp_path / "broken.npy")
    with pytest.raises(InputError, match="labels must be absent"):
        load_features("features", "none", path=tmp_path / "broken.npz", labels=labels)
    with pytest.raises(InputError, match=r"\.npz, \.npy or \.safetensors"):
        load_features("features", "none", path=tmp_path / "mine.csv")


def test_npz_cut_short(tmp_path):
    np.savez(tmp_path / "mine.npz", features=X, labels=Y)
    content = (tmp_path / "mine.npz").read_bytes()
    for length in (10, len(content) // 2, len(content) - 5):
        (tmp_path / "mine.npz").write_bytes(content[:length])
        with pytest.raises(DataError, match="cannot be read"):
            load_features("features", "none", path=tmp_path / "mine.npz")


def test_no_pickle_is_opened(tmp_path):
    np.savez(tmp_path / "mine.npz", features=np.array([{}], dtype=object), labels=Y)
    with pytest.raises(DataError, match="cannot be read"):
        load_features("features", "none", path=tmp_path / "mine.npz")


def test_own_features_need_a_path_and_have_no_images(tmp_path):
    np.savez(tmp_path / "mine.npz", features=X, labels=Y)
    for options in ({}, {"path": tmp_path / "mine.npz", "images": True}):
        with pytest.raises(InputError):
            load_features("features", "none", **options)
    with pytest.raises(InputError, match="which has no images"):
        load_features("features", "resnet18", path=tmp_path / "mine.npz")
    with pytest.raises(InputError, match="only with data 'features'"):
        load_features("digits", path=tmp_path / "mine.npz")
