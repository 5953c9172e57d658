"""Messages along the edges of a graph, added up at the nodes they arrive at: out[index[e]] += messages[e]."""

import torch
import torch.nn as nn

NODES = 2048
EDGES = 8192
DIM = 96


class Model(nn.Module):
    def forward(self, nodes: torch.Tensor, index: torch.Tensor, messages: torch.Tensor) -> torch.Tensor:
        return torch.index_add(nodes, 0, index, messages)


def get_inputs():
    return [torch.randn(NODES, DIM), torch.randint(0, NODES, (EDGES,)), torch.randn(EDGES, DIM)]


def get_init_inputs():
    return []
