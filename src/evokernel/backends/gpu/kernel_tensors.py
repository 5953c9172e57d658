"""A candidate's own copies of a task's tensors on the device, with guard bands around them, and its recorded program bound to them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from evokernel.backends.gpu.driver import Driver
from evokernel.backends.gpu.program import FILE, Program, read_programs, validate_program
from evokernel.backends.gpu.replay import POISON_BYTE, BoundProgram, GuardedBuffer, LoadedModules, read_images, translate_driver_errors
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    import torch

WRITES_OUTSIDE = "a call at the timed size wrote outside its tensors; check the bounds of every store"


class KernelTensors:
    """Guarded copies of inputs and outputs."""

    def __init__(self, driver: Driver, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        self.driver = driver
        self.inputs, self.outputs = ([GuardedBuffer(driver, tensor.nbytes) for tensor in part] for part in (inputs, outputs))

    @property
    def places(self) -> list[int]:
        return [room.place for room in (*self.inputs, *self.outputs)]

    def fill(self, inputs: Sequence[torch.Tensor]) -> None:
        """Copies the inputs and poisons the outputs."""
        for room, tensor in zip(self.inputs, inputs, strict=True):
            self.driver.copy(room.place, tensor.data_ptr(), room.count)
        for room in self.outputs:
            self.driver.fill(room.place, POISON_BYTE, room.count)

    def is_guard_intact(self) -> bool:
        return all(room.is_guard_intact() for room in (*self.inputs, *self.outputs))

    def has_inputs(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether the copies still have the bits of the inputs."""
        from evokernel.reference.device_sample import have_equal_bits

        for room, tensor in zip(self.inputs, inputs, strict=True):
            copy = tensor.clone()
            self.driver.copy(copy.data_ptr(), room.place, room.count)
            if not have_equal_bits(copy, tensor):
                return False
        return True

    def copy_outputs(self, targets: Sequence[torch.Tensor]) -> None:
        for room, tensor in zip(self.outputs, targets, strict=True):
            self.driver.copy(tensor.data_ptr(), room.place, room.count)

    def close(self) -> None:
        for room in (*self.inputs, *self.outputs):
            room.close()


def bind_program(driver: Driver, tensors: KernelTensors, folder: Path, key: str, resources: ExitStack, file: str = FILE) -> BoundProgram:
    """Loads a candidate's device code and binds its program for one size to the tensors; `resources` closes both."""
    program: Program = read_programs(folder / file)[key]
    validate_program(program)
    modules = resources.enter_context(closing(LoadedModules(driver, read_images(folder))))
    return resources.enter_context(closing(BoundProgram(driver, modules, program, tensors.places)))


class RecordedKernel:
    """A candidate's recorded program with tensors of its own (`device_check.CheckedKernel`)."""

    def __init__(
        self, driver: Driver, folder: Path, key: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], resources: ExitStack
    ) -> None:
        """`inputs` and `outputs` only give sizes; they may be tensors without memory."""
        self.driver, self.outputs = driver, list(outputs)
        with translate_driver_errors():
            self.tensors = resources.enter_context(closing(KernelTensors(driver, inputs, outputs)))
            self.program = bind_program(driver, self.tensors, folder, key, resources)

    @property
    def nbytes(self) -> int:
        """Device memory of the kernel's tensors and scratch."""
        return sum(room.total_bytes for room in (*self.tensors.inputs, *self.tensors.outputs, *self.program.scratch))

    def run(self, inputs: Sequence[torch.Tensor]) -> None:
        self.tensors.fill(inputs)
        self.program.poison()
        self.program.start()
        self.driver.synchronize()
        rooms = (*self.program.scratch, *(room for room, _ in self.program.constants))
        if not self.tensors.is_guard_intact() or not all(room.is_guard_intact() for room in rooms):
            raise CandidateError("out_of_bounds", WRITES_OUTSIDE)

    def read_outputs(self) -> list[torch.Tensor]:
        import torch

        device = "cuda" if torch.cuda.is_initialized() else "cpu"
        copies = [torch.empty(output.shape, dtype=output.dtype, device=device) for output in self.outputs]
        self.tensors.copy_outputs(copies)
        self.driver.synchronize()
        return copies

    def has_inputs(self, inputs: Sequence[torch.Tensor]) -> bool:
        return self.tensors.has_inputs(inputs)
