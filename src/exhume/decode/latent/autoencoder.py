"""TAEF2: a tiny pretrained autoencoder (MIT, madebyollin/taesd) whose latents the diffusion model works in.

As in `exhume.data.encoders`, a network is a pure function of named tensors, so that names and shapes of the official
files are checked before anything runs. Images are in [0, 1]; 32 x 32 pixels become 32 channels of 4 x 4.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.data.catalogue import Holding, Item
from exhume.data.encoders.weights import read_tensors
from exhume.data.fetch import ensure
from exhume.data.mirrors import WebFiles
from exhume.decode._torch import Tensor, device_of, torch
from exhume.errors import DataError, InputError

__all__ = ["CHANNELS", "DOWN", "HOLDING", "decode", "encode", "encode_all", "load"]

CHANNELS = 32
DOWN = 8
"""Pixels per latent position, along each side."""

WIDTH = 64
GROUPS = 4
COMMIT = "5cccb12dc72074a4be35680c3b108548a7c69978"
HASH_FROM = f"madebyollin/taesd at commit {COMMIT[:8]}"
HOLDING = Holding(
    "taef2",
    "weights",
    (
        Item(
            "taef2_encoder.pth",
            "10a4e1021e89d7551eaf161352da8dbd0b1aa83872ae28b150c1df1ce2f147b6",
            2_704_692,
            HASH_FROM,
        ),
        Item(
            "taef2_decoder.pth",
            "0a44a31e1ae59eb9dbf9359d24942fd3ef5928162c1800d97a28c61d51be0ab5",
            2_704_756,
            HASH_FROM,
        ),
    ),
    (WebFiles(f"https://raw.githubusercontent.com/madebyollin/taesd/{COMMIT}"),),
)

# What stands at each position of the two official sequences: a block, or a convolution with its stride.
ENCODER = {0: 1, 1: "block", 2: 2, 3: "block", 4: "block", 5: "block", 6: 2, 7: "block", 8: "block", 9: "block"}
ENCODER |= {10: 2, 11: "block", 12: "block", 13: "block", 14: 1}
DECODER = {1: 1, 2: "relu", 3: "block", 4: "block", 5: "block", 6: "up", 7: 1, 8: "block", 9: "block", 10: "block"}
DECODER |= {11: "up", 12: 1, 13: "block", 14: "block", 15: "block", 16: "up", 17: 1, 18: "block", 19: 1}

Tensors = dict[str, Tensor]


@lru_cache(maxsize=2)
def load(home: Path, device: str = "cpu") -> tuple[Tensors, Tensors]:
    """Return the tensors of encoder and decoder, fetched into the home folder and believed by their hashes.

    Raises
    ------
    DataError
        If the files cannot be had.
    """
    folder = ensure(HOLDING, home)
    where = device_of(device, "the autoencoder")
    parts = []
    for item, layers in zip(HOLDING.items, (ENCODER, DECODER), strict=True):
        state = read_tensors(folder / item.name, {item.sha256})
        lacking = [str(i) for i, kind in layers.items() if kind not in ("relu", "up") and not _has(state, i)]
        if lacking:
            raise DataError(f"{folder / item.name} is not TAEF2: it lacks layer {lacking[0]}")
        parts.append({name: tensor.float().to(where) for name, tensor in state.items()})
    return parts[0], parts[1]


def _has(state: Tensors, layer: int) -> bool:
    return f"{layer}.weight" in state or f"{layer}.conv.0.weight" in state


def encode(weights: Tensors, images: Tensor) -> Tensor:
    """Latents (N x 32 x H/8 x W/8) of images (N x 3 x H x W) in [0, 1]."""
    if images.shape[2] % DOWN or images.shape[3] % DOWN:
        raise InputError("images", f"of sides that {DOWN} divides", tuple(images.shape))
    return _run(ENCODER, weights, images)


def decode(weights: Tensors, latents: Tensor) -> Tensor:
    """Images of latents, in [0, 1] but for small excesses."""
    module = torch("the autoencoder")
    return _run(DECODER, weights, 3 * module.tanh(latents / 3))


def encode_all(weights: Tensors, images: NDArray[np.uint8], batch: int = 256) -> NDArray[np.float32]:
    """Latents of 8-bit colour pictures (N x H x W x 3), batch by batch."""
    module = torch("the autoencoder")
    device = next(iter(weights.values())).device
    parts = []
    with module.inference_mode():
        for start in range(0, len(images), batch):
            planes = module.from_numpy(np.ascontiguousarray(images[start : start + batch])).to(device)
            parts.append(encode(weights, planes.permute(0, 3, 1, 2).float() / 255).cpu().numpy())
    return np.concatenate(parts)


def _run(layers: dict[int, Any], weights: Tensors, x: Tensor) -> Tensor:
    functional = torch("the autoencoder").nn.functional
    for index, kind in layers.items():
        if kind == "block":
            x = _block(functional, weights, str(index), x)
        elif kind == "relu":
            x = x.relu()
        elif kind == "up":
            x = functional.interpolate(x, scale_factor=2.0)
        else:
            x = functional.conv2d(x, weights[f"{index}.weight"], weights.get(f"{index}.bias"), kind, 1)
    return x


def _block(functional: Any, weights: Tensors, name: str, x: Tensor) -> Tensor:
    if f"{name}.pool.0.weight" in weights:
        wide = functional.conv2d(x, weights[f"{name}.pool.0.weight"])
        wide = functional.group_norm(wide, GROUPS, weights[f"{name}.pool.1.weight"], weights[f"{name}.pool.1.bias"])
        x = x + functional.conv2d(wide.relu(), weights[f"{name}.pool.3.weight"])
    y = x
    for part in (0, 2, 4):
        y = functional.conv2d(y, weights[f"{name}.conv.{part}.weight"], weights[f"{name}.conv.{part}.bias"], padding=1)
        y = y.relu() if part < 4 else y
    return (y + x).relu()
