"""Rules of elementwise, creating and indexing operators: which boxes of the operands a box of the result needs.

A rule returns a plan, or None if it does not cover the call; the call then needs its operands whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from evokernel.reference.region_boxes import Box, broadcast_box, make_full_box, measure_box, to_slices
from evokernel.reference.region_graph import Demand, Graph, Node, Plan, Ref


class Context(Protocol):
    """What a rule can ask for."""

    graph: Graph

    def evaluate(self, ref: Ref, box: Box) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute a box while planning, such as the indices of a gather: in own precision and in float64."""


Rule = Callable[[Context, Node, int, Box], Plan | None]
RULES: dict[str, Rule] = {}
"""Rules by the operator's name without namespace and overload."""
ELEMENTWISE = frozenset({"_to_copy", "clone", "alias", "lift_fresh_copy", "detach", "copy", "frexp", "hardswish", "where"})
"""Elementwise operators that torch does not mark as such."""
MAX_SEPARATE_ROWS = 256
"""Rows that a gather reads are demanded one by one up to this number, above as one range."""


def add_rule(names: str) -> Callable[[Rule], Rule]:
    """Register a rule for operators."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names.split(), rule))
        return rule

    return register


def find_rule(node: Node) -> Rule:
    """Return the rule of a node's operator."""
    if node.base_name in RULES:
        return RULES[node.base_name]
    is_random = torch.Tag.nondeterministic_seeded in node.op.tags
    if (torch.Tag.pointwise in node.op.tags and not is_random) or node.base_name in ELEMENTWISE:
        return plan_elementwise
    return plan_whole


def plan_elementwise(context: Context, node: Node, result: int, box: Box) -> Plan:
    """Each operand is needed in the same box, except along axes over which it is broadcast."""
    demands = tuple(Demand(ref, broadcast_box(box, context.graph.shape_of(ref))) for ref in node.refs)
    return Plan(demands, lambda tensors, is_wide: node.call(tensors, is_wide)[result].expand(measure_box(box)))


def plan_whole(context: Context, node: Node, result: int, box: Box) -> Plan:
    """All operands are needed whole."""
    demands = tuple(Demand(ref, make_full_box(context.graph.shape_of(ref))) for ref in node.refs)
    return Plan(demands, lambda tensors, is_wide: node.call(tensors, is_wide)[result][to_slices(box)])


@add_rule(
    "full full_like zeros zeros_like ones ones_like empty empty_like new_zeros new_ones new_full new_empty scalar_tensor empty_strided"
)
def plan_fill(context: Context, node: Node, result: int, box: Box) -> Plan:
    """A constant needs no operand."""
    name = node.base_name
    value = node.named.get("fill_value", node.named.get("s", 1 if "ones" in name else 0))
    if isinstance(value, Ref):
        return plan_whole(context, node, result, box)
    return Plan((), lambda _, is_wide: torch.full(measure_box(box), value, dtype=node.result_dtype(result, is_wide)))


@add_rule("arange")
def plan_arange(context: Context, node: Node, result: int, box: Box) -> Plan:
    """A range of numbers is computed from its indices."""
    (start, stop), named = box[0], node.named
    begin, step = named.get("start", 0), named.get("step", 1)

    def apply(_: Sequence[torch.Tensor], is_wide: bool) -> torch.Tensor:
        is_integer = isinstance(begin, int) and isinstance(step, int)
        numbers = torch.arange(start, stop, dtype=torch.int64 if is_integer else torch.float64)
        return (numbers * step + begin).to(node.result_dtype(result, is_wide))

    return Plan((), apply)


@add_rule("eye")
def plan_eye(context: Context, node: Node, result: int, box: Box) -> Plan:
    """The identity matrix is computed from its indices."""
    (top, bottom), (left, right) = box

    def apply(_: Sequence[torch.Tensor], is_wide: bool) -> torch.Tensor:
        return (torch.arange(top, bottom)[:, None] == torch.arange(left, right)).to(node.result_dtype(result, is_wide))

    return Plan((), apply)


@add_rule("tril triu")
def plan_triangle(context: Context, node: Node, result: int, box: Box) -> Plan:
    """A triangle of a box is the triangle of the values with a shifted diagonal."""
    function = torch.tril if node.base_name == "tril" else torch.triu
    diagonal = node.named["diagonal"] + box[-2][0] - box[-1][0]
    return Plan((Demand(node.refs[0], box),), lambda tensors, is_wide: function(tensors[0], diagonal))


