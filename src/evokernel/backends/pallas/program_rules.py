"""What a traced program may not hold: work outside kernels, ways out of it, and what the judge alone decides.

The rules are about the program that is checked, compiled and priced, not about the text it came from. Outside kernels only known operations
are allowed. Inside them the compiler itself knows a closed set of operations; refused are those of it that reach outside, that depend on
timing or chance, or that mean something else in the interpreter than on the chip.
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

from evokernel.backends.pallas.rule_lists import rules

NAME = re.compile(r"[\w.\-]{1,80}")
PLACE = re.compile(r"[\w\-]+\.py:\d+")
LIMIT = 12
INDICES = {"gather": slice(1, 2), "scatter": slice(1, 2), "dynamic_slice": slice(1, None), "dynamic_update_slice": slice(2, None)}
"""Which operands say where to read or write."""
SEPARATE = ("Blocked", "Squeezed", "int", "NoneType")
"""Ways to give a block's size in which blocks do not overlap."""


@dataclass(frozen=True)
class Origin:
    """Where a value comes from."""

    data: frozenset[int] = frozenset()
    """The program's inputs it depends on."""
    through: frozenset[int] = frozenset()
    """Those of them that reached it through a kernel."""
    kernel: bool = False
    """Whether a kernel had a part in it."""
    memory: frozenset[int] = frozenset()
    """The inputs whose memory it may share."""

    def __or__(self, other: Origin) -> Origin:
        return Origin(self.data | other.data, self.through | other.through, self.kernel or other.kernel, self.memory | other.memory)


NOTHING = Origin()


def findings(closed: ClosedJaxpr) -> list[str]:
    """What has no place in a program, each with what to do instead; empty for a program that may be run."""
    walk = Walk()
    inputs = [Origin(data=frozenset({index}), memory=frozenset({index})) for index in range(len(closed.jaxpr.invars))]
    outputs = walk.program(closed.jaxpr, closed.consts, inputs)
    found = [*walk.found, *walk.totals()]
    if not walk.kernels:
        found.append("there is no `pl.pallas_call` in the program: the work belongs into one")
    else:
        found += [text for index, origin in enumerate(outputs) for text in of_output(index, origin)]
    unique = list(dict.fromkeys(found))
    return unique[:LIMIT] + ([f"and {len(unique) - LIMIT} more"] if len(unique) > LIMIT else [])


def of_output(index: int, origin: Origin) -> Iterator[str]:
    """An output has to be a kernel's work on some input."""
    if not origin.kernel:
        yield f"output {index} does not come from a `pl.pallas_call`: return what the kernel wrote"
    elif not origin.through:
        yield f"output {index} depends on no input through a kernel: pass the inputs to the kernel and compute it there"


