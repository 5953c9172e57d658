"""Restricts PyTorch while a model is recorded: it may create, view, fill and copy complete tensors, but not compute."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evokernel.backends.cuda.model import TENSOR_LIBRARY
from evokernel.backends.gpu.torch_guard import CLEAR_OPS, EMPTY, VIEWS, ZEROS
from evokernel.core.errors import CandidateError

NUMBERS = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.bool: 11,
    torch.bfloat16: 15,
}
"""PyTorch's C++ numbers of the types."""
ONES = ("aten::ones", "aten::ones_like", "aten::new_ones")
FULL = ("aten::full", "aten::full_like", "aten::new_full")
FILL_OPS = ("aten::fill_.Scalar",)
COPY_OPS = ("aten::copy_",)
CLONE_OPS = ("aten::clone",)
MOVE_OPS = ("aten::_to_copy",)
READ = ("aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::equal")
COMPUTES = "{name} computes with PyTorch; a model may only create, view, fill and copy complete tensors, write the rest in CUDA"
READS = "{name} reads a tensor on the host, which would wait for the device; decide in a kernel instead"
CONSTANT = "{name} moves its own tensor to the device; only inputs and the reference's parameters are there"


class TensorFactory:
    """Creates tensors at unmapped addresses."""

    def __init__(self, folder: Path) -> None:
        self.library = ctypes.PyDLL(str(folder / TENSOR_LIBRARY))
        self.library.make_tensor.restype = ctypes.py_object

    def __call__(self, address: int, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        if dtype not in NUMBERS:
            raise CandidateError("unsupported", f"a tensor of type {dtype} on the device")
        numbers = ctypes.c_int64 * len(shape)
        made: torch.Tensor = self.library.make_tensor(
            ctypes.c_uint64(address), ctypes.c_int64(len(shape)), numbers(*shape), numbers(*stride), NUMBERS[dtype]
        )
        return made

    def like(self, found: torch.Tensor, address: int) -> torch.Tensor:
        """Creates a tensor at an address with the properties of a meta tensor."""
        return self(address, tuple(found.shape), found.stride(), found.dtype)


class DeviceCallbacks:
    """Callbacks into the recorder for allocation, fill and copy."""

    def __init__(
        self, take: Callable[[int], int], fill: Callable[[int, int, int, int], None], copy: Callable[[int, int, int], None]
    ) -> None:
        self.take, self.fill, self.copy = take, fill, copy


class DispatchGuard(TorchDispatchMode):  # type: ignore[misc]
    """Intercepts every PyTorch operator while it is active, called from Python or C++."""

    def __init__(self, make: TensorFactory, device: DeviceCallbacks) -> None:
        super().__init__()
        self.make, self.device = make, device

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns False, because otherwise PyTorch would load its compiler, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if not uses_device(args, kwargs):
            return func(*args, **kwargs)
        name = func.name()
        said = name.partition("::")[2].partition(".")[0]
        if name in VIEWS:
            return self.view(func, args, kwargs)
        if name in EMPTY:
            return self.allocate(func, args, kwargs)
        if name in ZEROS or name in ONES or name in FULL:
            made = self.allocate(func, args, kwargs)
            value = 0 if name in ZEROS else 1 if name in ONES else args[-1] if len(args) > 1 else kwargs["fill_value"]
            return self.fill(made, value)
        if name in CLEAR_OPS or name in FILL_OPS:
            return self.fill(args[0], args[1] if name in FILL_OPS else 0)
        if name in COPY_OPS:
            return self.copy(args[0], args[1], said)
        if name in CLONE_OPS or name in MOVE_OPS:
            return self.clone(args[0], kwargs, said, is_moved=name in MOVE_OPS)
        raise CandidateError("forbidden", (READS if name in READ else COMPUTES).format(name=said))

    def view(self, func: Any, args: Any, kwargs: Any) -> Any:
        base = args[0] if isinstance(args[0], torch.Tensor) else args[0][0]
        found = func(*to_meta(args), **to_meta(kwargs))
        at = base.data_ptr()
        views = [self.make.like(one, at + one.storage_offset() * one.element_size()) for one in iter_tensors(found)]
        return views[0] if isinstance(found, torch.Tensor) else views

    def allocate(self, func: Any, args: Any, kwargs: Any) -> torch.Tensor:
        kwargs = to_meta(kwargs)
        kwargs |= {"device": "meta"} if "device" in {argument.name for argument in func._schema.arguments} else {}
        kwargs.pop("pin_memory", None)
        found = func(*to_meta(args), **kwargs)
        return self.make.like(found, self.device.take(found.untyped_storage().nbytes()))

    def fill(self, tensor: torch.Tensor, value: Any) -> torch.Tensor:
        bits, width = bit_pattern(value, tensor.dtype)
        refuse_partial_writes(tensor, "set")
        self.device.fill(tensor.data_ptr(), bits, width, tensor.numel() * tensor.element_size())
        return tensor

    def copy(self, target: torch.Tensor, source: torch.Tensor, said: str) -> torch.Tensor:
        if not target.is_cuda or not source.is_cuda:
            raise CandidateError("unsupported", CONSTANT.format(name=said))
        if target.dtype != source.dtype or target.shape != source.shape:
            raise CandidateError("forbidden", COMPUTES.format(name=said))
        refuse_partial_writes(target, "copied")
        refuse_partial_writes(source, "copied")
        self.device.copy(target.data_ptr(), source.data_ptr(), source.numel() * source.element_size())
        return target

    def clone(self, tensor: torch.Tensor, kwargs: dict[str, Any], said: str, is_moved: bool) -> torch.Tensor:
        if not tensor.is_cuda or kwargs.get("device", tensor.device).type != "cuda":
            raise CandidateError("unsupported", CONSTANT.format(name=said))
        if (kwargs.get("dtype") or tensor.dtype) != tensor.dtype:
            raise CandidateError("forbidden", COMPUTES.format(name=said))
        if is_moved:  # it is there already
            return self.make.like(tensor, tensor.data_ptr())
        if not tensor.is_contiguous():
            raise CandidateError("forbidden", f"{said} of a tensor that is not contiguous copies with a PyTorch kernel; write it in CUDA")
        made = self.make.like(tensor, self.device.take(tensor.numel() * tensor.element_size()))
        return self.copy(made, tensor, said)


def uses_device(args: Any, kwargs: Any) -> bool:
    """Whether an operator involves the device."""
    return (
        any(one.is_cuda for one in iter_tensors((args, list(kwargs.values()))))
        or torch.device(kwargs.get("device") or "cpu").type == "cuda"
    )


def iter_tensors(value: Any) -> list[torch.Tensor]:
    """Returns the tensors in nested arguments or results."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [one for item in value for one in iter_tensors(item)] if isinstance(value, list | tuple) else []


def to_meta(value: Any) -> Any:
    """Replaces tensors by meta tensors."""
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, dict):
        return {key: to_meta(item) for key, item in value.items()}
    return type(value)(to_meta(item) for item in value) if isinstance(value, list | tuple) else value


def refuse_partial_writes(tensor: torch.Tensor, done: str) -> None:
    if not tensor.is_contiguous():
        raise CandidateError("unsupported", f"the host can only change contiguous tensors, so this one cannot be {done}; do it in a kernel")


FORMS = {torch.float32: "<f", torch.float64: "<d", torch.float16: "<e", torch.int64: "<q", torch.int32: "<i", torch.int16: "<h"}


def bit_pattern(value: Any, dtype: torch.dtype) -> tuple[int, int]:
    """Returns the bits of a number and the width in bytes of their repetition."""
    if not isinstance(value, int | float):
        raise CandidateError("unsupported", "a tensor is filled with a value that is not a number")
    if dtype == torch.bfloat16:
        data = struct.pack("<f", value)[2:]  # what is cut off are zeros for every number that is set in practice
        if struct.unpack("<f", b"\0\0" + data)[0] != value and value == value:
            raise CandidateError("unsupported", f"a tensor of bfloat16 is set to {value}, which bfloat16 cannot represent")
    elif dtype in FORMS:
        data = struct.pack(FORMS[dtype], value if "f" in FORMS[dtype] or dtype.is_floating_point else int(value))
    else:
        data = struct.pack("<b" if dtype == torch.int8 else "<B", int(value))
    width = next((width for width in (1, 2, 4) if data == data[:width] * (len(data) // width)), 0)
    if not width:
        raise CandidateError("unsupported", f"a tensor of {dtype} is set to {value} from the host; do it in a kernel")
    return int.from_bytes(data[:width], "little"), width
