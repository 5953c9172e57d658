"""Finds violations of the program rules in a traced program: work outside kernels, access to the host, and reserved parameters.

The rules apply to the program that is checked, compiled and estimated, not to its source text. Outside kernels only listed operations are
allowed. Inside kernels the compiler supports a closed set of operations. Of these, the rules refuse the ones that reach outside the
program, that depend on timing or random numbers, or that behave differently in interpret mode and on the TPU.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from jax._src import source_info_util
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from evokernel.backends.pallas.rule_lists import load_rules

NAME = re.compile(r"[\w.\-]{1,80}")
SOURCE_LINE = re.compile(r"[\w\-]+\.py:\d+")
MAX_FINDINGS = 12
INDEX_OPERANDS = {"gather": slice(1, 2), "scatter": slice(1, 2), "dynamic_slice": slice(1, None), "dynamic_update_slice": slice(2, None)}
"""The operands that contain the indices of a read or write."""
DISJOINT_BLOCK_KINDS = ("Blocked", "Squeezed", "int", "NoneType")
"""Types of block dimensions with which blocks do not overlap."""


@dataclass(frozen=True)
class ValueOrigin:
    """The origin of a value: the inputs and kernels it was computed from."""

    inputs: frozenset[int] = frozenset()
    """Indices of the program inputs it depends on."""
    kernel_inputs: frozenset[int] = frozenset()
    """Indices of the inputs that reached it through a kernel."""
    from_kernel: bool = False
    """Whether a kernel contributed to it."""
    aliased_inputs: frozenset[int] = frozenset()
    """Indices of the inputs whose memory it may share."""

    def __or__(self, other: ValueOrigin) -> ValueOrigin:
        return ValueOrigin(
            self.inputs | other.inputs,
            self.kernel_inputs | other.kernel_inputs,
            self.from_kernel or other.from_kernel,
            self.aliased_inputs | other.aliased_inputs,
        )


NO_ORIGIN = ValueOrigin()


def collect_findings(closed: ClosedJaxpr) -> list[str]:
    """All violations in a program, each with its fix; empty if the program may run."""
    walk = ProgramWalk()
    inputs = [ValueOrigin(inputs=frozenset({index}), aliased_inputs=frozenset({index})) for index in range(len(closed.jaxpr.invars))]
    outputs = walk.walk_program(closed.jaxpr, closed.consts, inputs)
    findings = [*walk.findings, *walk.check_totals()]
    if not walk.kernel_count:
        findings.append("the program contains no `pl.pallas_call`: compute the result in a Pallas kernel")
    else:
        findings += [text for index, origin in enumerate(outputs) for text in check_output(index, origin)]
    unique = list(dict.fromkeys(findings))
    return unique[:MAX_FINDINGS] + ([f"and {len(unique) - MAX_FINDINGS} more"] if len(unique) > MAX_FINDINGS else [])


def check_output(index: int, origin: ValueOrigin) -> Iterator[str]:
    """Every output must be computed from an input by a kernel."""
    if not origin.from_kernel:
        yield f"output {index} is not a result of `pl.pallas_call`: return the array that the kernel writes"
    elif not origin.kernel_inputs:
        yield f"output {index} depends on no input through a kernel: pass the inputs to `pl.pallas_call` and read them in the kernel"


class ProgramWalk:
    """Walks a program with all nested programs, and collects violations."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.kernel_count = 0
        self.small_elements = 0
        self.constants: dict[int, tuple[int, Any]] = {}
        """Bytes of every array constant, by id; a reference to the array keeps the id unique."""

    def add_finding(self, equation: JaxprEqn, text: str) -> None:
        where = source_line(equation)
        self.findings.append(f"{text} ({where})" if where else text)

    def check_totals(self) -> Iterator[str]:
        """Violations of limits for the program in total."""
        size, limit = sum(size for size, _ in self.constants.values()), load_rules().constant_bytes
        if size > limit:
            yield f"array constants take {size >> 10} KiB, the limit is {limit >> 10} KiB: compute them in the kernel, e.g. from an iota"
        if self.small_elements > load_rules().tiny_total:
            yield f"small operations outside kernels process {self.small_elements} elements in total: compute inside the kernel"

    def count_constant(self, value: Any) -> None:
        if getattr(value, "nbytes", 0) > 64 and isinstance(value.dtype, np.dtype) and id(value) not in self.constants:
            array = np.asarray(value)
            first = array.reshape(-1)[:1]
            self.constants[id(value)] = (0 if (array == first).all() else array.nbytes, value)

    def walk_program(
        self, jaxpr: Jaxpr, constants: Sequence[Any], inputs: Sequence[ValueOrigin], *, in_loop: bool = False
    ) -> list[ValueOrigin]:
        """The origins of a program's results, from the origins of its arguments."""
        for value in constants:
            self.count_constant(value)
        origins: dict[Any, ValueOrigin] = dict(zip(jaxpr.invars, inputs))

        def origin(atom: Any) -> ValueOrigin:
            if isinstance(atom, Literal):
                self.count_constant(atom.val)
                return NO_ORIGIN
            return origins.get(atom, NO_ORIGIN)

        for equation in jaxpr.eqns:
            results = self.walk_equation(equation, [origin(atom) for atom in equation.invars], in_loop)
            origins.update(zip(equation.outvars, results))
        return [origin(atom) for atom in jaxpr.outvars]

    def walk_equation(self, equation: JaxprEqn, operands: list[ValueOrigin], in_loop: bool) -> list[ValueOrigin]:
        """The origins of the results of one operation outside kernels; reports its violations."""
        name = equation.primitive.name
        origin = reduce(ValueOrigin.__or__, operands, NO_ORIGIN)
        if name == "pallas_call":
            return self.check_kernel(equation, operands)
        if name in load_rules().calls:
            return self.walk_call(equation, operands, in_loop)
        if name in load_rules().loops:
            return self.walk_loop(equation, operands)
        if problem := self.check_operation(equation, operands, origin, in_loop):
            self.add_finding(equation, problem)
        aliased_inputs = origin.aliased_inputs if name in load_rules().views else frozenset()
        return [ValueOrigin(origin.inputs, origin.kernel_inputs, origin.from_kernel, aliased_inputs)] * len(equation.outvars)

    def check_operation(self, equation: JaxprEqn, operands: list[ValueOrigin], origin: ValueOrigin, in_loop: bool) -> str:
        """The violation of a single operation outside kernels; empty if it is allowed."""
        name, size = equation.primitive.name, count_elements(equation)
        reason = refusal_reason(name, load_rules().refused_outside)
        if reason:
            return f"`{name}` {reason}"
        if name == "device_put" and not any(equation.params.get("devices", ())):
            return ""
        if is_layout(equation, operands):
            return ""
        if name not in load_rules().arithmetic | load_rules().layout | load_rules().indexed_layout:
            return f"`{name}` is not allowed outside a kernel: only operations that move or cast data are allowed there"
        if not origin.inputs:
            return ""
        if in_loop:
            return f"`{name}` runs in a loop or branch outside `pl.pallas_call`: compute inside the kernel"
        if size > load_rules().tiny_elements:
            return f"`{name}` on {size} elements outside `pl.pallas_call`: compute inside the kernel"
        self.small_elements += size
        return ""

    def walk_call(self, equation: JaxprEqn, operands: list[ValueOrigin], in_loop: bool) -> list[ValueOrigin]:
        """Walks the program that an operation calls."""
        programs = list(nested_programs(list(equation.params.values())))
        if len(programs) == 1:  # with several, the inspected program may differ from the executed one
            jaxpr, constants = programs[0]
            if len(jaxpr.invars) == len(operands) and len(jaxpr.outvars) == len(equation.outvars):
                return self.walk_program(jaxpr, constants, operands, in_loop=in_loop)
        self.add_finding(equation, f"`{equation.primitive.name}` calls a function that cannot be inspected: call `pl.pallas_call` directly")
        return [NO_ORIGIN] * len(equation.outvars)

    def walk_loop(self, equation: JaxprEqn, operands: list[ValueOrigin]) -> list[ValueOrigin]:
        """Walks a loop or a branch. The condition contributes to the origin of every result."""
        name, params = equation.primitive.name, equation.params
        if params.get("branches_platforms") is not None:
            self.add_finding(equation, f"`{name}` {load_rules().refused_outside['platform_index']}")
        entering = [ValueOrigin(origin.inputs, origin.kernel_inputs, origin.from_kernel) for origin in operands]
        before = self.kernel_count
        if name == "cond":
            condition, *arguments = entering
            self.check_decision(equation, condition)
            branches = [self.walk_program(branch.jaxpr, branch.consts, arguments, in_loop=True) for branch in params["branches"]]
            results = [reduce(ValueOrigin.__or__, origins, condition) for origins in zip(*branches)]
        else:
            results = self.walk_iterations(equation, entering)
        if self.kernel_count > before:
            self.add_finding(equation, f"`pl.pallas_call` inside `{name}`: make the loop a grid dimension, or loop inside the kernel")
            origin = reduce(ValueOrigin.__or__, entering, NO_ORIGIN)
            return [ValueOrigin(origin.inputs, origin.inputs | origin.kernel_inputs, True)] * len(equation.outvars)
        return results

    def check_decision(self, equation: JaxprEqn, condition: ValueOrigin) -> None:
        """Reports a loop or branch outside kernels whose condition depends on data."""
        if condition.inputs:
            text = f"the condition of `{equation.primitive.name}` outside `pl.pallas_call` depends on data: branch inside the kernel"
            self.add_finding(equation, text)

    def walk_iterations(self, equation: JaxprEqn, entering: list[ValueOrigin]) -> list[ValueOrigin]:
        """The origins of the results of a `scan` or a `while`, iterated until they no longer change."""
        params = equation.params
        test = params.get("cond_jaxpr")
        body, body_consts = (params["jaxpr"], params["num_consts"]) if test is None else (params["body_jaxpr"], params["body_nconsts"])
        test_consts = 0 if test is None else params["cond_nconsts"]
        constants, state = entering[test_consts : test_consts + body_consts], entering[test_consts + body_consts :]
        carry_count = params["num_carry"] if test is None else len(state)
        while True:
            results = self.walk_program(body.jaxpr, body.consts, [*constants, *state], in_loop=True)
            carry = [old | new for old, new in zip(state[:carry_count], results)]
            if test is not None:
                (condition,) = self.walk_program(test.jaxpr, test.consts, [*entering[:test_consts], *carry], in_loop=True)
                self.check_decision(equation, condition)
                carry = [origin | condition for origin in carry]
            if carry == state[:carry_count]:
                return [*carry, *results[carry_count:]]
            state = [*carry, *state[carry_count:]]

    def check_kernel(self, equation: JaxprEqn, operands: list[ValueOrigin]) -> list[ValueOrigin]:
        """Checks a kernel's parameters, grid, index maps and body; returns the origins of its outputs."""
        self.kernel_count += 1
        params = equation.params
        for text in [
            *check_reserved_params(params),
            *check_compiler_params(params.get("compiler_params")),
            *check_grid(params["grid_mapping"]),
        ]:
            self.add_finding(equation, text)
        name = params.get("name")
        if name is not None and not NAME.fullmatch(str(name)):
            self.add_finding(equation, "the `name` of a kernel may contain only letters, digits, `_`, `.` and `-`, at most 80 characters")
        for operand, _ in params.get("input_output_aliases", ()):
            if operand < len(operands) and operands[operand].aliased_inputs:
                self.add_finding(equation, "`input_output_aliases` would overwrite an input of the program: write to a separate output")
        if not all(use_same_blocks(params["grid_mapping"], *pair) for pair in params.get("input_output_aliases", ())):
            self.add_finding(
                equation, "`input_output_aliases` with different or overlapping blocks: use the same block shape and index map for both"
            )
        body = params["jaxpr"]
        for mapping in params["grid_mapping"].block_mappings:
            self.check_kernel_body(mapping.index_map_jaxpr.jaxpr, mapping.index_map_jaxpr.consts)
        self.check_kernel_body(body, ())
        read_refs = {id(atom) for inner in all_equations(body) for atom in inner.invars}
        operand_origin = reduce(ValueOrigin.__or__, operands, NO_ORIGIN)
        read_origin = reduce(ValueOrigin.__or__, (origin for origin, ref in zip(operands, body.invars) if id(ref) in read_refs), NO_ORIGIN)
        return [ValueOrigin(operand_origin.inputs, operand_origin.kernel_inputs | read_origin.inputs, True)] * len(equation.outvars)

    def check_kernel_body(self, jaxpr: Jaxpr, constants: Sequence[Any]) -> None:
        """Checks every operation of a kernel or index map, including nested programs."""
        for value in constants:
            self.count_constant(value)
        for equation in all_equations(jaxpr):
            name, params = equation.primitive.name, equation.params
            if reason := refusal_reason(name, load_rules().refused_inside):
                self.add_finding(equation, f"`{name}` in a kernel {reason}")
            elif params.get("branches_platforms") is not None:
                self.add_finding(equation, f"`{name}` in a kernel {load_rules().refused_inside['platform_index']}")
            elif is_remote(equation):
                self.add_finding(equation, f"`{name}` in a kernel {load_rules().refused_inside['axis_index']}")
            elif name == "reciprocal" and not params.get("full_range", True):
                self.add_finding(equation, "`pl.reciprocal(full_range=False)` is undefined for zeros and infinities: remove `full_range`")
            for atom in equation.invars:
                if isinstance(atom, Literal):
                    self.count_constant(atom.val)
            for _, nested_constants in nested_programs(list(params.values())):
                for value in nested_constants:
                    self.count_constant(value)


