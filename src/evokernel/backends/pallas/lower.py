"""Lowers traced programs to StableHLO for the TPU compiler. Needs jax, but no TPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import jax
from jax._src import compiler
from jax._src.core import ClosedJaxpr, jaxpr_as_fun
from jax._src.interpreters import mlir
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from evokernel.backends.pallas.chips import Chip

SOURCE_LINE = re.compile(r"([\w\-]+\.py):(\d+)")


def target_chip(chip: Chip) -> AbstractContextManager[Any]:
    """A context in which jax traces and lowers for the chip, and in which queries for the device return the chip."""
    device = AbstractDevice(device_kind=chip.kind, num_cores=chip.cores, platform="tpu")
    mesh: AbstractContextManager[Any] = use_abstract_mesh(AbstractMesh((1,), ("x",), abstract_device=device))
    return mesh


def lower_program(closed: ClosedJaxpr, chip: Chip) -> bytes:
    """StableHLO of a traced program. Passes on jax's exception if a kernel cannot be lowered for the chip."""
    with target_chip(chip), name_source_lines():
        return serialise_stablehlo(jax.jit(jaxpr_as_fun(closed)).trace(*closed.in_avals).lower(lowering_platforms=("tpu",)))


@contextmanager
def name_source_lines() -> Iterator[None]:
    """A context in which the lowered program names the candidate's lines.

    A stored program has no tracebacks. Its name stacks contain `file:line`, from which jax makes no location of its own.
    """
    original = mlir.source_info_to_location

    def make_location(ctx: Any, primitive: Any, name_stack: Any, traceback: Any) -> Any:
        lines = SOURCE_LINE.findall(str(name_stack)) if traceback is None and primitive is not None else []
        if not lines:
            return original(ctx, primitive, name_stack, traceback)
        file, line = lines[-1]
        location = ir.Location.name(f"{name_stack}/{primitive.name}", childLoc=ir.Location.file(file, int(line), 1))
        return ir.Location.name(f"{primitive.name}:", childLoc=location)

    mlir.source_info_to_location = make_location
    try:
        yield
    finally:
        mlir.source_info_to_location = original


def serialise_stablehlo(lowered: Any) -> bytes:
    """A lowered function as a portable StableHLO artifact, which compilers of other builds can read."""
    module = lowered.compiler_ir("stablehlo")
    return bytes(_jax.mlir.serialize_portable_artifact(module, stablehlo.get_current_version()))


def default_compile_options() -> bytes:
    """The options jax would pass to the compiler, without the path of an installed CUDA."""
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    options.executable_build_options.debug_options.xla_gpu_cuda_data_dir = ""
    return bytes(options.SerializeAsString())
