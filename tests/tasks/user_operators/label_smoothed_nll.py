import torch
import torch.nn as nn


class Model(nn.Module):
    """Cross entropy with label smoothing written out, mean over the rows."""

    def __init__(self, smoothing: float):
        super().__init__()
        self.smoothing = smoothing

    def forward(self, logits, targets):
        log_p = torch.log_softmax(logits, dim=-1)
        nll = -log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        smooth = -log_p.mean(dim=-1)
        return ((1 - self.smoothing) * nll + self.smoothing * smooth).mean()


def get_inputs():
    return [torch.randn(512, 1000), torch.randint(0, 1000, (512,))]


def get_init_inputs():
    return [0.1]
