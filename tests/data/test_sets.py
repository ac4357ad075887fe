import hashlib
import io
import json
import struct
import tarfile

import numpy as np
import pytest
from sklearn.datasets import load_digits

from exhume.data import load, sets
from exhume.data.catalogue import Item
from exhume.data.sets import cifar10
from exhume.data.sets._base import read_four_idx, read_idx
from exhume.errors import DataError, InputError

RNG = np.random.default_rng(0)


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def test_digits_are_scikit_learns_and_every_fifth_row_is_for_testing():
    digits, bunch = load("digits"), load_digits()
    test = np.arange(1797) % 5 == 4
    assert np.array_equal(digits.train_images, np.rint(bunch.images[~test] * 255 / 16))
    assert np.array_equal(digits.test_images, np.rint(bunch.images[test] * 255 / 16))
    assert np.array_equal(digits.train_labels, bunch.target[~test])
    assert np.array_equal(digits.test_labels, bunch.target[test])
    assert digits.train_images.dtype == np.uint8
    assert set(digits.test_labels) == set(range(10))


def test_digits_that_are_not_the_known_ones_are_refused(monkeypatch):
    monkeypatch.setattr("exhume.data.sets.digits._table", lambda: np.zeros((1797, 65)))
    with pytest.raises(DataError, match="bundled digits have SHA-256"):
        load("digits")


def test_entries_tell_the_truth_about_digits():
    entry, images = sets.by_name("digits"), load("digits")
    assert images.train_images.shape == (entry.train_rows, *entry.shape)
    assert images.test_images.shape == (entry.test_rows, *entry.shape)
    assert (images.classes, images.sha256) == (entry.classes, entry.sha256)


def test_head():
    images = load("digits")
    assert images.head(None) is images
    assert [len(part) for part in (images.head(7).train_images, images.head(7).test_labels)] == [7, 7]
    with pytest.raises(InputError, match="limit"):
        images.head(0)


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(InputError, match="cifar10, digits, fashion-mnist, features, mnist, tinyimagenet; got 'mnst'"):
        load("mnst")
    with pytest.raises(InputError, match="where images are wanted"):
        load("features")


def test_missing_files_say_how_to_get_them():
    with pytest.raises(DataError, match="exhume data fetch mnist"):
        load("mnist", download=False)


def test_idx_files(tmp_path):
    arrays = {
        "train-images-idx3-ubyte": RNG.integers(0, 256, (6, 4, 5)),
        "train-labels-idx1-ubyte": np.array([0, 1, 2, 0, 1, 2]),
        "t10k-images-idx3-ubyte": RNG.integers(0, 256, (2, 4, 5)),
        "t10k-labels-idx1-ubyte": np.array([1, 0]),
    }
    for name, array in arrays.items():
        (tmp_path / name).write_bytes(idx(array))
    found = read_four_idx("small", "hash", tmp_path)
    assert np.array_equal(found.train_images, arrays["train-images-idx3-ubyte"])
    assert np.array_equal(found.test_labels, [1, 0])
    assert found.classes == 3


@pytest.mark.parametrize(
    "content", [b"", b"\x00\x00\x0d\x01\x00\x00\x00\x01?", idx(np.zeros((2, 2)))[:-1], b"\x00\x00\x08\x03"]
)
def test_what_is_not_idx(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DataError, match="not an idx file"):
        read_idx(tmp_path / "file")


def test_cifar_batches_round_trip():
    images = RNG.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    content = cifar10.pack_batch(images, [3, 1, 4, 1, 5])
    # Label first, then the red plane, row by row.
    assert content[0] == 3
    assert content[1:33] == images[0, 0, :, 0].tobytes()
    assert content[1 + 1024] == images[0, 0, 0, 1]
    again, labels = cifar10.unpack_batch(content)
    assert np.array_equal(again, images)
    assert labels.tolist() == [3, 1, 4, 1, 5]


