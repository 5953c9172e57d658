"""Bottleneck block (1 x 1, 3 x 3, 1 x 1) whose shortcut mixes groups of channels by a Sinkhorn matrix taken from the pooled input."""

import torch
import torch.nn as nn

BATCH = 4
STREAMS = 4
CHANNELS_PER_STREAM = 32
INNER = 32
HEIGHT = 32
WIDTH = 32
SIZES = {
    "small": {"BATCH": 2, "CHANNELS_PER_STREAM": 8, "INNER": 8, "HEIGHT": 16, "WIDTH": 16},
    "held_out": {"BATCH": 3, "STREAMS": 3, "CHANNELS_PER_STREAM": 11, "INNER": 7, "HEIGHT": 17, "WIDTH": 13},
}


def convolution(inputs: int, outputs: int, size: int) -> nn.Sequential:
    norm = nn.BatchNorm2d(outputs)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2.0)
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False), norm)


class Model(nn.Module):
    def __init__(self, streams: int, channels: int, inner: int, iterations: int, temperature: float):
        super().__init__()
        self.streams = streams
        self.iterations = iterations
        self.temperature = temperature
        self.reduce = convolution(channels, inner, 1)
        self.spatial = convolution(inner, inner, 3)
        self.expand = convolution(inner, channels, 1)
        self.mapping = nn.Linear(channels, streams * streams)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.relu(self.reduce(x))
        out = torch.relu(self.spatial(out))
        out = self.expand(out)
        logits = self.mapping(x.mean(dim=(2, 3))).unflatten(1, (self.streams, self.streams)) / self.temperature
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
    return [STREAMS, STREAMS * CHANNELS_PER_STREAM, INNER, 20, 0.5]
