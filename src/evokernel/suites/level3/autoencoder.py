"""Convolutional autoencoder: two strided convolutions with ReLU down to a code, two transposed ones back to the image."""

import torch
import torch.nn as nn

BATCH = 4
IN_CHANNELS = 3
CHANNELS = 24
CODE = 48
QUARTER_HEIGHT = 20
QUARTER_WIDTH = 20
SIZES = {
    "small": {"CHANNELS": 8, "CODE": 16, "QUARTER_HEIGHT": 8, "QUARTER_WIDTH": 8},
    "held_out": {"BATCH": 3, "CHANNELS": 7, "CODE": 13, "QUARTER_HEIGHT": 7, "QUARTER_WIDTH": 9},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, channels: int, code: int):
        super().__init__()
        self.encode1 = nn.Conv2d(in_channels, channels, 4, stride=2, padding=1)
        self.encode2 = nn.Conv2d(channels, code, 4, stride=2, padding=1)
        self.decode1 = nn.ConvTranspose2d(code, channels, 4, stride=2, padding=1)
        self.decode2 = nn.ConvTranspose2d(channels, in_channels, 4, stride=2, padding=1)
        nn.init.normal_(self.decode2.bias)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        code = self.encode2(torch.relu(self.encode1(x)))
        return self.decode2(torch.relu(self.decode1(code))), code


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, 4 * QUARTER_HEIGHT, 4 * QUARTER_WIDTH) * 4]


def get_init_inputs():
    return [IN_CHANNELS, CHANNELS, CODE]
