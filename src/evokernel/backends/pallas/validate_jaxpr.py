"""Checks that a decoded program is consistent: programs that jax traced are, but forged bytes may not be.

A program describes the arguments of a kernel in several places, and interpret mode and the compiler read different ones. If they
differed, the verifier would check another program than it times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jax._src import core
from jax._src.pallas import core as pallas
from jax._src.state.types import AbstractRef

from evokernel.backends.pallas.program_rules import all_equations, nested_programs

INDEX_DTYPES = ("int32", "int64")


def validate_program(closed: Any) -> None:
    """Raises jax's exception for a program with type errors, and AssertionError for other contradictions."""
    assert isinstance(closed, core.ClosedJaxpr), "the data is not a ClosedJaxpr"
    validate_types(closed.jaxpr, closed.consts)
    for equation in all_equations(closed.jaxpr):
        if equation.primitive.name == "pallas_call":
            validate_kernel(equation)


def validate_types(jaxpr: Any, constants: Iterable[Any]) -> None:
    """Checks the types of a program, its nested programs and their constants."""
    core.check_jaxpr(jaxpr)
    programs = [(jaxpr, constants), *(program for step in all_equations(jaxpr) for program in nested_programs(list(step.params.values())))]
    for inner, values in programs:
        if values or not isinstance(inner, core.Jaxpr):
            require_equal_avals(
                map(core.typeof, values),
                (variable.aval for variable in inner.constvars),
                "the types of the constants differ from their declarations",
            )


def validate_kernel(call: Any) -> None:
    """Checks that a kernel's operands match its block mappings, and that its block mappings match the arguments of its body."""
    params = call.params
    mapping, body = params["grid_mapping"], params["jaxpr"]
    assert isinstance(mapping, pallas.GridMapping), "the kernel has no GridMapping"
    assert isinstance(body, core.Jaxpr), "the kernel body is not a Jaxpr"
    assert not body.constvars, "the kernel body captures constants"
    assert mapping.get_grid_indices is None, "the grid mapping contains a function"
    assert mapping.local_grid_env is None, "the grid mapping contains a function"
    scalars, blocks, results = mapping.num_index_operands, mapping.block_mappings, [variable.aval for variable in call.outvars]
    counts = (scalars, mapping.num_inputs, mapping.num_outputs, *mapping.grid, *mapping.vmapped_dims)
    assert all(type(count) is int and count >= 0 for count in counts), "a count or grid size is not a non-negative integer"
    assert len(call.invars) == scalars + mapping.num_inputs, "the number of operands differs from the grid mapping"
    assert len(blocks) == mapping.num_inputs + mapping.num_outputs, "the number of block mappings differs from the inputs and outputs"
    require_equal_avals(params["out_avals"], results, "the declared outputs differ from the results of the call")
    tables = mapping.index_map_avals[len(mapping.grid) :]
    require_equal_avals(
        tables, (atom.aval for atom in call.invars[:scalars]), "the prefetched scalars differ from the operands of the call"
    )
    body_avals = [*tables, *(block.transformed_block_aval for block in blocks), *mapping.scratch_avals]
    assert [variable.aval for variable in body.invars] == body_avals, "the arguments of the kernel body differ from its blocks and scratch"
    arrays = [*(atom.aval for atom in call.invars[scalars:]), *results]
    with mapping.trace_env():
        for block, array in zip(blocks, arrays, strict=True):
            validate_block(block, array, mapping)
        validate_types(body, ())


def validate_block(block: Any, array: Any, mapping: Any) -> None:
    """Checks that a block fits its array, and that its index map returns block indices."""
    assert isinstance(block, pallas.BlockMapping), "a block is not a BlockMapping"
    assert not block.transforms, "a block mapping has transforms"
    ref, index_map = block.transformed_block_aval, block.index_map_jaxpr
    assert isinstance(ref, AbstractRef), "a block is not a Ref"
    require_equal_avals([block.array_aval], [array], "a block mapping describes another array than the operand")
    assert len(block.block_shape) == len(array.shape), "a block has another rank than its array"
    require_equal_avals(
        [ref],
        [core.ShapedArray(pallas._get_ref_block_shape(block.block_shape), array.dtype)],
        "a block Ref has another shape or dtype than its block mapping",
    )
    validate_types(index_map.jaxpr, index_map.consts)
    assert tuple(index_map.in_avals) == tuple(mapping.index_map_avals), "an index map takes other arguments than the grid has"
    assert all(not aval.shape and aval.dtype.name in INDEX_DTYPES for aval in index_map.out_avals), "an index map does not return integers"


def require_equal_avals(one: Iterable[Any], other: Iterable[Any], message: str) -> None:
    """Raises AssertionError with the message unless all shapes and dtypes are equal."""
    kinds = [[(tuple(aval.shape), aval.dtype) for aval in avals] for avals in (one, other)]
    assert kinds[0] == kinds[1], message
