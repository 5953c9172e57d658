"""Converts a PyTorch reference to StableHLO, operation by operation, as the input of XLA.

Importing torch and jax together takes seconds, so this module runs in a separate process: `main` reads a request and writes a program.
"""

from __future__ import annotations

import importlib.util
import json
import re
import resource
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from evokernel.backends.pallas.chips import Chip, get_chip
from evokernel.backends.pallas.entry_point import jax_dtype
from evokernel.backends.pallas.lower import serialise_stablehlo, target_chip
from evokernel.core.errors import UserError
from evokernel.reference.arrays import dtype_name
from evokernel.reference.degenerate_solutions import Tolerance, is_within_tolerance
from evokernel.reference.module import Reference, Sample, flatten_value

FULL_PRECISION_DTYPES = {"float32", "float64"}
SHAPES_ONLY_BYTES = 1 << 26
"""Up to this many bytes, drawing values is faster than loading the part of torch that computes with shapes only."""
OVERLOAD = re.compile(r"torch\.ops\.aten\.(\w+)\.(\w+)")
Function = Callable[..., tuple[jax.Array, ...]]


class ConversionMismatch(Exception):
    """The converted program does not compute the same as the reference."""


class NeedsValues(Exception):
    """A tensor becomes a constant of the program, but only its shape is known."""


@cache
def torchax_environment() -> Any:
    """torchax's environment. Defines the overloads that torchax names but torch no longer has; no program can call them."""
    root = Path(str(importlib.util.find_spec("torchax").origin)).parent  # type: ignore[union-attr]
    for file in root.rglob("*.py"):
        for packet, overload in OVERLOAD.findall(file.read_text()):
            operator = getattr(torch.ops.aten, packet, None)
            if operator is not None and not hasattr(operator, overload):
                setattr(operator, overload, f"{packet}.{overload}")
    import torchax
    from torchax.tensor import XLADispatchMode

    dispatch = XLADispatchMode.__torch_dispatch__
    XLADispatchMode.__torch_dispatch__ = getattr(dispatch, "__wrapped__", dispatch)  # the wrapper loads torch's compiler: five seconds
    return torchax.default_env()


def make_jax_function(sample: Sample) -> Function:
    """The reference as a JAX function of its inputs, then parameters and buffers. It modifies the sample's module; do not reuse it."""
    translate = torchax_environment()
    indices = {id(tensor): i for i, (_, tensor) in enumerate(sample.inputs + sample.params)}
    requires_grad = [tensor.requires_grad for _, tensor in sample.inputs + sample.params]  # a backward pass differentiates by these
    parts = [(part, dict(vars(part))) for part in sample.module.modules()]

    def substitute(value: Any, tensors: list[Any]) -> Any:
        if isinstance(value, torch.Tensor):
            return tensors[indices[id(value)]] if id(value) in indices else to_constant(value)
        if isinstance(value, Mapping) and not isinstance(value, torch.nn.Module):
            return {key: substitute(item, tensors) for key, item in value.items()}
        return type(value)(substitute(item, tensors) for item in value) if type(value) in (list, tuple) else value

    def to_constant(value: torch.Tensor) -> Any:
        if value.is_meta:
            raise NeedsValues
        return translate.to_xla(value)

    def call(*arrays: jax.Array) -> tuple[jax.Array, ...]:
        tensors = [translate.j2t_iso(array).requires_grad_(wanted) for array, wanted in zip(arrays, requires_grad, strict=True)]
        for part, attributes in parts:
            vars(part).update({key: substitute(value, tensors) for key, value in attributes.items() if key != "_modules"})
        with torch.no_grad(), translate, torch.device("jax"):  # new tensors become part of the program, too
            result = sample.module(*substitute(sample.args, tensors))
        outputs: tuple[jax.Array, ...] = translate.t2j_iso(tuple(leaf for _, leaf in flatten_value("out", result) if leaf is not None))
        return outputs

    return call


