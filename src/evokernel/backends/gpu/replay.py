"""Runs recorded programs on a device. This process contains a candidate's kernels but none of its host code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import c_void_p
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evokernel.backends.gpu.cubin import read_kernels
from evokernel.backends.gpu.driver import STICKY, DeviceError, Driver, DriverMissing, PreparedLaunch
from evokernel.backends.gpu.program import (
    FILE,
    MAP_BYTES,
    WORD,
    Copy,
    Fill,
    Launch,
    Program,
    Step,
    SymbolCopy,
    TensorMap,
    program_key,
    read_programs,
    validate_program,
)
from evokernel.core.errors import CandidateError, InfraError

if TYPE_CHECKING:
    from evokernel.core.backend import Arguments

MODULES = "*.image"
GUARD = 4096
"""Guard bytes before and after every tensor, which no kernel may touch."""
ALIGNMENT = 256
GUARD_BYTE, POISON_BYTE = 0xA5, 0xFF
"""The byte in guard bands; and the byte in outputs and scratch before a call, which reads as NaN."""
NO_MEMORY, NOT_FOUND, INVALID, TOO_LARGE, NO_IMAGE = 2, 500, 1, 701, 209
DRIVER_ERRORS = {
    700: ("out_of_bounds", "the kernel reads or writes an address outside its tensors; check indices and mask the tail"),
    716: ("alignment", "the kernel reads or writes an address that is not a multiple of the access size"),
    717: ("out_of_bounds", "the kernel uses an address in the wrong kind of memory"),
    718: ("crash", "the kernel jumps to an address without code"),
    714: ("crash", "the hardware refuses the kernel's use of its stack or of a barrier"),
    715: ("crash", "the kernel executes an instruction that the device does not have"),
    702: ("timeout", "the kernel exceeds the device's time limit"),
    719: ("crash", "the kernel failed on the device"),
    710: ("raised", "an assertion in the kernel failed"),
    720: ("launch", "a cooperative launch has more blocks than fit on the device at once"),
    TOO_LARGE: ("launch", "a launch requests more than the device has: registers times threads, or shared memory"),
    INVALID: ("launch", "the device refuses the grid, block, cluster or shared memory of a launch"),
    NO_IMAGE: ("compile_error", "the kernel was not compiled for this device"),
}
"""By the driver's error number: reason and message for the author of the kernel."""


