"""Rejects kernels that cannot fit into VMEM, before the compiler spends minutes on them."""

from __future__ import annotations

import math
from typing import Any

from jax._src.state.types import AbstractRef

from evokernel.backends.pallas.program_rules import all_equations, source_line
from evokernel.core.errors import CandidateError

VMEM_SPACES = ("vmem", "default", "None")
HINT = "Hint: use smaller blocks, smaller scratch and more grid steps"


def check_vmem(closed: Any, limit: int) -> None:
    """Raises CandidateError if a kernel's blocks and scratch, each counted once, exceed VMEM, or if a single value does."""
    for call in all_equations(closed.jaxpr):
        if call.primitive.name != "pallas_call":
            continue
        resident_bytes = sum(vmem_bytes(variable.aval) for variable in call.params["jaxpr"].invars)
        if resident_bytes > limit:
            raise vmem_error("blocks and scratch take", resident_bytes, limit, call)
        for step in all_equations(call.params["jaxpr"]):
            largest = max((vmem_bytes(variable.aval) for variable in step.outvars), default=0)
            if largest > limit:
                raise vmem_error(f"a result of `{step.primitive.name}` takes", largest, limit, step)


def vmem_bytes(aval: Any) -> int:
    """Bytes that an array or a Ref takes in VMEM; 0 for a Ref in another memory space."""
    if isinstance(aval, AbstractRef) and str(getattr(aval.memory_space, "value", aval.memory_space)) not in VMEM_SPACES:
        return 0
    return int(math.prod(getattr(aval, "shape", ())) * getattr(getattr(aval, "dtype", None), "itemsize", 0))


def vmem_error(what: str, taken: int, limit: int, equation: Any) -> CandidateError:
    where = f" ({line})" if (line := source_line(equation)) else ""
    return CandidateError("vmem", f"{what} {taken / 2**20:.4g} MiB, but VMEM has {limit / 2**20:.4g} MiB{where}\n{HINT}")
