"""The CUDA driver API through ctypes: enough to run recorded programs, without other packages or a compiler."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cached_property
from typing import Any

LIBRARY = "libcuda.so.1"
SUCCESS = 0
STICKY = {700, 702, 714, 715, 716, 717, 718, 719}
"""Errors caused by a kernel after which the process can no longer use the device."""
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
"""Device attributes by the driver's numbers; `shared_per_block` is the opt-in maximum of dynamic shared memory."""
DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 8, 14
CLUSTER, COOPERATIVE = 4, 2
TIMED = 0
MAP_BYTES = 128
BLOCKING_WAIT = 4
"""Flag of a context whose waiting threads sleep. By default they poll, and each keeps a core busy."""
SETS = {1: ("cuMemsetD8Async", ctypes.c_ubyte), 2: ("cuMemsetD16Async", ctypes.c_ushort), 4: ("cuMemsetD32Async", c_uint)}


class DeviceError(Exception):
    """An error that the driver returned."""

    def __init__(self, code: int, name: str, text: str, call: str) -> None:
        super().__init__(f"{name} ({text}) in {call}")
        self.code, self.name, self.text = code, name, text


class DriverMissing(Exception):
    """There is no driver or no device."""


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", c_int), ("pad", ctypes.c_char * 4), ("value", c_uint * 16))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((name, c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", c_uint),
    )


