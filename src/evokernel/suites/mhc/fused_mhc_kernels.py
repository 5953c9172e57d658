"""All connection weights by one product: h = a (x phi) / rms(x) + b, divided after it; then sigmoid, 2 sigmoid and Sinkhorn-Knopp."""

import torch
import torch.nn as nn

BATCH = 4
LENGTH = 256
STREAMS = 4
WIDTH = 256


class Model(nn.Module):
    def __init__(self, streams: int, width: int, iterations: int):
        super().__init__()
        self.iterations = iterations
        self.split = [streams, streams, streams * streams]
        total = streams * width
        self.phi = nn.Parameter(torch.randn(total, sum(self.split)) / total**0.5)
        self.bias = nn.Parameter(torch.randn(sum(self.split)))
        self.gates = nn.Parameter(torch.tensor([0.5, 1.0, 1.5]) + torch.rand(3) * 0.2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        batch, length, streams, _ = x.shape
        flat = x.flatten(2)
        inverse_rms = torch.rsqrt(flat.square().mean(dim=-1, keepdim=True) + 1e-6)
        raw = torch.matmul(flat, self.phi) * inverse_rms
        scaled = [gate * part for gate, part in zip(self.gates, raw.split(self.split, dim=-1))]
        read, write, logits = (torch.cat(scaled, dim=-1) + self.bias).split(self.split, dim=-1)
        mix = torch.exp(logits - logits.amax(dim=-1, keepdim=True)).view(batch, length, streams, streams)
        for _ in range(self.iterations):
            mix = mix / mix.sum(dim=-2, keepdim=True)
            mix = mix / mix.sum(dim=-1, keepdim=True)
        return torch.sigmoid(read), 2 * torch.sigmoid(write), mix


def get_inputs():
    return [torch.randn(BATCH, LENGTH, STREAMS, WIDTH) * 2]


def get_init_inputs():
    return [STREAMS, WIDTH, 20]
