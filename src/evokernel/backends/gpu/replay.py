"""Runs recorded programs on a device. None of a candidate's host code is in this process: its kernels are all that is left of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from ctypes import c_void_p
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evokernel.backends.gpu.cubin import functions
from evokernel.backends.gpu.driver import STICKY, Absent, DeviceError, Driver, Prepared
from evokernel.backends.gpu.program import (
    FILE,
    MAP_BYTES,
    WORD,
    Copy,
    Fill,
    Launch,
    Program,
    Step,
    Symbol,
    TensorMap,
    key,
    read,
    refuse_impossible,
)
from evokernel.core.errors import CandidateError, InfraError

if TYPE_CHECKING:
    from evokernel.core.protocols import Arguments

MODULES = "*.image"
GUARD = 4096
"""Bytes before and after every tensor, which no kernel has to touch."""
ALIGNED = 256
GUARD_BYTE, POISON_BYTE = 0xA5, 0xFF
"""Around tensors; and in outputs and scratch before a call, where it is no number."""
NO_MEMORY, NOT_FOUND, INVALID, TOO_LARGE, NO_IMAGE = 2, 500, 1, 701, 209
WORDS = {
    700: ("out_of_bounds", "the kernel reads or writes an address that is none of its tensors'"),
    716: ("alignment", "the kernel reads or writes an address that is no multiple of the size of what it accesses"),
    717: ("out_of_bounds", "the kernel uses an address in the wrong kind of memory"),
    718: ("crash", "the kernel jumps to an address that holds no code"),
    714: ("crash", "the kernel's stack, or a barrier of its block, is used in a way the hardware refuses"),
    715: ("crash", "the kernel runs an instruction the device does not have"),
    702: ("timeout", "the kernel runs longer than the device lets it"),
    719: ("crash", "the kernel failed on the device"),
    710: ("raised", "an assertion in the kernel failed"),
    720: ("launch", "a cooperative launch has more blocks than fit on the device at once"),
    TOO_LARGE: ("launch", "a launch asks for more than the device has: registers times threads, or shared memory"),
    INVALID: ("launch", "a launch has a grid, block, cluster or shared memory that the device does not take"),
    NO_IMAGE: ("compile_error", "the kernel was not compiled for this device"),
}
"""By the driver's number: reason and words for whoever wrote the kernel."""


