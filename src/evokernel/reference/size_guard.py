"""Lets a reference run with values while it stays small, before its shapes are known.

Computing shapes without values takes two to three seconds in a new process, because PyTorch then loads SymPy and its compiler.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evokernel.core.errors import UserError
from evokernel.reference.reduction_length import PRODUCTS, collect_tensors

MAX_ELEMENTS = 1 << 24
"""The most elements that all operators together create."""
MAX_OPERATIONS = 1 << 32
"""The most operations that all operators together take."""
OP_NAMES = """
    _local_scalar_dense _to_copy _unsafe_view cat clone copy copy_ fill fill_ flip stack tril triu uniform_ zero_
"""
SIZE_KEEPING_OPS = frozenset(OP_NAMES.split())
"""Operators whose outputs have as many elements as their inputs."""
SIZE_KEEPING_PARTS = ("softmax", "norm", "cum", "_like")
"""Parts of the names of further such operators."""


class SizeLimitExceeded(UserError):
    """An operator is or may be too large. A UserError, because the error handling of task files passes it on unchanged."""


class SizeGuard(TorchDispatchMode):  # type: ignore[misc]
    """Dispatch mode that refuses operators that are too large, and those whose size it cannot tell from their arguments."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: otherwise torch would load its compiler, which takes seconds."""
        return False

    def __init__(self) -> None:
        super().__init__()
        self.elements, self.operations = 0.0, 0.0

    @property
    def is_exceeded(self) -> bool:
        """Whether an operator was refused, even if the reference caught the error."""
        return self.elements > MAX_ELEMENTS or self.operations > MAX_OPERATIONS

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator, or raise SizeLimitExceeded."""
        elements, operations = estimate_size(func, args, kwargs or {})
        self.elements += elements
        self.operations += operations
        if self.is_exceeded:
            raise SizeLimitExceeded(f"{func} may be too large to run before its shapes are known")
        return func(*args, **(kwargs or {}))


def estimate_size(func: Any, args: Any, kwargs: Any) -> tuple[float, float]:
    """Return how many elements an operator creates and how many operations it takes; infinity if its arguments do not tell."""
    if func.is_view:
        return 0.0, 0.0
    name = func._overloadpacket.__name__
    if name in PRODUCTS:
        first, second = args[PRODUCTS[name] : PRODUCTS[name] + 2]
        operations = 2.0 * first.numel() * second.shape[-1]
        return operations / (2 * max(1, first.shape[-1])), operations
    tensors = collect_tensors((args, kwargs))
    elements: float
    if torch.Tag.pointwise in func.tags:
        elements = math.prod(np.broadcast_shapes(*(tensor.shape for tensor in tensors)))  # torch's own function loads SymPy
    elif not tensors:
        sizes = [math.prod(value) for value in args if isinstance(value, list | tuple) and all(isinstance(one, int) for one in value)]
        elements = max(sizes, default=math.inf)
    elif torch.Tag.reduction in func.tags or name in SIZE_KEEPING_OPS or any(part in name for part in SIZE_KEEPING_PARTS):
        elements = sum(tensor.numel() for tensor in tensors)
    else:
        elements = math.inf
    return elements, elements
