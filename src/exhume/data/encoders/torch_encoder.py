"""What the torch encoders share: weights that are believed by hash, preprocessing as in the paper, one batch's pass.

Each encoder is a pure function of named tensors, not a module with state: its official checkpoint's names and shapes
are data that can be checked before anything runs. Torch is imported only when a batch is encoded.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exhume.data.catalogue import Holding
from exhume.data.encoders._base import Features32, Options
from exhume.data.encoders.weights import read_tensors
from exhume.data.files import digest_of, sha256_of_file
from exhume.errors import DataError, InputError, MissingExtraError

__all__ = ["PREPROCESSING", "SIZE", "Network", "Shapes", "Tensor", "Tensors", "TorchEncoder", "fold", "norm_shapes"]

Tensor = Any
Tensors = dict[str, Tensor]
Shapes = dict[str, tuple[int, ...]]

SIZE = 224
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)
PREPROCESSING = {
    "pixels": "/255, grey repeated to three channels",
    "size": SIZE,
    "filter": "bilinear",
    "mean": MEAN,
    "deviation": DEVIATION,
}
BATCH_NORM_EPSILON = 1e-5


@dataclass(frozen=True)
class Network:
    """One architecture.

    Attributes
    ----------
    name : str
        Name in the registry.
    dim : int
        Number of features.
    shapes : dict
        Names and shapes of the official checkpoint's tensors.
    prepare : callable
        From those tensors to the ones that the pass uses.
    forward : callable
        From prepared tensors and normalised images (N x 3 x 224 x 224) to features.
    """

    name: str
    dim: int
    shapes: Shapes
    prepare: Callable[[Tensors], Tensors]
    forward: Callable[[Tensors, Tensor], Tensor]


@dataclass(frozen=True)
class TorchEncoder:
    """A network with its weights, on a device."""

    network: Network
    holding: Holding
    options: Options

    @property
    def name(self) -> str:
        """Name in the registry."""
        return self.network.name

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.network.dim

    @property
    def device(self) -> str:
        """Torch device."""
        return self.options.device

    @cached_property
    def weights_sha256(self) -> str:
        """Hash that names the weights: the official file's, also for other forms of the same tensors."""
        given = self.options.weights
        if given is None:
            return self.holding.sha256
        if not given.is_file():
            raise DataError(f"{given} is not a file")
        found = sha256_of_file(given)
        if self.options.sha256 not in (None, found):
            raise DataError(f"{given} has SHA-256 {found}, not {self.options.sha256}")
        return self.holding.sha256 if found in {item.sha256 for item in self.holding.items} else found

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights and the preprocessing."""
        return digest_of(
            {"encoder": self.name, "weights": self.weights_sha256, "resize": self.options.resize, **PREPROCESSING}
        )

    @cached_property
    def tensors(self) -> Tensors:
        """The prepared tensors, on the device."""
        torch = _torch(self.name)
        _device(torch, self.device)  # asked before any weights are fetched
        state = read_tensors(self._file(), {item.sha256 for item in self.holding.items})
        _check(state, self.network, self._file())
        with torch.inference_mode():
            ready = self.network.prepare({name: tensor.float() for name, tensor in state.items()})
            return {name: _place(torch, tensor, _device(torch, self.device)) for name, tensor in ready.items()}

    def get_ready(self) -> None:
        """Load torch and the weights, as the first batch would."""
        _ = self.tensors

    def encode(self, images: NDArray[np.generic]) -> Features32:
        """Features of one batch of pixels."""
        torch = _torch(self.name)
        tensors = self.tensors
        pixels = resize_8bit(images) if self.options.resize == "8-bit" else np.array(images)
        # On CUDA, the default precision and choice of algorithm would make features depend on the run.
        steady = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
        with torch.inference_mode(), steady:
            features = self.network.forward(tensors, normalise(torch.from_numpy(pixels).to(self.device)))
            return np.asarray(features.float().cpu().numpy(), dtype=np.float32)

    def _file(self) -> Path:
        if self.options.weights is not None:
            _ = self.weights_sha256
            return self.options.weights
        from exhume.data.fetch import ensure, stored_items
        from exhume.data.home import home_folder

        home = home_folder(self.options.home)
        return ensure(self.holding, home) / stored_items(self.holding, home)[0].name


def resize_8bit(images: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Resize each picture in 8 bits with PIL's bilinear filter, which is what torchvision does with PIL images."""
    try:
        image = importlib.import_module("PIL.Image")
    except ImportError as error:
        raise MissingExtraError("resizing in 8 bits", "vision") from error
    bilinear = image.Resampling.BILINEAR
    return np.stack([np.asarray(image.fromarray(one).resize((SIZE, SIZE), bilinear)) for one in images])


def normalise(pixels: Tensor) -> Tensor:
    """Turn pixels (N x H x W, or N x H x W x 3) into the network's input, as in the paper."""
    torch = importlib.import_module("torch")
    planes = pixels[:, None] if pixels.ndim == 3 else pixels.permute(0, 3, 1, 2)
    resized = torch.nn.functional.interpolate(
        planes.float() / 255, size=(SIZE, SIZE), mode="bilinear", align_corners=False
    )
    mean, deviation = (torch.tensor(values, device=pixels.device).view(1, 3, 1, 1) for values in (MEAN, DEVIATION))
    return ((resized - mean) / deviation).contiguous(memory_format=torch.channels_last)


def fold(state: Mapping[str, Tensor], convolution: str, norm: str) -> tuple[Tensor, Tensor]:
    """Return the weight and bias of a convolution with the batch normalisation after it folded in."""
    scale = state[f"{norm}.weight"] / (state[f"{norm}.running_var"] + BATCH_NORM_EPSILON).sqrt()
    weight = state[f"{convolution}.weight"] * scale.view(-1, 1, 1, 1)
    return weight, state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * scale


def norm_shapes(name: str, width: int) -> Shapes:
    """Return the names and shapes of one batch normalisation's tensors."""
    return {f"{name}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")}


def _check(state: Mapping[str, Tensor], network: Network, path: Path) -> None:
    # Counters of batch normalisation: older checkpoints lack them, and inference has no use for them.
    found = {name: tuple(tensor.shape) for name, tensor in state.items() if not name.endswith("num_batches_tracked")}
    if found != network.shapes:
        odd = sorted(name for name in {*found, *network.shapes} if found.get(name) != network.shapes.get(name))
        raise DataError(f"{path} is not a checkpoint of {network.name}: {len(odd)} tensors differ, {odd[0]} first")


def _place(torch: Any, tensor: Tensor, device: Any) -> Tensor:
    layout = torch.channels_last if tensor.ndim == 4 else torch.contiguous_format
    return tensor.to(device).contiguous(memory_format=layout)


def _device(torch: Any, name: str) -> Any:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError("device", "one that torch can use here, such as cpu or cuda", name) from error
    return device


def _torch(encoder: str) -> Any:
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError(f"the {encoder} encoder", "vision")
    return importlib.import_module("torch")
