"""Connection weights per token: h = a (rmsnorm(x) phi) + b; sigmoid(h) to read, 2 sigmoid(h) to write, Sinkhorn-Knopp of h to mix."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 1024
STREAMS = 4
WIDTH = 256


def sinkhorn(logits: torch.Tensor, iterations: int) -> torch.Tensor:
    matrix = torch.exp(logits - logits.amax(dim=(-2, -1), keepdim=True))
    for _ in range(iterations):
        matrix = matrix / matrix.sum(dim=-2, keepdim=True)
        matrix = matrix / matrix.sum(dim=-1, keepdim=True)
    return matrix


class Model(nn.Module):
    def __init__(self, streams: int, width: int, iterations: int):
        super().__init__()
        self.iterations = iterations
        total = streams * width
        self.norm_weight = nn.Parameter(torch.rand(total) + 0.5)
        self.phi_read = nn.Parameter(torch.randn(total, streams) / total**0.5)
        self.phi_write = nn.Parameter(torch.randn(total, streams) / total**0.5)
        self.phi_mix = nn.Parameter(torch.randn(total, streams * streams) / total**0.5)
        self.gates = nn.Parameter(torch.tensor([0.5, 1.0, 1.5]) + torch.rand(3) * 0.2)
        self.bias_read = nn.Parameter(torch.randn(streams))
        self.bias_write = nn.Parameter(torch.randn(streams))
        self.bias_mix = nn.Parameter(torch.randn(streams, streams))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        flat = x.flatten(1)
        flat = F.rms_norm(flat, flat.shape[1:], self.norm_weight, 1e-6)
        read = torch.sigmoid(self.gates[0] * (flat @ self.phi_read) + self.bias_read)
        write = 2 * torch.sigmoid(self.gates[1] * (flat @ self.phi_write) + self.bias_write)
        mix = self.gates[2] * (flat @ self.phi_mix).unflatten(1, self.bias_mix.shape) + self.bias_mix
        return read, write, sinkhorn(mix, self.iterations)


def get_inputs():
    return [torch.randn(TOKENS, STREAMS, WIDTH) * 2]


def get_init_inputs():
    return [STREAMS, WIDTH, 20]
