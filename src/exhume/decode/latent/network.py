"""The denoiser: diffusers' conditional UNet, attending to tokens made of a feature vector.

Three things carry the feature into the network: tokens for cross-attention, as in the paper; the feature itself beside
the time embedding; and, past the paper, the latent that ridge regression reads off the feature, as further input
channels. All three are zero where the condition is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from exhume.decode._torch import Tensor, diffusers, torch
from exhume.decode.latent.autoencoder import CHANNELS

__all__ = ["Condition", "Shape", "build", "predict", "schedule"]

WHAT = "the diffusion decoder"
TOKENS = 8
TOKEN_WIDTH = 192
HIDDEN = 384
HEADS = 4
TIMES = 1000


@dataclass(frozen=True)
class Shape:
    """What decides the network's tensors: feature dimension, latent side and width."""

    dim: int
    side: int = 4
    width: int = 128
    layers: int = 2
    groups: int = 16


@dataclass(frozen=True)
class Condition:
    """What the denoiser is told: features (standardised) and the ridge latent."""

    features: Tensor
    hint: Tensor

    def kept(self, keep: Tensor) -> Condition:
        """Return the condition with the rows where `keep` is 0 dropped."""
        return Condition(self.features * keep[:, None], self.hint * keep[:, None, None, None])


def build(shape: Shape) -> Any:
    """Return a fresh network; its random start is torch's global seed's."""
    nn = torch(WHAT).nn
    tokens = nn.Sequential(nn.Linear(shape.dim, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, TOKENS * TOKEN_WIDTH))
    unet = diffusers(WHAT).UNet2DConditionModel(
        sample_size=shape.side,
        in_channels=2 * CHANNELS,
        out_channels=CHANNELS,
        down_block_types=("CrossAttnDownBlock2D",),
        mid_block_type="UNetMidBlock2DCrossAttn",
        up_block_types=("CrossAttnUpBlock2D",),
        block_out_channels=(shape.width,),
        layers_per_block=shape.layers,
        cross_attention_dim=TOKEN_WIDTH,
        attention_head_dim=HEADS,
        norm_num_groups=shape.groups,
        resnet_time_scale_shift="scale_shift",
        class_embed_type="projection",
        projection_class_embeddings_input_dim=shape.dim,
    )
    # A network that starts by predicting nothing has a first loss that is the data's own spread.
    nn.init.zeros_(unet.conv_out.weight)
    nn.init.zeros_(unet.conv_out.bias)
    return nn.ModuleDict({"tokens": tokens, "unet": unet})


def predict(net: Any, noisy: Tensor, times: Tensor, condition: Condition) -> Tensor:
    """Velocity that the network predicts for noisy latents at these times."""
    module = torch(WHAT)
    told = condition.features
    tokens = net["tokens"](told).view(len(told), TOKENS, TOKEN_WIDTH)
    seen = module.cat([noisy, condition.hint], dim=1)
    return net["unet"](seen, times, encoder_hidden_states=tokens, class_labels=told, return_dict=False)[0]


def schedule(kind: str) -> Any:
    """Return diffusers' scheduler of that kind with the cosine schedule and v-prediction."""
    return getattr(diffusers(WHAT), kind)(
        num_train_timesteps=TIMES, beta_schedule="squaredcos_cap_v2", prediction_type="v_prediction"
    )
