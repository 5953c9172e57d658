"""The reference as something to run: inputs from a seed, outputs from inputs, a zero-argument call for the clock."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import random
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from evokernel.core.errors import UserError, is_out_of_memory
from evokernel.core.protocols import Array
from evokernel.core.records import ScalarArgument
from evokernel.reference.arrays import dtype_name, to_array
from evokernel.reference.constants import constants, replace
from evokernel.reference.names import Names, output_names

warnings.filterwarnings("ignore", message="mkldnn_matmul failed")  # torch then takes another way, with a screenful about it

CHANCE = threading.Lock()
"""The generators that tasks draw from are global to the process: one sample at a time."""
NOBODY = nullcontext()


class Named(NamedTuple):
    """A tensor under the name the kernel knows it by."""

    name: str
    tensor: torch.Tensor


@dataclass(frozen=True, eq=False)
class Sample:
    """One module with one set of inputs, all from one seed."""

    seed: int
    module: torch.nn.Module
    args: tuple[object, ...]
    """What `forward` is called with."""
    inputs: tuple[Named, ...]
    params: tuple[Named, ...]
    """Parameters, then buffers, then tensors the module merely holds."""
    scalars: tuple[ScalarArgument, ...]

    def arrays(self) -> tuple[Array, ...]:
        """Inputs, then parameters and buffers, as the kernel gets them: row-major, in the signature's order."""
        return tuple(to_array(name, tensor) for name, tensor in self.inputs + self.params)


class blame:
    """Turns whatever the user's own task file raises into one line that names the file, the line and what to fix."""

    def __init__(self, file: str, doing: str) -> None:
        self.file, self.doing = file, doing

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        if error is None or isinstance(error, UserError | KeyboardInterrupt | GeneratorExit):
            return
        line = None
        while trace is not None:
            line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == self.file else line
            trace = trace.tb_next
        if isinstance(error, SyntaxError):
            line = error.lineno
        first = (str(error).strip().splitlines() or [""])[0][:300]
        said = f"{type(error).__name__}: {first}" if first else type(error).__name__
        at = f", line {line}" if line else ""
        mend = f"pip install {error.name}" if isinstance(error, ModuleNotFoundError) and error.name else "fix the task file"
        if is_out_of_memory(error):
            mend = "memory is out: give it smaller sizes, or a machine with more"
        raise UserError(f"task file {self.file}{at}: {self.doing} raised {said}; {mend}") from error


