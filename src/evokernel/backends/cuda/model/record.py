"""Runs a model once, on tensors at addresses where nothing is, and writes down what its extensions launch."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from evokernel.backends.cuda.model import EXTENSIONS, FILE, ORDER
from evokernel.backends.cuda.model.host import loaded, stage
from evokernel.backends.cuda.model.tensors import Device, Maker, Stage
from evokernel.backends.cuda.record import APART, FIRST, Tape, key_of, places, unloadable
from evokernel.backends.gpu.program import WORD, Copy, Launch, Program, Step, renumbered, used
from evokernel.core.errors import CandidateError
from evokernel.core.protocols import CallShape
from evokernel.reference.module import Reference, Sample, held_tensors, leaves, own_chance

SEED = 0x5EED
MOST_BYTES = 1 << 20
"""Of a tensor that is not the reference's."""
DEFAULT_STREAM = 0
SCRATCH, OWN = 0x5EEE << 48, 0x5EEF << 48
"""Where scratch is, and what a model brought along; the first is the recorder's."""


def record(workdir: Path, calls: Mapping[str, CallShape], into: Path) -> None:
    """Leaves the program of the one size a model is made for, and the device code, in a folder."""
    torch.set_num_threads(1)  # this process may start none
    order = json.loads((workdir / ORDER).read_text())
    reference, small = (Reference(order["source"], order["name"], order[size]) for size in ("sizes", "small"))
    tape = Tape(workdir)
    model = Model(tape, Maker(workdir), workdir, json.loads((workdir / EXTENSIONS).read_text()))
    with stage(model.load_inline, tape.facts), torch.no_grad():
        programs = {key_of(call): model.program(reference, small, call) for call in calls.values()}
    tape.keep(programs, into)


