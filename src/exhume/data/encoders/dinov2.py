"""`dinov2-vitb14` and `dinov2-vits14`: DINOv2 vision transformers; the feature is the normalised class token."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from exhume.data.catalogue import Holding, Item
from exhume.data.encoders._base import Encoder, EncoderEntry, Options
from exhume.data.encoders.torch_encoder import SIZE, Network, Shapes, Tensor, Tensors, TorchEncoder
from exhume.data.mirrors import WebFiles

__all__ = ["ENCODERS", "NETWORKS"]

PATCH = 14
DEPTH = 12
HEAD_WIDTH = 64
TRAINED_GRID = 37
"""Patches along a side at 518 pixels, the size that the position embedding was trained at."""

OFFSET = 0.1
"""DINOv2 adds it to the wanted grid when it rescales the position embedding; part of what its features are."""

EPSILON = 1e-6


def _shapes(width: int) -> Shapes:
    shapes: Shapes = {
        "cls_token": (1, 1, width),
        "mask_token": (1, width),
        "pos_embed": (1, 1 + TRAINED_GRID**2, width),
        "patch_embed.proj.weight": (width, 3, PATCH, PATCH),
        "patch_embed.proj.bias": (width,),
        "norm.weight": (width,),
        "norm.bias": (width,),
    }
    for block in (f"blocks.{index}" for index in range(DEPTH)):
        for norm in ("norm1", "norm2"):
            shapes |= {f"{block}.{norm}.weight": (width,), f"{block}.{norm}.bias": (width,)}
        linear = {"attn.qkv": (3, 1), "attn.proj": (1, 1), "mlp.fc1": (4, 1), "mlp.fc2": (1, 4)}
        for name, (out, into) in linear.items():
            shapes |= {f"{block}.{name}.weight": (out * width, into * width), f"{block}.{name}.bias": (out * width,)}
        shapes |= {f"{block}.ls1.gamma": (width,), f"{block}.ls2.gamma": (width,)}
    return shapes


def _prepare(state: Tensors) -> Tensors:
    """Rescale the position embedding from the trained grid to that of the paper's images, as DINOv2 does."""
    functional: Any = importlib.import_module("torch.nn.functional")
    torch: Any = importlib.import_module("torch")
    position = state["pos_embed"]
    width = position.shape[-1]
    grid = position[:, 1:].reshape(1, TRAINED_GRID, TRAINED_GRID, width).permute(0, 3, 1, 2)
    scale = (SIZE // PATCH + OFFSET) / TRAINED_GRID
    grid = functional.interpolate(grid, scale_factor=(scale, scale), mode="bicubic")
    patches = grid.permute(0, 2, 3, 1).reshape(1, -1, width)
    ready = {name: tensor for name, tensor in state.items() if name != "mask_token"}
    return ready | {"pos_embed": torch.cat([position[:, :1], patches], dim=1)}


def _forward(tensors: Tensors, images: Tensor) -> Tensor:
    functional: Any = importlib.import_module("torch.nn.functional")
    torch: Any = importlib.import_module("torch")
    patches = functional.conv2d(
        images, tensors["patch_embed.proj.weight"], tensors["patch_embed.proj.bias"], stride=PATCH
    )
    tokens = patches.flatten(2).transpose(1, 2)
    x = torch.cat([tensors["cls_token"].expand(len(tokens), -1, -1), tokens], dim=1) + tensors["pos_embed"]
    for index in range(DEPTH):
        x = _block(functional, tensors, f"blocks.{index}", x)
    return _norm(functional, tensors, "norm", x[:, 0])


def _block(functional: Any, tensors: Tensors, name: str, x: Tensor) -> Tensor:
    rows, count, width = x.shape

    def linear(y: Tensor, part: str) -> Tensor:
        return functional.linear(y, tensors[f"{name}.{part}.weight"], tensors[f"{name}.{part}.bias"])

    joint = linear(_norm(functional, tensors, f"{name}.norm1", x), "attn.qkv")
    heads = joint.reshape(rows, count, 3, width // HEAD_WIDTH, HEAD_WIDTH).permute(2, 0, 3, 1, 4)
    attended = functional.scaled_dot_product_attention(heads[0], heads[1], heads[2])
    attended = attended.transpose(1, 2).reshape(rows, count, width)
    x = x + linear(attended, "attn.proj") * tensors[f"{name}.ls1.gamma"]
    hidden = functional.gelu(linear(_norm(functional, tensors, f"{name}.norm2", x), "mlp.fc1"))
    return x + linear(hidden, "mlp.fc2") * tensors[f"{name}.ls2.gamma"]


def _norm(functional: Any, tensors: Tensors, name: str, x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], tensors[f"{name}.weight"], tensors[f"{name}.bias"], EPSILON)


def _entry(size: str, width: int, sha256: str, length: int) -> EncoderEntry:
    name = f"dinov2-vit{size}14"
    model = f"dinov2_vit{size}14"
    item = Item(
        f"{model}_pretrain.pth",
        sha256,
        length,
        "recorded alike by several public projects that pin the official file; not downloaded here",
    )
    source = WebFiles(f"https://dl.fbaipublicfiles.com/dinov2/{model}")
    holding = Holding(name, "weights", (item,), (source,))
    about = f"DINOv2 ViT-{size.upper()}/14, normalised class token"
    return EncoderEntry(name, about, width, partial(_build, NETWORKS[name], holding), holding, "vision")


def _build(network: Network, holding: Holding, options: Options) -> Encoder:
    return TorchEncoder(network, holding, options)


NETWORKS = {
    name: Network(name, width, _shapes(width), _prepare, _forward)
    for name, width in (("dinov2-vitb14", 768), ("dinov2-vits14", 384))
}

ENCODERS = (
    _entry("b", 768, "0b8b82f85de91b424aded121c7e1dcc2b7bc6d0adeea651bf73a13307fad8c73", 346_378_731),
    _entry("s", 384, "b938bf1bc15cd2ec0feacfe3a1bb553fe8ea9ca46a7e1d8d00217f29aef60cd9", 88_283_115),
)
