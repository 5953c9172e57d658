"""MLP-Mixer block: after layer norm a GELU MLP across the patches, after another one across the channels, each with a shortcut."""

import torch
import torch.nn as nn

BATCH = 4
PATCHES = 196
CHANNELS = 256
PATCH_HIDDEN = 128
CHANNEL_HIDDEN = 512


def layer_norm(width: int) -> nn.LayerNorm:
    norm = nn.LayerNorm(width)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    return norm


def mlp(width: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))


class Model(nn.Module):
    def __init__(self, patches: int, channels: int, patch_hidden: int, channel_hidden: int):
        super().__init__()
        self.norm1 = layer_norm(channels)
        self.across_patches = mlp(patches, patch_hidden)
        self.norm2 = layer_norm(channels)
        self.across_channels = mlp(channels, channel_hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.across_patches(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.across_channels(self.norm2(x))


def get_inputs():
    return [torch.randn(BATCH, PATCHES, CHANNELS)]


def get_init_inputs():
    return [PATCHES, CHANNELS, PATCH_HIDDEN, CHANNEL_HIDDEN]
