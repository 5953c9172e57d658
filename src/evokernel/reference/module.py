"""Loads a task file as a runnable reference: draws inputs from a seed, computes outputs, and returns a call to time."""

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from evokernel.core.backend import Array
from evokernel.core.errors import UserError, is_out_of_memory
from evokernel.core.records import ScalarArgument
from evokernel.reference.arrays import dtype_name, to_array
from evokernel.reference.constants import find_constants, replace_constants
from evokernel.reference.names import NameAllocator, output_names, to_identifier

warnings.filterwarnings("ignore", message="mkldnn_matmul failed")  # torch then falls back to another implementation after a long warning

RANDOM_STATE_LOCK = threading.Lock()
"""Tasks draw from the global random generators of the process, so only one thread may draw at a time."""
NO_CONTEXT = nullcontext()


class NamedTensor(NamedTuple):
    """A tensor with its name in the kernel's signature."""

    name: str
    tensor: torch.Tensor


@dataclass(frozen=True, eq=False)
class Sample:
    """One module with one set of inputs, all drawn from one seed."""

    seed: int
    module: torch.nn.Module
    args: tuple[object, ...]
    """Arguments of `forward`."""
    inputs: tuple[NamedTensor, ...]
    params: tuple[NamedTensor, ...]
    """Parameters, then buffers, then tensors in plain attributes of the module."""
    scalars: tuple[ScalarArgument, ...]

    def to_arrays(self) -> tuple[Array, ...]:
        """Return inputs, then parameters and buffers, as the kernel receives them: row-major, in the order of the signature."""
        return tuple(to_array(name, tensor) for name, tensor in self.inputs + self.params)


class TaskFileErrors:
    """Context manager that turns exceptions of a task file into one-line UserErrors with file, line and fix."""

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
        problem = f"{type(error).__name__}: {first}" if first else type(error).__name__
        at = f", line {line}" if line else ""
        fix = f"pip install {error.name}" if isinstance(error, ModuleNotFoundError) and error.name else "fix the task file"
        if is_out_of_memory(error):
            fix = "out of memory, use smaller sizes or a machine with more memory"
        raise UserError(f"task file {self.file}{at}: {self.doing} raised {problem}; {fix}") from error