class Walk:
    """Goes through a program and everything in it, and collects findings."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.kernels = 0
        self.tiny = 0
        self.constants: dict[int, tuple[int, Any]] = {}
        """Bytes of every array constant seen, by identity; the array is held so that its identity stays its own."""

    def report(self, equation: JaxprEqn, text: str) -> None:
        where = place(equation)
        self.found.append(f"{text} ({where})" if where else text)

    def totals(self) -> Iterator[str]:
        """What counts for the program as a whole."""
        size, limit = sum(size for size, _ in self.constants.values()), rules().constant_bytes
        if size > limit:
            yield f"array constants take {size >> 10} KiB, more than {limit >> 10} KiB: compute them in the kernel, say from an iota"
        if self.tiny > rules().tiny_total:
            yield f"small arithmetic outside kernels adds up to {self.tiny} elements: compute inside the kernel"

    def constant(self, value: Any) -> None:
        if getattr(value, "nbytes", 0) > 64 and isinstance(value.dtype, np.dtype) and id(value) not in self.constants:
            array = np.asarray(value)
            first = array.reshape(-1)[:1]
            self.constants[id(value)] = (0 if (array == first).all() else array.nbytes, value)

    def program(self, jaxpr: Jaxpr, constants: Sequence[Any], inputs: Sequence[Origin], *, looped: bool = False) -> list[Origin]:
        """The origins of a program's results, given those of its arguments."""
        for value in constants:
            self.constant(value)
        known: dict[Any, Origin] = dict(zip(jaxpr.invars, inputs))

        def origin(atom: Any) -> Origin:
            if isinstance(atom, Literal):
                self.constant(atom.val)
                return NOTHING
            return known.get(atom, NOTHING)

        for equation in jaxpr.eqns:
            results = self.equation(equation, [origin(atom) for atom in equation.invars], looped)
            known.update(zip(equation.outvars, results))
        return [origin(atom) for atom in jaxpr.outvars]

    def equation(self, equation: JaxprEqn, operands: list[Origin], looped: bool) -> list[Origin]:
        """One operation outside kernels."""
        name = equation.primitive.name
        joined = reduce(Origin.__or__, operands, NOTHING)
        if name == "pallas_call":
            return self.kernel(equation, operands)
        if name in rules().calls:
            return self.call(equation, operands, looped)
        if name in rules().loops:
            return self.loop(equation, operands)
        if problem := self.operation(equation, operands, joined, looped):
            self.report(equation, problem)
        memory = joined.memory if name in rules().views else frozenset()
        return [Origin(joined.data, joined.through, joined.kernel, memory)] * len(equation.outvars)

    def operation(self, equation: JaxprEqn, operands: list[Origin], joined: Origin, looped: bool) -> str:
        """What is wrong with a plain operation outside kernels, or nothing."""
        name, size = equation.primitive.name, work(equation)
        refused = wrong(name, rules().refused_outside)
        if refused:
            return f"`{name}` {refused}"
        if name == "device_put" and not any(equation.params.get("devices", ())):
            return ""
        if is_layout(equation, operands):
            return ""
        if name not in rules().arithmetic | rules().layout | rules().indexed:
            return f"`{name}` is not allowed outside a kernel: only operations that move data are"
        if not joined.data:
            return ""
        if looped:
            return f"`{name}` computes in a loop outside `pl.pallas_call`: compute inside the kernel"
        if size > rules().tiny_elements:
            return f"`{name}` on {size} elements outside `pl.pallas_call`: compute inside the kernel"
        self.tiny += size
        return ""

    def call(self, equation: JaxprEqn, operands: list[Origin], looped: bool) -> list[Origin]:
        """A call of a program: gone into as if it stood here."""
        found = list(programs(list(equation.params.values())))
        if len(found) == 1:  # of several, the one looked at need not be the one that is run
            jaxpr, constants = found[0]
            if len(jaxpr.invars) == len(operands) and len(jaxpr.outvars) == len(equation.outvars):
                return self.program(jaxpr, constants, operands, looped=looped)
        self.report(equation, f"`{equation.primitive.name}` calls something that cannot be followed: call `pl.pallas_call` directly")
        return [NOTHING] * len(equation.outvars)

    def loop(self, equation: JaxprEqn, operands: list[Origin]) -> list[Origin]:
        """A loop or a branch. What a round leaves, the next one finds; what decides has a part in every result."""
        name, params = equation.primitive.name, equation.params
        if params.get("branches_platforms") is not None:
            self.report(equation, f"`{name}` {rules().refused_outside['platform_index']}")
        entering = [Origin(origin.data, origin.through, origin.kernel) for origin in operands]
        before = self.kernels
        if name == "cond":
            deciding, *given = entering
            self.decided(equation, deciding)
            branches = [self.program(branch.jaxpr, branch.consts, given, looped=True) for branch in params["branches"]]
            found = [reduce(Origin.__or__, results, deciding) for results in zip(*branches)]
        else:
            found = self.rounds(equation, entering)
        if self.kernels > before:
            self.report(equation, f"`pl.pallas_call` inside `{name}`: make the loop a grid dimension, or loop inside the kernel")
            joined = reduce(Origin.__or__, entering, NOTHING)
            return [Origin(joined.data, joined.data | joined.through, True)] * len(equation.outvars)
        return found

    def decided(self, equation: JaxprEqn, deciding: Origin) -> None:
        if deciding.data:
            self.report(equation, f"`{equation.primitive.name}` decides by data outside `pl.pallas_call`: decide inside the kernel")

    def rounds(self, equation: JaxprEqn, entering: list[Origin]) -> list[Origin]:
        """The results of a `scan` or a `while`: gone through until nothing new comes out of a round."""
        params = equation.params
        decides = params.get("cond_jaxpr")
        body, first = (params["jaxpr"], params["num_consts"]) if decides is None else (params["body_jaxpr"], params["body_nconsts"])
        asked = 0 if decides is None else params["cond_nconsts"]
        fixed, state = entering[asked : asked + first], entering[asked + first :]
        kept = params["num_carry"] if decides is None else len(state)
        while True:
            results = self.program(body.jaxpr, body.consts, [*fixed, *state], looped=True)
            after = [old | new for old, new in zip(state[:kept], results)]
            if decides is not None:
                (deciding,) = self.program(decides.jaxpr, decides.consts, [*entering[:asked], *after], looped=True)
                self.decided(equation, deciding)
                after = [origin | deciding for origin in after]
            if after == state[:kept]:
                return [*after, *results[kept:]]
            state = [*after, *state[kept:]]

    def kernel(self, equation: JaxprEqn, operands: list[Origin]) -> list[Origin]:
        """A kernel: its parameters, its grid, and what is in it."""
        self.kernels += 1
        params = equation.params
        for text in [*owned(params), *compiler_params(params.get("compiler_params")), *grid(params["grid_mapping"])]:
            self.report(equation, text)
        name = params.get("name")
        if name is not None and not NAME.fullmatch(str(name)):
            self.report(equation, "the `name` of a kernel has to be a plain word")
        for operand, _ in params.get("input_output_aliases", ()):
            if operand < len(operands) and operands[operand].memory:
                self.report(equation, "`input_output_aliases` would overwrite an input of the program: write to an output of its own")
        if not all(share_blocks(params["grid_mapping"], *pair) for pair in params.get("input_output_aliases", ())):
            self.report(equation, "`input_output_aliases` of blocks that differ, or overlap: use one block and index map for both")
        body = params["jaxpr"]
        for mapping in params["grid_mapping"].block_mappings:
            self.inside(mapping.index_map_jaxpr.jaxpr, mapping.index_map_jaxpr.consts)
        self.inside(body, ())
        read = {id(atom) for inner in equations(body) for atom in inner.invars}
        joined = reduce(Origin.__or__, operands, NOTHING)
        used = reduce(Origin.__or__, (origin for origin, ref in zip(operands, body.invars) if id(ref) in read), NOTHING)
        return [Origin(joined.data, joined.through | used.data, True)] * len(equation.outvars)

    def inside(self, jaxpr: Jaxpr, constants: Sequence[Any]) -> None:
        """Every operation of a kernel, however deep."""
        for value in constants:
            self.constant(value)
        for equation in equations(jaxpr):
            name, params = equation.primitive.name, equation.params
            if refused := wrong(name, rules().refused_inside):
                self.report(equation, f"`{name}` in a kernel {refused}")
            elif params.get("branches_platforms") is not None:
                self.report(equation, f"`{name}` in a kernel {rules().refused_inside['platform_index']}")
            elif is_remote(equation):
                self.report(equation, f"`{name}` in a kernel {rules().refused_inside['axis_index']}")
            elif name == "reciprocal" and not params.get("full_range", True):
                self.report(equation, "`pl.reciprocal(full_range=False)` is undefined for zeros and infinities: leave `full_range` out")
            for atom in equation.invars:
                if isinstance(atom, Literal):
                    self.constant(atom.val)
            for _, held in programs(list(params.values())):
                for value in held:
                    self.constant(value)


