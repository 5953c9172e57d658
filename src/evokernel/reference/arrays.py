"""Converts between torch tensors and the contiguous arrays that kernels receive."""

from __future__ import annotations

import torch

from evokernel.core.backend import Array
from evokernel.core.errors import UserError

DTYPES: dict[torch.dtype, str] = {
    getattr(torch, name): name
    for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64")
}


def dtype_name(tensor: torch.Tensor) -> str:
    """Return the dtype name as in `core.records.Tensor`. Raises UserError for unsupported dtypes and layouts."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.dtype not in DTYPES:
        kind = str(tensor.dtype if tensor.layout == torch.strided else tensor.layout).removeprefix("torch.")
        raise UserError(f"{kind} tensors are not supported; use one of {', '.join(DTYPES.values())}")
    return DTYPES[tensor.dtype]


def to_array(name: str, tensor: torch.Tensor) -> Array:
    """Convert a tensor to a row-major array, sharing memory if possible; bfloat16 becomes its bits as uint16."""
    dtype = dtype_name(tensor)
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if dtype == "bfloat16":
        plain = plain.view(torch.uint16)
    return Array(name, dtype, plain.numpy())


def from_array(array: Array) -> torch.Tensor:
    """Copy an array into a tensor, so that the process that wrote the array cannot change the values afterwards."""
    tensor = torch.from_numpy(array.data.copy())
    return tensor.view(torch.bfloat16) if array.dtype == "bfloat16" else tensor
