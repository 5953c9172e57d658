"""Derives the backward pass of a task: a task file whose `Model` returns the gradients that autograd computes for the forward pass.

The file keeps the text of the forward task, with `Model` and `get_inputs` renamed, so that its sizes follow the same constants. Its inputs
are those of the forward pass and the gradient of each output. Its outputs are the gradients of all float inputs and parameters.
"""

from __future__ import annotations

import ast
import inspect
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch

from evokernel.core.errors import UserError
from evokernel.core.records import Task
from evokernel.reference.constants import FORWARD_CLASS, FORWARD_INPUTS, assigned_names, remove_assignment
from evokernel.reference.measure import MAX_BYTES
from evokernel.reference.module import RANDOM_STATE_LOCK, Reference, Sample, SeededRandom, copy_tensors
from evokernel.reference.names import NameAllocator, output_names
from evokernel.reference.sizes import DECLARABLE_CLASSES

HEADING = "# Backward pass: Model returns the gradients of the inputs and parameters of ForwardModel.\n"
NEW_NAMES = {"Model": FORWARD_CLASS, "get_inputs": FORWARD_INPUTS}
MAX_SCALE = 2.0**30
MIN_RMS_SHARE = 1e-5
"""A gradient this much smaller than the largest one is rounding noise, such as that of a bias before a normalisation."""


class Leaf(NamedTuple):
    """A tensor of the forward pass, with the Python expression that reads it."""

    expression: str
    tensor: torch.Tensor


class BackwardPass(NamedTuple):
    """What the backward pass of a sample takes and returns."""

    names: list[str]
    """Names of the arguments of `forward`."""
    outputs: list[str]
    """Expressions of the differentiable outputs."""
    inputs: list[str]
    """Expressions of the inputs that have a gradient."""
    params: list[str]
    """Names of the parameters that have a gradient."""
    scale: float
    """Factor of the output's gradient with which no gradient is much smaller than one, because some tolerances are absolute."""
    writes_inputs: bool
    """Whether `forward` changes its inputs."""


def derive_backward_source(source: str, task: Task, name: str) -> str:
    """Return the task file of the backward pass. `task` is the forward task, and `name` its file. Raises UserError if there is none."""
    if "random" in task.tags:
        raise no_backward(name, "its forward draws random numbers, so no kernel can match the gradient")
    forward_text = rename_forward(remove_assignment(source, "SIZES"), name)
    reference = Reference(source, name, task.sizes["small"] if task.work.peak_bytes > MAX_BYTES else {})
    sample = reference.sample(0)
    backward = examine_backward(reference, sample)
    sizes = {label: task.sizes[label] for label in DECLARABLE_CLASSES if label in task.sizes}
    imports = "" if re.search(r"^import torch$", source, re.MULTILINE) else "import torch\n\n\n"
    return (
        f"{HEADING}{forward_text.rstrip()}\n\n\n{imports}{write_model(sample, backward)}\n\n"
        f"{write_get_inputs(reference, sample, backward)}\n\n"
        f"OUTPUTS = {json.dumps([*name_gradients(sample, backward)])}\nSIZES = {sizes!r}\n"
    )


def no_backward(name: str, reason: str) -> UserError:
    """The error for a task without a backward pass."""
    return UserError(f"{name} cannot be taken backward: {reason}. Choose a task with float inputs and a differentiable forward.")


def rename_forward(source: str, name: str) -> str:
    """Return the source with `Model` and `get_inputs` renamed wherever it uses them."""
    tree = ast.parse(source)
    defined_names = {defined for node in tree.body for defined in assigned_names(node)}
    if taken := sorted(defined_names & {*NEW_NAMES.values(), "OUTPUTS"}):
        raise no_backward(name, f"it defines {taken[0]}, a name that the backward task needs")
    edits = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in NEW_NAMES:
            edits.append((node.lineno, node.col_offset, node.id))
        elif isinstance(node, ast.ClassDef | ast.FunctionDef) and node in tree.body and node.name in NEW_NAMES:
            edits.append((node.lineno, node.col_offset, node.name))
    lines = source.splitlines(keepends=True)
    for line, column, old in sorted(edits, reverse=True):
        text = lines[line - 1].encode()  # columns count bytes
        after = re.sub(rf"\b{old}\b", NEW_NAMES[old], text[column:].decode(), count=1)
        lines[line - 1] = text[:column].decode() + after
    return "".join(lines)