def input_shapes(sample: Sample) -> list[jax.ShapeDtypeStruct]:
    """Shapes and dtypes of the function's arguments."""
    return [jax.ShapeDtypeStruct(tuple(t.shape), jnp.dtype(jax_dtype(dtype_name(t)))) for _, t in sample.inputs + sample.params]


def matmul_precision(sample: Sample) -> str:
    """float32 products use full precision, as a candidate's must; by default the TPU would round their operands to bfloat16."""
    return "highest" if any(dtype_name(tensor) in FULL_PRECISION_DTYPES for _, tensor in sample.inputs + sample.params) else "default"


def lower_reference(reference: Reference, chip: Chip, *, large: bool) -> bytes:
    """StableHLO at the reference's size. For a large reference only shapes are used, unless the conversion needs values."""
    if large:
        try:
            with torch.device("meta"):
                sample = reference.sample(0)
            return lower_sample(sample, chip)
        except (UserError, NeedsValues):
            pass
    return lower_sample(reference.sample(0), chip)


def lower_sample(sample: Sample, chip: Chip) -> bytes:
    """Traces the reference and lowers it for the chip."""
    with target_chip(chip), jax.default_matmul_precision(matmul_precision(sample)):
        return serialise_stablehlo(jax.jit(make_jax_function(sample)).trace(*input_shapes(sample)).lower(lowering_platforms=("tpu",)))


def run_on_cpu(sample: Sample) -> tuple[jax.Array, ...]:
    """The outputs of the converted reference, computed on the CPU."""
    inputs = [to_jax(tensor) for _, tensor in sample.inputs + sample.params]
    with jax.default_matmul_precision("highest"):
        outputs: tuple[jax.Array, ...] = jax.jit(make_jax_function(sample))(*inputs)
    return outputs


def to_jax(tensor: torch.Tensor) -> jax.Array:
    """A tensor as a JAX array, in the element type that a kernel receives. bfloat16 goes through float32, because numpy has no bfloat16."""
    wide = tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()
    return jnp.asarray(wide.contiguous().numpy(), dtype=jnp.dtype(jax_dtype(dtype_name(tensor))))


def to_torch(array: jax.Array, like: torch.Tensor) -> torch.Tensor:
    """A JAX array as a tensor with the dtype of `like`."""
    wide = np.array(array, dtype=np.float32 if array.dtype == jnp.bfloat16 else array.dtype)
    return torch.from_numpy(wide).to(like.dtype)


def check_conversion(reference: Reference, atol: float, rtol: float) -> None:
    """Raises ConversionMismatch unless the converted function and the reference give the same outputs."""
    sample = reference.sample(0)
    expected = [out.tensor for out in reference.run(sample)]
    outputs = run_on_cpu(sample)
    if [(x.shape, str(x.dtype)) for x in outputs] != [(tuple(x.shape), jax_dtype(dtype_name(x))) for x in expected]:
        raise ConversionMismatch("the outputs of the converted reference have different shapes or dtypes")
    if not all(is_within_tolerance(to_torch(a, b), b, Tolerance(atol, rtol)) for a, b in zip(outputs, expected)):
        raise ConversionMismatch("the outputs of the converted reference have different values")


def convert_task(order: Mapping[str, Any]) -> bytes:
    """The program of a task at bench size, after a check at small size that it computes the same as the reference."""
    if "random" not in order["tags"]:
        check_conversion(Reference(order["source"], order["name"], order["small"]), order["atol"], order["rtol"])
    return lower_reference(
        Reference(order["source"], order["name"], order["bench"]), get_chip(order["chip"]), large=order["bytes"] > SHAPES_ONLY_BYTES
    )


def write_reason(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Exception hook: writes the reason why there is no program to stdout, for the waiting process."""
    first = next(iter(str(error).splitlines()), "")
    sys.stdout.write(first if isinstance(error, ConversionMismatch | UserError) else f"{kind.__name__}: {first}")


def main() -> None:
    """Reads a request from stdin and writes the program into the file it names; writes errors to stdout."""
    sys.excepthook = write_reason
    request = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CPU, (request["cpu_s"], request["cpu_s"]))  # in case the waiting process has exited
    Path(request["into"]).write_bytes(convert_task(request))
