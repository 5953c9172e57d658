"""Counts the input elements on which the outputs depend: every kernel must read at least these.

The count uses derivatives and is a lower bound: a kernel may also have to read elements whose derivative is zero.
"""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_leaves

from evokernel.reference.module import Reference


def count_required_input_bytes(reference: Reference) -> float:
    """Return the bytes of inputs and parameters that one call must read; 0 if the reference is not differentiable."""
    sample = reference.sample(0)
    leaves = [tensor for _, tensor in (*sample.inputs, *sample.params) if tensor.is_floating_point() and tensor.is_leaf]
    try:
        for tensor in leaves:
            tensor.requires_grad_()
        with torch.enable_grad():
            outputs = [leaf for leaf in tree_leaves(sample.module(*sample.args)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
            chance = torch.Generator().manual_seed(0)
            weights = [(torch.rand(output.shape, generator=chance) + 0.5).to(output.dtype) for output in outputs]
            gradients = torch.autograd.grad(outputs, leaves, weights, allow_unused=True)
    except RuntimeError:  # not differentiable, or the reference writes into its inputs
        return 0.0
    return float(sum(int(gradient.count_nonzero()) * gradient.element_size() for gradient in gradients if gradient is not None))
