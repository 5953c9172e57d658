"""Sigmoid attention: sigmoid(q k^T / sqrt(d) - log(keys)) v, without a sum over the keys to divide by."""

import math

import torch
import torch.nn as nn

FAMILY = "attention"
BATCH = 2
HEADS = 4
QUERIES = 384
KEYS = 512
HEAD_DIM = 64


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        return torch.matmul(torch.sigmoid(scores - math.log(k.shape[2])), v)


def get_inputs():
    q, k = torch.randn(BATCH, HEADS, QUERIES, HEAD_DIM) * 2, torch.randn(BATCH, HEADS, KEYS, HEAD_DIM)
    return [q, k, torch.randn(BATCH, HEADS, KEYS, HEAD_DIM)]


def get_init_inputs():
    return []
