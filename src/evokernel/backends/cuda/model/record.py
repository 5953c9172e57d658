"""Runs a model once on tensors at unmapped addresses and records the launches of its extensions."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from evokernel.backends.cuda.model import EXTENSIONS, FILE, ORDER
from evokernel.backends.cuda.model.tensors import DeviceCallbacks, DispatchGuard, TensorFactory
from evokernel.backends.cuda.record import APART, FIRST, RecordingRuntime, explain_load_error, fake_addresses, program_key_of
from evokernel.backends.gpu.model_environment import fake_cuda_environment, load_model_class
from evokernel.backends.gpu.program import WORD, Copy, Launch, Program, Step, renumber_tensors, tensors_of_step
from evokernel.core.backend import CallShape
from evokernel.core.errors import CandidateError
from evokernel.reference.module import Reference, Sample, SeededRandom, flatten_value, module_tensors
from evokernel.reference.solution_binding import ReferenceTensor, as_python_number, bind_tensors, substitute_arguments

SEED = 0x5EED
MOST_BYTES = 1 << 20
"""Name of a tensor that does not belong to the reference."""
DEFAULT_STREAM = 0
SCRATCH, OWN = 0x5EEE << 48, 0x5EEF << 48
"""Base addresses of scratch (used by the recorder) and of the model's own tensors."""


def record_model(workdir: Path, calls: Mapping[str, CallShape], into: Path) -> None:
    """Records the program of the model's one size and the device code into a folder."""
    torch.set_num_threads(1)  # this process may start none
    order = json.loads((workdir / ORDER).read_text())
    reference, small = (Reference(order["source"], order["name"], order[size]) for size in ("sizes", "small"))
    runtime = RecordingRuntime(workdir)
    model = ModelRecorder(runtime, TensorFactory(workdir), workdir, json.loads((workdir / EXTENSIONS).read_text()))
    with fake_cuda_environment(model.load_inline, runtime.attributes), torch.no_grad():
        programs = {program_key_of(call): model.program(reference, small, call) for call in calls.values()}
    runtime.write_programs(programs, into)


class ModelRecorder:
    """Records a candidate's model on a fake device."""

    def __init__(self, runtime: RecordingRuntime, make: TensorFactory, folder: Path, extensions: Sequence[str]) -> None:
        self.runtime, self.make, self.folder, self.extensions = runtime, make, folder, extensions
        self.built = 0
        self.own: list[tuple[str, bytes | None]] = []
        """The model's own tensors: name, and contents if known."""
        self.is_called = False

    def load_inline(self, *_: object, **__: object) -> Any:
        """Returns the next built extension; a model requests them in the order in which they were collected."""
        if self.built >= len(self.extensions):
            raise CandidateError(
                "forbidden", "the file compiles other extensions than at the first run; compile the same extensions every time"
            )
        name = self.extensions[self.built]
        self.built += 1
        module = import_extension(name, self.folder / f"{name}.so")
        self.runtime.register_device_code()
        return module

    def program(self, reference: Reference, small: Reference, call: CallShape) -> Program:
        """Records the program; the small size provides only the nesting of arguments, so that large inputs need not be drawn."""
        with SeededRandom(SEED):
            module = reference.namespace["Model"](*reference.init_arguments()).eval()
        sample = small.sample(SEED, module)
        bases, sizes = fake_addresses(call)
        there = [
            self.make(base, shape, row_major_strides(shape), getattr(torch, dtype))
            for base, (_, dtype, shape) in zip(bases, (*call.inputs, *call.outputs))
        ]
        with DispatchGuard(self.make, DeviceCallbacks(self.take, self.fill, self.copy)):
            with SeededRandom(SEED):
                model = load_model_class(self.folder / FILE)(*reference.init_arguments()).eval()
            self.adopt(model, sample, there[len(sample.inputs) : len(call.inputs)])
            given = {id(tensor): substitute for (_, tensor), substitute in zip(sample.inputs, there)}
            numbers = iter([as_python_number(kind, value) for _, kind, value in call.scalars])
            brought = [len(data or b"") for _, data in self.own]
            self.runtime.begin([*bases, *map(constant_address, range(len(brought)))], [*sizes, *brought], DEFAULT_STREAM)
            self.is_called = True
            try:
                result = model(*substitute_arguments(sample.args, given, numbers))
            finally:
                self.runtime.raise_for_violation()  # which says more than what became of it
        steps, scratch, data = self.runtime.end()
        self.refuse_unknown(steps)
        if not any(isinstance(step, Launch) for step in steps):
            raise CandidateError("no_code", "ModelNew launches no kernel of its extensions")
        found = [leaf for _, leaf in flatten_value("out", result) if leaf is not None]
        constants = (*(known or b"" for _, known in self.own), *data)
        made = Program(tuple(sizes), len(call.outputs), tuple(scratch), tuple(steps), constants)
        return map_results_to_outputs(made, call, found, len(self.own))

    def adopt(self, model: torch.nn.Module, sample: Sample, there: Sequence[torch.Tensor]) -> None:
        """Replaces parameters and buffers by the reference's, because both models are initialised alike."""
        known = [
            ReferenceTensor(name, tensor, substitute)
            for (name, tensor), substitute in zip(module_tensors(sample.module), there, strict=True)
        ]
        bind_tensors(model, known, self.adopt_own)

    def adopt_own(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """Returns the substitute of a tensor that is not the reference's."""
        if value.is_cuda:
            return value
        flat = value.detach().contiguous()
        count = flat.numel() * flat.element_size()
        if count > MOST_BYTES:
            return self.make.like(flat, self.keep(f"{name}, which is no tensor of the reference's and has over {MOST_BYTES} bytes", None))
        return self.make.like(flat, self.keep(name, ctypes.string_at(flat.data_ptr(), count) if count else b""))

    def keep(self, name: str, data: bytes | None) -> int:
        """Assigns an address to a tensor that the model created itself."""
        self.own.append((name, data))
        return constant_address(len(self.own) - 1)

    def take(self, count: int) -> int:
        if not self.is_called:
            return self.keep("a tensor that was taken before the call", None)
        place = ctypes.c_void_p()
        self.runtime.library.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(count))
        return place.value or 0

    def fill(self, place: int, value: int, width: int, count: int) -> None:
        if place < OWN:
            self.runtime.library.recorder_fill(ctypes.c_void_p(place), ctypes.c_uint64(value), width, ctypes.c_size_t(count))

    def copy(self, target: int, source: int, count: int) -> None:
        self.runtime.library.cudaMemcpy(ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_size_t(count), 3)

    def refuse_unknown(self, steps: Sequence[Step]) -> None:
        """Raises CandidateError if the recording uses a tensor whose contents are unknown."""
        for word in (word for step in steps if isinstance(step, Launch) for word in unpack_words(step.arguments)):
            number = (word - OWN) // APART
            if 0 <= number < len(self.own) and self.own[number][1] is None:
                raise CandidateError(
                    "unsupported", f"a kernel uses {self.own[number][0]}, whose contents are unknown; compute it in a kernel"
                )


