import numpy as np
import pytest
from safetensors.numpy import save_file

from exhume.data import given_features, load_features
from exhume.data.own import read_own
from exhume.errors import DataError, InputError, NoteWarning

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
        ({"features": X, "labels": Y + 0.5}, "labels"),
        ({"features": X, "labels": np.where(Y == 1, np.nan, Y)}, "labels"),
        ({"features": X, "labels": Y, "test_features": TX, "test_labels": TY.astype(str)}, "labels"),
        ({"features": X, "labels": Y, "test_features": TX[:, 1:], "test_labels": TY}, "test_features"),
    ],
)
def test_bad_arrays_name_their_field(tmp_path, arrays, field):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(InputError) as caught:
        load_features("features", "none", path=tmp_path / "mine.npz")
    assert caught.value.field.split()[0] == field


def test_bad_files(tmp_path):
    for name in ("broken.npz", "broken.npy", "broken.safetensors", "mine.txt"):
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
    with pytest.raises(InputError, match=r"\.npz, \.npy, \.safetensors, \.csv or \.parquet"):
        load_features("features", "none", path=tmp_path / "mine.txt")


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


def test_nobody_is_told_to_load_pickles(tmp_path):
    (tmp_path / "text.npz").write_text("not an archive")
    np.savez(tmp_path / "objects.npz", features=np.array([{}, {}]), labels=np.arange(2))
    for name in ("text.npz", "objects.npz"):
        with pytest.raises(DataError, match="holds no plain arrays") as caught:
            read_own(tmp_path / name)
        assert "allow_pickle" not in str(caught.value)


@pytest.mark.parametrize("size", [0.0, 1e-170, 1e200])
def test_features_whose_squares_are_beyond_float64_are_refused(tmp_path, size):
    np.savez(tmp_path / "own.npz", features=np.full((20, 3), -size), labels=np.arange(20) % 2)
    with pytest.raises(InputError, match=r"features must be numbers of which the largest is from 1e-100 to 1e\+100"):
        read_own(tmp_path / "own.npz")


def test_own_features_need_a_path_and_have_no_images(tmp_path):
    np.savez(tmp_path / "mine.npz", features=X, labels=Y)
    for options in ({}, {"path": tmp_path / "mine.npz", "images": True}):
        with pytest.raises(InputError):
            load_features("features", "none", **options)
    with pytest.raises(InputError, match="which has no images"):
        load_features("features", "resnet18", path=tmp_path / "mine.npz")
    with pytest.raises(InputError, match="only with data 'features'"):
        load_features("digits", path=tmp_path / "mine.npz")


NAMES = np.array(["ant", "bee", "cat"])


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (NAMES[Y], "ant is 0, bee is 1, cat is 2"),
        (Y + 1, "1 is 0, 2 is 1, 3 is 2"),
        (2.0 * Y - 1, "-1 is 0, 1 is 1, 3 is 2"),
        (Y * 2**40, "is 2"),
    ],
)
def test_labels_become_classes_from_zero_with_a_note(tmp_path, labels, words):
    np.savez(tmp_path / "mine.npz", features=X, labels=labels)
    with pytest.warns(NoteWarning, match=words):
        found = load_features("features", "none", path=tmp_path / "mine.npz")
    test = np.arange(23) % 5 == 4
    assert found.classes == 3
    assert np.array_equal(found.train_labels, Y[~test]) and np.array_equal(found.test_labels, Y[test])


def test_classes_from_zero_need_no_note(tmp_path, recwarn):
    np.savez(tmp_path / "mine.npz", features=X, labels=Y)
    load_features("features", "none", path=tmp_path / "mine.npz")
    assert not [w for w in recwarn if issubclass(w.category, NoteWarning)]


def test_rows_for_a_live_server_keep_its_classes(tmp_path):
    np.savez(tmp_path / "one.npz", features=X, labels=Y + 1)
    assert np.unique(read_own(tmp_path / "one.npz")[1]).tolist() == [1, 2, 3]
    np.savez(tmp_path / "words.npz", features=X, labels=NAMES[Y])
    with pytest.raises(InputError, match="classes from 0"):
        read_own(tmp_path / "words.npz")


def table(tmp_path, header, rows):
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "mine.csv"


@pytest.mark.parametrize("first", [True, False])
def test_a_table_of_comma_separated_values(tmp_path, first):
    header = "label,a,b,c,d" if first else "a,b,c,d,kind"
    rows = [[NAMES[y], *x] if first else [*x, NAMES[y]] for x, y in zip(X, Y, strict=True)]
    with pytest.warns(NoteWarning, match="ant is 0"):
        found = load_features("features", "none", path=table(tmp_path, header, rows))
    test = np.arange(23) % 5 == 4
    assert np.array_equal(found.train_features, X[~test]) and np.array_equal(found.test_labels, Y[test])


@pytest.mark.parametrize(
    ("header", "rows", "words"),
    [
        ("a,b,label", [[1, 2, 0], [1, 2]], "line 3 has another number"),
        ("1,2,3", [[1, 2, 0]], "different names of columns"),
        ("a,a,label", [[1, 2, 0]], "different names of columns"),
        ("a,b,label", [[1, "x", 0]], "column b of .* must be numbers"),
        ("label", [[1]], "some features and the labels"),
        ("", [], "different names of columns"),
    ],
)
def test_bad_tables(tmp_path, header, rows, words):
    with pytest.raises((InputError, DataError), match=words):
        load_features("features", "none", path=table(tmp_path, header, rows))


def test_parquet_files_and_data_frames(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (the extra tables)")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra tables)")
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(target=Y + 5)
    frame.to_parquet(tmp_path / "mine.parquet")
    with pytest.warns(NoteWarning):
        found = [
            load_features("features", "none", path=tmp_path / "mine.parquet"),
            given_features(frame),
            given_features(frame, "target"),
            given_features(frame[list("abcd")], frame["target"]),
            given_features(frame[list("abcd")], [NAMES[y] for y in Y]),
        ]
    for one in found:
        assert np.array_equal(one.train_features, found[0].train_features)
        assert np.array_equal(one.test_labels, found[0].test_labels)
    with pytest.raises(InputError, match="columns of the data frame"):
        given_features(frame, "nothing")
    (tmp_path / "broken.parquet").write_bytes(b"not what it says")
    with pytest.raises(DataError, match="cannot be read"):
        load_features("features", "none", path=tmp_path / "broken.parquet")
