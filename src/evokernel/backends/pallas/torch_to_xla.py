"""A PyTorch reference as StableHLO, operation by operation as XLA would be given it.

Torch and jax together take seconds to load, so this runs in a process of its own: `main` reads an order and leaves a program.
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

from evokernel.backends.pallas.chips import Chip, chip
from evokernel.backends.pallas.entry import jax_dtype
from evokernel.backends.pallas.lower import serialise, target
from evokernel.core.errors import UserError
from evokernel.reference.arrays import dtype_name
from evokernel.reference.degenerate_solutions import Tolerance, passes
from evokernel.reference.module import Reference, Sample, leaves

FULL = {"float32", "float64"}
LARGE = 1 << 26
"""Bytes up to which drawing values is quicker than what torch loads to follow shapes alone."""
OVERLOAD = re.compile(r"torch\.ops\.aten\.(\w+)\.(\w+)")
Function = Callable[..., tuple[jax.Array, ...]]


class Different(Exception):
    """What came out of the conversion does not compute what the reference does."""


class NeedsValues(Exception):
    """A tensor of which only the shape is known, in a place where it becomes a constant."""


@cache
def translator() -> Any:
    """torchax's environment. torchax names overloads that torch no longer has, and they are no loss: nothing can call them."""
    root = Path(str(importlib.util.find_spec("torchax").origin)).parent  # type: ignore[union-attr]
    for file in root.rglob("*.py"):
        for packet, overload in OVERLOAD.findall(file.read_text()):
            found = getattr(torch.ops.aten, packet, None)
            if found is not None and not hasattr(found, overload):
                setattr(found, overload, f"{packet}.{overload}")
    import torchax
    from torchax.tensor import XLADispatchMode

    wrapped = XLADispatchMode.__torch_dispatch__
    XLADispatchMode.__torch_dispatch__ = getattr(wrapped, "__wrapped__", wrapped)  # the wrapper loads torch's compiler, five seconds
    return torchax.default_env()


def function(sample: Sample) -> Function:
    """The reference as a function of its inputs, then parameters and buffers; the sample's module is of no other use afterwards."""
    translate = translator()
    places = {id(tensor): i for i, (_, tensor) in enumerate(sample.inputs + sample.params)}
    parts = [(part, dict(vars(part))) for part in sample.module.modules()]

    def replaced(value: Any, made: list[Any]) -> Any:
        if isinstance(value, torch.Tensor):
            return made[places[id(value)]] if id(value) in places else constant(value)
        if isinstance(value, Mapping) and not isinstance(value, torch.nn.Module):
            return {key: replaced(item, made) for key, item in value.items()}
        return type(value)(replaced(item, made) for item in value) if type(value) in (list, tuple) else value

    def constant(value: torch.Tensor) -> Any:
        if value.is_meta:
            raise NeedsValues
        return translate.to_xla(value)

    def call(*arrays: jax.Array) -> tuple[jax.Array, ...]:
        made = [translate.j2t_iso(array) for array in arrays]
        for part, held in parts:
            vars(part).update({key: replaced(value, made) for key, value in held.items() if key != "_modules"})
        with torch.no_grad(), translate, torch.device("jax"):  # so that tensors made of nothing belong to the program, too
            result = sample.module(*replaced(sample.args, made))
        found: tuple[jax.Array, ...] = translate.t2j_iso(tuple(leaf for _, leaf in leaves("out", result) if leaf is not None))
        return found

    return call


def shapes(sample: Sample) -> list[jax.ShapeDtypeStruct]:
    """What the function is called with."""
    return [jax.ShapeDtypeStruct(tuple(t.shape), jnp.dtype(jax_dtype(dtype_name(t)))) for _, t in sample.inputs + sample.params]


def precision(sample: Sample) -> str:
    """Products of float32 are computed in full, as a candidate's must be; the chip would round their factors to bfloat16."""
    return "highest" if any(dtype_name(tensor) in FULL for _, tensor in sample.inputs + sample.params) else "default"


def program(reference: Reference, chip: Chip, *, large: bool) -> bytes:
    """StableHLO at the reference's size. Of a large one only shapes are drawn, unless it needs values to be made."""
    if large:
        try:
            with torch.device("meta"):
                sample = reference.sample(0)
            return lowered(sample, chip)
        except (UserError, NeedsValues):
            pass
    return lowered(reference.sample(0), chip)


def lowered(sample: Sample, chip: Chip) -> bytes:
    """Traced and lowered for the chip."""
    with target(chip), jax.default_matmul_precision(precision(sample)):
        return serialise(jax.jit(function(sample)).trace(*shapes(sample)).lower(lowering_platforms=("tpu",)))


def run(sample: Sample) -> tuple[jax.Array, ...]:
    """What the function computes, on this machine."""
    given = [array(tensor) for _, tensor in sample.inputs + sample.params]
    with jax.default_matmul_precision("highest"):
        found: tuple[jax.Array, ...] = jax.jit(function(sample))(*given)
    return found


def array(tensor: torch.Tensor) -> jax.Array:
    """A tensor's values in the type a kernel sees; numpy and torch have no bfloat16 in common."""
    wide = tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()
    return jnp.asarray(wide.contiguous().numpy(), dtype=jnp.dtype(jax_dtype(dtype_name(tensor))))


def tensor(array: jax.Array, like: torch.Tensor) -> torch.Tensor:
    """And back."""
    wide = np.array(array, dtype=np.float32 if array.dtype == jnp.bfloat16 else array.dtype)
    return torch.from_numpy(wide).to(like.dtype)


def check(reference: Reference, atol: float, rtol: float) -> None:
    """Raises Different unless the function gives what the reference gives."""
    sample = reference.sample(0)
    wanted = [out.tensor for out in reference.run(sample)]
    found = run(sample)
    if [(x.shape, str(x.dtype)) for x in found] != [(tuple(x.shape), jax_dtype(dtype_name(x))) for x in wanted]:
        raise Different("the converted reference gives tensors of other shapes or types")
    if not all(passes(tensor(a, b), b, Tolerance(atol, rtol)) for a, b in zip(found, wanted)):
        raise Different("the converted reference gives other values")


def convert(order: Mapping[str, Any]) -> bytes:
    """The program of a task at bench size, once it is known to compute the right thing at small size."""
    if "random" not in order["tags"]:
        check(Reference(order["source"], order["name"], order["small"]), order["atol"], order["rtol"])
    return program(Reference(order["source"], order["name"], order["bench"]), chip(order["chip"]), large=order["bytes"] > LARGE)


def say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The reason there is no program, for the process that waits for one."""
    first = next(iter(str(error).splitlines()), "")
    sys.stdout.write(first if isinstance(error, Different | UserError) else f"{kind.__name__}: {first}")


def main() -> None:
    """Reads an order on stdin and leaves the program in the file it names; whatever goes wrong is said on stdout."""
    sys.excepthook = say
    order = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CPU, (order["cpu_s"], order["cpu_s"]))  # should nobody be left to wait
    Path(order["into"]).write_bytes(convert(order))
