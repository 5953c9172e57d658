"""Backward pass of attention: from the output's gradient to those of queries, keys and values; the weights are computed again."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 6
QUERIES = 256
KEYS = 224
HEAD_DIM = 64


class Model(nn.Module):
    def forward(
        self, grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        scale = q.shape[-1] ** -0.5
        weights = torch.softmax(q @ k.transpose(-2, -1) * scale, dim=-1)
        grad_weights = grad @ v.transpose(-2, -1)
        grad_scores = weights * (grad_weights - (weights * grad_weights).sum(dim=-1, keepdim=True)) * scale
        return grad_scores @ k, grad_scores.transpose(-2, -1) @ q, weights.transpose(-2, -1) @ grad


def get_inputs():
    grad = torch.randn(BATCH, HEADS, QUERIES, HEAD_DIM)
    q = torch.randn(BATCH, HEADS, QUERIES, HEAD_DIM) * 2
    return [grad, q, torch.randn(BATCH, HEADS, KEYS, HEAD_DIM), torch.randn(BATCH, HEADS, KEYS, HEAD_DIM)]


def get_init_inputs():
    return []
