"""Options that suit the sizes of a stage on a GPU with about a hundred multiprocessors: for a first draft."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects.fitting import nearest_option, next_power
from evokernel.generators.template_search.graph import element_count
from evokernel.generators.template_search.patterns import KernelPattern
from evokernel.generators.template_search.stage_planner import Stage

PROGRAMS = 128
"""Programs that fill the device."""
BLOCK, MAX_WHOLE = 2048, 16384
"""Elements of a block, and elements of a row that registers can hold."""
MATMUL_TILES = ((128, 128), (64, 128), (64, 64), (32, 64), (32, 32), (16, 32), (16, 16))


def fit_option(stage: Stage, decision: Decision, choice: Choice) -> str:
    """The option of a decision that suits a stage's sizes; empty if the prior's option for any size is as good."""
    fit = FITS.get(stage.pattern.family)
    number = fit(stage.pattern, choice).get(decision.name, "") if fit else ""
    return number if isinstance(number, str) else nearest_option(number, decision.options)


def fit_warps(elements: float) -> int:
    """Warps for a block of this many elements: eight to sixteen elements per thread."""
    return min(16, max(1, next_power(elements) // 512))


def fit_map(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """Rows and columns if the last loop is long enough to be read in order."""
    last = pattern.axes[-1].extent.value if pattern.axes else 1
    cols = min(1024, next_power(last))
    return {"form": "tile" if last >= 64 else "flat", "cols": cols, "rows": 1024 // cols, "warps": 4}


def fit_nest(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """A row in registers if it fits, otherwise in chunks; split over programs if there are too few rows to fill the device."""
    rows = cols = 1.0
    for axis in pattern.axes:
        rows, cols = (rows, cols * axis.extent.value) if axis.is_reduced else (rows * axis.extent.value, cols)
    if pattern.axes and not pattern.axes[-1].is_reduced:
        return fit_strided_nest(rows, cols, choice)
    if rows < PROGRAMS and cols > 8 * BLOCK:
        splits = min(4 * PROGRAMS / rows, cols / BLOCK)
        return {"algorithm": "split", "splits": splits, "rows": 1, "cols": BLOCK, "warps": fit_warps(BLOCK)}
    if cols <= MAX_WHOLE:
        width = next_power(cols)
        each = max(1.0, min(BLOCK / width, rows / (2 * PROGRAMS)))
        return {"algorithm": "whole", "rows": each, "warps": fit_warps(each * width)}
    is_softmax = len(pattern.main_nodes) > 1 and pattern.main_nodes[0].name == "max"
    return {"algorithm": "online" if is_softmax else "chunks", "rows": 1, "cols": 4096, "warps": 8}


def fit_strided_nest(rows: float, cols: float, choice: Choice) -> Mapping[str, str | float]:
    """Neighbouring rows are read together, so a block has at least 32 of them."""
    height = 128 if rows >= 128 * PROGRAMS else 64 if rows >= 64 * PROGRAMS else 32
    programs = rows / height
    if programs < PROGRAMS and cols > 128:
        return {"algorithm": "split", "splits": min(2 * PROGRAMS / programs, cols / 32), "rows": height, "cols": 16, "warps": 4}
    if next_power(cols) * height <= 2 * BLOCK:
        return {"algorithm": "whole", "rows": height, "warps": fit_warps(next_power(cols) * height)}
    return {"algorithm": "chunks", "rows": height, "cols": BLOCK / height, "warps": 4}


def fit_tiles(rows: float, cols: float, batch: float) -> tuple[int, int]:
    """The largest tile of a product that leaves enough programs, no larger than the product."""
    for height, width in MATMUL_TILES:
        if height >= 2 * next_power(rows) or width >= 2 * next_power(cols):
            continue
        if batch * -(-rows // height) * -(-cols // width) >= PROGRAMS:
            return height, width
    return (16 if rows <= 16 else 32), (16 if cols <= 16 else 32)


def fit_matmul(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """Tiles that fill the device."""
    batch, rows, cols = (axis.extent.value for axis in pattern.axes)
    if cols == 1 and choice.get("algorithm") != "dot":
        return {"algorithm": "sums", "rows": 1, "chunk": 2048, "warps": 4}
    height, width = fit_tiles(rows, cols, batch)
    return {"rows": height, "cols": width, "chunk": 32 if height * width >= 4096 else 64, "warps": 8 if height * width >= 8192 else 4}


def fit_conv(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """A direct loop if a group has few channels; otherwise a product, whose chunks are channels if there are enough."""
    images, channels, points = (axis.extent.value for axis in pattern.axes)
    groups = pattern.numbers[-1].value
    inputs, outputs = pattern.tensors[0].shape[1].value / groups, channels / groups
    if outputs < 8 and inputs < 8:
        return {"algorithm": "direct"}
    height, width = fit_tiles(images * points, outputs, groups)
    return {
        "algorithm": "taps" if inputs >= 16 else "flat", "rows": height, "cols": width, "chunk": 32 if inputs >= 32 else 16,
        "warps": 8 if height * width >= 8192 else 4,
    }  # fmt: skip


def fit_axis(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """A row at once if it is short."""
    along = next((axis.extent.value for axis in pattern.axes if axis.is_reduced), 1.0)
    if pattern.axes and not pattern.axes[-1].is_reduced:
        return {"rows": 32, "cols": 32, "warps": 4}
    width = min(4096, next_power(along))
    return {"rows": max(1, 1024 // width), "cols": width, "warps": max(4, fit_warps(width))}


def fit_attention(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """Few queries per program if there are few queries; blocks of wide keys and values are short, so that they fit into shared memory."""
    query, _, value = pattern.tensors
    queries, width = element_count(query.shape[:-1]), next_power(max(query.shape[-1].value, value.shape[-1].value))
    rows = max(16.0, min(64 if width <= 128 else 32, queries / PROGRAMS))
    return {"rows": rows, "span": 32 if width <= 128 else 16, "stages": 3 if width < 128 else 2, "warps": 4}


def fit_pool(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """Small windows are unrolled."""
    rank = len(pattern.tensors[0].shape) - 2
    return {"loop": "unrolled" if element_count(pattern.numbers[:rank]) <= 27 else "rolled"}


def fit_table(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """A row of the table at once."""
    width = min(1024, next_power(element_count(pattern.tensors[0].shape[1:])))
    return {"rows": 1024 // width, "cols": width, "warps": 4}


def fit_crossentropy(pattern: KernelPattern, choice: Choice) -> Mapping[str, str | float]:
    """A row in registers if it fits."""
    width = next_power(pattern.tensors[0].shape[1].value)
    if width > MAX_WHOLE:
        return {"algorithm": "online", "rows": 1, "cols": 4096, "warps": 8}
    each = max(1, min(8, 1024 // width))
    return {"algorithm": "whole", "rows": each, "warps": fit_warps(each * width)}


FITS: Mapping[str, Callable[[KernelPattern, Choice], Mapping[str, str | float]]] = {
    "map": fit_map, "reduce": fit_nest, "row": fit_nest, "matmul": fit_matmul, "conv": fit_conv, "scan": fit_axis, "argreduce": fit_axis,
    "attention": fit_attention, "pool": fit_pool, "gather": fit_table, "bag": fit_table, "crossentropy": fit_crossentropy,
}  # fmt: skip
