"""The runtime of exported kernels, which `evokernel export` copies into every package it writes. It imports only PyTorch.

Each kernel becomes a PyTorch operator with a fake implementation, so that `torch.compile` and `torch.export` work. A call is checked
against `operator.json`, which records what was verified: dtypes, ranks and sizes of tensors, and values of numbers.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call

CHOICES = ("error", "reference")
SCHEMA_TYPES = {"int": "SymInt", "float": "float", "bool": "bool"}
NUMBER_TYPES: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "bool": bool}
MAX_REMEMBERED_CALLS = 1024
NUMBERS = (bool, int, float, torch.SymInt, torch.SymFloat)
BUILD_ERRORS = (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError)


class UnverifiedCallError(ValueError):
    """A call that differs from what was verified."""


class Settings:
    """What happens with calls that were not verified, and with gradients; read from the environment when the package is imported."""

    def __init__(self) -> None:
        self.unsupported = check_choice("EVOKERNEL_UNSUPPORTED", os.environ.get("EVOKERNEL_UNSUPPORTED", "error"))
        self.backward = check_choice("EVOKERNEL_BACKWARD", os.environ.get("EVOKERNEL_BACKWARD", "error"))


def check_choice(name: str, value: str) -> str:
    """Return the value of a setting; raise ValueError if it is not one of CHOICES."""
    if value not in CHOICES:
        raise ValueError(f"{name} is {value!r}; choose {' or '.join(CHOICES)}")
    return value


SETTINGS = Settings()


def configure(*, unsupported: str | None = None, backward: str | None = None) -> None:
    """Choose what happens outside of what was verified: "error" (the default) or "reference".

    `unsupported`: calls with another dtype, rank, size, number or device. `backward`: gradients, for which there is no kernel. With
    "reference" the PyTorch reference computes them. Call this before `torch.compile`.
    """
    if unsupported is not None:
        SETTINGS.unsupported = check_choice("unsupported", unsupported)
    if backward is not None:
        SETTINGS.backward = check_choice("backward", backward)


class TorchOperator:
    """One kernel as a PyTorch operator: `torch.ops.NAMESPACE.NAME`."""

    def __init__(self, folder: Path, namespace: str, kernel: Any) -> None:
        self.spec: dict[str, Any] = json.loads((folder / "operator.json").read_text())
        self.kernel = kernel
        """The module `kernel_call` beside `operator.json`: `DEVICE`, `prepare()` and `call(tensors, numbers, outputs)`."""
        self.package, self.name = namespace, f"{namespace}::{self.spec['name']}"
        self.reference = load_module(folder / "reference.py", f"{namespace}_{self.spec['name']}_reference")
        self.tensors, self.scalars, self.outputs = self.spec["tensors"], self.spec["scalars"], self.spec["outputs"]
        self.input_count = sum(tensor["role"] == "input" for tensor in self.tensors)
        self.number_types = [NUMBER_TYPES[scalar["kind"]] for scalar in self.scalars]
        self.skeletons: dict[tuple[Any, ...], torch.nn.Module] = {}
        self.remembered: dict[Any, list[tuple[tuple[int, ...], torch.dtype]]] = {}
        self.register()
        self.call: Any = getattr(getattr(torch.ops, namespace), self.spec["name"]).default

    # Registration.

    def register(self) -> None:
        """Define the operator, its fake implementation and its backward pass."""
        numbers = [f"{SCHEMA_TYPES[scalar['kind']]} {scalar['name']}" for scalar in self.scalars]
        result = "Tensor" if len(self.outputs) == 1 else f"({', '.join(['Tensor'] * len(self.outputs))})"
        tensors = [f"Tensor {tensor['name']}" for tensor in self.tensors]
        schema = f"({', '.join(tensors + numbers)}) -> {result}"
        forward = torch.library.custom_op(self.name, self.run, mutates_args=(), schema=schema)
        forward.register_fake(self.run_fake)
        forward.register_autograd(self.differentiate, setup_context=save_arguments)
        backward_schema = "(Tensor[] grads, Tensor[] tensors) -> Tensor[]"
        self.refuse_backward = torch.library.custom_op(
            f"{self.name}_backward", self.raise_no_backward, mutates_args=(), schema=backward_schema
        )
        self.refuse_backward.register_fake(lambda grads, tensors: [torch.empty_like(tensor) for tensor in tensors])

    def run(self, *arguments: Any) -> Any:
        """Run the kernel on real tensors, after the checks."""
        tensors, numbers = self.split(arguments)
        key = (*((tensor.shape, tensor.dtype, tensor.device) for tensor in tensors), *numbers)
        outputs = self.remembered.get(key)
        if outputs is None:
            sizes: dict[str, Any] = {}
            if mismatch := self.find_mismatch(tensors, numbers, sizes):
                self.raise_unless_reference(mismatch)
                return pack([output.clone() for output in self.run_reference_outside(tensors, numbers)])
            with FakeTensorMode() as mode:
                fakes = self.infer_outputs([mode.from_tensor(tensor) for tensor in tensors], numbers, sizes)
            outputs = [(tuple(fake.shape), fake.dtype) for fake in fakes]
            if len(self.remembered) >= MAX_REMEMBERED_CALLS:
                self.remembered.clear()
            self.remembered[key] = outputs
        results = [torch.empty(shape, dtype=dtype, device=tensors[0].device) for shape, dtype in outputs]
        converted = [convert(number) for convert, number in zip(self.number_types, numbers)]
        self.kernel.call([tensor.detach().resolve_neg().contiguous() for tensor in tensors], converted, results)
        return pack(results)

    def run_fake(self, *arguments: Any) -> Any:
        """Return outputs without values, as compilers and exporters need them."""
        tensors, numbers = self.split(arguments)
        sizes: dict[str, Any] = {}
        if mismatch := self.find_mismatch(tensors, numbers, sizes):
            self.raise_unless_reference(mismatch)
        fakes = self.infer_outputs(tensors, numbers, sizes)
        return pack([torch.empty(fake.shape, dtype=fake.dtype, device=fake.device) for fake in fakes])

    def differentiate(self, context: Any, *grads: Any) -> tuple[Any, ...]:
        """Compute gradients with the reference if the settings say so; otherwise record an operator that raises when it runs."""
        tensors, needed = list(context.saved_tensors), context.needs_input_grad
        used_grads = [grad for grad in grads if isinstance(grad, torch.Tensor)]
        if SETTINGS.backward == "reference":
            results = self.run_reference_backward(tensors, context.numbers, needed, grads)
        else:
            results = self.refuse_backward(used_grads, [tensor for tensor, need in zip(tensors, needed) if need])
        gradients = iter(results)
        return tuple(next(gradients) if need else None for need in needed)

    def raise_no_backward(self, grads: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Refuse the backward pass. It is an operator, so that compilers can trace models whose parameters require gradients."""
        raise RuntimeError(
            f"{self.label} has no backward kernel. Call the model under torch.no_grad(), or compute gradients with the PyTorch reference: "
            f'{self.package}.configure(backward="reference").'
        )

    def run_reference_backward(
        self, tensors: Sequence[torch.Tensor], numbers: Sequence[Any], needed: Sequence[bool], grads: Sequence[Any]
    ) -> list[torch.Tensor]:
        """Return the reference's gradients of the tensors that need one."""
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_(need) if need else tensor.detach() for tensor, need in zip(tensors, needed)]
            outputs = self.run_reference(leaves, numbers)
        pairs = [(output, grad) for output, grad in zip(outputs, grads) if output.requires_grad and isinstance(grad, torch.Tensor)]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        if not pairs:
            return [torch.zeros_like(leaf) for leaf in wanted]
        results = torch.autograd.grad([output for output, _ in pairs], wanted, [grad for _, grad in pairs], allow_unused=True)
        return [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(wanted, results)]

    # Checks.

    @property
    def label(self) -> str:
        """The operator's name in messages."""
        return f"torch.ops.{self.package}.{self.spec['name']}"

    def split(self, arguments: Sequence[Any]) -> tuple[list[torch.Tensor], list[Any]]:
        """Separate tensors and numbers."""
        count = len(self.tensors)
        return list(arguments[:count]), list(arguments[count:])

    def find_mismatch(self, tensors: Sequence[torch.Tensor], numbers: Sequence[Any], sizes: dict[str, Any]) -> str:
        """Return how a call differs from what was verified; an empty text if it does not. Adds the values of symbols to `sizes`."""
        for tensor, verified in zip(tensors, self.tensors):
            name, dtype, rank = verified["name"], str(tensor.dtype).removeprefix("torch."), len(verified["dims"])
            if tensor.device.type not in (self.kernel.DEVICE, "meta"):
                return f"{name} is on device {tensor.device.type}, but the kernel takes {self.kernel.DEVICE} tensors"
            if dtype != verified["dtype"]:
                return f"{name} is {dtype}, but the kernel was verified with {verified['dtype']}"
            if tensor.dim() != rank:
                return f"{name} has {tensor.dim()} dimensions, but the kernel was verified with {rank}"
        for tensor, verified in zip(tensors, self.tensors):
            for axis, dimension in enumerate(verified["dims"]):
                if mismatch := self.find_size_mismatch(f"size {axis} of {verified['name']}", tensor.shape[axis], dimension, sizes):
                    return mismatch
        for number, scalar in zip(numbers, self.scalars):
            if "dim" in scalar:
                mismatch = self.find_size_mismatch(scalar["name"], number, scalar["dim"], sizes)
            else:
                is_verified = number in scalar["values"]
                mismatch = "" if is_verified else f"{scalar['name']} is {number}, but was verified with {join_or(scalar['values'])}"
            if mismatch:
                return mismatch
        return ""

    def find_size_mismatch(self, what: str, value: Any, dimension: int | str, sizes: dict[str, Any]) -> str:
        """Compare a size with a constant, or with a symbol such as `ROWS` or `2*ROWS`; `sizes` has the symbols of this call."""
        if isinstance(dimension, int):
            return "" if value == dimension else f"{what} is {value}, but was verified with {dimension} only"
        factor_text, _, symbol = dimension.rpartition("*")
        factor = int(factor_text or 1)
        if value % factor:
            return f"{what} is {value}, but was verified with multiples of {factor} only"
        size = value // factor
        low, high = self.spec["sizes"][symbol]
        if symbol in sizes and sizes[symbol] != size:
            return f"{what} is {value}, which does not match {symbol} = {sizes[symbol]}"
        if size < low or size > high:
            return f"{what} is {value}, but was verified with {low * factor} to {high * factor}"
        sizes[symbol] = size
        return ""

    def raise_unless_reference(self, mismatch: str) -> None:
        """Raise UnverifiedCallError, unless the reference computes such calls."""
        if SETTINGS.unsupported != "reference":
            raise UnverifiedCallError(
                f"{self.label}: {mismatch}. Verified: {self.spec['verified']}. Change the argument, or let the PyTorch reference compute "
                f'such calls: {self.package}.configure(unsupported="reference") or EVOKERNEL_UNSUPPORTED=reference.'
            )

    # The reference.

    def infer_outputs(self, tensors: Sequence[torch.Tensor], numbers: Sequence[Any], sizes: Mapping[str, Any]) -> list[torch.Tensor]:
        """Run the reference on fake tensors; raise UnverifiedCallError if it refuses them.

        A reference that needs values or gradients cannot run on them: the sizes of its outputs follow from the symbols.
        """
        if self.spec["output_shapes"] == "symbols":
            shapes = [[resolve_dimension(dimension, sizes) for dimension in output["dims"]] for output in self.outputs]
            return [tensors[0].new_empty(shape, dtype=getattr(torch, one["dtype"])) for shape, one in zip(shapes, self.outputs)]
        try:
            return self.run_reference(tensors, numbers)
        except (RuntimeError, ValueError, IndexError) as error:
            shapes_text = ", ".join(f"{spec['name']} {list(tensor.shape)}" for tensor, spec in zip(tensors, self.tensors))
            raise UnverifiedCallError(f"{self.label}: the PyTorch reference refuses {shapes_text}: {error}") from error

    def run_reference_outside(self, tensors: Sequence[torch.Tensor], numbers: Sequence[Any]) -> list[torch.Tensor]:
        """Run the reference as if outside of the operator, inside which PyTorch records no gradients: some references need them."""
        if self.spec["output_shapes"] == "reference":
            return self.run_reference(tensors, numbers)
        with ThreadPoolExecutor(1) as pool:  # a new thread has none of the operator's dispatch state
            return pool.submit(self.run_reference, tensors, numbers).result()

    def run_reference(self, tensors: Sequence[torch.Tensor], numbers: Sequence[Any]) -> list[torch.Tensor]:
        """Compute the outputs with the PyTorch reference, on these parameters."""
        if self.spec["writes_inputs"]:
            tensors = [tensor.clone() for tensor in tensors]
        remaining = iter(numbers)
        inputs, state = iter(tensors[: self.input_count]), tensors[self.input_count :]
        arguments = fill(self.spec["arguments"], inputs, remaining, self.argument_constants("get_inputs", "arguments"))
        model = self.make_skeleton(tuple(remaining))
        named = {spec["path"]: tensor for spec, tensor in zip(self.tensors[self.input_count :], state)}
        registered = {path for path, _ in [*model.named_parameters(), *model.named_buffers()]}
        with temporary_attributes(model, {path: tensor for path, tensor in named.items() if path not in registered}):
            result = functional_call(model, {path: tensor for path, tensor in named.items() if path in registered}, tuple(arguments))
        return [leaf for leaf in flatten(result) if isinstance(leaf, torch.Tensor)]

    def make_skeleton(self, numbers: tuple[Any, ...]) -> torch.nn.Module:
        """Return a model with these constructor arguments whose own parameters are never used."""
        if numbers not in self.skeletons:
            constants = self.argument_constants("get_init_inputs", "constructor")
            arguments = fill(self.spec["constructor"], iter(()), iter(numbers), constants)
            try:
                with torch.device("meta"):
                    model = self.reference.Model(*arguments)
            except BUILD_ERRORS:  # a constructor that needs values
                model = self.reference.Model(*arguments)
            self.skeletons[numbers] = model.eval()
        return self.skeletons[numbers]

    def argument_constants(self, function: str, structure: str) -> Iterator[Any]:
        """Yield the arguments that are neither tensors nor numbers, as the reference's own function returns them."""
        if '"constant"' not in json.dumps(self.spec[structure]):
            return iter(())
        return iter([leaf for leaf in flatten(getattr(self.reference, function)()) if not isinstance(leaf, (torch.Tensor, *NUMBERS))])

    # Modules.

    def bind_constructor(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Remember what a new module passes to the operator besides the arguments of `forward`."""
        values, mismatch = self.match_arguments(self.reference.Model.__init__, (module, *args), kwargs, "constructor", skipped=1)
        state: dict[str, Any] = {"numbers": [value for value in values if isinstance(value, NUMBERS)], "mismatch": mismatch}
        state["paths"] = [spec["path"].split(".") for spec in self.tensors[self.input_count :]]
        evaluated = (torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd)
        state["is_evaluation_only"] = any(isinstance(part, evaluated) for part in module.modules())
        module._kernel_state = state
        if mismatch:
            self.raise_unless_reference(mismatch)
        else:
            count = len(state["numbers"])
            self.make_skeleton(tuple(convert(n) for convert, n in zip(self.number_types[len(self.scalars) - count :], state["numbers"])))
            self.kernel.prepare()

    def call_module(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The forward pass of `ModelNew`."""
        state = module._kernel_state
        values, mismatch = self.match_arguments(self.reference.Model.forward, (module, *args), kwargs, "arguments", skipped=1)
        if mismatch or state["mismatch"]:
            self.raise_unless_reference(mismatch or state["mismatch"])
            return self.reference.Model.forward(module, *args, **kwargs)
        if module.training and state["is_evaluation_only"]:
            raise RuntimeError(f"{self.label} was verified in evaluation mode: call .eval() on the model first")
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        numbers = [value for value in values if not isinstance(value, torch.Tensor)]
        for path in state["paths"]:
            part = module
            for name in path:
                part = getattr(part, name)
            tensors.append(part)
        outputs = self.call(*tensors, *numbers, *state["numbers"])
        results = iter([outputs] if isinstance(outputs, torch.Tensor) else outputs)
        return fill(self.spec["result"], results, iter(()), iter(()), self.reference)

    def match_arguments(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], structure: str, skipped: int
    ) -> tuple[list[Any], str]:
        """Return the tensors and numbers of a call, and how its arguments differ from the verified ones."""
        expected = self.spec[structure]["list"]
        if kwargs or len(args) - skipped != len(expected):
            bound = inspect.signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            args = tuple(bound.args) + tuple(bound.kwargs.values())
            defaults = [parameter.default for parameter in inspect.signature(function).parameters.values()]
            for value, default in zip(args[skipped + len(expected) :], defaults[skipped + len(expected) :]):
                if value is not default and value != default:
                    return [], f"the kernel was verified with {len(expected)} arguments of {function.__qualname__} only"
        values = list(args[skipped : skipped + len(expected)])
        if structure_of(values) != self.spec[structure]:
            return [], f"the arguments of {function.__qualname__} are {structure_of(values)}, but the kernel was verified with {expected}"
        return [leaf for leaf in flatten(values) if isinstance(leaf, (torch.Tensor, *NUMBERS))], ""


