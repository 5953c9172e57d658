"""Delta rule: S_t = S_(t-1) + b_t k_t (v_t - S_(t-1)^T k_t)^T with keys of length one and b = sigmoid(beta), read as S_t^T q_t."""

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
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        k, rate = F.normalize(k, dim=-1), torch.sigmoid(beta)
        state = torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1])
        outputs = []
        for t in range(q.shape[2]):
            key = k[:, :, t, None, :]
            miss = v[:, :, t, None, :] - torch.matmul(key, state)
            state = state + key.transpose(-2, -1) * (rate[:, :, t, None, None] * miss)
            outputs.append(torch.matmul(q[:, :, t, None, :], state))
        return torch.cat(outputs, dim=2)


def get_inputs():
    keys = (BATCH, HEADS, LENGTH, KEY_DIM)
    return [torch.randn(keys), torch.randn(keys), torch.randn(BATCH, HEADS, LENGTH, VALUE_DIM), torch.randn(BATCH, HEADS, LENGTH)]


def get_init_inputs():
    return []