class Reference:
    """A task's module with some of its integer constants replaced. Trusted code: it runs in this process.

    `sample(seed)` draws module and inputs anew; equal seeds give equal samples, other seeds the same shapes.
    """

    def __init__(self, source: str, name: str = "task.py", overrides: Mapping[str, int] | None = None) -> None:
        self.name = name
        with blame(name, "reading it"):
            tree = ast.parse(source, name)
        self.constants = constants(tree)
        for key, value in (overrides or {}).items():
            if key not in self.constants:
                there = ", ".join(self.constants) or "none"
                raise UserError(f"task file {name}: '{key}' is no integer constant of the module; it has: {there}")
            self.constants[key] = value
        replace(tree, overrides or {})
        with blame(name, "loading it"):
            self.namespace = execute(tree, source, name)
        for needed, shape in (("Model", "class Model(nn.Module)"), ("get_inputs", "def get_inputs()")):
            if not callable(self.namespace.get(needed)):
                raise UserError(f"task file {name}: it defines no {needed}; add `{shape}`")
        if not (isinstance(self.namespace["Model"], type) and issubclass(self.namespace["Model"], torch.nn.Module)):
            raise UserError(f"task file {name}: Model is no torch.nn.Module; write `class Model(nn.Module)`")
        self._mutates: bool | None = None

    def sample(self, seed: int, module: torch.nn.Module | None = None) -> Sample:
        """Module, unless one is given, and inputs drawn from a seed; the caller's random state stays as it was."""
        with CHANCE, own_chance(seed):
            init = self.initial()
            if module is None:
                with blame(self.name, "Model(...)"):
                    module = self.namespace["Model"](*init).eval()
            args = self._arguments("get_inputs")
        names = Names()
        inputs: list[Named] = []
        scalars: list[ScalarArgument] = []
        given = named_leaves(module.forward, args)
        for label, leaf in given:
            if isinstance(leaf, torch.Tensor):
                inputs.append(self._named(names, label, leaf))
        params = tuple(self._named(names, label, tensor) for label, tensor in held_tensors(module))
        for label, leaf in given + named_leaves(module.__init__, init):
            kind = "bool" if isinstance(leaf, bool) else "int" if isinstance(leaf, int) else "float"
            if isinstance(leaf, bool | int | float):
                scalars.append(ScalarArgument.model_validate({"name": names.take(label), "kind": kind, "value": leaf}))
        return Sample(seed, module, args, tuple(inputs), params, tuple(scalars))

    def run(self, sample: Sample, seed: int | None = None, watch: AbstractContextManager[Any] = NOBODY) -> tuple[Named, ...]:
        """The outputs, row-major and independent of the sample, which is left as it was.

        `seed` is for references that draw random numbers while they compute; the sample's own unless given. `watch` is around the call.
        """
        held = [tensor for _, tensor in sample.inputs + sample.params]
        before = [(tensor, tensor._version) for tensor in held]
        saved = [] if self._mutates is False else [tensor.detach().clone() for tensor in held]
        with CHANCE, own_chance(sample.seed if seed is None else seed), torch.no_grad(), blame(self.name, "Model.forward"), watch:
            result = sample.module(*sample.args)
        outputs = tuple(self.outputs(result, held))
        changed = [tensor._version != version for tensor, version in before]
        with torch.no_grad():
            for tensor, copy, dirty in zip(held, saved, changed):
                if dirty:
                    tensor.copy_(copy)
        self._mutates = any(changed)
        return outputs

    def baseline(self, sample: Sample, module: Callable[..., object] | None = None) -> Callable[[], object]:
        """A call of the reference for the clock; `module` may be a compiled `sample.module`.

        A reference that writes into its inputs works on fresh copies each time, as a kernel has to leave its inputs alone too.
        """
        if self._mutates is None:
            self.run(sample)
        call, args, mutates = module if module is not None else sample.module, sample.args, self._mutates

        def once() -> object:
            with torch.no_grad():
                return call(*(copied(args) if mutates else args))

        return once

    def initial(self) -> tuple[Any, ...]:
        """What the module is made with."""
        return self._arguments("get_init_inputs") if "get_init_inputs" in self.namespace else ()

    def _arguments(self, function: str) -> tuple[Any, ...]:
        with blame(self.name, f"{function}()"):
            values = self.namespace[function]()
        if not isinstance(values, list | tuple):
            raise UserError(f"task file {self.name}: {function}() returned a {type(values).__name__}; return a list of arguments")
        return tuple(values)

    def _named(self, names: Names, label: str, tensor: torch.Tensor) -> Named:
        try:
            dtype_name(tensor)
        except UserError as error:
            raise UserError(f"task file {self.name}: '{label}': {error}") from error
        return Named(names.take(label), tensor)

    def outputs(self, result: object, held: list[torch.Tensor]) -> Iterator[Named]:
        """What forward returned, under the names a kernel knows; a copy of what belongs to the sample."""
        owned = {tensor.untyped_storage()._cdata for tensor in held}
        found = [leaf for _, leaf in leaves("out", result) if leaf is not None]
        if not found:
            raise UserError(f"task file {self.name}: Model.forward returned nothing; return a tensor, or a tuple of tensors")
        for name, leaf in zip(output_names(len(found)), found):
            if not isinstance(leaf, torch.Tensor):
                raise UserError(f"task file {self.name}: Model.forward returned a {type(leaf).__name__}; return tensors")
            self._named(Names(), name, leaf)
            plain = leaf.detach().contiguous()
            yield Named(name, plain.clone() if plain.untyped_storage()._cdata in owned else plain)


class own_chance:
    """Seeds torch, numpy and random for a while, then puts their states back."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __enter__(self) -> None:
        self.before = torch.random.get_rng_state(), np.random.get_state(), random.getstate()
        torch.default_generator.manual_seed(self.seed)  # torch.manual_seed does the same after loading the compiler, a second per process
        np.random.seed(self.seed % 2**32)
        random.seed(self.seed)

    def __exit__(self, *_: object) -> None:
        torch.random.set_rng_state(self.before[0])
        np.random.set_state(self.before[1])
        random.setstate(self.before[2])


def execute(tree: ast.Module, source: str, name: str) -> dict[str, Any]:
    """Runs the task file in a namespace of its own; tracebacks and compilers that ask for its lines find them."""
    text = ast.unparse(tree)
    module = types.ModuleType(f"evokernel_task_{Path(name).stem}_{hashlib.sha256(text.encode()).hexdigest()[:12]}")
    module.__file__ = name
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    sys.modules[module.__name__] = module  # dataclasses and typing look a class's module up while it is being defined
    try:
        exec(compile(tree, name, "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module.__dict__


def named_leaves(function: Callable[..., object], values: tuple[object, ...]) -> list[tuple[str, object]]:
    """Each argument under its parameter's name, nested ones taken apart as `name_0, name_1` or `name_key`."""
    names: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{i}" for i in range(len(values) - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    names += [f"arg_{i}" for i in range(len(names), len(values))]
    return [leaf for name, value in zip(names, values) for leaf in leaves(name, value)]


def leaves(name: str, value: object) -> Iterator[tuple[str, object]]:
    """What lists, tuples and dictionaries hold, in order."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(f"{name}_{key}", item)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from leaves(f"{name}_{i}", item)
    else:
        yield name, value


def held_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, then buffers, then tensors kept as plain attributes: the kernel can know none of them otherwise.

    How many batches a normalisation has seen is left out: only training asks for that.
    """
    yield from module.named_parameters()
    yield from ((name, tensor) for name, tensor in module.named_buffers() if not name.endswith("num_batches_tracked"))
    for prefix, part in module.named_modules():
        for key, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                yield f"{prefix}.{key}".lstrip("."), value


def copied(value: Any) -> Any:
    """The same nest of arguments with fresh tensors."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    return tuple(copied(item) for item in value) if isinstance(value, list | tuple) else value
