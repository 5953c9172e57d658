"""Gated linear attention: S_t = diag(a_t) S_(t-1) + k_t v_t^T with a = sigmoid(gate)^(1/16), read as q_t S_t / sqrt(d)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

FAMILY = "attention"
BATCH = 2
HEADS = 8
LENGTH = 128
KEY_DIM = 32
VALUE_DIM = 64


class Model(nn.Module):
    def __init__(self, gate_divisor: float):
        super().__init__()
        self.gate_divisor = gate_divisor

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        keep = torch.exp(F.logsigmoid(gate) / self.gate_divisor)
        state = torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1])
        outputs = []
        for t in range(q.shape[2]):
            state = keep[:, :, t, :, None] * state + k[:, :, t, :, None] * v[:, :, t, None, :]
            outputs.append(torch.matmul(q[:, :, t, None, :], state))
        return torch.cat(outputs, dim=2) / q.shape[-1] ** 0.5


def get_inputs():
    keys = (BATCH, HEADS, LENGTH, KEY_DIM)
    return [torch.randn(keys), torch.randn(keys), torch.randn(BATCH, HEADS, LENGTH, VALUE_DIM), torch.randn(keys) * 2]


def get_init_inputs():
    return [16.0]
