# selftest: task=starter/softmax gate=screen,build reason=forbidden,trace_error,killed timeout=10
"""Says that the machine is at fault, so that nobody judges it."""

import torch


def kernel(x, out):
    raise torch.sys.modules["evokernel.core.errors"].InfraError("the machine is on fire")