@add_rule("cumsum cumprod sort topk median kthvalue cummax cummin logcumsumexp mode _softmax _log_softmax argsort")
def plan_along_axis(context: Context, node: Node, result: int, box: Box) -> Plan | None:
    """The axis along which the operator works is needed whole, or up to the end of the box for running sums."""
    shape = context.graph.shape_of(node.refs[0])
    axis = node.named.get("dim")
    if not isinstance(axis, int) or len(shape) != len(box):
        return None
    axis %= max(1, len(shape))
    stop = box[axis][1] if node.base_name.startswith(("cum", "logcum")) else shape[axis]
    needed = (*box[:axis], (0, stop), *box[axis + 1 :])
    start, length = box[axis][0], box[axis][1] - box[axis][0]
    return Plan((Demand(node.refs[0], needed),), lambda tensors, is_wide: node.call(tensors, is_wide)[result].narrow(axis, start, length))


@add_rule(
    "_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d upsample_bilinear2d upsample_nearest2d "
    "upsample_nearest1d upsample_nearest3d upsample_linear1d upsample_trilinear3d upsample_bicubic2d reflection_pad2d replication_pad2d"
)
def plan_by_channel(context: Context, node: Node, result: int, box: Box) -> Plan | None:
    """Each channel of each image is needed whole."""
    shape = context.graph.shape_of(node.refs[0])
    if len(shape) < 4 and node.base_name not in ("upsample_nearest1d", "upsample_linear1d"):
        return None
    rest = tuple(slice(start, stop) for start, stop in box[2:])
    return Plan(
        (Demand(node.refs[0], (*box[:2], *make_full_box(shape[2:]))),),
        lambda tensors, is_wide: node.call(tensors, is_wide)[result][(slice(None), slice(None), *rest)],
    )


@add_rule("grid_sampler_2d grid_sampler_3d")
def plan_grid_sampler(context: Context, node: Node, result: int, box: Box) -> Plan:
    """Each sampled channel is needed whole, the grid only at the sampled points."""
    image, grid = node.refs
    shape = context.graph.shape_of(image)
    demands = (Demand(image, (*box[:2], *make_full_box(shape[2:]))), Demand(grid, (box[0], *box[2:], (0, len(shape) - 2))))
    return Plan(demands, lambda tensors, is_wide: node.call(tensors, is_wide)[result])


def evaluate_indices(context: Context, ref: Ref, box: Box, size: int) -> list[torch.Tensor]:
    """Compute indices in both precisions, with negative ones counted from the end."""
    return [torch.where(indices < 0, indices + size, indices).long() for indices in context.evaluate(ref, box)]


def plan_rows(table: Ref, index: Ref, box: Box, axis: int, index_box: Box, pair: Sequence[torch.Tensor]) -> Plan:
    """Plan a lookup of rows along one axis: the axis of the table is replaced by the axes of the indices."""
    rest = (box[:axis], box[axis + len(index_box) :])
    rows = torch.unique(torch.cat([one.flatten() for one in pair]))
    if len(rows) == 0 or len(rows) > MAX_SEPARATE_ROWS:
        ranges = [(int(rows.min()), int(rows.max()) + 1)] if len(rows) else []
        rows = torch.arange(*ranges[0]) if ranges else rows
    else:
        starts = [int(row) for i, row in enumerate(rows) if i == 0 or row != rows[i - 1] + 1]
        stops = [int(row) + 1 for i, row in enumerate(rows) if i == len(rows) - 1 or row != rows[i + 1] - 1]
        ranges = list(zip(starts, stops))
    demands = (Demand(index, index_box), *(Demand(table, (*rest[0], one, *rest[1])) for one in ranges))

    def apply(tensors: Sequence[torch.Tensor], is_wide: bool) -> torch.Tensor:
        parts = tensors[1:]
        places = torch.searchsorted(rows, pair[int(is_wide)].flatten())
        values = torch.cat(list(parts), axis) if len(parts) > 1 else parts[0]
        return values.index_select(axis, places).reshape(measure_box(box))

    return Plan(demands, apply)


@add_rule("embedding")
def plan_embedding(context: Context, node: Node, result: int, box: Box) -> Plan:
    """The rows of the table that the indices name are needed."""
    table, index = node.refs
    pair = evaluate_indices(context, index, box[:-1], context.graph.shape_of(table)[0])
    return plan_rows(table, index, box, 0, box[:-1], pair)


@add_rule("index_select")
def plan_index_select(context: Context, node: Node, result: int, box: Box) -> Plan:
    """The slices that the indices name are needed."""
    table, index = node.refs
    shape = context.graph.shape_of(table)
    axis = node.named["dim"] % len(shape)
    return plan_rows(table, index, box, axis, (box[axis],), evaluate_indices(context, index, (box[axis],), shape[axis]))