class Model:
    """A candidate's class, and the device it believes to be on."""

    def __init__(self, tape: Tape, make: Maker, folder: Path, extensions: Sequence[str]) -> None:
        self.tape, self.make, self.folder, self.extensions = tape, make, folder, extensions
        self.built = 0
        self.own: list[tuple[str, bytes | None]] = []
        """What it brought along: a name, and the contents where they are known."""
        self.is_called = False

    def load_inline(self, *_: object, **__: object) -> Any:
        """The next of what was built: a model's file asks for them in the order in which it did when they were collected."""
        if self.built >= len(self.extensions):
            raise CandidateError("forbidden", "the file has other extensions compiled than when it was looked at")
        name = self.extensions[self.built]
        self.built += 1
        module = imported(name, self.folder / f"{name}.so")
        self.tape.learn()
        return module

    def program(self, reference: Reference, small: Reference, call: CallShape) -> Program:
        """Of a small size only the way arguments are nested is taken: large ones would be drawn for nothing."""
        with own_chance(SEED):
            module = reference.namespace["Model"](*reference.initial()).eval()
        sample = small.sample(SEED, module)
        bases, sizes = places(call)
        there = [
            self.make(base, shape, strides(shape), getattr(torch, dtype))
            for base, (_, dtype, shape) in zip(bases, (*call.inputs, *call.outputs))
        ]
        with Stage(self.make, Device(self.take, self.fill, self.copy)):
            with own_chance(SEED):
                model = loaded(self.folder / FILE)(*reference.initial()).eval()
            self.adopt(model, sample, there[len(sample.inputs) : len(call.inputs)])
            given = {id(tensor): stand_in for (_, tensor), stand_in in zip(sample.inputs, there)}
            numbers = iter([number(kind, value) for _, kind, value in call.scalars])
            brought = [len(data or b"") for _, data in self.own]
            self.tape.begin([*bases, *map(own_place, range(len(brought)))], [*sizes, *brought], DEFAULT_STREAM)
            self.is_called = True
            try:
                result = model(*placed(sample.args, given, numbers))
            finally:
                self.tape.refuse_trouble()  # which says more than what became of it
        steps, scratch, data = self.tape.end()
        self.refuse_unknown(steps)
        if not any(isinstance(step, Launch) for step in steps):
            raise CandidateError("no_code", "ModelNew launches no kernel of its own")
        found = [leaf for _, leaf in leaves("out", result) if leaf is not None]
        constants = (*(known or b"" for _, known in self.own), *data)
        made = Program(tuple(sizes), len(call.outputs), tuple(scratch), tuple(steps), constants)
        return returned(made, call, found, len(self.own))

    def adopt(self, model: torch.nn.Module, sample: Sample, there: Sequence[torch.Tensor]) -> None:
        """Parameters and buffers become the reference's, since both were made alike."""
        known = [Held(name, tensor, stand_in) for (name, tensor), stand_in in zip(held_tensors(sample.module), there, strict=True)]
        taken: set[str] = set()
        for prefix, part in model.named_modules():
            for store in (part._parameters, part._buffers, vars(part)):
                for key, value in list(store.items()):
                    if isinstance(value, torch.Tensor):
                        store[key] = self.adopted(f"{prefix}.{key}".lstrip("."), value, known, taken)

    def adopted(self, name: str, value: torch.Tensor, known: Sequence[Held], taken: set[str]) -> torch.Tensor:
        if found := the_same(name, value, [one for one in known if one.name not in taken]) or the_same(name, value, known):
            taken.add(found.name)
            return found.stand_in
        if value.is_cuda:
            return value
        flat = value.detach().contiguous()
        count = flat.numel() * flat.element_size()
        if count > MOST_BYTES:
            return self.make.like(flat, self.keep(f"{name}, which is no tensor of the reference's and has over {MOST_BYTES} bytes", None))
        return self.make.like(flat, self.keep(name, ctypes.string_at(flat.data_ptr(), count) if count else b""))

    def keep(self, name: str, data: bytes | None) -> int:
        """An address for what a model brought along."""
        self.own.append((name, data))
        return own_place(len(self.own) - 1)

    def take(self, count: int) -> int:
        if not self.is_called:
            return self.keep("a tensor that was taken before the call", None)
        place = ctypes.c_void_p()
        self.tape.library.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(count))
        return place.value or 0

    def fill(self, place: int, value: int, width: int, count: int) -> None:
        if place < OWN:
            self.tape.library.recorder_fill(ctypes.c_void_p(place), ctypes.c_uint64(value), width, ctypes.c_size_t(count))

    def copy(self, target: int, source: int, count: int) -> None:
        self.tape.library.cudaMemcpy(ctypes.c_void_p(target), ctypes.c_void_p(source), ctypes.c_size_t(count), 3)

    def refuse_unknown(self, steps: Sequence[Step]) -> None:
        """What was put there before the call was not written down."""
        for word in (word for step in steps if isinstance(step, Launch) for word in words(step.arguments)):
            number = (word - OWN) // APART
            if 0 <= number < len(self.own) and self.own[number][1] is None:
                raise CandidateError("unsupported", f"a kernel uses {self.own[number][0]}: its contents are not known here")


class Held(NamedTuple):
    """A tensor that the reference holds, and what stands for it."""

    name: str
    tensor: torch.Tensor
    stand_in: torch.Tensor


def the_same(name: str, value: torch.Tensor, known: Sequence[Held]) -> Held | None:
    """The one of the reference's that a model's tensor is: of its name; else of its last name, or its values, or best of both."""

    def likeness(one: Held) -> tuple[bool, int]:
        is_named_so = one.name.rpartition(".")[2] == name.rpartition(".")[2]
        return one.name == name, 2 * (not value.is_cuda and torch.equal(one.tensor, value)) + is_named_so

    alike = [one for one in known if one.tensor.shape == value.shape and one.tensor.dtype == value.dtype]
    best = max(alike, key=likeness, default=None)
    return best if best and any(likeness(best)) else None


