"""What precedes a hyper-connected layer: from the streams the layer's input, the write weights and the doubly stochastic mixing matrix."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 768
STREAMS = 4
WIDTH = 320


class Model(nn.Module):
    def __init__(self, iterations: int, eps: float):
        super().__init__()
        self.iterations = iterations
        self.eps = eps

    def forward(
        self, residual: torch.Tensor, projection: torch.Tensor, scale: torch.Tensor, base: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        tokens, streams, _ = residual.shape
        flat = residual.flatten(1)
        logits = F.linear(flat, projection) * torch.rsqrt(flat.square().mean(dim=-1, keepdim=True) + self.eps)
        read = torch.sigmoid(logits[:, :streams] * scale[0] + base[:streams]) + self.eps
        write = 2 * torch.sigmoid(logits[:, streams : 2 * streams] * scale[1] + base[streams : 2 * streams])
        mixing = (logits[:, 2 * streams :] * scale[2] + base[2 * streams :]).view(tokens, streams, streams)
        mixing = torch.softmax(mixing, dim=-1) + self.eps
        mixing = mixing / (mixing.sum(dim=-2, keepdim=True) + self.eps)
        for _ in range(self.iterations - 1):
            mixing = mixing / (mixing.sum(dim=-1, keepdim=True) + self.eps)
            mixing = mixing / (mixing.sum(dim=-2, keepdim=True) + self.eps)
        return (read.unsqueeze(-1) * residual).sum(dim=1), write.unsqueeze(-1), mixing


def get_inputs():
    outputs = STREAMS * (STREAMS + 2)
    projection = torch.randn(outputs, STREAMS * WIDTH) / (STREAMS * WIDTH) ** 0.5
    scale = torch.tensor([0.5, 1.0, 1.5]) + torch.rand(3) * 0.2
    return [torch.randn(TOKENS, STREAMS, WIDTH) * 2, projection, scale, torch.randn(outputs)]


def get_init_inputs():
    return [20, 1e-6]