@add_rule("index _unsafe_index")
def plan_index(context: Context, node: Node, result: int, box: Box) -> Plan | None:
    """Indexing with tensors needs, along each indexed axis, the range of its indices."""
    table, indices = node.named["self"], node.named["indices"]
    shape = context.graph.shape_of(table)
    axes = [axis for axis, one in enumerate(indices) if one is not None]
    if any(context.graph.dtype_of(indices[axis]) == torch.bool for axis in axes):
        return None
    rank = len(torch.broadcast_shapes(*(context.graph.shape_of(indices[axis]) for axis in axes)))
    first = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    index_box, others = box[first : first + rank], [*box[:first], *box[first + rank :]]
    index_boxes = [broadcast_box(index_box, context.graph.shape_of(indices[axis])) for axis in axes]
    pairs = [evaluate_indices(context, indices[axis], one, shape[axis]) for axis, one in zip(axes, index_boxes)]
    if len(axes) == 1:
        return plan_rows(table, indices[axes[0]], box, axes[0], index_boxes[0], pairs[0])
    needed = list(others)
    for axis, pair in zip(axes, pairs):
        needed.insert(axis, (min(int(one.min()) for one in pair), max(int(one.max()) for one in pair) + 1))

    def apply(tensors: Sequence[torch.Tensor], is_wide: bool) -> torch.Tensor:
        local: list[Any] = [slice(None)] * len(shape)
        for axis, pair in zip(axes, pairs):
            local[axis] = pair[int(is_wide)] - needed[axis][0]
        return tensors[-1][tuple(local)].expand(measure_box(box))

    return Plan((*(Demand(indices[a], one) for a, one in zip(axes, index_boxes)), Demand(table, tuple(needed))), apply)


@add_rule("gather")
def plan_gather(context: Context, node: Node, result: int, box: Box) -> Plan:
    """A gather needs, along its axis, the range of its indices."""
    table, index = node.named["self"], node.named["index"]
    shape = context.graph.shape_of(table)
    axis = node.named["dim"] % max(1, len(shape))
    pair = evaluate_indices(context, index, box, shape[axis])
    low, high = min(int(one.min()) for one in pair), max(int(one.max()) for one in pair)
    needed = (*box[:axis], (low, high + 1), *box[axis + 1 :])
    return Plan(
        (Demand(table, needed), Demand(index, box)),
        lambda tensors, is_wide: tensors[0].gather(axis, pair[int(is_wide)] - low),
    )


@add_rule("scatter scatter_add scatter_reduce")
def plan_scatter(context: Context, node: Node, result: int, box: Box) -> Plan | None:
    """A scatter needs its axis whole, and the other axes in the box as far as there are indices."""
    shape = context.graph.shape_of(node.refs[0])
    axis = node.named["dim"] % max(1, len(shape))
    sizes = context.graph.shape_of(node.named["index"])

    def clip(other: Ref) -> Box:
        limits = shape if other == node.refs[0] else sizes
        return tuple((0, limits[i]) if i == axis else (min(a, limits[i]), min(b, limits[i])) for i, (a, b) in enumerate(box))

    start, length = box[axis][0], box[axis][1] - box[axis][0]
    demands = tuple(Demand(ref, clip(ref)) for ref in node.refs)
    return Plan(demands, lambda tensors, is_wide: node.call(tensors, is_wide)[result].narrow(axis, start, length))


@add_rule("index_put")
def plan_index_put(context: Context, node: Node, result: int, box: Box) -> Plan | None:
    """Writing rows needs all rows, but only the box of the other axes."""
    table, values, indices = node.named["self"], node.named["values"], node.named["indices"]
    shape = context.graph.shape_of(table)
    if len(indices) != 1 or indices[0] is None or context.graph.dtype_of(indices[0]) == torch.bool:
        return None
    index_shape = context.graph.shape_of(indices[0])
    if len(context.graph.shape_of(values)) != len(index_shape) + len(shape) - 1:
        return None
    wanted = (*make_full_box(index_shape), *box[1:])
    by_ref = {
        id(table): Demand(table, ((0, shape[0]), *box[1:])),
        id(indices[0]): Demand(indices[0], make_full_box(index_shape)),
        id(values): Demand(values, broadcast_box(wanted, context.graph.shape_of(values))),
    }
    start, stop = box[0]
    return Plan(tuple(by_ref[id(ref)] for ref in node.refs), lambda tensors, is_wide: node.call(tensors, is_wide)[result][start:stop])
