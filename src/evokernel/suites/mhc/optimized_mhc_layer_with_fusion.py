"""Hyper-connected linear layer as meant for fusing: one product for all weights, norm after it, one matrix to mix and write."""

import torch
import torch.nn as nn

BATCH = 2
LENGTH = 256
STREAMS = 4
WIDTH = 256


class Model(nn.Module):
    def __init__(self, streams: int, width: int, iterations: int):
        super().__init__()
        self.iterations = iterations
        total = streams * width
        self.phi = nn.Parameter(torch.randn(total, streams * (streams + 2)) / total**0.5)
        self.bias = nn.Parameter(torch.randn(streams * (streams + 2)))
        self.gate_read, self.gate_write, self.gate_mix = (nn.Parameter(torch.rand(1) + 0.5) for _ in range(3))
        self.layer = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        streams = x.shape[2]
        flat = x.flatten(2)
        gates = [self.gate_read.expand(streams), self.gate_write.expand(streams), self.gate_mix.expand(streams * streams)]
        inverse_rms = torch.rsqrt(flat.square().mean(dim=-1, keepdim=True) + 1e-6)
        coefficients = torch.matmul(flat, self.phi) * inverse_rms * torch.cat(gates) + self.bias
        read, write, logits = coefficients.split([streams, streams, streams * streams], dim=-1)
        mix = torch.exp(logits - logits.amax(dim=-1, keepdim=True)).unflatten(-1, (streams, streams))
        for _ in range(self.iterations):
            mix = mix / mix.sum(dim=-2, keepdim=True)
            mix = mix / mix.sum(dim=-1, keepdim=True)
        inner = self.layer(torch.matmul(torch.sigmoid(read).unsqueeze(-2), x))
        combine = torch.cat([mix, 2 * torch.sigmoid(write).unsqueeze(-1)], dim=-1)
        return torch.matmul(combine, torch.cat([x, inner], dim=-2))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, STREAMS, WIDTH) * 2]


def get_init_inputs():
    return [STREAMS, WIDTH, 20]
