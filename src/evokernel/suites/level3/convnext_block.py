"""ConvNeXt block: 7 x 7 depthwise convolution, layer norm over channels, GELU MLP per pixel, learned scale, shortcut."""

import torch
import torch.nn as nn

BATCH = 2
CHANNELS = 64
HEIGHT = 40
WIDTH = 40
KERNEL_SIZE = 7
EXPANSION = 4
SIZES = {
    "small": {"CHANNELS": 24, "HEIGHT": 20, "WIDTH": 20},
    "held_out": {"BATCH": 3, "CHANNELS": 23, "HEIGHT": 17, "WIDTH": 19},
}


class Model(nn.Module):
    def __init__(self, channels: int, kernel_size: int, expansion: int):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, kernel_size, padding=kernel_size // 2, groups=channels)
        self.norm = nn.LayerNorm(channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.mlp = nn.Sequential(nn.Linear(channels, expansion * channels), nn.GELU(), nn.Linear(expansion * channels, channels))
        self.scale = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.depthwise(x).permute(0, 2, 3, 1)
        out = self.mlp(self.norm(out)) * self.scale
        return x + out.permute(0, 3, 1, 2)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [CHANNELS, KERNEL_SIZE, EXPANSION]