class GuardedBuffer:
    """A tensor in device memory between two guard bands."""

    def __init__(self, driver: Driver, count: int, guard: int = GUARD) -> None:
        self.driver, self.count, self.guard_bytes = driver, count, guard
        self.total_bytes = guard + -(-max(count, 1) // ALIGNMENT) * ALIGNMENT + guard if guard else count
        self.base = driver.allocate(self.total_bytes)
        self.place = self.base + guard
        self.after = self.place + count
        self.after_bytes = self.base + self.total_bytes - self.after
        self.guard()

    def guard(self) -> None:
        self.driver.fill(self.base, GUARD_BYTE, self.guard_bytes)
        self.driver.fill(self.after, GUARD_BYTE, self.after_bytes)

    def is_guard_intact(self) -> bool:
        contents = np.empty(GUARD + self.after_bytes, np.uint8)
        self.driver.download(contents.ctypes.data, self.base, GUARD)
        self.driver.download(contents.ctypes.data + GUARD, self.after, self.after_bytes)
        return bool((contents == GUARD_BYTE).all())

    def close(self) -> None:
        self.driver.release(self.base)


class LoadedModules:
    """A candidate's device code, loaded on the device."""

    def __init__(self, driver: Driver, images: Mapping[str, bytes]) -> None:
        self.driver, self.modules = driver, {name: driver.module(image) for name, image in images.items()}
        self.functions: dict[tuple[str, str], c_void_p] = {}
        self.kernel_infos = {name: read_kernels(image) for name, image in images.items()}

    def function(self, one: Launch) -> c_void_p:
        key = (one.module, one.function)
        if key not in self.functions:
            self.functions[key] = self.driver.function(self.modules[one.module], one.function)
        self.driver.allow(self.functions[key], one.shared, one.cluster is not None)
        return self.functions[key]

    def offsets(self, one: Launch) -> list[int]:
        """Returns the offsets of a kernel's arguments; the recording must contain all of them."""
        kernel_info = self.kernel_infos[one.module].get(one.function)
        parameters = kernel_info.parameters if kernel_info else ()
        if any(parameter.offset + parameter.size > len(one.arguments) for parameter in parameters):
            raise CandidateError("forbidden", "the recording of this kernel's launches is invalid, so it was modified")
        return [parameter.offset for parameter in parameters]

    def variable(self, step: SymbolCopy) -> int:
        """Returns the address of the bytes of a device variable that a step writes."""
        place, count = self.driver.variable(self.modules[step.module], step.name)
        if step.offset + step.length > count:
            raise CandidateError("out_of_bounds", f"a copy to {step.name} writes past its end")
        return place + step.offset

    def close(self) -> None:
        for module in self.modules.values():
            self.driver.unload(module)


class BoundProgram:
    """A program with addresses for its tensors."""

    def __init__(self, driver: Driver, modules: LoadedModules, program: Program, places: Sequence[int], is_guarded: bool = True) -> None:
        """Without guards, a sanitizer sees where scratch ends."""
        self.driver, self.scratch = driver, [GuardedBuffer(driver, count, GUARD if is_guarded else 0) for count in program.scratch]
        self.constants = [(GuardedBuffer(driver, len(data), GUARD if is_guarded else 0), data) for data in program.constants]
        self.places = [*places, *(room.place for room in (*self.scratch, *(room for room, _ in self.constants)))]
        self.poison()
        self.steps: list[Callable[[int], None]] = [self.prepare_step(modules, step) for step in program.steps]

    def prepare_step(self, modules: LoadedModules, step: Step) -> Callable[[int], None]:
        places, driver = self.places, self.driver
        if isinstance(step, Fill):
            place = places[step.tensor] + step.offset
            return lambda stream: driver.fill(place, step.value, step.length, stream, step.width)
        if isinstance(step, Copy):
            target, source = places[step.tensor] + step.offset, places[step.source] + step.source_offset
            return lambda stream: driver.copy(target, source, step.length, stream)
        if isinstance(step, SymbolCopy):
            variable, start = modules.variable(step), places[step.source] + step.source_offset
            return lambda stream: driver.copy(variable, start, step.length, stream)
        argument_bytes = bytearray(step.arguments)
        for pointer in step.pointers:
            argument_bytes[pointer.at : pointer.at + WORD] = (places[pointer.tensor] + pointer.offset).to_bytes(WORD, "little")
        for tensor_map in step.maps:
            argument_bytes[tensor_map.at : tensor_map.at + MAP_BYTES] = self.encode_tensor_map(tensor_map)
        shape = (*step.grid, *step.block, step.shared)
        launch = PreparedLaunch(driver, modules.function(step), shape, bytes(argument_bytes), modules.offsets(step))
        return launch.with_attributes(step.cluster, step.cooperative).start

    def encode_tensor_map(self, tensor_map: TensorMap) -> bytes:
        try:
            return self.driver.tensor_map(
                tensor_map.kind, self.places[tensor_map.tensor] + tensor_map.offset, tensor_map[8:], tensor_map[4:8]
            )
        except DeviceError as error:
            if error.code != INVALID:
                raise
            raise CandidateError("launch", f"the driver refuses a tensor map: {tensor_map._asdict()}") from error

    def start(self, stream: int = 0) -> None:
        for step in self.steps:
            step(stream)

    def poison(self, stream: int = 0) -> None:
        """Poisons scratch and restores constants before a call."""
        for room in self.scratch:
            self.driver.fill(room.place, POISON_BYTE, room.count, stream)
        for room, data in self.constants:
            self.driver.upload(room.place, data, room.count)

    def close(self) -> None:
        for room in (*self.scratch, *(room for room, _ in self.constants)):
            room.close()


class ReplayedKernel:
    """A candidate's programs in the candidate process. Each call uploads inputs and downloads outputs."""

    def __init__(self, workdir: Path, device: int = 0) -> None:
        try:
            self.driver = Driver(device, sleeps_while_waiting=True)
        except DriverMissing as error:
            raise InfraError(str(error)) from error
        self.programs = read_programs(workdir / FILE)
        for program in self.programs.values():
            validate_program(program)
        with translate_driver_errors():
            self.modules = LoadedModules(self.driver, read_images(workdir))

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        tensors = (*arguments.inputs, *arguments.outputs)
        program = self.program([tensor.data.nbytes for tensor in tensors], arguments)
        with translate_driver_errors():
            rooms = [GuardedBuffer(self.driver, tensor.data.nbytes) for tensor in tensors]
            bound = BoundProgram(self.driver, self.modules, program, [room.place for room in rooms])
        inputs, outputs = list(zip(rooms, arguments.inputs)), list(zip(rooms[len(arguments.inputs) :], arguments.outputs))

        def call() -> None:
            with translate_driver_errors():
                for room, tensor in (*inputs, *outputs):  # outputs come poisoned
                    self.driver.upload(room.place, tensor.data.ctypes.data, tensor.data.nbytes)
                bound.poison()
                bound.start()
                self.driver.synchronize()
                for room, tensor in outputs:
                    self.driver.download(tensor.data.ctypes.data, room.place, tensor.data.nbytes)
                self.check_guards(inputs, outputs, bound)

        return call

    def program(self, sizes: list[int], arguments: Arguments) -> Program:
        """Returns the program recorded for tensors of these sizes."""
        program = self.programs.get(program_key_of(arguments))
        if program is None:
            raise CandidateError("raised", "there is no recording for this size")
        if list(program.tensors) != sizes:
            raise CandidateError("forbidden", "the recording of this kernel's launches is invalid, so it was modified")
        return program

    def check_guards(
        self, inputs: Sequence[tuple[GuardedBuffer, object]], outputs: Sequence[tuple[GuardedBuffer, object]], bound: BoundProgram
    ) -> None:
        for room, tensor in (*inputs, *outputs):
            if not room.is_guard_intact():
                raise CandidateError("out_of_bounds", f"the kernel wrote before or after `{tensor.name}`")  # type: ignore[attr-defined]
        for room in (*bound.scratch, *(room for room, _ in bound.constants)):
            if not room.is_guard_intact():
                raise CandidateError("out_of_bounds", "the kernel wrote before or after its scratch memory")
        for room, tensor in inputs:
            data: np.ndarray = tensor.data  # type: ignore[attr-defined]
            contents = np.empty(data.nbytes, np.uint8)
            self.driver.download(contents.ctypes.data, room.place, data.nbytes)
            if contents.tobytes() != data.tobytes():
                raise CandidateError("inputs", f"the kernel changed the input `{tensor.name}`; inputs are read-only")  # type: ignore[attr-defined]


class translate_driver_errors:
    """Context that turns driver errors into CandidateError or InfraError."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DeviceError):
            raise classify_driver_error(error) from error


def classify_driver_error(error: DeviceError) -> Exception:
    """Decides whether a driver error is the candidate's fault or the machine's."""
    if error.code == NO_MEMORY:
        return CandidateError("memory", "tensors and scratch of this kernel do not fit into device memory; use less scratch")
    if error.code == NOT_FOUND:
        return CandidateError("symbol", "a launched kernel is not in the compiled code")
    if error.code in DRIVER_ERRORS:
        reason, words = DRIVER_ERRORS[error.code]
        return CandidateError(reason, f"{words} ({error.name})")
    if error.code in STICKY:
        return CandidateError("crash", f"the kernel failed on the device: {error}")
    return InfraError(f"the GPU failed: {error}")


def read_images(workdir: Path) -> dict[str, bytes]:
    """Reads device code by file name."""
    return {path.name: path.read_bytes() for path in sorted(workdir.glob(MODULES))}


def program_key_of(arguments: Arguments) -> str:
    """Returns the key of the program for a call."""
    tensors = [(tensor.dtype, tensor.data.shape) for tensor in (*arguments.inputs, *arguments.outputs)]
    return program_key(tensors, [(kind, value) for _, kind, value in arguments.scalars])
