"""What a model may do with PyTorch while it is recorded: take tensors and views of them, set and copy whole ones. Nothing that computes."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evokernel.backends.cuda.model import STAND_IN
from evokernel.backends.gpu.torch_guard import CLEARED, EMPTY, VIEWS, ZEROS
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
"""By which C++ knows the types."""
ONES = ("aten::ones", "aten::ones_like", "aten::new_ones")
FULL = ("aten::full", "aten::full_like", "aten::new_full")
FILLED = ("aten::fill_.Scalar",)
COPIED = ("aten::copy_",)
CLONED = ("aten::clone",)
MOVED = ("aten::_to_copy",)
READ = ("aten::_local_scalar_dense", "aten::item", "aten::is_nonzero", "aten::equal")
COMPUTES = "{name} computes with PyTorch: a model may take tensors and views of them, set and copy whole ones; write the rest in CUDA"
READS = "{name} reads a tensor on the host, which has to wait for the device: decide it in a kernel"
CONSTANT = "{name} takes a tensor of its own to the device: only inputs and the reference's parameters are there"


class Maker:
    """Makes tensors at addresses where nothing is."""

    def __init__(self, folder: Path) -> None:
        self.library = ctypes.PyDLL(str(folder / STAND_IN))
        self.library.stand_in.restype = ctypes.py_object

    def __call__(self, address: int, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        if dtype not in NUMBERS:
            raise CandidateError("unsupported", f"a tensor of type {dtype} on the device")
        numbers = ctypes.c_int64 * len(shape)
        made: torch.Tensor = self.library.stand_in(
            ctypes.c_uint64(address), ctypes.c_int64(len(shape)), numbers(*shape), numbers(*stride), NUMBERS[dtype]
        )
        return made

    def like(self, found: torch.Tensor, address: int) -> torch.Tensor:
        """At an address, what is known of a tensor without contents."""
        return self(address, tuple(found.shape), found.stride(), found.dtype)


class Device:
    """What happens there. Addresses are the recorder's."""

    def __init__(
        self, take: Callable[[int], int], fill: Callable[[int, int, int, int], None], copy: Callable[[int, int, int], None]
    ) -> None:
        self.take, self.fill, self.copy = take, fill, copy


