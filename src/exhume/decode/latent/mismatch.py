"""How far pictures are from recovered features under the frozen ResNet-18; what guided sampling makes smaller."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from exhume.data import encoders
from exhume.data.encoders.torch_encoder import TorchEncoder, normalise
from exhume.decode._base import Array
from exhume.decode._torch import Tensor, torch
from exhume.decode.latent import autoencoder
from exhume.decode.latent.network import WHAT
from exhume.decode.latent.sampling import Mismatch
from exhume.errors import InputError

__all__ = ["resnet18_mismatch"]


def resnet18_mismatch(painter: dict[str, Tensor], features: Array, home: Path, device: str) -> Mismatch:
    """Return the distance of latents' pictures from these features, row by row, relative to the features' length."""
    module = torch(WHAT)
    encoder = encoders.build("resnet18", encoders.Options(width=0, home=home, device=device))
    assert isinstance(encoder, TorchEncoder)
    if features.shape[1] != encoder.dim:
        raise InputError("features", f"the {encoder.dim} of resnet18, which guides the sampling", features.shape[1])
    # Tensors made in inference mode cannot take part in a gradient; copies can.
    tensors = {name: tensor.clone() for name, tensor in encoder.tensors.items()}
    wanted = module.from_numpy(features.astype(np.float32)).to(device)
    lengths = wanted.norm(dim=1).clamp_min(1e-6)

    def mismatch(latents: Tensor) -> Tensor:
        pictures = autoencoder.decode(painter, latents).clamp(0, 1)
        found = encoder.network.forward(tensors, normalise(255 * pictures.permute(0, 2, 3, 1)))
        return (found - wanted).norm(dim=1) / lengths

    return mismatch