def grid(mapping: Any) -> Iterator[str]:
    """A grid is known before the kernel runs, and not absurdly fine."""
    if mapping.num_dynamic_grid_bounds or not all(isinstance(size, int) for size in mapping.grid):
        yield "the grid depends on data: give it as numbers that follow from the shapes"
    elif (steps := math.prod(mapping.grid)) > rules().grid_steps:
        yield f"the grid {tuple(mapping.grid)} has {steps} steps, more than {rules().grid_steps}: use larger blocks"


def share_blocks(mapping: Any, operand: int, output: int) -> bool:
    """Whether each step reads just the block it writes: others may be read before or after they are written, as the pipeline has it."""
    place = operand - mapping.num_index_operands
    if not 0 <= place < mapping.num_inputs:
        return False
    one, other = mapping.block_mappings[place], mapping.block_mappings[mapping.num_inputs + output]
    same = [(block.block_shape, str(block.index_map_jaxpr), str(block.transformed_block_aval.memory_space)) for block in (one, other)]
    held = one.index_map_jaxpr.consts or other.index_map_jaxpr.consts  # which the text of a map does not show
    return same[0] == same[1] and not held and all(type(size).__name__ in SEPARATE for size in one.block_shape)


def owned(params: Mapping[str, Any]) -> Iterator[str]:
    """Parameters of a kernel that only the judge sets."""
    for name, instead in rules().owned.items():
        if params.get(name) not in (None, False):
            yield f"`{name}` is set on a `pl.pallas_call`: {instead}"