class Room:
    """A tensor in device memory, between two guards."""

    def __init__(self, driver: Driver, count: int, guard: int = GUARD) -> None:
        self.driver, self.count, self.guard_bytes = driver, count, guard
        self.whole = guard + -(-max(count, 1) // ALIGNED) * ALIGNED + guard if guard else count
        self.base = driver.allocate(self.whole)
        self.place = self.base + guard
        self.after = self.place + count
        self.after_bytes = self.base + self.whole - self.after
        self.guard()

    def guard(self) -> None:
        self.driver.fill(self.base, GUARD_BYTE, self.guard_bytes)
        self.driver.fill(self.after, GUARD_BYTE, self.after_bytes)

    def is_untouched(self) -> bool:
        seen = np.empty(GUARD + self.after_bytes, np.uint8)
        self.driver.download(seen.ctypes.data, self.base, GUARD)
        self.driver.download(seen.ctypes.data + GUARD, self.after, self.after_bytes)
        return bool((seen == GUARD_BYTE).all())

    def close(self) -> None:
        self.driver.release(self.base)


class Loaded:
    """The device code of a candidate."""

    def __init__(self, driver: Driver, images: Mapping[str, bytes]) -> None:
        self.driver, self.modules = driver, {name: driver.module(image) for name, image in images.items()}
        self.functions: dict[tuple[str, str], c_void_p] = {}
        self.known = {name: functions(image) for name, image in images.items()}

    def function(self, one: Launch) -> c_void_p:
        key = (one.module, one.function)
        if key not in self.functions:
            self.functions[key] = self.driver.function(self.modules[one.module], one.function)
        self.driver.allow(self.functions[key], one.shared, one.cluster is not None)
        return self.functions[key]

    def offsets(self, one: Launch) -> list[int]:
        """Where its arguments begin; what was recorded must hold them all."""
        found = self.known[one.module].get(one.function)
        parameters = found.parameters if found else ()
        if any(parameter.offset + parameter.size > len(one.arguments) for parameter in parameters):
            raise CandidateError("forbidden", "what was recorded of this kernel's launches was changed")
        return [parameter.offset for parameter in parameters]

    def variable(self, step: Symbol) -> int:
        """Where a variable's bytes are that are copied to."""
        place, count = self.driver.variable(self.modules[step.module], step.name)
        if step.offset + step.length > count:
            raise CandidateError("out_of_bounds", f"a copy to {step.name} writes after its end")
        return place + step.offset

    def close(self) -> None:
        for module in self.modules.values():
            self.driver.unload(module)


class Bound:
    """A program whose tensors have places."""

    def __init__(self, driver: Driver, loaded: Loaded, program: Program, places: Sequence[int], is_guarded: bool = True) -> None:
        """Without guards, whoever watches accesses sees where scratch ends."""
        self.driver, self.scratch = driver, [Room(driver, count, GUARD if is_guarded else 0) for count in program.scratch]
        self.constants = [(Room(driver, len(data), GUARD if is_guarded else 0), data) for data in program.constants]
        self.places = [*places, *(room.place for room in (*self.scratch, *(room for room, _ in self.constants)))]
        self.poison()
        self.steps: list[Callable[[int], None]] = [self.step(loaded, step) for step in program.steps]

    def step(self, loaded: Loaded, step: Step) -> Callable[[int], None]:
        places, driver = self.places, self.driver
        if isinstance(step, Fill):
            place = places[step.tensor] + step.offset
            return lambda stream: driver.fill(place, step.value, step.length, stream, step.width)
        if isinstance(step, Copy):
            target, source = places[step.tensor] + step.offset, places[step.source] + step.source_offset
            return lambda stream: driver.copy(target, source, step.length, stream)
        if isinstance(step, Symbol):
            variable, start = loaded.variable(step), places[step.source] + step.source_offset
            return lambda stream: driver.copy(variable, start, step.length, stream)
        packed = bytearray(step.arguments)
        for pointer in step.pointers:
            packed[pointer.at : pointer.at + WORD] = (places[pointer.tensor] + pointer.offset).to_bytes(WORD, "little")
        for found in step.maps:
            packed[found.at : found.at + MAP_BYTES] = self.tensor_map(found)
        shape = (*step.grid, *step.block, step.shared)
        made = Prepared(driver, loaded.function(step), shape, bytes(packed), loaded.offsets(step))
        return made.with_attributes(step.cluster, step.cooperative).start

    def tensor_map(self, found: TensorMap) -> bytes:
        try:
            return self.driver.tensor_map(found.kind, self.places[found.tensor] + found.offset, found[8:], found[4:8])
        except DeviceError as error:
            if error.code != INVALID:
                raise
            raise CandidateError("launch", f"the driver does not take a tensor map: {found._asdict()}") from error

    def start(self, stream: int = 0) -> None:
        for step in self.steps:
            step(stream)

    def poison(self, stream: int = 0) -> None:
        """Scratch holds nothing of an earlier call, and constants what they came with."""
        for room in self.scratch:
            self.driver.fill(room.place, POISON_BYTE, room.count, stream)
        for room, data in self.constants:
            self.driver.upload(room.place, data, room.count)

    def close(self) -> None:
        for room in (*self.scratch, *(room for room, _ in self.constants)):
            room.close()


class ReplayedKernel:
    """A candidate's programs, in the child. Inputs go to the device for every call, outputs come back."""

    def __init__(self, workdir: Path, device: int = 0) -> None:
        try:
            self.driver = Driver(device)
        except Absent as error:
            raise InfraError(str(error)) from error
        self.programs = read(workdir / FILE)
        for program in self.programs.values():
            refuse_impossible(program)
        with blamed():
            self.loaded = Loaded(self.driver, images(workdir))

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        tensors = (*arguments.inputs, *arguments.outputs)
        program = self.program([tensor.data.nbytes for tensor in tensors], arguments)
        with blamed():
            rooms = [Room(self.driver, tensor.data.nbytes) for tensor in tensors]
            bound = Bound(self.driver, self.loaded, program, [room.place for room in rooms])
        inputs, outputs = list(zip(rooms, arguments.inputs)), list(zip(rooms[len(arguments.inputs) :], arguments.outputs))

        def call() -> None:
            with blamed():
                for room, tensor in (*inputs, *outputs):  # outputs come poisoned
                    self.driver.upload(room.place, tensor.data.ctypes.data, tensor.data.nbytes)
                bound.poison()
                bound.start()
                self.driver.synchronize()
                for room, tensor in outputs:
                    self.driver.download(tensor.data.ctypes.data, room.place, tensor.data.nbytes)
                self.refuse_trespass(inputs, outputs, bound)

        return call

    def program(self, sizes: list[int], arguments: Arguments) -> Program:
        """The one that was recorded for tensors of these sizes."""
        found = self.programs.get(key_of(arguments))
        if found is None:
            raise CandidateError("raised", "this size was never recorded")
        if list(found.tensors) != sizes:
            raise CandidateError("forbidden", "what was recorded of this kernel's launches was changed")
        return found

    def refuse_trespass(self, inputs: Sequence[tuple[Room, object]], outputs: Sequence[tuple[Room, object]], bound: Bound) -> None:
        for room, tensor in (*inputs, *outputs):
            if not room.is_untouched():
                raise CandidateError("out_of_bounds", f"the kernel wrote before or after `{tensor.name}`")  # type: ignore[attr-defined]
        for room in (*bound.scratch, *(room for room, _ in bound.constants)):
            if not room.is_untouched():
                raise CandidateError("out_of_bounds", "the kernel wrote before or after its scratch memory")
        for room, tensor in inputs:
            data: np.ndarray = tensor.data  # type: ignore[attr-defined]
            seen = np.empty(data.nbytes, np.uint8)
            self.driver.download(seen.ctypes.data, room.place, data.nbytes)
            if seen.tobytes() != data.tobytes():
                raise CandidateError("inputs", f"the kernel changed `{tensor.name}`: inputs are read only")  # type: ignore[attr-defined]


class blamed:
    """What the driver answers is put into words; what only the machine can have done is nobody's fault."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DeviceError):
            raise told(error) from error


def told(error: DeviceError) -> Exception:
    """A driver's answer as somebody's fault."""
    if error.code == NO_MEMORY:
        return CandidateError("memory", "the tensors and the scratch of this kernel do not fit into the device's memory")
    if error.code == NOT_FOUND:
        return CandidateError("symbol", "a kernel that is launched is not in the compiled code")
    if error.code in WORDS:
        reason, words = WORDS[error.code]
        return CandidateError(reason, f"{words} ({error.name})")
    if error.code in STICKY:
        return CandidateError("crash", f"the kernel failed on the device: {error}")
    return InfraError(f"the GPU failed: {error}")


def images(workdir: Path) -> dict[str, bytes]:
    """Device code by file name."""
    return {path.name: path.read_bytes() for path in sorted(workdir.glob(MODULES))}


def key_of(arguments: Arguments) -> str:
    """Of the program for a call."""
    tensors = [(tensor.dtype, tensor.data.shape) for tensor in (*arguments.inputs, *arguments.outputs)]
    return key(tensors, [(kind, value) for _, kind, value in arguments.scalars])