def check_grid(mapping: Any) -> Iterator[str]:
    """Violations of a grid: it must be static and must not have too many steps."""
    if mapping.num_dynamic_grid_bounds or not all(isinstance(size, int) for size in mapping.grid):
        yield "the grid depends on data: use Python integers computed from the shapes"
    elif (steps := math.prod(mapping.grid)) > load_rules().grid_steps:
        yield f"the grid {tuple(mapping.grid)} has {steps} steps, the limit is {load_rules().grid_steps}: use larger blocks"


def use_same_blocks(mapping: Any, operand: int, output: int) -> bool:
    """Whether each step reads exactly the block it writes: the pipeline may read other blocks before or after they are written."""
    index = operand - mapping.num_index_operands
    if not 0 <= index < mapping.num_inputs:
        return False
    one, other = mapping.block_mappings[index], mapping.block_mappings[mapping.num_inputs + output]
    same = [(block.block_shape, str(block.index_map_jaxpr), str(block.transformed_block_aval.memory_space)) for block in (one, other)]
    has_constants = one.index_map_jaxpr.consts or other.index_map_jaxpr.consts  # not visible in the text of an index map
    return same[0] == same[1] and not has_constants and all(type(size).__name__ in DISJOINT_BLOCK_KINDS for size in one.block_shape)


