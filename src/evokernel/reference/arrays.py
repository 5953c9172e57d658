"""Between torch tensors and the contiguous arrays a kernel sees."""

from __future__ import annotations

import torch

from evokernel.core.errors import UserError
from evokernel.core.protocols import Array

DTYPES: dict[torch.dtype, str] = {
    getattr(torch, name): name for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
}


def dtype_name(tensor: torch.Tensor) -> str:
    """The dtype as `core.records.Tensor` spells it; a dtype or layout no kernel can be given is refused."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.dtype not in DTYPES:
        kind = str(tensor.dtype if tensor.layout == torch.strided else tensor.layout).removeprefix("torch.")
        raise UserError(f"{kind} tensors are not supported; use one of {', '.join(DTYPES.values())}")
    return DTYPES[tensor.dtype]


def to_array(name: str, tensor: torch.Tensor) -> Array:
    """A row-major array of the same values, sharing memory when it can; bfloat16 becomes its bits as uint16."""
    dtype = dtype_name(tensor)
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if dtype == "bfloat16":
        plain = plain.view(torch.uint16)
    return Array(name, dtype, plain.numpy())


def from_array(array: Array) -> torch.Tensor:
    """The tensor an array holds; a copy, so that whoever wrote the array can change nothing afterwards."""
    tensor = torch.from_numpy(array.data.copy())
    return tensor.view(torch.bfloat16) if array.dtype == "bfloat16" else tensor