class Stage(TorchDispatchMode):  # type: ignore[misc]
    """While it is entered, every operator of PyTorch comes by here, whether Python or C++ called it."""

    def __init__(self, make: Maker, device: Device) -> None:
        super().__init__()
        self.make, self.device = make, device

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: PyTorch would load its compiler for that, which takes seconds."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if not is_there(args, kwargs):
            return func(*args, **kwargs)
        name = func.name()
        said = name.partition("::")[2].partition(".")[0]
        if name in VIEWS:
            return self.view(func, args, kwargs)
        if name in EMPTY:
            return self.taken(func, args, kwargs)
        if name in ZEROS or name in ONES or name in FULL:
            made = self.taken(func, args, kwargs)
            value = 0 if name in ZEROS else 1 if name in ONES else args[-1] if len(args) > 1 else kwargs["fill_value"]
            return self.filled(made, value)
        if name in CLEARED or name in FILLED:
            return self.filled(args[0], args[1] if name in FILLED else 0)
        if name in COPIED:
            return self.copied(args[0], args[1], said)
        if name in CLONED or name in MOVED:
            return self.cloned(args[0], kwargs, said, is_moved=name in MOVED)
        raise CandidateError("forbidden", (READS if name in READ else COMPUTES).format(name=said))

    def view(self, func: Any, args: Any, kwargs: Any) -> Any:
        base = args[0] if isinstance(args[0], torch.Tensor) else args[0][0]
        found = func(*hollow(args), **hollow(kwargs))
        at = base.data_ptr()
        views = [self.make.like(one, at + one.storage_offset() * one.element_size()) for one in several(found)]
        return views[0] if isinstance(found, torch.Tensor) else views

    def taken(self, func: Any, args: Any, kwargs: Any) -> torch.Tensor:
        kwargs = hollow(kwargs)
        kwargs |= {"device": "meta"} if "device" in {argument.name for argument in func._schema.arguments} else {}
        kwargs.pop("pin_memory", None)
        found = func(*hollow(args), **kwargs)
        return self.make.like(found, self.device.take(found.untyped_storage().nbytes()))

    def filled(self, tensor: torch.Tensor, value: Any) -> torch.Tensor:
        bits, width = pattern(value, tensor.dtype)
        refuse_parts(tensor, "set")
        self.device.fill(tensor.data_ptr(), bits, width, tensor.numel() * tensor.element_size())
        return tensor

    def copied(self, target: torch.Tensor, source: torch.Tensor, said: str) -> torch.Tensor:
        if not target.is_cuda or not source.is_cuda:
            raise CandidateError("unsupported", CONSTANT.format(name=said))
        if target.dtype != source.dtype or target.shape != source.shape:
            raise CandidateError("forbidden", COMPUTES.format(name=said))
        refuse_parts(target, "copied")
        refuse_parts(source, "copied")
        self.device.copy(target.data_ptr(), source.data_ptr(), source.numel() * source.element_size())
        return target

    def cloned(self, tensor: torch.Tensor, kwargs: dict[str, Any], said: str, is_moved: bool) -> torch.Tensor:
        if not tensor.is_cuda or kwargs.get("device", tensor.device).type != "cuda":
            raise CandidateError("unsupported", CONSTANT.format(name=said))
        if (kwargs.get("dtype") or tensor.dtype) != tensor.dtype:
            raise CandidateError("forbidden", COMPUTES.format(name=said))
        if is_moved:  # it is there already
            return self.make.like(tensor, tensor.data_ptr())
        if not tensor.is_contiguous():
            raise CandidateError(
                "forbidden", f"{said} of a tensor that is not contiguous copies with a kernel of PyTorch's: write it in CUDA"
            )
        made = self.make.like(tensor, self.device.take(tensor.numel() * tensor.element_size()))
        return self.copied(made, tensor, said)


def is_there(args: Any, kwargs: Any) -> bool:
    """Whether an operator has to do with the device."""
    return any(one.is_cuda for one in several((args, list(kwargs.values())))) or torch.device(kwargs.get("device") or "cpu").type == "cuda"


def several(value: Any) -> list[torch.Tensor]:
    """The tensors in arguments, or in a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [one for item in value for one in several(item)] if isinstance(value, list | tuple) else []


def hollow(value: Any) -> Any:
    """The same with tensors that have no contents, and no address."""
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, dict):
        return {key: hollow(item) for key, item in value.items()}
    return type(value)(hollow(item) for item in value) if isinstance(value, list | tuple) else value


def refuse_parts(tensor: torch.Tensor, done: str) -> None:
    if not tensor.is_contiguous():
        raise CandidateError("unsupported", f"only whole tensors are {done} from the host: do it in a kernel")


FORMS = {torch.float32: "<f", torch.float64: "<d", torch.float16: "<e", torch.int64: "<q", torch.int32: "<i", torch.int16: "<h"}


def pattern(value: Any, dtype: torch.dtype) -> tuple[int, int]:
    """A number of a type as bits, and how many bytes of them are repeated."""
    if not isinstance(value, int | float):
        raise CandidateError("unsupported", "a tensor is set to what is no number")
    if dtype == torch.bfloat16:
        data = struct.pack("<f", value)[2:]  # what is cut off are zeros for every number that is set in practice
        if struct.unpack("<f", b"\0\0" + data)[0] != value and value == value:
            raise CandidateError("unsupported", f"a tensor of bfloat16 is set to {value}, which is no such number")
    elif dtype in FORMS:
        data = struct.pack(FORMS[dtype], value if "f" in FORMS[dtype] or dtype.is_floating_point else int(value))
    else:
        data = struct.pack("<b" if dtype == torch.int8 else "<B", int(value))
    width = next((width for width in (1, 2, 4) if data == data[:width] * (len(data) // width)), 0)
    if not width:
        raise CandidateError("unsupported", f"a tensor of {dtype} is set to {value} from the host: do it in a kernel")
    return int.from_bytes(data[:width], "little"), width