class Driver:
    """One device through its primary context, which PyTorch in the same process also uses.

    With `sleeps_while_waiting`, a thread that waits for the device leaves its core to other processes. It wakes some microseconds
    later, so the process that measures times does without.
    """

    def __init__(self, number: int = 0, sleeps_while_waiting: bool = False) -> None:
        try:
            self.library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise DriverMissing(f"there is no NVIDIA driver: {error}") from error
        try:
            self.call("cuInit", 0)
            count = c_int()
            self.call("cuDeviceGetCount", byref(count))
            if number >= count.value:
                raise DriverMissing(f"there is no GPU number {number}; this machine has {count.value}")
            self.device = c_int()
            self.call("cuDeviceGet", byref(self.device), number)
            self.context = c_void_p()
            if sleeps_while_waiting:
                with suppress(AttributeError, DeviceError):  # an older driver polls
                    self.call("cuDevicePrimaryCtxSetFlags_v2", self.device, c_uint(BLOCKING_WAIT))
            self.call("cuDevicePrimaryCtxRetain", byref(self.context), self.device)
            self.call("cuCtxSetCurrent", self.context)
        except DeviceError as error:
            raise DriverMissing(f"the GPU cannot be used: {error}") from error

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code != SUCCESS:
            name_text, text = c_char_p(), c_char_p()
            self.library.cuGetErrorName(code, byref(name_text))
            self.library.cuGetErrorString(code, byref(text))
            raise DeviceError(code, (name_text.value or b"CUDA error").decode(), (text.value or b"").decode(), name)

    def attribute(self, number: int) -> int:
        value = c_int()
        self.call("cuDeviceGetAttribute", byref(value), number, self.device)
        return value.value

    @cached_property
    def attributes(self) -> dict[str, int]:
        """Device attributes by name."""
        return {name: self.attribute(number) for name, number in ATTRIBUTES.items()}

    @property
    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, 256, self.device)
        return text.value.decode()

    @property
    def memory_bytes(self) -> int:
        """The device's memory."""
        count = c_size_t()
        self.call("cuDeviceTotalMem_v2", byref(count), self.device)
        return count.value

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
        """Copies bytes, or memory at a host address, to the device; blocks."""
        if count:
            data = c_char_p(source) if isinstance(source, bytes) else c_void_p(source)
            self.call("cuMemcpyHtoD_v2", c_uint64(place), data, c_size_t(count))

    def download(self, target: int, place: int, count: int) -> None:
        if count:
            self.call("cuMemcpyDtoH_v2", c_void_p(target), c_uint64(place), c_size_t(count))

    def fill(self, place: int, value: int, count: int, stream: int = 0, width: int = 1) -> None:
        """Fills `count` bytes with a repeated value of `width` bytes."""
        if count:
            name, kind = SETS[width]
            self.call(name, c_uint64(place), kind(value), c_size_t(count // width), c_void_p(stream))

    def copy(self, target: int, source: int, count: int, stream: int = 0) -> None:
        if count:
            self.call("cuMemcpyDtoDAsync_v2", c_uint64(target), c_uint64(source), c_size_t(count), c_void_p(stream))

    def module(self, image: bytes) -> c_void_p:
        handle = c_void_p()
        self.call("cuModuleLoadData", byref(handle), image)
        return handle

    def unload(self, module: c_void_p) -> None:
        self.call("cuModuleUnload", module)

    def function(self, module: c_void_p, name: str) -> c_void_p:
        handle = c_void_p()
        self.call("cuModuleGetFunction", byref(handle), module, name.encode())
        return handle

    def variable(self, module: c_void_p, name: str) -> tuple[int, int]:
        """Returns address and size of a device variable."""
        place, count = c_uint64(), c_size_t()
        self.call("cuModuleGetGlobal_v2", byref(place), byref(count), module, name.encode())
        return place.value, count.value

    def tensor_map(self, kind: int, place: int, axes: Sequence[Sequence[int]], modes: Sequence[int]) -> bytes:
        """Encodes a tensor map for tile copies (TMA); `axes` are sizes, strides, box and steps."""
        sizes, strides, box, steps = axes
        room = ctypes.create_string_buffer(2 * MAP_BYTES)
        at = -ctypes.addressof(room) % MAP_BYTES
        longs = [(c_uint64 * max(1, len(values)))(*values) for values in (sizes, strides)]
        words = [(c_uint * len(values))(*values) for values in (box, steps)]
        start = ctypes.addressof(room) + at
        self.call("cuTensorMapEncodeTiled", c_void_p(start), kind, c_uint(len(sizes)), c_void_p(place), *longs, *words, *modes)
        return room.raw[at : at + MAP_BYTES]

    def allow(self, function: c_void_p, shared: int, is_cluster: bool) -> None:
        """Allows a kernel more dynamic shared memory than the default, and clusters of more than eight blocks."""
        if shared:
            self.call("cuFuncSetAttribute", function, DYNAMIC_SHARED, shared)
        if is_cluster:
            self.call("cuFuncSetAttribute", function, NON_PORTABLE_CLUSTER, 1)

    def synchronize(self) -> None:
        """Waits for all streams."""
        self.call("cuCtxSynchronize")

    def stream(self) -> int:
        handle = c_void_p()
        self.call("cuStreamCreate", byref(handle), 1)  # a stream that does not synchronise with others
        return handle.value or 0

    def event(self) -> c_void_p:
        handle = c_void_p()
        self.call("cuEventCreate", byref(handle), TIMED)
        return handle

    def record(self, event: c_void_p, stream: int) -> None:
        self.call("cuEventRecord", event, c_void_p(stream))

    def elapsed_us(self, start: c_void_p, end: c_void_p) -> float:
        self.call("cuEventSynchronize", end)
        milliseconds = c_float()
        self.call("cuEventElapsedTime", byref(milliseconds), start, end)
        return milliseconds.value * 1e3


class PreparedLaunch:
    """A launch with prepared arguments: starting it costs one driver call."""

    def __init__(self, driver: Driver, function: c_void_p, shape: Sequence[int], packed: bytes, offsets: Sequence[int]) -> None:
        """`shape` is grid, block and bytes of shared memory; an argument begins at each offset of the packed bytes."""
        self.driver, self.function = driver, function
        self.packed = ctypes.create_string_buffer(packed, len(packed))
        start = ctypes.addressof(self.packed)
        self.arguments = (c_void_p * max(1, len(offsets)))(*(start + offset for offset in offsets))
        self.config = LaunchConfig(*shape, None, None, 0)
        self.launch_attributes: Any = None

    def with_attributes(self, cluster: tuple[int, int, int] | None, cooperative: bool) -> PreparedLaunch:
        """Adds the launch attributes for clusters or cooperative launches."""
        attributes = []
        if cluster:
            attributes.append(LaunchAttribute(CLUSTER, b"", (c_uint * 16)(*cluster)))
        if cooperative:
            attributes.append(LaunchAttribute(COOPERATIVE, b"", (c_uint * 16)(1)))
        self.launch_attributes = (LaunchAttribute * len(attributes))(*attributes)
        self.config.attributes, self.config.count = ctypes.cast(self.launch_attributes, ctypes.POINTER(LaunchAttribute)), len(attributes)
        return self

    def start(self, stream: int) -> None:
        self.config.stream = stream
        self.driver.call("cuLaunchKernelEx", byref(self.config), self.function, self.arguments, None)
