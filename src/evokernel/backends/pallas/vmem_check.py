"""Whether a kernel fits into VMEM at all, before a compiler spends minutes on finding out."""

from __future__ import annotations

import math
from typing import Any

from jax._src.state.types import AbstractRef

from evokernel.backends.pallas.program_rules import equations, place
from evokernel.core.errors import CandidateError

RESIDENT = ("vmem", "default", "None")
HINT = "Hint: use smaller blocks or scratch and more grid steps"


def check(closed: Any, limit: int) -> None:
    """Refuses a kernel whose blocks and scratch, each counted once, are larger than VMEM, or that has a value which is."""
    for call in equations(closed.jaxpr):
        if call.primitive.name != "pallas_call":
            continue
        held = sum(size(variable.aval) for variable in call.params["jaxpr"].invars)
        if held > limit:
            raise refused("blocks and scratch take", held, limit, call)
        for step in equations(call.params["jaxpr"]):
            largest = max((size(variable.aval) for variable in step.outvars), default=0)
            if largest > limit:
                raise refused(f"a result of `{step.primitive.name}` takes", largest, limit, step)


def size(aval: Any) -> int:
    """Bytes in VMEM of an array, or of a reference that lies there."""
    if isinstance(aval, AbstractRef) and str(getattr(aval.memory_space, "value", aval.memory_space)) not in RESIDENT:
        return 0
    return int(math.prod(getattr(aval, "shape", ())) * getattr(getattr(aval, "dtype", None), "itemsize", 0))


def refused(what: str, taken: int, limit: int, equation: Any) -> CandidateError:
    where = f" ({found})" if (found := place(equation)) else ""
    return CandidateError("vmem", f"{what} {taken / 2**20:.4g} MiB, VMEM has {limit / 2**20:.4g} MiB{where}\n{HINT}")
