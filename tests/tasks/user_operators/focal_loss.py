import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Focal loss over logits and targets in [0, 1], mean of all elements."""

    def __init__(self, alpha: float, gamma: float):
        super().__init__()
        self.alpha = alpha
        self.gamma = gamma

    def forward(self, logits, targets):
        p = torch.sigmoid(logits)
        loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        p_t = p * targets + (1 - p) * (1 - targets)
        alpha_t = self.alpha * targets + (1 - self.alpha) * (1 - targets)
        return (alpha_t * (1 - p_t) ** self.gamma * loss).mean()


def get_inputs():
    return [torch.randn(1024, 256), (torch.rand(1024, 256) > 0.5).float()]


def get_init_inputs():
    return [0.25, 2.0]
