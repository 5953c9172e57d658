"""S2 attention: three projections, two with quarters of the channels shifted by one place, mixed by split attention, projected."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
HEIGHT = 24
WIDTH = 28
QUARTER = 24
CHANNELS = 4 * QUARTER
SIZES = {"small": {"HEIGHT": 12, "WIDTH": 14, "QUARTER": 8}, "held_out": {"BATCH": 3, "HEIGHT": 11, "WIDTH": 17, "QUARTER": 7}}


def shift(x: torch.Tensor, dim: int, back: bool) -> torch.Tensor:
    count = x.shape[dim]
    kept = [x.narrow(dim, 1, count - 1), x.narrow(dim, count - 1, 1)] if back else [x.narrow(dim, 0, 1), x.narrow(dim, 0, count - 1)]
    return torch.cat(kept, dim=dim)


def quarters(x: torch.Tensor, first: int, second: int) -> torch.Tensor:
    a, b, c, d = x.chunk(4, dim=3)
    return torch.cat([shift(a, first, False), shift(b, first, True), shift(c, second, False), shift(d, second, True)], dim=3)


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.expand = nn.Linear(channels, 3 * channels)
        self.hidden = nn.Linear(channels, channels, bias=False)
        self.split = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, two, three = self.expand(x).chunk(3, dim=3)
        parts = torch.stack([quarters(one, 1, 2), quarters(two, 2, 1), three], dim=1)
        scores = self.split(F.gelu(self.hidden(parts.mean(dim=(2, 3)).sum(dim=1)))).unflatten(1, (3, -1))
        shares = torch.softmax(scores, dim=1)[:, :, None, None]
        return self.out((shares * parts).sum(dim=1))


def get_inputs():
    return [(torch.randn(BATCH, HEIGHT, WIDTH, CHANNELS) + torch.randn(BATCH, 1, 1, CHANNELS)) * 3]


def get_init_inputs():
    return [CHANNELS]