def check_reserved_params(params: Mapping[str, Any]) -> Iterator[str]:
    """Violations of parameters that only the verifier sets."""
    for name, fix in load_rules().reserved_params.items():
        if params.get(name) not in (None, False):
            yield f"`{name}` is set on a `pl.pallas_call`: {fix}"


def check_compiler_params(params: Any) -> Iterator[str]:
    """Violations of `compiler_params`: only listed fields may be set."""
    if params is None:
        return
    if not is_dataclass(params) or not type(params).__module__.startswith("jax._src.pallas.mosaic."):
        yield "`compiler_params` must be a `pltpu.CompilerParams`"
        return
    for field in fields(params):
        if field.name not in load_rules().compiler_params and getattr(params, field.name) != field.default:
            yield f"`{field.name}` in `pltpu.CompilerParams` is not allowed: remove it"


def refusal_reason(name: str, refused: Mapping[str, str]) -> str:
    """The reason why an operation is refused; empty if it is allowed. Callbacks have many names."""
    return refused.get(name) or (refused["pure_callback"] if "callback" in name else "")


def is_remote(equation: JaxprEqn) -> bool:
    """Whether a copy or a semaphore signal targets another device or core."""
    trees = {"dma_start": ("tree", 4), "dma_wait": ("tree", 4), "semaphore_signal": ("args_tree", 3)}
    if equation.primitive.name not in trees:
        return False
    key, first = trees[equation.primitive.name]
    return any(tree.num_leaves for tree in equation.params[key].children()[first:])