def compiler_params(given: Any) -> Iterator[str]:
    """Settings of the compiler beyond those that shape a kernel."""
    if given is None:
        return
    if not is_dataclass(given) or not type(given).__module__.startswith("jax._src.pallas.mosaic."):
        yield "`compiler_params` has to be a `pltpu.CompilerParams`"
        return
    for field in fields(given):
        if field.name not in rules().compiler_params and getattr(given, field.name) != field.default:
            yield f"`{field.name}` in `pltpu.CompilerParams` is not for kernels to set: leave it out"


def wrong(name: str, refused: Mapping[str, str]) -> str:
    """Why an operation is refused; callbacks go by many names."""
    return refused.get(name) or (refused["pure_callback"] if "callback" in name else "")


def is_remote(equation: JaxprEqn) -> bool:
    """Whether a copy or a signal goes to another device or core."""
    trees = {"dma_start": ("tree", 4), "dma_wait": ("tree", 4), "semaphore_signal": ("args_tree", 3)}
    if equation.primitive.name not in trees:
        return False
    key, first = trees[equation.primitive.name]
    return any(child.num_leaves for child in equation.params[key].children()[first:])


def is_layout(equation: JaxprEqn, operands: Sequence[Origin]) -> bool:
    """Whether an operation only moves data."""
    name = equation.primitive.name
    if name in rules().indexed:
        return not any(index.data for index in operands[INDICES[name]]) and equation.params.get("update_jaxpr") is None
    if name == "convert_element_type":
        return not loses_fraction(equation.invars[0].aval, equation.outvars[0].aval)
    return name in rules().layout


def loses_fraction(before: Any, after: Any) -> bool:
    """A conversion that rounds to whole numbers or compares with zero is arithmetic."""
    old, new = str(before.dtype), str(after.dtype)
    return old != new and (new == "bool" or ("float" in old and new.startswith(("int", "uint"))))


def work(equation: JaxprEqn) -> int:
    """Elements an operation touches; for a product of matrices its multiplications."""
    shapes = [getattr(atom.aval, "shape", ()) for atom in (*equation.invars, *equation.outvars)]
    sizes = [math.prod(shape) for shape in shapes]
    if equation.primitive.name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        return int(sizes[-1] * math.prod(shapes[0][axis] for axis in contracted))
    return max(sizes, default=0)


def programs(value: Any) -> Iterator[tuple[Jaxpr, Sequence[Any]]]:
    """The programs directly in an operation's parameters, with their constants."""
    if isinstance(value, ClosedJaxpr):
        yield value.jaxpr, value.consts
    elif isinstance(value, Jaxpr):
        yield value, ()
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from programs(part)


def equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """All operations of a program and of the programs in it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner, _ in programs(list(equation.params.values())):
            yield from equations(inner)


def place(equation: JaxprEqn) -> str:
    """The candidate's line an operation comes from, where the program knows it."""
    found = PLACE.findall(str(equation.source_info.name_stack))
    frame = None if found else source_info_util.user_frame(equation.source_info.traceback)
    if frame:
        found = [f"{Path(frame.file_name).name}:{frame.start_line}"]
    return found[-1] if found else ""
