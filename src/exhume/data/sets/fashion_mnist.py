"""`fashion-mnist`: 28 x 28 pictures of clothes, stored as unpacked idx files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from exhume.data.catalogue import Holding, Item
from exhume.data.mirrors import Folder, WebFiles
from exhume.data.sets._base import DataSet, read_four_idx

__all__ = ["DATA_SETS"]

ITEMS = (
    Item(
        "train-images-idx3-ubyte",
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        47_040_016,
        "Debian dataset-fashion-mnist 0.0~git20200523.55506a9-1, unpacked; with the official .gz header restored, "
        "the .gz has the published MD5 8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    ),
    Item(
        "train-labels-idx1-ubyte",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        60_008,
        "as above; published MD5 25c81989df183df01b3e8a0aad5dffbe",
    ),
    Item(
        "t10k-images-idx3-ubyte",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        7_840_016,
        "as above; published MD5 bef4ecab320f06d8554ea6380940ec79",
    ),
    Item(
        "t10k-labels-idx1-ubyte",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        10_008,
        "as above; published MD5 bb300cfdad3c16e7a12a480ee83cd310",
    ),
)

SOURCES = (
    WebFiles("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com", suffix=".gz"),
    WebFiles("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion", suffix=".gz"),
    Folder(Path("/usr/share/datasets/fashion-mnist"), "Debian package dataset-fashion-mnist"),
)

HOLDING = Holding("fashion-mnist", "data", ITEMS, SOURCES)

DATA_SETS = (
    DataSet(
        name="fashion-mnist",
        about="28 x 28 pictures of ten kinds of clothes",
        shape=(28, 28),
        classes=10,
        train_rows=60_000,
        test_rows=10_000,
        sha256=HOLDING.sha256,
        read=partial(read_four_idx, "fashion-mnist", HOLDING.sha256),
        holding=HOLDING,
    ),
)
