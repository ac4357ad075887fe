"""Sampling: from noise to a latent in a few steps of DPM-Solver++, told the feature.

Classifier-free guidance moves each step away from what the network would draw untold.
"""

from __future__ import annotations

from typing import Any

from exhume.decode._torch import Tensor, torch
from exhume.decode.latent.network import WHAT, Condition, predict, schedule
from exhume.decode.latent.training import steady

__all__ = ["sample"]


def sample(net: Any, condition: Condition, noise: Tensor, *, steps: int, guidance: float) -> Tensor:
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
    """
    module = torch(WHAT)
    solver = schedule("DPMSolverMultistepScheduler")
    solver.set_timesteps(steps, device=noise.device)
    untold = condition.kept(module.zeros(len(noise), device=noise.device))
    both = Condition(*(module.cat([getattr(condition, part), getattr(untold, part)]) for part in ("features", "hint")))
    latents = noise
    with module.no_grad(), steady():
        for time in solver.timesteps:
            told, free = predict(net, module.cat([latents, latents]), time, both).chunk(2)
            velocity = free + guidance * (told - free)
            latents = solver.step(velocity, time, latents, return_dict=False)[0]
    return latents
