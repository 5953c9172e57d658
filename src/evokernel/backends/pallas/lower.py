"""Traced programs as StableHLO for a TPU, in the form its compiler reads. Needs jax, but no TPU."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax
from jax._src import compiler
from jax._src.core import ClosedJaxpr, jaxpr_as_fun
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh
from jaxlib import _jax
from jaxlib.mlir.dialects import stablehlo

from evokernel.backends.pallas.chips import Chip


def target(chip: Chip) -> AbstractContextManager[Any]:
    """Inside it, jax traces and lowers as if it ran on the chip, and helpers that ask for the device find it."""
    device = AbstractDevice(device_kind=chip.kind, num_cores=chip.cores, platform="tpu")
    mesh: AbstractContextManager[Any] = use_abstract_mesh(AbstractMesh((1,), ("x",), abstract_device=device))
    return mesh


def lower(closed: ClosedJaxpr, chip: Chip) -> bytes:
    """StableHLO of a traced program; raises what jax raises when a kernel in it has no form on the chip."""
    with target(chip):
        return serialise(jax.jit(jaxpr_as_fun(closed)).trace(*closed.in_avals).lower(lowering_platforms=("tpu",)))


def serialise(lowered: Any) -> bytes:
    """The portable form of a lowered function: compilers of other builds read it."""
    module = lowered.compiler_ir("stablehlo")
    return bytes(_jax.mlir.serialize_portable_artifact(module, stablehlo.get_current_version()))


def compile_options() -> bytes:
    """The options jax itself would hand to the compiler, without the folder of CUDA it names where one is installed."""
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    options.executable_build_options.debug_options.xla_gpu_cuda_data_dir = ""
    return bytes(options.SerializeAsString())
