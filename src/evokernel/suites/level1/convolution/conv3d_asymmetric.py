"""Three-dimensional convolution of video-shaped tensors with a 3 x 5 x 7 kernel: strides 1, 2, 2, padded at the borders, with bias."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 3
OUT_CHANNELS = 32
FRAMES = 8
HEIGHT = 64
WIDTH = 80
KERNEL_SIZE = (3, 5, 7)
STRIDE = (1, 2, 2)
PADDING = (1, 2, 3)
SIZES = {"small": {"OUT_CHANNELS": 16, "FRAMES": 6, "HEIGHT": 16, "WIDTH": 20}}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: tuple, stride: tuple, padding: tuple):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, FRAMES, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, PADDING]
