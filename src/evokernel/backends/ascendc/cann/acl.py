"""The card's runtime and the operator's own C interface, called without a tensor library in between.

An operator package exports two functions, `aclnn<Type>GetWorkspaceSize` (inputs, attributes, outputs, size, executor) and `aclnn<Type>`.
Whole numbers go as int64, numbers as double, truth values as bool. Numbers of types and formats are those of CANN's acl_base.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

from evokernel.backends.ascendc.cann import errors
from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.protocols import Array

DTYPES = {
    **{"float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "int64": 9, "float64": 11, "bool": 12},
    "bfloat16": 27,
}
ND = 2
TO_DEVICE, TO_HOST = 1, 2
HUGE_FIRST = 0
ALREADY = 100002
"""aclInit was called before in this process."""
LIBRARIES = ("libascendcl.so", "libnnopbase.so")
MARGIN = 64
"""Bytes behind every tensor on the card: copies move whole blocks of 32."""


class Runtime:
    """One card, one stream."""

    def __init__(self, folder: Path | None = None) -> None:
        """The libraries are those that LD_LIBRARY_PATH leads to; `folder` is looked into first."""
        self.acl, self.base = (self.library(name, folder) for name in LIBRARIES)
        self.acl.aclGetRecentErrMsg.restype = c_char_p
        self.acl.aclrtMalloc.argtypes = [POINTER(c_void_p), c_size_t, c_int]
        self.acl.aclrtFree.argtypes = [c_void_p]
        self.acl.aclrtMemcpy.argtypes = [c_void_p, c_size_t, c_void_p, c_size_t, c_int]
        self.acl.aclrtSynchronizeStream.argtypes = [c_void_p]
        self.base.aclCreateTensor.restype = c_void_p
        shape = POINTER(c_int64)
        self.base.aclCreateTensor.argtypes = [shape, c_uint64, c_int, shape, c_int64, c_int, shape, c_uint64, c_void_p]
        code = self.acl.aclInit(None)
        if code not in (0, ALREADY):
            raise InfraError(f"the card's runtime does not start: {self.said(code)}")
        self.started("aclrtSetDevice", self.acl.aclrtSetDevice(c_int32(0)))
        self.stream = c_void_p()
        self.started("aclrtCreateStream", self.acl.aclrtCreateStream(byref(self.stream)))

    def library(self, name: str, folder: Path | None) -> ctypes.CDLL:
        path = folder / name if folder and (folder / name).exists() else name
        try:
            return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise InfraError(f"{name} cannot be loaded: source the toolkit's set_env.sh ({error})") from error

    def started(self, call: str, code: int) -> None:
        """Before the candidate's turn nothing is its fault."""
        if code:
            raise InfraError(f"the card cannot be used: {call}: {self.said(code)}")

    def checked(self, call: str, code: int, logs: Path | None = None) -> None:
        """A call that runs the candidate's code, or waits for it."""
        if code:
            more = plog(logs) if logs else ""
            raise errors.explain(f"{call}: {self.said(code)}\n{more}", errors.RUN)

    def said(self, code: int) -> str:
        """The number and what the runtime has to say about it."""
        text = self.acl.aclGetRecentErrMsg()
        return f"error {code}" + (f": {text.decode(errors='replace')}" if text else "")

    def allocate(self, size: int) -> c_void_p:
        place = c_void_p()
        code = self.acl.aclrtMalloc(byref(place), size + MARGIN, HUGE_FIRST)
        if code:
            raise CandidateError("memory", f"the card has no {size >> 20} MiB left: {errors.clean(self.said(code))}")
        return place

    def copy_in(self, place: c_void_p, array: Array) -> None:
        size = array.data.nbytes
        self.started("copy to the card", self.acl.aclrtMemcpy(place, size + MARGIN, address(array), size, TO_DEVICE) if size else 0)

    def copy_out(self, array: Array, place: c_void_p, logs: Path | None = None) -> None:
        size = array.data.nbytes
        self.checked("copy from the card", self.acl.aclrtMemcpy(address(array), size, place, size, TO_HOST) if size else 0, logs)

    def tensor(self, array: Array, place: c_void_p) -> c_void_p:
        """A contiguous tensor's description, for the operator's interface."""
        dims = array.data.shape
        strides = [1] * len(dims)
        for axis in range(len(dims) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * dims[axis + 1]
        shape, steps = (c_int64 * len(dims))(*dims), (c_int64 * len(dims))(*strides)
        made = self.base.aclCreateTensor(shape, len(dims), DTYPES[array.dtype], steps, 0, ND, shape, len(dims), place)
        if not made:
            raise InfraError("the runtime makes no tensor of this shape")
        return c_void_p(made)

    def destroy(self, tensor: c_void_p) -> None:
        self.base.aclDestroyTensor(tensor)

    def wait(self, logs: Path | None = None) -> None:
        self.checked("the kernel", self.acl.aclrtSynchronizeStream(self.stream), logs)


class Operator:
    """The two functions of an installed operator."""

    def __init__(self, runtime: Runtime, library: Path, op: str) -> None:
        self.runtime = runtime
        try:
            loaded = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            self.prepare, self.launch = loaded[f"aclnn{op}GetWorkspaceSize"], loaded[f"aclnn{op}"]
        except OSError as error:
            raise CandidateError("symbol", f"the operator's library cannot be loaded: {errors.clean(str(error))}") from error
        except AttributeError as error:
            raise CandidateError("symbol", f"the package has no operator of the type {op}: OP_ADD must name it") from error

    def call(
        self,
        inputs: Sequence[c_void_p],
        scalars: Sequence[tuple[str, str, float]],
        outputs: Sequence[c_void_p],
        logs: Path | None = None,
    ) -> None:
        """Runs it once and waits for its end."""
        size, executor = c_uint64(0), c_void_p()
        attributes = [scalar(kind, value) for _, kind, value in scalars]
        code = self.prepare(*inputs, *attributes, *outputs, byref(size), byref(executor))
        self.runtime.checked("preparing the operator", code, logs)
        workspace = self.runtime.allocate(size.value) if size.value else c_void_p()
        try:
            self.runtime.checked("starting the kernel", self.launch(workspace, size, executor, self.runtime.stream), logs)
            self.runtime.wait(logs)
        finally:
            if workspace:
                self.runtime.acl.aclrtFree(workspace)


def scalar(kind: str, value: float) -> c_int64 | c_double | c_bool:
    """An attribute, as the operator's interface takes it."""
    if kind == "float":
        return c_double(value)
    return c_bool(bool(value)) if kind == "bool" else c_int64(int(value))


def address(array: Array) -> c_void_p:
    return c_void_p(array.data.ctypes.data)


def plog(folder: Path, limit: int = 20_000) -> str:
    """The end of what the runtime logged; the address that a core stopped at stands nowhere else."""
    logs = sorted(folder.rglob("*.log"), key=lambda path: path.stat().st_mtime) if folder.is_dir() else []
    return logs[-1].read_text(errors="replace")[-limit:] if logs else ""