def examine_backward(reference: Reference, sample: Sample) -> BackwardPass:
    """Run the forward and the backward pass once to find out which tensors have gradients. Raises UserError if there are none."""
    reference.run(sample)
    names = argument_names(sample)
    params = dict(sample.module.named_parameters())
    with RANDOM_STATE_LOCK, SeededRandom(sample.seed), torch.enable_grad():
        args = copy_tensors(sample.args)
        inputs = [leaf for name, value in zip(names, args) for leaf in find_leaves(name, value) if leaf.tensor.is_floating_point()]
        for leaf in inputs:
            leaf.tensor.requires_grad_()
        wanted = [tensor for _, tensor in inputs] + [tensor for tensor in params.values() if tensor.requires_grad]
        try:
            result = sample.module(*(copy_tensors(args) if reference.writes_inputs else args))
            outputs = [leaf for leaf in find_leaves("out", result) if leaf.tensor.requires_grad]
            if not wanted or not outputs:
                raise no_backward(reference.name, "no float output depends on a float input or parameter")
            weights = [torch.randn_like(tensor) for _, tensor in outputs]
            gradients = torch.autograd.grad([tensor for _, tensor in outputs], wanted, weights, allow_unused=True)
        except (RuntimeError, NotImplementedError) as error:
            first = (str(error).splitlines() or [""])[0].rstrip(".")
            raise no_backward(reference.name, f"autograd raised {type(error).__name__}: {first}") from error
    magnitudes = [float(gradient.double().square().mean().sqrt()) for gradient in gradients if gradient is not None]
    largest = max(magnitudes, default=0.0)
    if largest == 0:
        raise no_backward(reference.name, "its gradients are zero everywhere")
    smallest = min(magnitude for magnitude in magnitudes if magnitude > MIN_RMS_SHARE * largest) if math.isfinite(largest) else 1.0
    has_gradient = [gradient is not None for gradient in gradients]
    trained_params = [name for name, tensor in params.items() if tensor.requires_grad]
    return BackwardPass(
        names,
        [leaf.expression for leaf in outputs],
        [leaf.expression for leaf, exists in zip(inputs, has_gradient) if exists],
        [name for name, exists in zip(trained_params, has_gradient[len(inputs) :]) if exists],
        min(MAX_SCALE, 2.0 ** math.ceil(-math.log2(smallest))) if smallest < 0.5 else 1.0,
        reference.writes_inputs,
    )


def argument_names(sample: Sample) -> list[str]:
    """Return a name for each argument of `forward`."""
    names: list[str] = []
    for parameter in inspect.signature(sample.module.forward).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{i}" for i in range(len(sample.args) - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return names[: len(sample.args)]


