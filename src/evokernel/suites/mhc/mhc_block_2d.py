"""Residual block of two 3 x 3 convolutions whose shortcut mixes groups of channels by a Sinkhorn matrix taken from the pooled input."""

import torch
import torch.nn as nn

BATCH = 4
STREAMS = 4
CHANNELS_PER_STREAM = 12
HEIGHT = 32
WIDTH = 32
SIZES = {
    "small": {"BATCH": 2, "CHANNELS_PER_STREAM": 6, "HEIGHT": 16, "WIDTH": 16},
    "held_out": {"BATCH": 3, "STREAMS": 3, "CHANNELS_PER_STREAM": 7, "HEIGHT": 17, "WIDTH": 19},
}


def batch_norm(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2.0)
    return norm


class Model(nn.Module):
    def __init__(self, streams: int, channels: int, iterations: int):
        super().__init__()
        self.streams = streams
        self.iterations = iterations
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = batch_norm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = batch_norm(channels)
        self.mapping = nn.Linear(channels, streams * streams)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        logits = self.mapping(x.mean(dim=(2, 3))).unflatten(1, (self.streams, self.streams))
        mix = torch.exp(logits - logits.amax(dim=(1, 2), keepdim=True))
        for _ in range(self.iterations):
            mix = mix / mix.sum(dim=1, keepdim=True)
            mix = mix / mix.sum(dim=2, keepdim=True)
        shortcut = torch.bmm(mix, x.reshape(x.shape[0], self.streams, -1))
        return torch.relu(out + shortcut.view_as(x))


def get_inputs():
    channels = STREAMS * CHANNELS_PER_STREAM
    return [torch.randn(BATCH, channels, HEIGHT, WIDTH) + torch.randn(BATCH, channels, 1, 1)]


def get_init_inputs():
    return [STREAMS, STREAMS * CHANNELS_PER_STREAM, 20]
