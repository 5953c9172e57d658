"""The CUDA driver through ctypes: enough to run recorded programs, with no other package and no compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cached_property
from typing import Any

LIBRARY = "libcuda.so.1"
SUCCESS = 0
STICKY = {700, 702, 714, 715, 716, 717, 718, 719}
"""Errors after which a process can do nothing more with its device: the kernel's doing."""
ATTRIBUTES = {
    "multiprocessors": 16,
    "clock_khz": 13,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "threads_per_multiprocessor": 39,
    "major": 75,
    "minor": 76,
    "shared_per_multiprocessor": 81,
    "registers_per_multiprocessor": 82,
    "shared_per_block": 97,
    "blocks_per_multiprocessor": 106,
    "warp": 10,
    "threads_per_block": 1,
}
"""Of a device, by the numbers the driver knows them by; `shared_per_block` is what a kernel gets that asks for more than 48 KiB."""
DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 8, 14
CLUSTER, COOPERATIVE = 4, 2
TIMED = 0
MAP_BYTES = 128
SETS = {1: ("cuMemsetD8Async", ctypes.c_ubyte), 2: ("cuMemsetD16Async", ctypes.c_ushort), 4: ("cuMemsetD32Async", c_uint)}


class DeviceError(Exception):
    """What the driver answered."""

    def __init__(self, code: int, name: str, text: str, call: str) -> None:
        super().__init__(f"{name} ({text}) in {call}")
        self.code, self.name, self.text = code, name, text