def imported(name: str, path: Path) -> Any:
    """An extension; what it calls of the CUDA runtime is the recorder's, whatever else PyTorch has loaded."""
    before = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_DEEPBIND)
    try:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise unloadable(error) from error
    finally:
        sys.setdlopenflags(before)
    return module


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Of a tensor in row-major order."""
    found, step = [], 1
    for extent in reversed(shape):
        found.append(step)
        step *= max(extent, 1)
    return tuple(reversed(found))


def placed(value: Any, given: Mapping[int, torch.Tensor], numbers: Iterator[float]) -> Any:
    """The same nest of arguments with the tensors that stand for them, and with the numbers of this size, in order."""
    if isinstance(value, torch.Tensor):
        return given[id(value)]
    if isinstance(value, bool | int | float):
        return next(numbers)
    if isinstance(value, Mapping):
        return {key: placed(item, given, numbers) for key, item in value.items()}
    return type(value)(placed(item, given, numbers) for item in value) if isinstance(value, list | tuple) else value


def number(kind: str, value: float) -> float:
    """As Python has it."""
    return bool(value) if kind == "bool" else int(value) if kind == "int" else value


def own_place(number: int) -> int:
    return OWN + APART * number


def words(packed: bytes) -> Iterator[int]:
    return (int.from_bytes(packed[at : at + WORD], "little") for at in range(0, len(packed) - WORD + 1, WORD))


def returned(made: Program, call: CallShape, results: Sequence[Any], brought: int) -> Program:
    """What a model returns becomes the outputs: scratch that is one is no scratch any longer, everything else is copied.

    The recorder counts what a model brought along before scratch, and what it copied from the host by numbers below -1; what is kept
    has both at the end.
    """
    refuse_other(call, results)
    inputs, given = len(call.inputs), len(made.tensors)
    first = given + brought
    data = range(-2, -2 - len(made.constants) + brought, -1)
    numbers: dict[int, int] = {}
    steps = list(made.steps)
    for number, result in enumerate(results):
        tensor, offset = place(result.data_ptr(), first)
        size = made.tensors[inputs + number]
        if tensor >= first and tensor not in numbers and offset == 0 and made.scratch[tensor - first] == size:
            numbers[tensor] = inputs + number
        else:
            steps.append(Copy(inputs + number, 0, tensor, offset, size))
    left = [tensor for tensor in range(first, first + len(made.scratch)) if tensor not in numbers]
    numbers |= {tensor: tensor for tensor in range(given)}
    held = dict(zip([*range(given, first), *data], made.constants, strict=True))
    kept = [tensor for tensor in held if any(tensor in used(step) for step in steps)]
    numbers |= {tensor: given + index for index, tensor in enumerate([*left, *kept])}
    return made._replace(
        scratch=tuple(made.scratch[tensor - first] for tensor in left),
        steps=tuple(renumbered(step, numbers.__getitem__) for step in steps),
        constants=tuple(held[tensor] for tensor in kept),
    )


def place(address: int, scratch: int) -> tuple[int, int]:
    """Which tensor is there, and the byte in it; scratch is counted from a number on."""
    first, offset = (scratch, address - SCRATCH) if address >= SCRATCH else (0, address - FIRST)
    return first + offset // APART, offset % APART


def refuse_other(call: CallShape, results: Sequence[Any]) -> None:
    wanted = [(dtype, shape) for _, dtype, shape in call.outputs]
    found = [(str(one.dtype).removeprefix("torch."), tuple(one.shape)) for one in results if isinstance(one, torch.Tensor)]
    if found != wanted or len(found) != len(results):
        raise CandidateError("mismatch", f"ModelNew returns {found}, the reference {wanted}")
    for result in results:
        if not result.is_cuda or not result.is_contiguous() or result.data_ptr() >= OWN:
            raise CandidateError("unsupported", "ModelNew returns a tensor that is not whole, or was not computed in this call")
