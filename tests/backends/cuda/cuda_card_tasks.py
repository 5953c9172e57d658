"""What the complete kernels on the cuda backend's cards are kernels for: a task of the starter suite, or a small one written out here."""

from __future__ import annotations

from pathlib import Path

STARTER = {
    "activation-forms": "gelu",
    "argmax-ties": "argmax",
    "block-reduction": "sum_rows",
    "clusters": "sum_rows",
    "cross-entropy": "cross_entropy",
    "fuse-epilogue": "linear_gelu",
    "gather-rows": "embedding",
    "online-softmax": "softmax",
    "register-tiling": "matmul",
    "scan-rows": "cumsum",
    "tensor-core-float32-matmul": "matmul",
    "tiled-matmul": "matmul",
}
OWN = {
    "grid-stride-loop": "torch.nn.functional.silu(x)",
    "grid-sync": "x - x.mean()",
    "reduce-outer-axis": "x.sum(0)",
    "scratch-memory": "x / (1 + x.abs().sum(1, keepdim=True))",
    "several-outputs": "(x.amin(dim=1), x.amax(dim=1))",
    "sum-to-one-number": "torch.linalg.vector_norm(x)",
    "transpose": "x.t().contiguous()",
    "vector-tails": "torch.nn.functional.softsign(x)",
}
FORM = '''"""What a card computes."""

import torch
from torch import nn

ROWS = 384
COLS = 512


class Model(nn.Module):
    def forward(self, x: torch.Tensor):
        return {expression}


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
'''
ENTRY = '''"""What the card on the entry point computes."""

import torch
from torch import nn

ROWS = 384
COLS = 512


class Model(nn.Module):
    def __init__(self, factor: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(COLS))
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight * self.factor


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [0.5]
'''
CARDS = sorted([*STARTER, *OWN, "entry-point"])


def task(card: str, folder: Path) -> str:
    """How `load` is told of a card's task."""
    if card in STARTER:
        return f"starter/{STARTER[card]}"
    place = folder / f"{card.replace('-', '_')}.py"
    place.write_text(ENTRY if card == "entry-point" else FORM.format(expression=OWN[card]))
    return str(place)
