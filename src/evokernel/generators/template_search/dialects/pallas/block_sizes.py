"""Options that suit the sizes of a stage: blocks large enough to hide the latency of copies, and small enough for VMEM and for overlap."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects.pallas.block_limits import STEPS, extent_of, largest_option
from evokernel.generators.template_search.dialects.pallas.image_sizes import (
    fit_conv_algorithm,
    fit_pool_algorithm,
    fit_pool_images,
    fit_span,
)
from evokernel.generators.template_search.dialects.pallas.row_program import (
    BLOCK_BYTES,
    FLOAT_BYTES,
    LANES,
    SUBLANES,
    RowProgram,
    find_program,
    has_first_axis_in_lanes,
    is_better_turned,
    is_stored_turned,
    matrix_bytes,
)
from evokernel.generators.template_search.dialects.pallas.stored_loops import is_reordered, nest_axes
from evokernel.generators.template_search.graph import Node, UnsupportedPattern, element_count, pad_rank, walk
from evokernel.generators.template_search.patterns import KernelPattern
from evokernel.generators.template_search.stage_planner import Stage

LEAST_BYTES = 128 << 10
"""Blocks of fewer bytes do not hide the latency of copies: fewer steps are better."""
ROW_BYTES = 1 << 19
"""Rows above this size come in chunks."""
MOST_K = 2048
"""Longest sum of a product that one step computes."""
LONG_SUM = 512
"""From this length on, the tolerance of a sum admits products of two parts."""
TABLE_BYTES = 32 << 20
"""Largest table of a gather that VMEM holds."""
VMEM_BYTES = 96 << 20
"""What the blocks of one step may take."""
LONG_SCAN, SCAN_CHUNK = 8192, 512
"""Axes of a running sum above this length come in chunks of this length."""


def fit_option(stage: Stage, decision: Decision, choice: Choice) -> str:
    """The option of a decision that suits the stage at bench size, given earlier choices; empty if the sizes do not matter."""
    if decision.name == "through":
        return "kernel" if stage.out.is_output else "nothing"
    if decision.name == "precision" and stage.pattern.family in ("matmul", "conv") and not stage.out.is_output:
        return "highest"  # a later stage may be a softmax or a mean over an image, which amplify errors
    rule = RULES.get((stage.pattern.family, decision.name))
    return rule(stage.pattern, decision.options, choice) if rule else ""


def padded_bytes(cols: int) -> int:
    """Bytes of a row of float32 elements in VMEM, whose lanes are padded."""
    return ceil(cols / LANES) * LANES * FLOAT_BYTES


def covering_option(options: Sequence[str], extent: int, limit: float) -> str:
    """The smallest number among the options that covers an extent, up to a limit."""
    numbers = sorted(int(o) for o in options if o.isdigit() and int(o) <= limit) or [min(int(o) for o in options if o.isdigit())]
    return str(next((n for n in numbers if n >= extent), numbers[-1]))


def count_rows(rows: int, row_bytes: int) -> float:
    """How many rows a block should have: a quarter of them, within the limits of a block."""
    least, most = LEAST_BYTES / row_bytes, BLOCK_BYTES / row_bytes
    return max(SUBLANES, min(most, max(least, rows / STEPS)))


def row_sizes(pattern: KernelPattern) -> tuple[int, int]:
    """Rows and columns of a stage: the columns are the reduced loops, or else the last axis."""
    reduced = [a.extent for a in pattern.axes if a.is_reduced]
    if reduced:
        return extent_of([a.extent for a in pattern.axes if not a.is_reduced]), extent_of(reduced)
    if len(pattern.axes) > 1:
        return extent_of([a.extent for a in pattern.axes[:-1]]), extent_of([pattern.axes[-1].extent])
    shape = pattern.tensors[0].shape if pattern.family == "crossentropy" else pattern.root.shape
    if has_first_axis_in_lanes(pattern):
        return extent_of(shape[1:]), extent_of(shape[:1])
    return extent_of(shape[:-1]), extent_of(shape[-1:])


def fit_rows(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Rows of a block that holds complete rows, or a chunk or tile of them."""
    rows, cols = row_sizes(pattern)
    if choice.get("view") == "nest" or has_reordered_nest(pattern, choice):
        return fit_nest_rows(pattern, options)
    if rows == 1 and all(a.is_reduced for a in pattern.axes) and "lanes" not in choice:
        cols = LANES * SUBLANES  # all elements in rows of lanes, whose number is decided later
        rows = extent_of([a.extent for a in pattern.axes]) // cols
    if choice.get("view") == "flat":
        rows, cols = rows * cols // int(choice["width"]), int(choice["width"])
    if choice.get("algorithm") == "chunks":
        cols = min(cols, 512)
    columns = choice.get("cols") or (fit_map_cols(pattern, options, choice) if pattern.family == "map" else "all")  # decided after the rows
    if columns != "all":
        cols = min(cols, int(columns))
    row_bytes = ceil(cols / SUBLANES) * SUBLANES * FLOAT_BYTES if choice.get("turn") == "yes" else padded_bytes(cols)
    return largest_option([o for o in options if int(o) % SUBLANES == 0], count_rows(rows, row_bytes))