class Reference:
    """A task's module, optionally with other values for its integer constants. It is trusted code and runs in this process.

    `sample(seed)` draws a module and inputs; equal seeds give equal samples, other seeds give other values of the same shapes.
    """

    def __init__(self, source: str, name: str = "task.py", overrides: Mapping[str, int] | None = None) -> None:
        self.name = name
        with TaskFileErrors(name, "reading it"):
            tree = ast.parse(source, name)
        self.constants = find_constants(tree)
        for key, value in (overrides or {}).items():
            if key not in self.constants:
                available = ", ".join(self.constants) or "none"
                raise UserError(f"task file {name}: '{key}' is not an integer constant of the module; its constants: {available}")
            self.constants[key] = value
        replace_constants(tree, overrides or {})
        with TaskFileErrors(name, "loading it"):
            self.namespace = execute_task_file(tree, source, name)
        for required_name, shape in (("Model", "class Model(nn.Module)"), ("get_inputs", "def get_inputs()")):
            if not callable(self.namespace.get(required_name)):
                raise UserError(f"task file {name} does not define {required_name}; add `{shape}`")
        if not (isinstance(self.namespace["Model"], type) and issubclass(self.namespace["Model"], torch.nn.Module)):
            raise UserError(f"task file {name}: Model is not a torch.nn.Module; write `class Model(nn.Module)`")
        self._mutates: bool | None = None

    def sample(self, seed: int, module: torch.nn.Module | None = None) -> Sample:
        """Draw a module (unless one is given) and inputs from a seed; restores the caller's random state."""
        with RANDOM_STATE_LOCK, SeededRandom(seed):
            init = self.init_arguments()
            module = self._construct_module(init) if module is None else module
            args = self._call_task_function("get_inputs")
        names = NameAllocator()
        inputs: list[NamedTensor] = []
        scalars: list[ScalarArgument] = []
        forward_arguments = flatten_arguments(module.forward, args)
        for label, leaf in forward_arguments:
            if isinstance(leaf, torch.Tensor):
                inputs.append(self._name_tensor(names, label, leaf))
        params = tuple(self._name_tensor(names, label, tensor) for label, tensor in module_tensors(module))
        for label, leaf in forward_arguments + flatten_arguments(module.__init__, init):
            kind = "bool" if isinstance(leaf, bool) else "int" if isinstance(leaf, int) else "float"
            if isinstance(leaf, bool | int | float):
                scalars.append(ScalarArgument.model_validate({"name": names.allocate(label), "kind": kind, "value": leaf}))
        return Sample(seed, module, args, tuple(inputs), params, tuple(scalars))

    def make_module(self, seed: int) -> torch.nn.Module:
        """Draw the module of `sample(seed)` without inputs."""
        with RANDOM_STATE_LOCK, SeededRandom(seed):
            return self._construct_module(self.init_arguments())

    def make_inputs(self) -> tuple[Any, ...]:
        """Return the arguments of `forward`, drawn from the random state of the process."""
        return self._call_task_function("get_inputs")

    def _construct_module(self, init: tuple[Any, ...]) -> torch.nn.Module:
        with TaskFileErrors(self.name, "Model(...)"):
            return self.namespace["Model"](*init).eval()

    def run(self, sample: Sample, seed: int | None = None, context: AbstractContextManager[Any] = NO_CONTEXT) -> tuple[NamedTensor, ...]:
        """Compute the outputs: row-major, not sharing memory with the sample, which stays unchanged.

        `seed` is for references that draw random numbers in `forward`; default: the sample's seed. `context` is active during the call.
        """
        tensors = [tensor for _, tensor in sample.inputs + sample.params]
        before = [(tensor, tensor._version) for tensor in tensors]
        copies = [] if self._mutates is False else [tensor.detach().clone() for tensor in tensors]
        with (
            RANDOM_STATE_LOCK,
            SeededRandom(sample.seed if seed is None else seed),
            torch.no_grad(),
            TaskFileErrors(self.name, "Model.forward"),
            context,
        ):
            result = sample.module(*sample.args)
        outputs = tuple(self.name_outputs(result, tensors))
        was_written = [tensor._version != version for tensor, version in before]
        with torch.no_grad():
            for tensor, copy, dirty in zip(tensors, copies, was_written):
                if dirty:
                    tensor.copy_(copy)
        self._mutates = any(was_written)
        return outputs

    def baseline_call(self, sample: Sample, module: Callable[..., object] | None = None) -> Callable[[], object]:
        """Return a call of the reference to time; `module` may be a compiled `sample.module`.

        A reference that writes into its inputs receives fresh copies each time, because a kernel must not change its inputs either.
        """
        if self._mutates is None:
            self.run(sample)
        call, args, mutates = module if module is not None else sample.module, sample.args, self._mutates

        def once() -> object:
            with torch.no_grad():
                return call(*(copy_tensors(args) if mutates else args))

        return once

    @property
    def writes_inputs(self) -> bool:
        """Whether `forward` changes inputs or parameters; False before the first run."""
        return bool(self._mutates)

    def init_arguments(self) -> tuple[Any, ...]:
        """Return the constructor arguments of the module."""
        return self._call_task_function("get_init_inputs") if "get_init_inputs" in self.namespace else ()

    def _call_task_function(self, function: str) -> tuple[Any, ...]:
        with TaskFileErrors(self.name, f"{function}()"):
            values = self.namespace[function]()
        if not isinstance(values, list | tuple):
            raise UserError(f"task file {self.name}: {function}() returned a {type(values).__name__}; return a list of arguments")
        return tuple(values)

    def _name_tensor(self, names: NameAllocator, label: str, tensor: torch.Tensor) -> NamedTensor:
        try:
            dtype_name(tensor)
        except UserError as error:
            raise UserError(f"task file {self.name}: '{label}': {error}") from error
        return NamedTensor(names.allocate(label), tensor)

    def name_outputs(self, result: object, sample_tensors: list[torch.Tensor]) -> Iterator[NamedTensor]:
        """Yield the tensors that `forward` returned, with their names in the signature; copies those that share memory with the sample."""
        sample_storages = {tensor.untyped_storage()._cdata for tensor in sample_tensors}
        output_leaves = [leaf for _, leaf in flatten_value("out", result) if leaf is not None]
        if not output_leaves:
            raise UserError(f"task file {self.name}: Model.forward returned nothing; return a tensor, or a tuple of tensors")
        for name, leaf in zip(self._name_list(len(output_leaves)), output_leaves):
            if not isinstance(leaf, torch.Tensor):
                raise UserError(f"task file {self.name}: Model.forward returned a {type(leaf).__name__}; return tensors")
            self._name_tensor(NameAllocator(), name, leaf)
            plain = leaf.detach().contiguous()
            yield NamedTensor(name, plain.clone() if plain.untyped_storage()._cdata in sample_storages else plain)

    def _name_list(self, count: int) -> Iterable[str]:
        if "OUTPUTS" not in self.namespace:
            return output_names(count)
        names = self.namespace["OUTPUTS"]
        if not isinstance(names, list | tuple) or len({*names}) != count or any(to_identifier(str(name)) != name for name in names):
            raise UserError(f"task file {self.name}: OUTPUTS is {names!r}. Give {count} different names that C++ and Python allow.")
        return names