def load_module(path: Path, name: str) -> Any:
    """Load a Python file under a name of its own, so that one process can load several references."""
    module_spec = importlib.util.spec_from_file_location(name, path)
    assert module_spec
    assert module_spec.loader
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module


def save_arguments(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Store what the backward pass needs."""
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, torch.Tensor)))
    ctx.numbers = [value for value in inputs if not isinstance(value, torch.Tensor)]


@contextmanager
def temporary_attributes(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Replace tensors that a model keeps as plain attributes."""
    with ExitStack() as stack:
        for path, tensor in tensors.items():
            owner_path, _, name = path.rpartition(".")
            owner = model.get_submodule(owner_path)
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, tensor)
        yield


def flatten(value: Any) -> list[Any]:
    """Return the leaves of nested lists, tuples and dictionaries, in order."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flatten(item)]
    return [value]


def structure_of(value: Any) -> Any:
    """Describe nested arguments for JSON: `tensor`, `number`, `{"constant": "None"}`, `{"list": [...]}`."""
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, NUMBERS):
        return "number"
    if isinstance(value, Mapping):
        return {"dict": {str(key): structure_of(item) for key, item in value.items()}}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"namedtuple": [structure_of(item) for item in value], "type": type(value).__name__}
    if isinstance(value, list | tuple):
        return {"list" if isinstance(value, list) else "tuple": [structure_of(item) for item in value]}
    return {"constant": repr(value)}


def fill(structure: Any, tensors: Iterator[Any], numbers: Iterator[Any], constants: Iterator[Any], types: Any = None) -> Any:
    """Build nested values from their description; the reverse of `structure_of`."""
    if structure == "tensor":
        return next(tensors)
    if structure == "number":
        return next(numbers)
    if "constant" in structure:
        return next(constants, None)
    if "dict" in structure:
        return {key: fill(item, tensors, numbers, constants, types) for key, item in structure["dict"].items()}
    for kind in ("list", "tuple", "namedtuple"):
        if kind in structure:
            items = [fill(item, tensors, numbers, constants, types) for item in structure[kind]]
    if "namedtuple" in structure:
        named_type = getattr(types, structure["type"], None) or getattr(torch.return_types, structure["type"], None)
        return tuple(items) if named_type is None else named_type(*items) if hasattr(named_type, "_make") else named_type(items)
    return tuple(items) if "tuple" in structure else items


def resolve_dimension(dimension: int | str, sizes: Mapping[str, Any]) -> Any:
    """Return the size that a constant or a symbol such as `2*ROWS` has in a call."""
    if isinstance(dimension, int):
        return dimension
    factor, _, symbol = dimension.rpartition("*")
    if symbol not in sizes:
        raise UnverifiedCallError(f"the size {symbol} of an output is unknown for a call that was not verified")
    return int(factor or 1) * sizes[symbol]


def pack(outputs: Sequence[torch.Tensor]) -> Any:
    """Return one tensor as it is, several as a tuple."""
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def join_or(values: Sequence[Any]) -> str:
    """`1`, `1 or 2`."""
    return " or ".join(map(str, values))
