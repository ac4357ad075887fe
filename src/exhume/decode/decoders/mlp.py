"""`mlp`: a light multilayer perceptron with a pixel loss, as in the paper; trained in seconds on a client's own rows.

It learns what to add to the mean picture. Torch is needed to train it, not to draw with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import erf

from exhume.decode._base import Array, Decoder, DecoderEntry, Examples, Learnt, Pixels, Tick, TrainingStep
from exhume.decode._torch import EXTRA, device_of, torch
from exhume.decode.linear import Standard

__all__ = ["DECODERS", "Mlp"]

WHAT = "training the mlp decoder"
RATE = 2e-3
WEIGHT_DECAY = 1e-2
FEATURE_NOISE = 0.1
DROPOUT = 0.1


@dataclass
class Mlp(Decoder):
    """Two hidden layers of GELU units."""

    name: ClassVar[str] = "mlp"
    steps: int = 350
    batch: int = 128
    hidden: int = 1024
    device: str = "cpu"

    def _options(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "device"}

    def _fit(self, rows: Examples, seed: int, tick: Tick | None) -> Learnt:
        module = torch(WHAT)
        device = device_of(self.device, WHAT)
        standard, flat = Standard.of(rows.features), rows.flat.astype(np.float32)
        mean = flat.mean(axis=0)
        with module.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            module.manual_seed(seed)
            net = self._net(module, rows.features.shape[1], flat.shape[1]).to(device)
            features = module.from_numpy(standard(rows.features).astype(np.float32)).to(device)
            wanted = module.from_numpy(flat - mean).to(device)
            history = list(self._train(module, net, features, wanted, np.random.default_rng(seed), tick))
        layers = [net[0], net[3], net[5]]
        state: dict[str, Array] = {"centre": standard.centre, "spread": standard.spread, "mean": mean}
        for number, layer in enumerate(layers):
            state[f"weight{number}"] = layer.weight.detach().cpu().numpy()
            state[f"bias{number}"] = layer.bias.detach().cpu().numpy()
        return Learnt(state, history[-1][1], self.steps, tuple(history[:: max(self.steps // 20, 1)]))

    def _net(self, module: Any, dim: int, pixels: int) -> Any:
        nn = module.nn
        return nn.Sequential(
            nn.Linear(dim, self.hidden),
            nn.GELU(),
            nn.Dropout(DROPOUT),
            nn.Linear(self.hidden, self.hidden),
            nn.GELU(),
            nn.Linear(self.hidden, pixels),
        )

    def _train(
        self, module: Any, net: Any, features: Any, wanted: Any, rng: np.random.Generator, tick: Tick | None
    ) -> Iterator[tuple[int, float]]:
        optimiser = module.optim.AdamW(net.parameters(), lr=RATE, weight_decay=WEIGHT_DECAY)
        rates = module.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=max(self.steps, 2))
        for step in range(self.steps):
            rows = module.from_numpy(rng.integers(0, len(features), min(self.batch, len(features))))
            rows = rows.to(features.device)
            seen = features[rows] + FEATURE_NOISE * module.randn_like(features[rows])
            loss = module.nn.functional.mse_loss(net(seen), wanted[rows])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            rates.step()
            yield step + 1, float(loss.detach())
            if tick is not None:
                tick(TrainingStep(step + 1, 0, self.steps, len(rows), float(loss.detach())))

    def _decode(self, features: Array, labels: Array | None, generator: np.random.Generator) -> Pixels:
        state = self.state
        x = Standard(state["centre"], state["spread"])(features)
        for number in range(3):
            x = x @ state[f"weight{number}"].T + state[f"bias{number}"]
            if number < 2:
                x = 0.5 * x * (1 + erf(x / np.sqrt(2)))
        pixels: Pixels = state["mean"] + x
        return pixels


DECODERS = (
    DecoderEntry("mlp", "a light multilayer perceptron with a pixel loss: the paper's local decoder", Mlp, EXTRA),
)