def import_extension(name: str, path: Path) -> Any:
    """Imports an extension so that its CUDA runtime calls reach the recorder, whatever PyTorch has loaded."""
    before = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_DEEPBIND)
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise explain_load_error(error) from error
    finally:
        sys.setdlopenflags(before)
    return module


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of a row-major tensor."""
    found, step = [], 1
    for extent in reversed(shape):
        found.append(step)
        step *= max(extent, 1)
    return tuple(reversed(found))


def constant_address(number: int) -> int:
    return OWN + APART * number


def unpack_words(packed: bytes) -> Iterator[int]:
    return (int.from_bytes(packed[at : at + WORD], "little") for at in range(0, len(packed) - WORD + 1, WORD))


def map_results_to_outputs(made: Program, call: CallShape, results: Sequence[Any], brought: int) -> Program:
    """Maps a model's results to the outputs: scratch that is returned becomes an output, everything else is copied.

    The recorder counts what a model brought along before scratch, and what it copied from the host by numbers below -1; what is kept
    has both at the end.
    """
    check_results(call, results)
    inputs, given = len(call.inputs), len(made.tensors)
    first = given + brought
    data = range(-2, -2 - len(made.constants) + brought, -1)
    numbers: dict[int, int] = {}
    steps = list(made.steps)
    for number, result in enumerate(results):
        tensor, offset = locate_address(result.data_ptr(), first)
        size = made.tensors[inputs + number]
        if tensor >= first and tensor not in numbers and offset == 0 and made.scratch[tensor - first] == size:
            numbers[tensor] = inputs + number
        else:
            steps.append(Copy(inputs + number, 0, tensor, offset, size))
    left = [tensor for tensor in range(first, first + len(made.scratch)) if tensor not in numbers]
    numbers |= {tensor: tensor for tensor in range(given)}
    held = dict(zip([*range(given, first), *data], made.constants, strict=True))
    kept = [tensor for tensor in held if any(tensor in tensors_of_step(step) for step in steps)]
    numbers |= {tensor: given + index for index, tensor in enumerate([*left, *kept])}
    return made._replace(
        scratch=tuple(made.scratch[tensor - first] for tensor in left),
        steps=tuple(renumber_tensors(step, numbers.__getitem__) for step in steps),
        constants=tuple(held[tensor] for tensor in kept),
    )


def locate_address(address: int, scratch: int) -> tuple[int, int]:
    """Returns the tensor at an address and the byte offset in it; scratch tensors are numbered from `scratch`."""
    first, offset = (scratch, address - SCRATCH) if address >= SCRATCH else (0, address - FIRST)
    return first + offset // APART, offset % APART


def check_results(call: CallShape, results: Sequence[Any]) -> None:
    wanted = [(dtype, shape) for _, dtype, shape in call.outputs]
    found = [(str(one.dtype).removeprefix("torch."), tuple(one.shape)) for one in results if isinstance(one, torch.Tensor)]
    if found != wanted or len(found) != len(results):
        raise CandidateError("mismatch", f"ModelNew returns {found}, the reference {wanted}")
    for result in results:
        if not result.is_cuda or not result.is_contiguous() or result.data_ptr() >= OWN:
            raise CandidateError("unsupported", "ModelNew returns a tensor that is not contiguous, or was not computed in this call")