def test_cifar_is_repacked_from_pictures(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image", reason="re-packing PNG needs pillow")
    images = RNG.integers(0, 256, (6, 4, 32, 32, 3), dtype=np.uint8)
    labels = RNG.integers(0, 10, (6, 4))
    train, test = labels[:5].ravel().tolist(), labels[5].tolist()
    files = {"train_lables.json": json.dumps(train), "test_lables.json": json.dumps(test)}
    content = {f"package/{name}": text.encode() for name, text in files.items()}
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    for name, batch in zip(names, images, strict=True):
        buffer = io.BytesIO()
        image.fromarray(batch.reshape(4, 1024, 3)).save(buffer, "PNG")
        content[f"package/{name}.png"] = buffer.getvalue()
    with tarfile.open(tmp_path / "p.tgz", "w:gz") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    packed = [cifar10.pack_batch(batch, label) for batch, label in zip(images, labels, strict=True)]
    items = tuple(
        Item(f"{name}.bin", hashlib.sha256(data).hexdigest(), len(data), "this test")
        for name, data in zip(names, packed, strict=True)
    )
    monkeypatch.setattr(cifar10, "ITEMS", items)
    monkeypatch.setattr(cifar10, "ROWS", 4)
    wanted = (items[1], items[5])
    offered = {item.name: path.read_bytes() for item, path in cifar10.repack(tmp_path / "p.tgz", wanted, tmp_path)}
    assert offered == {"data_batch_2.bin": packed[1], "test_batch.bin": packed[5]}


def test_cifar_package_without_its_members(tmp_path):
    with tarfile.open(tmp_path / "p.tgz", "w:gz"):
        pass
    with pytest.raises(DataError, match="no member"):
        list(cifar10.repack(tmp_path / "p.tgz", cifar10.ITEMS, tmp_path))


def test_cifar_set_is_read_in_order(tmp_path):
    images = RNG.integers(0, 256, (6, 2, 32, 32, 3), dtype=np.uint8)
    for item, batch in zip(cifar10.ITEMS, images, strict=True):
        (tmp_path / item.name).write_bytes(cifar10.pack_batch(batch, [1, 2]))
    found = sets.by_name("cifar10").read(tmp_path)
    assert np.array_equal(found.train_images, images[:5].reshape(10, 32, 32, 3))
    assert np.array_equal(found.test_images, images[5])
    assert found.train_labels.tolist() == [1, 2] * 5


def test_tinyimagenet_is_reduced_to_32_pixels_in_colour(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image", reason="reading JPEGs needs pillow")
    smooth = np.linspace(0, 255, 64).astype(np.uint8)
    pictures = [np.repeat(smooth[None, :, None], 64, axis=0).repeat(3, axis=2), np.repeat(smooth[:, None], 64, axis=1)]
    files = []
    for picture in (*pictures, pictures[0]):
        stream = io.BytesIO()
        image.fromarray(picture).save(stream, "JPEG", quality=95)
        files.append(stream.getvalue())
    np.savez(
        tmp_path / "tinyimagenet_aux.npz",
        jpeg=np.frombuffer(b"".join(files), np.uint8),
        offsets=np.cumsum([0, *map(len, files)]).astype(np.uint32),
        labels=np.array([0, 1, 7], np.uint8),
        split=np.array([0, 0, 1], np.uint8),
    )
    found = sets.by_name("tinyimagenet").read(tmp_path)
    assert found.train_images.shape == (2, 32, 32, 3) and found.test_images.shape == (1, 32, 32, 3)
    assert found.train_labels.tolist() == [0, 1] and found.test_labels.tolist() == [7]
    for picture, got in zip(pictures, found.train_images, strict=True):
        grey = picture if picture.ndim == 2 else picture[..., 0]
        means = grey.reshape(32, 2, 32, 2).mean(axis=(1, 3))
        assert np.abs(got - means[..., None]).max() <= 6, "JPEG at quality 95 is off by a few levels"
    (tmp_path / "tinyimagenet_aux.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="not the file of TinyImageNet"):
        sets.by_name("tinyimagenet").read(tmp_path)
