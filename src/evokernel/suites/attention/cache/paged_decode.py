"""One step of decoding on a paged cache: a table names each sequence's blocks in a common pool, a length says how many tokens count."""

import torch
import torch.nn as nn

BATCH = 6
BLOCKS = 32
BLOCK_SIZE = 16
KEY_HEADS = 4
GROUP = 3
HEAD_DIM = 64
SIZES = {
    "small": {"BLOCKS": 5, "BLOCK_SIZE": 8, "HEAD_DIM": 24},
    "held_out": {"BATCH": 5, "BLOCKS": 7, "BLOCK_SIZE": 11, "KEY_HEADS": 3, "GROUP": 5, "HEAD_DIM": 19},
}


class Model(nn.Module):
    def forward(
        self, q: torch.Tensor, key_pool: torch.Tensor, value_pool: torch.Tensor, table: torch.Tensor, length: torch.Tensor
    ) -> torch.Tensor:
        keys = key_pool[table].flatten(1, 2)
        values = value_pool[table].flatten(1, 2)
        scores = torch.einsum("bngd,bjnd->bngj", q.unflatten(1, (keys.shape[2], -1)), keys) / q.shape[-1] ** 0.5
        unused = torch.arange(keys.shape[1]) >= length[:, None]
        weights = torch.softmax(scores.masked_fill(unused[:, None, None, :], float("-inf")), dim=-1)
        return torch.einsum("bngj,bjnd->bngd", weights, values).flatten(1, 2)


def get_inputs():
    shape = (BATCH * BLOCKS, BLOCK_SIZE, KEY_HEADS, HEAD_DIM)
    q = torch.randn(BATCH, KEY_HEADS * GROUP, HEAD_DIM) * 2
    table = torch.randperm(BATCH * BLOCKS).view(BATCH, BLOCKS)
    length = torch.randint(1, BLOCKS * BLOCK_SIZE + 1, (BATCH,))
    return [q, torch.randn(shape), torch.randn(shape), table, length]


def get_init_inputs():
    return []
