"""Sampling: from noise to a latent in a few steps of DPM-Solver++, told the feature, and pulled towards it if asked.

Classifier-free guidance moves each step away from what the network would draw untold. The pull is past the paper: each
step also moves the picture that it is heading for towards the recovered feature, through the frozen encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exhume.decode._torch import Tensor, torch
from exhume.decode.latent.network import WHAT, Condition, predict, schedule
from exhume.decode.latent.training import steady

__all__ = ["Mismatch", "sample"]

Mismatch = Callable[[Tensor], Tensor]
"""From latents to the distance, per row, of their pictures' features from the recovered ones; differentiable."""


def sample(
    net: Any,
    condition: Condition,
    noise: Tensor,
    *,
    steps: int,
    guidance: float,
    pull: float = 0.0,
    mismatch: Mismatch | None = None,
) -> Tensor:
    """Return a latent for each row of the condition.

    Parameters
    ----------
    net : module
        The trained denoiser.
    condition : Condition
        What it is told.
    noise : tensor
        Where each sample starts; the samples depend on nothing else that is random.
    steps : int
        Denoising steps.
    guidance : float
        1 draws from the model as it is; more follows the feature more closely.
    pull : float
        How far a step moves towards the recovered feature, as a share of the latent's own spread.
    mismatch : callable, optional
        What the pull makes smaller.
    """
    module = torch(WHAT)
    solver = schedule("DPMSolverMultistepScheduler")
    solver.set_timesteps(steps, device=noise.device)
    untold = condition.kept(module.zeros(len(noise), device=noise.device))
    both = Condition(*(module.cat([getattr(condition, part), getattr(untold, part)]) for part in ("features", "hint")))
    latents = noise
    for time in solver.timesteps:
        with module.no_grad(), steady():
            told, free = predict(net, module.cat([latents, latents]), time, both).chunk(2)
            velocity = free + guidance * (told - free)
        if pull > 0 and mismatch is not None:
            velocity = _pulled(module, solver, latents, velocity, time, pull, mismatch)
        latents = solver.step(velocity, time, latents, return_dict=False)[0]
    return latents


def _pulled(
    module: Any, solver: Any, latents: Tensor, velocity: Tensor, time: Tensor, pull: float, mismatch: Mismatch
) -> Tensor:
    """Return the velocity whose clean latent lies one gradient step nearer to the recovered feature."""
    kept = solver.alphas_cumprod.to(latents.device)[time]
    signal, noise = kept.sqrt(), (1 - kept).sqrt()
    clean = (signal * latents - noise * velocity).detach().requires_grad_(True)
    (slope,) = module.autograd.grad(mismatch(clean).sum(), clean)
    length = slope.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None, None]
    # A step of length `pull` per coordinate, smaller as the picture settles.
    stride = pull * noise * clean[0].numel() ** 0.5
    moved = clean.detach() - stride * slope / length
    return (signal * latents - moved) / noise
