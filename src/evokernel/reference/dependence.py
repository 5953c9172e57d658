"""Which part of each input the outputs depend on, element by element: that much no kernel can leave unread.

Found from derivatives, so that it is never too much: an element whose derivative is nought may still have to be looked at.
"""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_leaves

from evokernel.reference.module import Reference


def needed_bytes(reference: Reference) -> float:
    """Of inputs and parameters, for one call; 0 where derivatives cannot be had."""
    sample = reference.sample(0)
    wanted = [tensor for _, tensor in (*sample.inputs, *sample.params) if tensor.is_floating_point() and tensor.is_leaf]
    try:
        for tensor in wanted:
            tensor.requires_grad_()
        with torch.enable_grad():
            found = [leaf for leaf in tree_leaves(sample.module(*sample.args)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
            chance = torch.Generator().manual_seed(0)
            weights = [(torch.rand(output.shape, generator=chance) + 0.5).to(output.dtype) for output in found]
            gradients = torch.autograd.grad(found, wanted, weights, allow_unused=True)
    except RuntimeError:  # no derivative, or a reference that writes into its inputs
        return 0.0
    return float(sum(int(gradient.count_nonzero()) * gradient.element_size() for gradient in gradients if gradient is not None))
