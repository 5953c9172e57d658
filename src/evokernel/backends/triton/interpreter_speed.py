"""Shortcuts in Triton's interpreter, which derives types and shapes anew for every operation of every program."""

from __future__ import annotations

from typing import Any

import numpy as np
from triton.language import core, standard
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

ORDERED = ("fp16", "fp32", "fp64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
"""Types whose numbers the interpreter stores as NumPy's."""


def patch_types() -> None:
    """Patches the interpreter, once per process."""
    cache_block_types()
    cache_shapes()
    cache_numpy_types()
    skip_equal_shapes()
    sort_with_numpy()


def cache_block_types() -> None:
    initialize, known = core.block_type.__init__, dict[Any, dict[str, Any]]()

    def initialize_once(block: Any, element_ty: Any, shape: Any) -> None:
        key = (str(element_ty), *(size.value if isinstance(size, core.constexpr) else size for size in shape))
        if key not in known:
            initialize(block, element_ty, shape)
            known[key] = dict(vars(block))
        vars(block).update(known[key])

    core.block_type.__init__ = initialize_once


def cache_shapes() -> None:
    initialize, known = core.tensor.__init__, dict[Any, tuple[Any, Any]]()

    def initialize_once(tensor: Any, handle: Any, type: Any) -> None:
        key = tuple(type.shape) if type.is_block() else ()
        if key not in known:
            initialize(tensor, handle, type)
            known[key] = tensor.numel, tensor.shape
        tensor.handle, tensor.type, tensor.dtype = handle, type, type.scalar
        tensor.numel, tensor.shape = known[key]

    core.tensor.__init__ = initialize_once


def cache_numpy_types() -> None:
    find, known = interpreter._get_np_dtype, dict[str, np.dtype[Any]]()

    def find_once(kind: Any) -> np.dtype[Any]:
        name = str(kind.scalar)
        if name not in known:
            known[name] = find(kind)
        return known[name]

    interpreter._get_np_dtype = find_once


def skip_equal_shapes() -> None:
    broadcast = TritonSemantic.broadcast_impl_value

    def broadcast_different(semantic: Any, left: Any, right: Any) -> Any:
        if left.type.is_block() and right.type.is_block() and list(left.type.shape) == list(right.type.shape):
            return left, right
        return broadcast(semantic, left, right)

    TritonSemantic.broadcast_impl_value = broadcast_different


def sort_with_numpy() -> None:
    """Replaces the network of comparisons, which takes a hundred operations, for types that NumPy orders."""
    by_network = standard.sort_impl

    def sort(x: Any, k: Any = None, dim: Any = None, descending: Any = False) -> Any:
        if str(x.dtype) not in ORDERED or np.isnan(x.handle.data).any():
            return by_network(x, k, dim, descending)
        count = x.handle.data.shape[-1] if k is None else int(core._unwrap_if_constexpr(k))
        data = np.sort(x.handle.data, axis=-1)
        data = data[..., ::-1] if core._unwrap_if_constexpr(descending) else data
        data = np.ascontiguousarray(data[..., :count])
        return core.tensor(interpreter.TensorHandle(data, x.dtype), core.block_type(x.dtype, list(data.shape)))

    standard.sort_impl = sort
