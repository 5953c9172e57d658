"""Translates the failures and races that interpret mode finds into messages for the generator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import jax
from jax._src.pallas.mosaic.interpret import utils

from evokernel.backends.pallas.interpret_patches import MemoryAccess, RunRecord, source_line
from evokernel.core.errors import CandidateError


class FailureReporter:
    """Describes failures of a program with these `pallas_call` equations."""

    def __init__(self, calls: Sequence[Any]) -> None:
        self.calls = calls

    def to_candidate_error(self, failure: Exception, record: RunRecord) -> CandidateError:
        """The error for an exception that interpret mode raised."""
        if isinstance(failure, CandidateError):
            return failure
        text = str(failure)
        if block := re.search(
            r"Out-of-bounds block index (\(.*?\)) for (in|out)put \"(.*?)\" in iteration (\(.*?\)).* has shape (\(.*?\))", text
        ):
            index, _, name, step, shape = block.groups()
            return block_outside_error(index, name, step, shape)
        if "Out-of-bounds" in text or isinstance(failure, AssertionError):
            return CandidateError("out_of_bounds", f"out of bounds{self.describe_last_access(record)}")
        if revisit := re.search(r"of output (\d+) in iteration (\(.*?\)).*iterations (\(.*?\)) through (\(.*?\))", text):
            return revisited_error(revisit[1], revisit[4], revisit[2])
        if "Transform' object" in text:
            text = "a Ref is reshaped, transposed or cast: load the value with `x_ref[...]` and transform the value"
        is_unsupported = isinstance(failure, AttributeError | NotImplementedError | TypeError | ValueError)
        where = source_line(getattr(getattr(record.last_callback[0], "callback_func", None), "keywords", {}).get("source_info"))
        return CandidateError(
            "unsupported" if is_unsupported else "crash", f"interpret mode failed{where}: {type(failure).__name__}: {text}"
        )

    def describe_last_access(self, record: RunRecord) -> str:
        """The last load or store, with its line."""
        callback, flat = record.last_callback
        arguments, _ = jax.tree.unflatten(callback.in_tree, flat)
        info = getattr(callback.callback_func, "keywords", {}).get("source_info")
        if len(arguments) < 6:
            return source_line(info)
        part = format_range(utils.to_range(jax.tree.map(int, arguments[5])))
        return f"{source_line(info)}: {self.buffer_name(record.kernel_count - 1, int(arguments[4]))}[{part}] exceeds its shape"

    def describe_race(self, kernel: int, buffer: tuple[Any, ...], one: MemoryAccess, other: MemoryAccess) -> str:
        """Two unordered accesses, their lines, and the fix."""
        actions = ["written" if access.writes else "read" for access in (one, other)]
        agents = [
            "by a transfer" if access.is_transfer else "by the kernel" if access.source else "by the block pipeline"
            for access in (one, other)
        ]
        first = f"{actions[0]} {agents[0]}{source_line(one.source)}"
        second = f"{actions[1]} {agents[1]}{source_line(other.source)}"
        text = f"race: {self.buffer_name(kernel, buffer[1])} is {first} and {second}"
        if one.is_transfer or other.is_transfer:
            return f"{text}, without synchronisation: wait for the transfer before writing its source or accessing its target"
        fix = "declare the dimension arbitrary, or let each step access a separate part"
        return f"{text} in grid steps that differ in a parallel dimension, so two cores may do so at the same time: {fix}"

    def buffer_name(self, kernel: int, buffer: int) -> str:
        """The kernel's name for a buffer; interpret mode numbers buffers from 100 in a fixed order."""
        names = buffer_names(self.calls[kernel % len(self.calls)].params)
        return names[buffer - 100] if 0 <= buffer - 100 < len(names) else "a buffer of `pl.run_scoped`"


def block_outside_error(index: str, name: str, step: str, shape: str) -> CandidateError:
    """The error for a block that an index map places outside its array."""
    problem = f"block {index} of {name} in grid step {step} exceeds its shape {shape}"
    return CandidateError("out_of_bounds", f"out of bounds: {problem}: check its index map, which returns block indices")


def revisited_error(output: str, last: str, again: str) -> CandidateError:
    """The error for an output block that is written out after step `last` and visited again."""
    problem = f"a block of output {output} was written out after grid step {last} and is visited again in step {again}"
    return CandidateError("race", f"{problem}, so its content is lost: grid steps that use the same output block must be consecutive")


def format_range(part: Sequence[Any]) -> str:
    """An index range in Python notation."""
    texts = [
        f"{index.start}:{index.stop}" + f":{index.step}" * (index.step != 1) if isinstance(index, slice) else str(index) for index in part
    ]
    return ", ".join(texts)


def buffer_names(params: dict[str, Any]) -> list[str]:
    """Buffer names in the order of allocation: inputs and outputs in HBM, scalars, then buffers in the core's memories."""
    mapping, variables = params["grid_mapping"], params["jaxpr"].invars
    names = [str(name) for name in params["jaxpr"].debug_info.arg_names or [f"argument {i}" for i in range(len(variables))]]
    scalars, inputs = mapping.num_index_operands, mapping.num_inputs
    aliased_outputs = [output for _, output in params["input_output_aliases"]]
    outputs = [names[scalars + inputs + i] for i in range(mapping.num_outputs) if i not in aliased_outputs]
    core_buffers = []
    for i, variable in enumerate(variables[scalars:]):
        blocks = mapping.block_mappings
        space = (blocks[i].transformed_block_aval if i < len(blocks) else variable.aval).memory_space
        if str(getattr(space, "value", space)) not in ("any", "hbm", "semaphore_mem"):
            core_buffers.append(names[scalars + i])
    return [*names[scalars : scalars + inputs], *outputs, *names[:scalars], *core_buffers]
