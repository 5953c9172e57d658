# selftest: task=starter/softmax gate=screen,build reason=forbidden
"""Has torch's compiler write the kernel."""

import torch


@torch.compile
def work(x, out):
    out.copy_(torch.softmax(x, dim=-1))


def kernel(x, out):
    work(x, out)