def is_layout(equation: JaxprEqn, operands: Sequence[ValueOrigin]) -> bool:
    """Whether an operation only moves data."""
    name = equation.primitive.name
    if name in load_rules().indexed_layout:
        return not any(index.inputs for index in operands[INDEX_OPERANDS[name]]) and equation.params.get("update_jaxpr") is None
    if name == "convert_element_type":
        return not loses_fraction(equation.invars[0].aval, equation.outvars[0].aval)
    return name in load_rules().layout


def loses_fraction(before: Any, after: Any) -> bool:
    """Whether a conversion is arithmetic: it rounds to integers or compares with zero."""
    old, new = str(before.dtype), str(after.dtype)
    return old != new and (new == "bool" or ("float" in old and new.startswith(("int", "uint"))))


def count_elements(equation: JaxprEqn) -> int:
    """The elements that an operation processes; for a matrix product the number of multiplications."""
    shapes = [getattr(atom.aval, "shape", ()) for atom in (*equation.invars, *equation.outvars)]
    sizes = [math.prod(shape) for shape in shapes]
    if equation.primitive.name == "dot_general":
        (contracting_axes, _), _ = equation.params["dimension_numbers"]
        return int(sizes[-1] * math.prod(shapes[0][axis] for axis in contracting_axes))
    return max(sizes, default=0)


def nested_programs(value: Any) -> Iterator[tuple[Jaxpr, Sequence[Any]]]:
    """The programs in an operation's parameters (one level deep), with their constants."""
    if isinstance(value, ClosedJaxpr):
        yield value.jaxpr, value.consts
    elif isinstance(value, Jaxpr):
        yield value, ()
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from nested_programs(part)


def all_equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """All operations of a program and of its nested programs."""
    for equation in jaxpr.eqns:
        yield equation
        for inner, _ in nested_programs(list(equation.params.values())):
            yield from all_equations(inner)


def source_line(equation: JaxprEqn) -> str:
    """The candidate's line of an operation, `kernel.py:12`; empty if the program does not record it."""
    lines = SOURCE_LINE.findall(str(equation.source_info.name_stack))
    frame = None if lines else source_info_util.user_frame(equation.source_info.traceback)
    if frame:
        lines = [f"{Path(frame.file_name).name}:{frame.start_line}"]
    return lines[-1] if lines else ""