class Absent(Exception):
    """No driver, or no device."""


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", c_int), ("pad", ctypes.c_char * 4), ("value", c_uint * 16))


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((name, c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", c_uint),
    )


class Driver:
    """One device, through its primary context, which PyTorch in the same process uses as well."""

    def __init__(self, number: int = 0) -> None:
        try:
            self.library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise Absent(f"no NVIDIA driver: {error}") from error
        try:
            self.call("cuInit", 0)
            count = c_int()
            self.call("cuDeviceGetCount", byref(count))
            if number >= count.value:
                raise Absent(f"no GPU number {number}: there are {count.value}")
            self.device = c_int()
            self.call("cuDeviceGet", byref(self.device), number)
            self.context = c_void_p()
            self.call("cuDevicePrimaryCtxRetain", byref(self.context), self.device)
            self.call("cuCtxSetCurrent", self.context)
        except DeviceError as error:
            raise Absent(f"no GPU can be used: {error}") from error

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code != SUCCESS:
            said, text = c_char_p(), c_char_p()
            self.library.cuGetErrorName(code, byref(said))
            self.library.cuGetErrorString(code, byref(text))
            raise DeviceError(code, (said.value or b"CUDA error").decode(), (text.value or b"").decode(), name)

    def attribute(self, number: int) -> int:
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), number, self.device)
        return value.value

    @cached_property
    def facts(self) -> dict[str, int]:
        """What kernels are written for, by name."""
        return {name: self.attribute(number) for name, number in ATTRIBUTES.items()}

    @property
    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, 256, self.device)
        return text.value.decode()

    @property
    def version(self) -> str:
        value = c_int()
        self.call("cuDriverGetVersion", byref(value))
        return f"{value.value // 1000}.{value.value % 1000 // 10}"

    def allocate(self, count: int) -> int:
        place = c_uint64()
        self.call("cuMemAlloc_v2", byref(place), c_size_t(max(1, count)))
        return place.value

    def release(self, place: int) -> None:
        self.call("cuMemFree_v2", c_uint64(place))

    def upload(self, place: int, source: int | bytes, count: int) -> None:
        """Bytes, or from an address of the host; waits."""
        if count:
            data = c_char_p(source) if isinstance(source, bytes) else c_void_p(source)
            self.call("cuMemcpyHtoD_v2", c_uint64(place), data, c_size_t(count))

    def download(self, target: int, place: int, count: int) -> None:
        if count:
            self.call("cuMemcpyDtoH_v2", c_void_p(target), c_uint64(place), c_size_t(count))

    def fill(self, place: int, value: int, count: int, stream: int = 0, width: int = 1) -> None:
        """`count` bytes with a value of so many bytes, again and again."""
        if count:
            name, kind = SETS[width]
            self.call(name, c_uint64(place), kind(value), c_size_t(count // width), c_void_p(stream))

    def copy(self, target: int, source: int, count: int, stream: int = 0) -> None:
        if count:
            self.call("cuMemcpyDtoDAsync_v2", c_uint64(target), c_uint64(source), c_size_t(count), c_void_p(stream))

    def module(self, image: bytes) -> c_void_p:
        found = c_void_p()
        self.call("cuModuleLoadData", byref(found), image)
        return found

    def unload(self, module: c_void_p) -> None:
        self.call("cuModuleUnload", module)

    def function(self, module: c_void_p, name: str) -> c_void_p:
        found = c_void_p()
        self.call("cuModuleGetFunction", byref(found), module, name.encode())
        return found

    def variable(self, module: c_void_p, name: str) -> tuple[int, int]:
        """Where it is, and how many bytes it has."""
        place, count = c_uint64(), c_size_t()
        self.call("cuModuleGetGlobal_v2", byref(place), byref(count), module, name.encode())
        return place.value, count.value

    def tensor_map(self, kind: int, place: int, axes: Sequence[Sequence[int]], modes: Sequence[int]) -> bytes:
        """What copies of whole tiles are told of a tensor; `axes` are sizes, strides, box and steps."""
        sizes, strides, box, steps = axes
        room = ctypes.create_string_buffer(2 * MAP_BYTES)
        at = -ctypes.addressof(room) % MAP_BYTES
        longs = [(c_uint64 * max(1, len(values)))(*values) for values in (sizes, strides)]
        words = [(c_uint * len(values))(*values) for values in (box, steps)]
        start = ctypes.addressof(room) + at
        self.call("cuTensorMapEncodeTiled", c_void_p(start), kind, c_uint(len(sizes)), c_void_p(place), *longs, *words, *modes)
        return room.raw[at : at + MAP_BYTES]

    def allow(self, function: c_void_p, shared: int, is_cluster: bool) -> None:
        """More dynamic shared memory than every kernel may have, and clusters of more than eight blocks."""
        if shared:
            self.call("cuFuncSetAttribute", function, DYNAMIC_SHARED, shared)
        if is_cluster:
            self.call("cuFuncSetAttribute", function, NON_PORTABLE_CLUSTER, 1)

    def synchronize(self) -> None:
        """Waits for all streams."""
        self.call("cuCtxSynchronize")

    def stream(self) -> int:
        found = c_void_p()
        self.call("cuStreamCreate", byref(found), 1)  # which waits for no other
        return found.value or 0

    def event(self) -> c_void_p:
        found = c_void_p()
        self.call("cuEventCreate", byref(found), TIMED)
        return found

    def record(self, event: c_void_p, stream: int) -> None:
        self.call("cuEventRecord", event, c_void_p(stream))

    def elapsed_us(self, start: c_void_p, end: c_void_p) -> float:
        self.call("cuEventSynchronize", end)
        found = c_float()
        self.call("cuEventElapsedTime", byref(found), start, end)
        return found.value * 1e3


class Prepared:
    """A launch whose arguments are in place: starting it costs a call of the driver, and nothing else."""

    def __init__(self, driver: Driver, function: c_void_p, shape: Sequence[int], packed: bytes, offsets: Sequence[int]) -> None:
        """`shape` is grid, block and bytes of shared memory; at each offset of the packed bytes begins an argument."""
        self.driver, self.function = driver, function
        self.packed = ctypes.create_string_buffer(packed, len(packed))
        start = ctypes.addressof(self.packed)
        self.arguments = (c_void_p * max(1, len(offsets)))(*(start + offset for offset in offsets))
        self.config = Config(*shape, None, None, 0)
        self.kept: Any = None

    def with_attributes(self, cluster: tuple[int, int, int] | None, cooperative: bool) -> Prepared:
        """Blocks in clusters, or all of them resident at once."""
        found = []
        if cluster:
            found.append(Attribute(CLUSTER, b"", (c_uint * 16)(*cluster)))
        if cooperative:
            found.append(Attribute(COOPERATIVE, b"", (c_uint * 16)(1)))
        self.kept = (Attribute * len(found))(*found)
        self.config.attributes, self.config.count = ctypes.cast(self.kept, ctypes.POINTER(Attribute)), len(found)
        return self

    def start(self, stream: int) -> None:
        self.config.stream = stream
        self.driver.call("cuLaunchKernelEx", byref(self.config), self.function, self.arguments, None)