def find_leaves(expression: str, value: object) -> Iterator[Leaf]:
    """Yield the tensors in nested values with the expressions that read them."""
    if isinstance(value, torch.Tensor):
        yield Leaf(expression, value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from find_leaves(f"{expression}[{key!r}]", item)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from find_leaves(f"{expression}[{i}]", item)


def can_run_with_shapes(reference: Reference) -> bool:
    """Return whether the forward pass can compute the shapes of its outputs without values."""
    try:
        with torch.device("meta"):
            reference.run(reference.sample(0))
    except UserError:
        return False
    return True


def write_model(sample: Sample, backward: BackwardPass) -> str:
    """Return the class whose `forward` computes the gradients."""
    lines = []
    for name, value in zip(backward.names, sample.args):
        if any(leaf.expression in backward.inputs for leaf in find_leaves(name, value)):
            lines.append(f"{name} = {write_detached(name, value, backward.inputs)}")
    passed = [
        f"{name}.clone()" if backward.writes_inputs and isinstance(v, torch.Tensor) else name
        for name, v in zip(backward.names, sample.args)
    ]
    wanted = [*backward.inputs, *map(write_parameter, backward.params)]
    grads = gradient_arguments(backward)
    outputs, weights = (backward.outputs[0], grads[0]) if len(grads) == 1 else (f"[{', '.join(backward.outputs)}]", f"[{', '.join(grads)}]")
    body = [
        *lines,
        f"out = super().forward({', '.join(passed)})",
        f"return torch.autograd.grad({outputs}, [{', '.join(wanted)}], {weights})",
    ]
    return (
        f"class Model({FORWARD_CLASS}):\n"
        f"    def forward(self, {', '.join([*backward.names, *grads])}):\n"
        "        with torch.enable_grad():\n" + "".join(f"            {line}\n" for line in body)
    )


def write_detached(expression: str, value: object, wanted: list[str]) -> str:
    """Return an expression for an argument whose wanted tensors require gradients."""
    if isinstance(value, Mapping):
        items = (f"{key!r}: {write_detached(f'{expression}[{key!r}]', item, wanted)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(write_detached(f'{expression}[{i}]', item, wanted) for i, item in enumerate(value))}]"
    return f"{expression}.detach().requires_grad_()" if expression in wanted else expression


def write_parameter(name: str) -> str:
    """Return an expression for a parameter of the module."""
    is_plain = all(part.isidentifier() for part in name.split("."))
    return f"self.{name}" if is_plain else f"self.get_parameter({name!r})"


def gradient_arguments(backward: BackwardPass) -> list[str]:
    """Return the names of the arguments for the gradients of the outputs."""
    names = NameAllocator()
    for name in backward.names:
        names.allocate(name)
    return [names.allocate(f"grad_{name}") for name in output_names(len(backward.outputs))]


def write_get_inputs(reference: Reference, sample: Sample, backward: BackwardPass) -> str:
    """Return the function that draws the inputs of the forward pass and the gradients of its outputs."""
    device = '"meta"' if can_run_with_shapes(reference) else '"cpu"'
    copied = f"x.to({device}, copy=True)"
    if all(isinstance(value, torch.Tensor) for value in sample.args):
        args = f"*({copied} for x in inputs)"
    elif not any(isinstance(value, Mapping | list | tuple) for value in sample.args):
        args = f"*({copied} if isinstance(x, torch.Tensor) else x for x in inputs)"
    else:
        args = f"*torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: {copied}, tuple(inputs))"
    init = "*get_init_inputs()" if "get_init_inputs" in reference.namespace else ""
    factor = f" * {backward.scale:g}" if backward.scale != 1 else ""
    drawn = ", ".join(f"torch.randn({one}.shape, dtype={one}.dtype){factor}" for one in backward.outputs)
    return (
        "def get_inputs():\n"
        f"    inputs = {FORWARD_INPUTS}()\n"
        f"    with torch.no_grad(), torch.device({device}):\n"
        f"        out = {FORWARD_CLASS}({init}).eval()({args})\n"
        f"    return [*inputs, {drawn}]\n"
    )


def name_gradients(sample: Sample, backward: BackwardPass) -> Iterator[str]:
    """Yield the names of the outputs of the backward pass, such as `grad_x`."""
    names = NameAllocator()
    tensors = [name for name, _ in (*sample.inputs, *sample.params)]
    for name in (*tensors, *(scalar.name for scalar in sample.scalars), *gradient_arguments(backward)):
        names.allocate(name)
    for expression in (*backward.inputs, *backward.params):
        yield names.allocate("grad_" + re.sub(r"\W+", "_", expression).strip("_"))
