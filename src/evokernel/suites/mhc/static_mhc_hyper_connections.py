"""Hyper-connections with fixed learned weights: log-domain Sinkhorn mixing, softmax read and write, and a linear branch."""

import torch
import torch.nn as nn

TOKENS = 1024
STREAMS = 4
WIDTH = 256
FAMILY = "fuse"


class Model(nn.Module):
    def __init__(self, streams: int, width: int, iterations: int, temperature: float):
        super().__init__()
        self.iterations = iterations
        self.temperature = temperature
        self.mix_logits = nn.Parameter(torch.randn(streams, streams) * temperature)
        self.read_logits = nn.Parameter(torch.randn(streams))
        self.write_logits = nn.Parameter(torch.randn(streams))
        self.branch = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        log_mix = self.mix_logits / self.temperature
        for _ in range(self.iterations):
            log_mix = log_mix - torch.logsumexp(log_mix, dim=0, keepdim=True)
            log_mix = log_mix - torch.logsumexp(log_mix, dim=1, keepdim=True)
        inner = torch.einsum("n,tnc->tc", torch.softmax(self.read_logits, dim=0), x)
        write = torch.softmax(self.write_logits, dim=0)
        mixed = torch.einsum("mn,tnc->tmc", torch.exp(log_mix), x)
        return mixed + write[None, :, None] * self.branch(inner).unsqueeze(1)


def get_inputs():
    return [torch.randn(TOKENS, STREAMS, WIDTH) * 2]


def get_init_inputs():
    return [STREAMS, WIDTH, 20, 0.05]
