"""Whether the parts of a program agree: jax makes them so, bytes that somebody else wrote need not.

What a kernel is given is said in several places, and the interpreter does not read the same ones as the compiler. Where they differ, what
is checked would not be what is priced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jax._src import core
from jax._src.pallas import core as pallas
from jax._src.state.types import AbstractRef

from evokernel.backends.pallas.program_rules import equations, programs

NUMBERS = ("int32", "int64")


def check(closed: Any) -> None:
    """Raises what jax raises for a program that is not typed rightly, and AssertionError for other contradictions."""
    assert isinstance(closed, core.ClosedJaxpr), "no program"
    typed(closed.jaxpr, closed.consts)
    for equation in equations(closed.jaxpr):
        if equation.primitive.name == "pallas_call":
            kernel(equation)


def typed(jaxpr: Any, constants: Iterable[Any]) -> None:
    """A program, the programs in it, and what is constant in them."""
    core.check_jaxpr(jaxpr)
    held = [(jaxpr, constants), *(found for step in equations(jaxpr) for found in programs(list(step.params.values())))]
    for inner, values in held:
        if values or not isinstance(inner, core.Jaxpr):
            agree(map(core.typeof, values), (variable.aval for variable in inner.constvars), "constants of other types")


def kernel(call: Any) -> None:
    """The operands of a kernel are what its blocks are of, and its blocks are what its body is given."""
    params = call.params
    mapping, body = params["grid_mapping"], params["jaxpr"]
    assert isinstance(mapping, pallas.GridMapping), "no grid"
    assert isinstance(body, core.Jaxpr), "no kernel"
    assert not body.constvars, "a kernel with constants"
    assert mapping.get_grid_indices is None, "a grid with functions"
    assert mapping.local_grid_env is None, "a grid with functions"
    scalars, blocks, results = mapping.num_index_operands, mapping.block_mappings, [variable.aval for variable in call.outvars]
    counts = (scalars, mapping.num_inputs, mapping.num_outputs, *mapping.grid, *mapping.vmapped_dims)
    assert all(type(count) is int and count >= 0 for count in counts), "a count that is none"
    assert len(call.invars) == scalars + mapping.num_inputs, "operands without a place"
    assert len(blocks) == mapping.num_inputs + mapping.num_outputs, "blocks of nothing"
    agree(params["out_avals"], results, "other outputs than those that are written")
    tables = mapping.index_map_avals[len(mapping.grid) :]
    agree(tables, (atom.aval for atom in call.invars[:scalars]), "other scalars")
    given = [*tables, *(block.transformed_block_aval for block in blocks), *mapping.scratch_avals]
    assert [variable.aval for variable in body.invars] == given, "a kernel that is given other memory than it was made for"
    arrays = [*(atom.aval for atom in call.invars[scalars:]), *results]
    with mapping.trace_env():
        for block, array in zip(blocks, arrays, strict=True):
            part(block, array, mapping)
        typed(body, ())


def part(block: Any, array: Any, mapping: Any) -> None:
    """A block is a part of its array, at a place that its map gives."""
    assert isinstance(block, pallas.BlockMapping), "no block"
    assert not block.transforms, "a block that is transformed"
    held, where = block.transformed_block_aval, block.index_map_jaxpr
    assert isinstance(held, AbstractRef), "no block"
    agree([block.array_aval], [array], "a block of another array")
    assert len(block.block_shape) == len(array.shape), "a block of another rank"
    agree([held], [core.ShapedArray(pallas._get_ref_block_shape(block.block_shape), array.dtype)], "a block of another shape")
    typed(where.jaxpr, where.consts)
    assert tuple(where.in_avals) == tuple(mapping.index_map_avals), "a map of another grid"
    assert all(not aval.shape and aval.dtype.name in NUMBERS for aval in where.out_avals), "a map to no place"


def agree(one: Iterable[Any], other: Iterable[Any], words: str) -> None:
    """Whether shapes and types of elements are the same."""
    kinds = [[(tuple(aval.shape), aval.dtype) for aval in avals] for avals in (one, other)]
    assert kinds[0] == kinds[1], words
