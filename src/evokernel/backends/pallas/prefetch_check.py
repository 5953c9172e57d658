"""Whether a kernel decides by the numbers of a table, where pricing takes these to be all different.

A pipeline whose blocks are chosen by a table compares the numbers it reads with those of the step before. The schedule does not show
whether a comparison is the pipeline's or the kernel's own, so kernels that may have their own are told apart here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evokernel.backends.pallas.program_rules import equations

READS = ("get", "masked_load", "swap", "masked_swap", "addupdate")
DECIDES = ("eq", "ne", "lt", "le", "gt", "ge", "select_n", "cond", "while", "scan", "min", "max", "clamp", "sign")


def decide(closed: Any) -> bool:
    """A kernel's body that reads a table may compare; a map of blocks may read it, and not compare."""
    return any(
        reads_scalars(call.params["jaxpr"]) or any(compares(mapping.index_map_jaxpr.jaxpr) for mapping in mappings(call))
        for call in equations(closed.jaxpr)
        if call.primitive.name == "pallas_call" and has_table(call)
    )


def mappings(call: Any) -> Iterator[Any]:
    yield from call.params["grid_mapping"].block_mappings


def has_table(call: Any) -> bool:
    """Whether an operand lies in scalar memory."""
    mapping = call.params["grid_mapping"]
    operands = call.params["jaxpr"].invars[: mapping.num_index_operands + mapping.num_inputs]
    return any(in_smem(operand) for operand in operands)


def reads_scalars(jaxpr: Any) -> bool:
    return any(step.primitive.name in READS and in_smem(step.invars[0]) for step in equations(jaxpr))


def compares(jaxpr: Any) -> bool:
    """Whether something read from a table, or computed from it, enters a comparison."""
    read: set[int] = set()
    for step in jaxpr.eqns:
        if any(id(atom) in read for atom in step.invars):
            inner = {inside.primitive.name for inside in equations(jaxpr.replace(eqns=[step]))}
            if inner.intersection(DECIDES):
                return True
        elif not (step.primitive.name in READS and in_smem(step.invars[0])):
            continue
        read.update(id(variable) for variable in step.outvars)
    return False


def in_smem(atom: Any) -> bool:
    space = getattr(atom.aval, "memory_space", None)
    return str(getattr(space, "value", space)) == "smem"