class SeededRandom:
    """Context manager that seeds torch (also on devices in use), numpy and random, and restores their states afterwards."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __enter__(self) -> None:
        self.before = torch.random.get_rng_state(), np.random.get_state(), random.getstate()
        torch.default_generator.manual_seed(self.seed)  # torch.manual_seed would also load the compiler, which takes a second per process
        self.device_states = [(generator, generator.get_state()) for generator in torch.cuda.default_generators]  # none before CUDA is used
        for generator, _ in self.device_states:
            generator.manual_seed(self.seed)
        np.random.seed(self.seed % 2**32)
        random.seed(self.seed)

    def __exit__(self, *_: object) -> None:
        torch.random.set_rng_state(self.before[0])
        for generator, state in self.device_states:
            generator.set_state(state)
        np.random.set_state(self.before[1])
        random.setstate(self.before[2])


def execute_task_file(tree: ast.Module, source: str, name: str) -> dict[str, Any]:
    """Execute a task file in a new namespace; registers its source lines for tracebacks and compilers."""
    text = ast.unparse(tree)
    module = types.ModuleType(f"evokernel_task_{Path(name).stem}_{hashlib.sha256(text.encode()).hexdigest()[:12]}")
    module.__file__ = name
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    sys.modules[module.__name__] = module  # dataclasses and typing look up the module of a class while it is being defined
    try:
        exec(compile(tree, name, "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module.__dict__


def flatten_arguments(function: Callable[..., object], values: tuple[object, ...]) -> list[tuple[str, object]]:
    """Return each argument with its parameter's name; nested values are flattened as `name_0`, `name_1` or `name_key`."""
    names: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{i}" for i in range(len(values) - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    names += [f"arg_{i}" for i in range(len(names), len(values))]
    return [leaf for name, value in zip(names, values) for leaf in flatten_value(name, value)]


def flatten_value(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the leaves of nested lists, tuples and dictionaries in order, with their names."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flatten_value(f"{name}_{key}", item)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from flatten_value(f"{name}_{i}", item)
    else:
        yield name, value


def module_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield parameters, then buffers, then tensors in plain attributes: a kernel needs all of them as arguments.

    The counter `num_batches_tracked` of normalisations is skipped, because only training uses it.
    """
    yield from module.named_parameters()
    yield from ((name, tensor) for name, tensor in module.named_buffers() if not name.endswith("num_batches_tracked"))
    for prefix, part in module.named_modules():
        for key, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                yield f"{prefix}.{key}".lstrip("."), value


def copy_tensors(value: Any) -> Any:
    """Copy nested arguments; every tensor is cloned."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, Mapping):
        return {key: copy_tensors(item) for key, item in value.items()}
    return tuple(copy_tensors(item) for item in value) if isinstance(value, list | tuple) else value


def outputs_differ(first: tuple[NamedTensor, ...], second: tuple[NamedTensor, ...]) -> bool:
    """Return whether any output bit differs, except NaNs."""
    return any(not torch.equal(a.tensor.nan_to_num(), b.tensor.nan_to_num()) for a, b in zip(first, second))
