"""Detects kernels whose control flow depends on the values of a prefetched table in SMEM.

The latency estimate assumes that all values of such a table differ. A pipeline that selects blocks by a table compares each value with
the one of the previous step. The schedule does not show whether a comparison belongs to the pipeline or to the kernel, so this module
finds the kernels that may contain comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evokernel.backends.pallas.program_rules import all_equations

READ_PRIMITIVES = ("get", "masked_load", "swap", "masked_swap", "addupdate")
DECISION_PRIMITIVES = ("eq", "ne", "lt", "le", "gt", "ge", "select_n", "cond", "while", "scan", "min", "max", "clamp", "sign")


def depends_on_table_values(closed: Any) -> bool:
    """Whether a kernel body reads a table (and may compare its values), or an index map compares table values."""
    return any(
        reads_smem(call.params["jaxpr"]) or any(compares_table_values(mapping.index_map_jaxpr.jaxpr) for mapping in block_mappings(call))
        for call in all_equations(closed.jaxpr)
        if call.primitive.name == "pallas_call" and has_smem_operand(call)
    )


def block_mappings(call: Any) -> Iterator[Any]:
    yield from call.params["grid_mapping"].block_mappings


def has_smem_operand(call: Any) -> bool:
    """Whether an operand of the kernel is in SMEM."""
    mapping = call.params["grid_mapping"]
    operands = call.params["jaxpr"].invars[: mapping.num_index_operands + mapping.num_inputs]
    return any(is_in_smem(operand) for operand in operands)


def reads_smem(jaxpr: Any) -> bool:
    return any(step.primitive.name in READ_PRIMITIVES and is_in_smem(step.invars[0]) for step in all_equations(jaxpr))


def compares_table_values(jaxpr: Any) -> bool:
    """Whether a value read from a table, or computed from one, is compared or decides something."""
    read: set[int] = set()
    for step in jaxpr.eqns:
        if any(id(atom) in read for atom in step.invars):
            inner = {inside.primitive.name for inside in all_equations(jaxpr.replace(eqns=[step]))}
            if inner.intersection(DECISION_PRIMITIVES):
                return True
        elif not (step.primitive.name in READ_PRIMITIVES and is_in_smem(step.invars[0])):
            continue
        read.update(id(variable) for variable in step.outvars)
    return False


def is_in_smem(atom: Any) -> bool:
    space = getattr(atom.aval, "memory_space", None)
    return str(getattr(space, "value", space)) == "smem"