def fit_reduction_out(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """A column of results if a block of rows whose results are in lanes would be too large."""
    return "column" if padded_bytes(row_sizes(pattern)[1]) * LANES > VMEM_BYTES / STEPS else ""


def fit_nest_rows(pattern: KernelPattern, options: Sequence[str]) -> str:
    """Steps of the loop before the first reduced one that a block of a nest holds; whole registers if that loop is in sublanes."""
    axes = nest_axes(pattern)
    kept = [i for i, a in enumerate(axes) if not a.is_reduced and i < len(axes) - 1]
    inner = extent_of([a.extent for a in axes[kept[-1] + 1 :]]) * FLOAT_BYTES if kept else BLOCK_BYTES
    outer = extent_of([axes[kept[-1]].extent]) if kept else 1
    if is_reordered(pattern):
        registers = [o for o in options if int(o) % SUBLANES == 0]
        return largest_option(registers, min(BLOCK_BYTES / inner, outer) if axes[-1].is_reduced else SUBLANES)
    least = SUBLANES if axes[-1].is_reduced else 1
    return largest_option(options, max(least, min(BLOCK_BYTES / inner, outer / STEPS)))


def fit_map_cols(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """All columns if a block of eight rows is small enough."""
    return "all" if padded_bytes(row_sizes(pattern)[1]) * SUBLANES <= BLOCK_BYTES else "512"


def has_reordered_nest(pattern: KernelPattern, choice: Choice) -> bool:
    """Whether the loops of a block are in another order than the axes of the tensor."""
    return (pattern.family == "argreduce" or choice.get("view") == "nest") and is_reordered(pattern)


def fit_reduction(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Complete rows if they fit, otherwise chunks; of a nest that reduces complete registers, always chunks."""
    if has_reordered_nest(pattern, choice) and not nest_axes(pattern)[-1].is_reduced:
        return "chunks"
    return "whole" if padded_bytes(row_sizes(pattern)[1]) <= ROW_BYTES else "chunks"


def fit_view(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Of reductions: the loops as they are if rows would have to be transposed and several blocks of the nest fit."""
    loops = [a.is_reduced for a in pattern.axes]
    if "nest" not in options:
        return "rows" if "rows" in options else ""
    if is_reordered(pattern):
        return "nest"
    inner = extent_of([a.extent for a in pattern.axes[loops.index(True) :]]) * FLOAT_BYTES
    return "nest" if not loops[-1] and inner <= 2 * BLOCK_BYTES else "rows"


def fit_nest_lanes(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Lanes of a block of a nest: as many as there are."""
    if not any(not a.is_reduced for a in pattern.axes):
        return covering_option(options, extent_of(pattern.main_nodes[0].args[0].shape[-1:]), 1024)
    return covering_option(options, extent_of([nest_axes(pattern)[-1].extent]), 1024)


def fit_chunk(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """The largest chunk whose block is small enough; a block has no more rows than there are."""
    if has_reordered_nest(pattern, choice):
        if pattern.family == "argreduce" and nest_axes(pattern)[-1].is_reduced:
            return covering_option(options, extent_of([nest_axes(pattern)[-1].extent]), 16384)
        return largest_option(options, 2 * BLOCK_BYTES / FLOAT_BYTES / (int(choice.get("rows") or 1) * int(choice.get("lanes") or 1)))
    rows = min(int(choice["rows"]), row_sizes(pattern)[0]) if choice.get("rows", "").isdigit() else 1
    return largest_option(options, max(2048.0, BLOCK_BYTES / FLOAT_BYTES / max(rows, SUBLANES)))


def fit_argreduce_lanes(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Lanes of a block of a nest; the other blocks have complete axes."""
    return fit_nest_lanes(pattern, options, choice) if is_reordered(pattern) else ""


def fit_argreduce_chunk(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Chunks of a nest; those of rows do not depend on the sizes."""
    return fit_chunk(pattern, options, choice) if is_reordered(pattern) else ""


def product_sizes(pattern: KernelPattern) -> tuple[int, int, int]:
    """Rows, columns and length of the sums of a product."""
    (main,) = pattern.main_nodes
    return extent_of([pattern.axes[1].extent]), extent_of([pattern.axes[2].extent]), extent_of(main.args[0].shape[-1:])


def fit_left(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """The left factor as XLA stores it."""
    return "mk" if pattern.in_order[0] != is_stored_turned(pattern.tensors[0].shape) else "km"


def fit_right(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """The right factor as XLA stores it."""
    return "kn" if pattern.in_order[1] != is_stored_turned(pattern.tensors[1].shape) else "nk"


def is_batched(pattern: KernelPattern) -> bool:
    """Whether both factors of a product have batches."""
    return len(pattern.tensors[1].shape) > 2


def product_block(pattern: KernelPattern) -> tuple[int, int]:
    """Rows and columns of a product's block: those of the smaller factor complete, a part of the larger one's, within VMEM."""
    m, n, k = product_sizes(pattern)
    most = 512 if min(k, MOST_K) * 512 * FLOAT_BYTES <= 2 * BLOCK_BYTES else 256
    if n > m:
        return min(m, most), min(most, max(2 * LANES, ceil(n / STEPS)))
    return min(most, max(LANES, ceil(m / STEPS))), min(n, most)


def fit_product_rows(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Rows of a product's block; all rows of the matrices of a batch if they are small."""
    rows = extent_of([pattern.axes[1].extent])
    if is_batched(pattern):
        return "all" if rows <= 512 else "128"
    return covering_option(options, product_block(pattern)[0], 512)


def fit_product_cols(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Columns of a product's block; all columns of the matrices of a batch if they are small."""
    cols = extent_of([pattern.axes[2].extent])
    if is_batched(pattern):
        return "all" if cols <= 512 else "256"
    return covering_option(options, product_block(pattern)[1], 512)


def fit_product_chunk(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """The complete sum if its blocks fit, otherwise chunks of it."""
    return "all" if product_sizes(pattern)[2] <= MOST_K else "512"


def fit_product_batch(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Matrices of a batch in one block."""
    m, n, k = product_sizes(pattern)
    matrix = max(m, k) * padded_bytes(max(n, k))
    return largest_option(options, max(1.0, min(BLOCK_BYTES / matrix, extent_of([pattern.axes[0].extent]) / 2, 8.0)))


def fit_product_precision(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Three passes if sums are long enough for the tolerance, otherwise six."""
    return "split" if product_sizes(pattern)[2] >= LONG_SUM else "highest"


def fit_product_loop(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Few matrices one after the other, many at once, which compiles faster."""
    return "unrolled" if int(choice["batch"]) <= 4 else "together"


def fit_attention_rows(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Queries of a block: all of them if there are few."""
    return covering_option(options, extent_of(pattern.tensors[0].shape[-2:-1]), 256)


def fit_attention_batch(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Heads of a block."""
    q, key, _ = pattern.tensors
    scores = extent_of(q.shape[-2:-1]) * padded_bytes(extent_of(key.shape[-2:-1]))
    return largest_option(options, max(1.0, min(BLOCK_BYTES / scores, extent_of(q.shape[:-2]) / 2)))


def fit_gather_source(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """The table in VMEM if it fits."""
    return "held" if matrix_bytes(pattern.tensors[0].shape) <= TABLE_BYTES else "copied"


def fit_gather_lanes(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Parts of 128 lanes if there are few of them."""
    width = extent_of(pattern.tensors[0].shape[1:])
    return "apart" if LANES < width <= 4 * LANES else "all"


def fit_gather_rows(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Rows of a block of half a mebibyte."""
    table, index = pattern.tensors
    return largest_option(options, min(BLOCK_BYTES / 2 / padded_bytes(extent_of(table.shape[1:])), extent_of(index.shape) / STEPS))


def fit_scan_algorithm(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Chunks in grid steps if the axis is too long for a block; the compiler takes minutes for hundreds of parts in one step."""
    (main,) = pattern.main_nodes
    return "chunks" if "chunks" in options and main.shape[main.dims[0]].value > LONG_SCAN else ""


def fit_scan_rows(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Half of the rows: the chunks of a row depend on each other, so that several rows hide the latency of products."""
    rows, cols = row_sizes(pattern)
    cols = SCAN_CHUNK if choice["algorithm"] == "chunks" else cols
    return largest_option(options, max(SUBLANES, min(BLOCK_BYTES / padded_bytes(cols), rows / 2)))


def fit_scan_chunk(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Long chunks if each is a grid step."""
    return largest_option(options, SCAN_CHUNK) if choice["algorithm"] == "chunks" else ""


def fit_turn(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Rows in lanes if XLA stores the matrix like that, so that nothing has to be copied before the kernel."""
    tensor = max((x for x in walk(pattern.root) if x.op == "leaf"), key=lambda x: element_count(x.shape))
    is_matrix = sum(n.value > 1 for n in tensor.shape) == 2
    return "yes" if is_matrix and is_stored_turned(tensor.shape) else "no"


def fit_fused_turn(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Exchanged axes if XLA stores most data like that."""
    program = find_program(pattern.root)
    return "yes" if program.is_unrolled or is_better_turned(program) else "no"


def fit_fused_rows(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Rows of a block of fused steps."""
    program = find_program(pattern.root)
    rows = extent_of(program.full)
    if program.rank - program.rows == 1:
        if choice.get("turn") == "yes":
            return largest_option(options, max(LANES, count_rows(extent_of(program.full[-1:]), column_bytes(program))))
        row_bytes = max(program.block_bytes(x.shape) for x in program.arrays) / SUBLANES
        return largest_option(options, count_rows(rows, int(row_bytes)))
    image = max(program.block_bytes(x.shape) for x in program.arrays)
    most = min(BLOCK_BYTES / image, 8 if program.is_unrolled else 64)
    return largest_option(options, max(1.0, min(most, max(LEAST_BYTES / image, rows / STEPS))))


def fit_fused_precision(pattern: KernelPattern, options: Sequence[str], choice: Choice) -> str:
    """Six passes if sums are short or a softmax of a product amplifies its errors, otherwise three."""
    if any(n.args[0].shape[-1].value < LONG_SUM for n in pattern.main_nodes if n.op == "matmul"):
        return "highest"
    has_product: set[Node] = set()
    has_softmax = False
    exponentials: set[Node] = set()
    for node in walk(pattern.root):
        if node.op == "matmul" or any(arg in has_product for arg in node.args):
            has_product.add(node)
        if (node.op == "exp" and node in has_product) or any(arg in exponentials for arg in node.args):
            exponentials.add(node)
        has_softmax |= node.op == "reduce" and node in exponentials
    return "highest" if has_softmax else "split"


def column_bytes(program: RowProgram) -> int:
    """Bytes of one row of the largest array if rows are in lanes."""
    widths = [extent_of(pad_rank(x.shape, program.rank)[-1:]) for x in program.arrays]
    return ceil(max(widths) / SUBLANES) * SUBLANES * FLOAT_BYTES


def prefers_fused(pattern: KernelPattern) -> bool:
    """Whether blocks of rows suit a stage better than its own template, which would copy tensors into another layout before the kernel."""
    if pattern.family not in ("map", "row", "reduce"):
        return False
    try:
        program = find_program(pattern.root)
    except UnsupportedPattern:
        return False
    reduced = [i for n in pattern.main_nodes for i in n.dims if n.args[0].shape[i].value > 1]
    if len(set(reduced)) > 1:
        return True
    if pattern.family == "map" and len(pattern.axes) > 1 and pattern.axes[-1].extent.value != pattern.root.shape[-1].value:
        return True
    is_batched_rows = program.rows > 1  # the templates of reductions exchange the axes of matrices only
    return (pattern.family == "map" or is_batched_rows) and program.rank - program.rows == 1 and is_better_turned(program)


RULES = {
    **{(family, "rows"): fit_rows for family in ("map", "row", "reduce", "argreduce", "crossentropy")},
    ("scan", "algorithm"): fit_scan_algorithm, ("scan", "rows"): fit_scan_rows, ("scan", "chunk"): fit_scan_chunk,
    ("map", "cols"): fit_map_cols,
    ("reduce", "algorithm"): fit_reduction, ("reduce", "out"): fit_reduction_out, ("row", "algorithm"): fit_reduction,
    ("reduce", "view"): fit_view, ("row", "view"): fit_view, ("reduce", "lanes"): fit_nest_lanes, ("row", "lanes"): fit_nest_lanes,
    ("argreduce", "lanes"): fit_argreduce_lanes, ("argreduce", "chunk"): fit_argreduce_chunk,
    ("reduce", "chunk"): fit_chunk, ("row", "chunk"): fit_chunk,
    ("matmul", "left"): fit_left, ("matmul", "right"): fit_right, ("matmul", "rows"): fit_product_rows,
    ("matmul", "cols"): fit_product_cols, ("matmul", "chunk"): fit_product_chunk, ("matmul", "batch"): fit_product_batch,
    ("matmul", "loop"): fit_product_loop, ("matmul", "precision"): fit_product_precision,
    ("fused", "rows"): fit_fused_rows, ("fused", "turn"): fit_fused_turn,
    ("fused", "precision"): fit_fused_precision,
    **{(family, "turn"): fit_turn for family in ("row", "reduce", "argreduce", "crossentropy")},
    ("conv", "algorithm"): fit_conv_algorithm, ("conv", "span"): fit_span,
    ("pool", "algorithm"): fit_pool_algorithm, ("pool", "images"): fit_pool_images,
    ("gather", "source"): fit_gather_source, ("gather", "lanes"): fit_gather_lanes, ("gather", "rows"): fit_gather_rows,
    ("attention", "rows"): fit_attention_rows, ("attention", "batch"): fit_attention_batch,
}  # fmt: skip
"""Rules by kernel family and decision."""
