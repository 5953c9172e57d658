# selftest: task=starter/softmax gate=screen,build reason=forbidden
"""An operator by its inner name."""

import torch


def kernel(x, out):
    torch.ops.aten._softmax.out(x, -1, False, out=out)
