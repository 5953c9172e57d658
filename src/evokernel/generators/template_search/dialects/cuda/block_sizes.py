"""Options that suit the sizes of a stage on a GPU with about a hundred multiprocessors: for a first draft."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects.fitting import nearest_option, next_power
from evokernel.generators.template_search.graph import element_count
from evokernel.generators.template_search.patterns import KernelPattern
from evokernel.generators.template_search.stage_planner import Stage

THREADS = 128 * 1024
"""Threads that fill the device."""
HELD, SHARED = 32, 48 * 1024
"""Elements that a thread can hold in registers, and a block in shared memory."""


def fit_option(stage: Stage, decision: Decision, choice: Choice) -> str:
    """The option of a decision that suits a stage's sizes; empty if the prior's option for any size is as good."""
    fit = FITS.get(stage.pattern.family)
    option = fit(stage.pattern, choice).get(decision.name, "") if fit else ""
    return option if isinstance(option, str) else nearest_option(option, decision.options)


def fit_vector(pattern: KernelPattern) -> int:
    """Elements of 16 bytes, or as many of them as divide the last loop."""
    sizes = [2 if operand.node.dtype in ("float16", "bfloat16") else 4 for operand in pattern.operands if operand.node.op != "index"]
    last = int(pattern.axes[-1].extent.value) if pattern.axes else 1
    width = 16 // max(sizes, default=4)
    while last % width:
        width //= 2
    return width


def fit_map(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """Several packs per thread if there are more than enough."""
    count, vector = 1.0, fit_vector(pattern)
    for axis in pattern.axes:
        count *= axis.extent.value
    return {"threads": 256, "vector": vector, "each": 2 if count / vector > 4 * THREADS else 1}


def fit_nest(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """A team of threads per row that fills the device; a row is held if it fits, and split if there are too few rows."""
    rows = cols = 1.0
    for axis in pattern.axes:
        rows, cols = (rows, cols * axis.extent.value) if axis.is_reduced else (rows * axis.extent.value, cols)
    vector = fit_vector(pattern)
    if pattern.axes and not pattern.axes[-1].is_reduced:
        return fit_strided_nest(rows, cols, vector)
    packs = cols / vector
    if rows < 128 and packs > 8192:
        return {"algorithm": "split", "splits": min(512 / rows, packs / 512), "team": 256, "threads": 256, "vector": vector}
    team = fit_row_team(rows, cols, vector)
    each = next_power(packs / float(team["team"]))
    sizes: dict[str, str | float] = {**team, "each": each}
    if each * vector <= HELD:
        return {**sizes, "algorithm": "rows", "hold": "registers"}
    if cols <= SHARED:
        return {**sizes, "algorithm": "rows", "hold": "shared"}
    is_softmax = len(pattern.main_nodes) > 1 and pattern.main_nodes[0].name == "max"
    return {**sizes, "algorithm": "online" if is_softmax else "rows", "hold": "nothing"}


def fit_strided_nest(rows: float, cols: float, vector: int) -> Mapping[str, str | float]:
    """Neighbouring rows are read together; several threads per row, then several blocks, if there are few rows."""
    vector = vector if rows / vector >= THREADS / 4 else 1
    teams = rows / vector
    team = min(8, next_power(min(cols / 4, THREADS / teams)))
    sizes: dict[str, str | float] = {"team": team, "threads": 256, "vector": vector}
    if teams * team < THREADS / 8 and cols > 16 * team:
        return {**sizes, "algorithm": "split", "splits": min(THREADS / 4 / (teams * team), cols / (4 * team))}
    each = next_power(cols / team)
    return {**sizes, "algorithm": "rows", "each": each, "hold": "registers" if each * vector <= HELD else "nothing"}


def fit_axis(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """A warp or more per row if rows are contiguous, otherwise as many threads per row as fill the device."""
    rows = along = 1.0
    for axis in pattern.axes:
        rows, along = (rows, along * axis.extent.value) if axis.is_reduced else (rows * axis.extent.value, along)
    if pattern.axes and not pattern.axes[-1].is_reduced:
        return {"team": min(8, next_power(min(along / 8, THREADS / rows))), "threads": 256}
    return fit_row_team(rows, along, fit_vector(pattern))


def fit_row_team(rows: float, cols: float, vector: int) -> Mapping[str, str | float]:
    """Threads that walk along a row: many if there are few rows."""
    packs = cols / vector
    team = min(next_power(packs), 1024, max(4, next_power(packs / 8), next_power(THREADS / rows)))
    return {"team": team, "threads": max(team, 128), "vector": vector}


def fit_crossentropy(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """As a row of a softmax."""
    rows, cols = (n.value for n in pattern.tensors[0].shape)
    return fit_row_team(rows, cols, 1 if cols % 4 else 4)


def fit_gather(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """Packs of 16 bytes of float32."""
    return {"threads": 256, "vector": 1 if element_count(pattern.tensors[0].shape[1:]) % 4 else 4}


FITS: Mapping[str, Callable[[KernelPattern, Choice], Mapping[str, str | float]]] = {
    "map": fit_map, "reduce": fit_nest, "row": fit_nest, "argreduce": fit_axis, "scan": fit_axis, "crossentropy": fit_crossentropy,
    "gather": fit_gather,
}  # fmt: skip
