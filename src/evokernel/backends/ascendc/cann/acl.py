"""Calls the NPU runtime and the operator's C interface through ctypes, without a tensor library.

An operator package exports two functions, `aclnn<Type>GetWorkspaceSize` (inputs, attributes, outputs, size, executor) and `aclnn<Type>`.
They take integers as int64, other numbers as double and truth values as bool. Numbers of types and formats come from CANN's acl_base.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

from evokernel.backends.ascendc.cann import errors
from evokernel.core.backend import Array
from evokernel.core.errors import CandidateError, InfraError

DTYPES = {
    **{"float32": 0, "float16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "int64": 9, "float64": 11, "bool": 12},
    "complex64": 16,
    "bfloat16": 27,
}
ND = 2
TO_DEVICE, TO_HOST = 1, 2
HUGE_FIRST = 0
ALREADY_INITIALIZED = 100002
"""Error code of aclInit if this process has called it before."""
LIBRARIES = ("libascendcl.so", "libnnopbase.so")
MARGIN_BYTES = 64
"""Bytes behind every tensor on the NPU, because copies move complete blocks of 32 bytes."""


class NpuRuntime:
    """The runtime of one NPU, with one stream."""

    def __init__(self, folder: Path | None = None) -> None:
        """Load the libraries from `folder`, or else through LD_LIBRARY_PATH."""
        self.acl, self.base = (self.load_library(name, folder) for name in LIBRARIES)
        self.acl.aclGetRecentErrMsg.restype = c_char_p
        self.acl.aclrtMalloc.argtypes = [POINTER(c_void_p), c_size_t, c_int]
        self.acl.aclrtFree.argtypes = [c_void_p]
        self.acl.aclrtMemcpy.argtypes = [c_void_p, c_size_t, c_void_p, c_size_t, c_int]
        self.acl.aclrtSynchronizeStream.argtypes = [c_void_p]
        self.base.aclCreateTensor.restype = c_void_p
        shape = POINTER(c_int64)
        self.base.aclCreateTensor.argtypes = [shape, c_uint64, c_int, shape, c_int64, c_int, shape, c_uint64, c_void_p]
        code = self.acl.aclInit(None)
        if code not in (0, ALREADY_INITIALIZED):
            raise InfraError(f"The NPU runtime does not start: {self.error_text(code)}")
        self.raise_for_setup("aclrtSetDevice", self.acl.aclrtSetDevice(c_int32(0)))
        self.stream = c_void_p()
        self.raise_for_setup("aclrtCreateStream", self.acl.aclrtCreateStream(byref(self.stream)))

    def load_library(self, name: str, folder: Path | None) -> ctypes.CDLL:
        path = folder / name if folder and (folder / name).exists() else name
        try:
            return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise InfraError(f"Cannot load {name}: source the set_env.sh of the CANN toolkit ({error})") from error

    def raise_for_setup(self, call: str, code: int) -> None:
        """Raise InfraError for a failed call that does not involve the candidate."""
        if code:
            raise InfraError(f"The NPU is not usable: {call}: {self.error_text(code)}")

    def raise_for_kernel(self, call: str, code: int, logs: Path | None = None) -> None:
        """Raise for a failed call that runs the candidate's code or waits for it."""
        if code:
            more = read_runtime_log(logs) if logs else ""
            raise errors.explain_failure(f"{call}: {self.error_text(code)}\n{more}", errors.RUN)

    def error_text(self, code: int) -> str:
        """The error code and the runtime's message."""
        text = self.acl.aclGetRecentErrMsg()
        return f"error {code}" + (f": {text.decode(errors='replace')}" if text else "")

    def allocate(self, size: int) -> c_void_p:
        place = c_void_p()
        code = self.acl.aclrtMalloc(byref(place), size + MARGIN_BYTES, HUGE_FIRST)
        if code:
            raise CandidateError("memory", f"the NPU has no free memory for {size >> 20} MiB: {errors.clean_output(self.error_text(code))}")
        return place

    def copy_in(self, place: c_void_p, array: Array) -> None:
        size = array.data.nbytes
        self.raise_for_setup(
            "copy to the NPU", self.acl.aclrtMemcpy(place, size + MARGIN_BYTES, data_pointer(array), size, TO_DEVICE) if size else 0
        )

    def copy_out(self, array: Array, place: c_void_p, logs: Path | None = None) -> None:
        size = array.data.nbytes
        self.raise_for_kernel(
            "copy from the NPU", self.acl.aclrtMemcpy(data_pointer(array), size, place, size, TO_HOST) if size else 0, logs
        )

    def create_tensor(self, array: Array, place: c_void_p) -> c_void_p:
        """Create the description of a contiguous tensor for the operator's interface."""
        dims = array.data.shape
        strides = [1] * len(dims)
        for axis in range(len(dims) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * dims[axis + 1]
        shape, steps = (c_int64 * len(dims))(*dims), (c_int64 * len(dims))(*strides)
        handle = self.base.aclCreateTensor(shape, len(dims), DTYPES[array.dtype], steps, 0, ND, shape, len(dims), place)
        if not handle:
            raise InfraError("The NPU runtime cannot create a tensor of this shape")
        return c_void_p(handle)

    def destroy_tensor(self, tensor: c_void_p) -> None:
        self.base.aclDestroyTensor(tensor)

    def synchronize(self, logs: Path | None = None) -> None:
        self.raise_for_kernel("the kernel", self.acl.aclrtSynchronizeStream(self.stream), logs)


class AclnnOperator:
    """The two aclnn functions of an installed operator."""

    def __init__(self, runtime: NpuRuntime, library: Path, op: str) -> None:
        self.runtime = runtime
        try:
            library_handle = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            self.get_workspace_size, self.launch = library_handle[f"aclnn{op}GetWorkspaceSize"], library_handle[f"aclnn{op}"]
        except OSError as error:
            raise CandidateError("symbol", f"the library of the operator cannot be loaded: {errors.clean_output(str(error))}") from error
        except AttributeError as error:
            raise CandidateError("symbol", f"the package has no operator of type {op}: pass it to OP_ADD") from error

    def call(
        self,
        inputs: Sequence[c_void_p],
        scalars: Sequence[tuple[str, str, float]],
        outputs: Sequence[c_void_p],
        logs: Path | None = None,
    ) -> None:
        """Run the operator once and wait until it ends."""
        size, executor = c_uint64(0), c_void_p()
        attributes = [scalar_argument(kind, value) for _, kind, value in scalars]
        code = self.get_workspace_size(*inputs, *attributes, *outputs, byref(size), byref(executor))
        self.runtime.raise_for_kernel("preparing the operator", code, logs)
        workspace = self.runtime.allocate(size.value) if size.value else c_void_p()
        try:
            self.runtime.raise_for_kernel("starting the kernel", self.launch(workspace, size, executor, self.runtime.stream), logs)
            self.runtime.synchronize(logs)
        finally:
            if workspace:
                self.runtime.acl.aclrtFree(workspace)


def scalar_argument(kind: str, value: float) -> c_int64 | c_double | c_bool:
    """An attribute in the C type of the operator's interface."""
    if kind == "float":
        return c_double(value)
    return c_bool(bool(value)) if kind == "bool" else c_int64(int(value))


def data_pointer(array: Array) -> c_void_p:
    return c_void_p(array.data.ctypes.data)


def read_runtime_log(folder: Path, limit: int = 20_000) -> str:
    """The end of the runtime's log. Only the log has the address at which a core stopped."""
    logs = sorted(folder.rglob("*.log"), key=lambda path: path.stat().st_mtime) if folder.is_dir() else []
    return logs[-1].read_text(errors="replace")[-limit:] if logs else ""
