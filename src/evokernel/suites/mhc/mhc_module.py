"""A feed-forward layer inside hyper-connections: x' = H_res x + H_post^T F(H_pre x), with all H computed per token from x."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 512
STREAMS = 4
WIDTH = 128
HIDDEN = 512


class Model(nn.Module):
    def __init__(self, streams: int, width: int, hidden: int, iterations: int):
        super().__init__()
        self.iterations = iterations
        total = streams * width
        self.norm_weight = nn.Parameter(torch.rand(total) + 0.5)
        self.phi = nn.Parameter(torch.randn(total, 2 * streams + streams * streams) / total**0.5)
        self.gates = nn.Parameter(torch.tensor([0.5, 1.0, 1.5]) + torch.rand(3) * 0.2)
        self.bias_read = nn.Parameter(torch.randn(streams))
        self.bias_write = nn.Parameter(torch.randn(streams))
        self.bias_mix = nn.Parameter(torch.randn(streams, streams))
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def weights(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        streams = x.shape[1]
        raw = F.rms_norm(x.flatten(1), self.norm_weight.shape, self.norm_weight, 1e-6) @ self.phi
        read = torch.sigmoid(self.gates[0] * raw[:, :streams] + self.bias_read)
        write = 2 * torch.sigmoid(self.gates[1] * raw[:, streams : 2 * streams] + self.bias_write)
        logits = self.gates[2] * raw[:, 2 * streams :].unflatten(1, (streams, streams)) + self.bias_mix
        mix = torch.exp(logits - logits.amax(dim=(-2, -1), keepdim=True))
        for _ in range(self.iterations):
            mix = mix / mix.sum(dim=-2, keepdim=True)
            mix = mix / mix.sum(dim=-1, keepdim=True)
        return read, write, mix

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        read, write, mix = self.weights(x)
        inner = torch.einsum("tn,tnc->tc", read, x)
        inner = self.down(F.gelu(self.up(inner)))
        return torch.matmul(mix, x) + write.unsqueeze(-1) * inner.unsqueeze(1)


def get_inputs():
    return [torch.randn(TOKENS, STREAMS, WIDTH) * 2]


def get_init_inputs():
    return [STREAMS, WIDTH, HIDDEN, 20]
