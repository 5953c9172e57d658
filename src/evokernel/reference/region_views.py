"""Rules of operators that rearrange elements: views, slices, concatenation, padding."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.nn.functional import pad

from evokernel.reference.region_boxes import Box, Range, Shape, count_elements, intersect_ranges, measure_box, to_slices
from evokernel.reference.region_graph import Demand, Node, Plan, Ref
from evokernel.reference.region_rules import Context, add_rule

MAX_WASTE, MAX_PIECES = 4, 512
"""A view reads one enclosing box if that is at most this many times the elements it needs, or if it would need more pieces than this."""


class Piece(NamedTuple):
    """A box of the operand's axes, and which of its elements in row-major order belong to the result (None: all)."""

    box: Box
    places: torch.Tensor | None


@add_rule("view _unsafe_view reshape unsqueeze squeeze _reshape_alias")
def plan_view(context: Context, node: Node, result: int, box: Box) -> Plan | None:
    """Axes with equal products of sizes correspond; within such a group, flat indices are equal."""
    source, target = context.graph.shape_of(node.refs[0]), node.shapes[result]
    if 0 in source:
        return None
    pieces: list[list[Piece]] = []
    at = 0
    for old, new in group_axes(source, target):
        pieces.append(find_pieces(old, new, box[at : at + len(new)]))
        at += len(new)
    combinations = list(itertools.product(*pieces))
    demands = [Demand(node.refs[0], tuple(one for piece in parts for one in piece.box)) for parts in combinations]

    def apply(tensors: Sequence[torch.Tensor], is_wide: bool) -> torch.Tensor:
        parts = [select_places(tensor, chosen) for tensor, chosen in zip(tensors, combinations)]
        for axis in reversed(range(len(pieces))):
            count = len(pieces[axis])
            parts = [torch.cat(parts[i : i + count], axis) if count > 1 else parts[i] for i in range(0, len(parts), count)]
        return parts[0].reshape(measure_box(box))

    return Plan(tuple(demands), apply)


def select_places(tensor: torch.Tensor, pieces: Sequence[Piece]) -> torch.Tensor:
    """Flatten each group of axes to one axis, and select the elements that belong to the result."""
    flat = tensor.reshape([count_elements(piece.box) for piece in pieces])
    for axis, piece in enumerate(pieces):
        if piece.places is not None:
            flat = flat.index_select(axis, piece.places)
    return flat


def group_axes(source: Shape, target: Shape) -> list[tuple[Shape, Shape]]:
    """Cut two shapes into groups of consecutive axes with equal products."""
    groups: list[tuple[Shape, Shape]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        a, b = i, j
        i, j = min(i + 1, len(source)), min(j + 1, len(target))
        while (one := math.prod(source[a:i])) != (other := math.prod(target[b:j])):
            i, j = (i + 1, j) if one < other else (i, j + 1)
        groups.append((source[a:i], target[b:j]))
    return groups


def find_pieces(old: Shape, new: Shape, box: Box) -> list[Piece]:
    """Return boxes of the old axes that hold the elements of a box of the new axes, which has the same flat indices."""
    if old == new:
        return [Piece(box, None)]
    if not old or not new:
        return [Piece(((0, 1),) * len(old), None)]
    runs = find_runs(new, box)
    bounds = enclose_run(runs[0][0], runs[-1][1], old)
    if len(runs) == 1 and count_elements(bounds) == runs[0][1] - runs[0][0]:
        return [Piece(bounds, None)]
    if count_elements(bounds) > MAX_WASTE * count_elements(box):
        boxes = [one for start, stop in runs for one in cut_run(start, stop, old)]
        if len(boxes) <= MAX_PIECES:
            return [Piece(one, None) for one in boxes]
    flat = torch.cat([torch.arange(start, stop) for start, stop in runs])
    places = torch.zeros_like(flat)
    for size, inner, (start, stop) in zip(old, inner_sizes(old), bounds):
        places = places * (stop - start) + (flat // inner % size - start)
    return [Piece(bounds, places)]


def inner_sizes(shape: Shape) -> list[int]:
    """Return the distance of neighbours along each axis, in elements."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def find_runs(shape: Shape, box: Box) -> list[Range]:
    """Return the ranges of consecutive flat indices that a box covers, in order."""
    last = len(shape) - 1
    while last > 0 and box[last] == (0, shape[last]):
        last -= 1
    strides = inner_sizes(shape)
    starts = [
        sum(at * stride for at, stride in zip(outer, strides)) + box[last][0] * strides[last]
        for outer in itertools.product(*(range(a, b) for a, b in box[:last]))
    ]
    length = (box[last][1] - box[last][0]) * strides[last]
    return [(start, start + length) for start in starts]


def enclose_run(start: int, stop: int, shape: Shape) -> Box:
    """Return the smallest box that holds a range of flat indices."""
    box: list[Range] = []
    is_open = False
    for size, inner in zip(shape, inner_sizes(shape)):
        low, high = start // inner % size, (stop - 1) // inner % size
        box.append((0, size) if is_open else (low, high + 1))
        is_open = is_open or low != high
    return tuple(box)


def cut_run(start: int, stop: int, shape: Shape) -> list[Box]:
    """Cut a range of flat indices into boxes, in order."""
    if len(shape) == 1:
        return [((start, stop),)]
    inner = math.prod(shape[1:])
    first, last = start // inner, (stop - 1) // inner
    if first == last and stop - start < inner:
        return [((first, first + 1), *rest) for rest in cut_run(start - first * inner, stop - first * inner, shape[1:])]
    boxes: list[Box] = []
    if start % inner:
        boxes += cut_run(start, (first + 1) * inner, shape)
        first += 1
    if stop // inner > first:
        boxes.append(((first, stop // inner), *((0, size) for size in shape[1:])))
    return boxes + (cut_run(stop // inner * inner, stop, shape) if stop % inner else [])


@add_rule("permute transpose t")
def plan_permute(context: Context, node: Node, result: int, box: Box) -> Plan:
    """The ranges are permuted."""
    rank = len(box)
    order = list(range(rank))
    if node.base_name == "permute":
        order = [axis % rank for axis in node.named["dims"]]
    elif rank >= 2:
        one, other = (0, 1) if node.base_name == "t" else (node.named["dim0"] % rank, node.named["dim1"] % rank)
        order[one], order[other] = other, one
    needed = [box[order.index(axis)] for axis in range(rank)]
    return Plan((Demand(node.refs[0], tuple(needed)),), lambda tensors, is_wide: tensors[0].permute(order))


@add_rule("expand")
def plan_expand(context: Context, node: Node, result: int, box: Box) -> Plan:
    """An axis of size one is repeated."""
    shape = context.graph.shape_of(node.refs[0])
    tail = box[len(box) - len(shape) :]
    needed = tuple((0, 1) if size == 1 else one for one, size in zip(tail, shape))
    return Plan((Demand(node.refs[0], needed),), lambda tensors, is_wide: tensors[0].expand(measure_box(box)))


@add_rule("repeat")
def plan_repeat(context: Context, node: Node, result: int, box: Box) -> Plan:
    """Repeated axes are needed whole if the box leaves one repetition."""
    shape = context.graph.shape_of(node.refs[0])
    tail = box[len(box) - len(shape) :]
    needed = tuple(
        (a % size, (b - 1) % size + 1) if a // size == (b - 1) // size else (0, size) for (a, b), size in zip(tail, shape, strict=True)
    )

    def apply(tensors: Sequence[torch.Tensor], is_wide: bool) -> torch.Tensor:
        values = tensors[0]
        for axis, ((a, b), (low, _), size) in enumerate(zip(tail, needed, shape)):
            values = values.index_select(axis, torch.arange(a, b) % size - low)
        return values.expand(measure_box(box))

    return Plan((Demand(node.refs[0], needed),), apply)


@add_rule("slice")
def plan_slice(context: Context, node: Node, result: int, box: Box) -> Plan:
    """A slice shifts and stretches one range."""
    named, shape = node.named, context.graph.shape_of(node.refs[0])
    axis = named["dim"] % len(shape)
    begin, _, step = slice(named["start"], named["end"], named["step"]).indices(shape[axis])
    a, b = box[axis]
    needed = (*box[:axis], (begin + a * step, begin + (b - 1) * step + 1 if b > a else begin + a * step), *box[axis + 1 :])
    places = (*(slice(None),) * axis, slice(None, None, step))
    return Plan((Demand(node.refs[0], needed),), lambda tensors, is_wide: tensors[0][places])


@add_rule("select")
def plan_select(context: Context, node: Node, result: int, box: Box) -> Plan:
    """One index of an axis."""
    shape = context.graph.shape_of(node.refs[0])
    axis = node.named["dim"] % len(shape)
    index = node.named["index"] % shape[axis]
    needed = (*box[:axis], (index, index + 1), *box[axis:])
    return Plan((Demand(node.refs[0], needed),), lambda tensors, is_wide: tensors[0].select(axis, 0))


@add_rule("split_with_sizes split split_with_sizes_copy split_copy")
def plan_split(context: Context, node: Node, result: int, box: Box) -> Plan:
    """A part of an axis."""
    axis = node.named["dim"] % len(box)
    offset = sum(shape[axis] for shape in node.shapes[:result])
    needed = (*box[:axis], (box[axis][0] + offset, box[axis][1] + offset), *box[axis + 1 :])
    return Plan((Demand(node.refs[0], needed),), lambda tensors, is_wide: tensors[0])


@add_rule("unbind unbind_copy")
def plan_unbind(context: Context, node: Node, result: int, box: Box) -> Plan:
    """The result's index along an axis."""
    axis = node.named["dim"] % (len(box) + 1)
    needed = (*box[:axis], (result, result + 1), *box[axis:])
    return Plan((Demand(node.refs[0], needed),), lambda tensors, is_wide: tensors[0].select(axis, 0))


@add_rule("cat")
def plan_cat(context: Context, node: Node, result: int, box: Box) -> Plan:
    """Each operand that the box touches is needed in part."""
    axis = node.named["dim"] % len(box)
    demands, offset = [], 0
    for ref in node.refs:
        shape = context.graph.shape_of(ref)
        if shape == (0,):
            continue
        a, b = intersect_ranges(box[axis], (offset, offset + shape[axis]))
        if b > a:
            demands.append(Demand(ref, (*box[:axis], (a - offset, b - offset), *box[axis + 1 :])))
        offset += shape[axis]
    return Plan(
        tuple(demands),
        lambda tensors, is_wide: torch.cat([one.to(node.result_dtype(result, is_wide)) for one in tensors], axis),
    )


@add_rule("stack")
def plan_stack(context: Context, node: Node, result: int, box: Box) -> Plan:
    """The operands whose index the box covers are needed."""
    axis = node.named["dim"] % len(box)
    rest = (*box[:axis], *box[axis + 1 :])
    return Plan(tuple(Demand(ref, rest) for ref in node.refs[slice(*box[axis])]), lambda tensors, is_wide: torch.stack(list(tensors), axis))


@add_rule("flip")
def plan_flip(context: Context, node: Node, result: int, box: Box) -> Plan:
    """Ranges of reversed axes are mirrored."""
    shape = node.shapes[result]
    axes = [axis % len(box) for axis in node.named["dims"]]
    needed = tuple((shape[i] - b, shape[i] - a) if i in axes else (a, b) for i, (a, b) in enumerate(box))
    return Plan((Demand(node.refs[0], needed),), lambda tensors, is_wide: tensors[0].flip(axes))


@add_rule("roll")
def plan_roll(context: Context, node: Node, result: int, box: Box) -> Plan | None:
    """A rotated range is one range or two, at the end and at the start of the axis."""
    shape, axes = node.shapes[result], [axis % len(box) for axis in node.named["dims"]]
    if not axes or len(set(axes)) != len(axes):
        return None
    parts: list[list[Range]] = [[one] for one in box]
    for axis, shift in zip(axes, node.named["shifts"]):
        size = shape[axis]
        a, length = (box[axis][0] - shift) % size, box[axis][1] - box[axis][0]
        parts[axis] = [(a, a + length)] if a + length <= size else [(a, size), (0, a + length - size)]
    demands = [Demand(node.refs[0], one) for one in itertools.product(*parts)]

    def apply(tensors: Sequence[torch.Tensor], is_wide: bool) -> torch.Tensor:
        joined = list(tensors)
        for axis in reversed(range(len(box))):
            count = len(parts[axis])
            joined = [torch.cat(joined[i : i + count], axis) if count > 1 else joined[i] for i in range(0, len(joined), count)]
        return joined[0]

    return Plan(tuple(demands), apply)


@add_rule("constant_pad_nd")
def plan_pad(context: Context, node: Node, result: int, box: Box) -> Plan:
    """The box inside the operand is needed; the rest is filled."""
    shape, amounts = context.graph.shape_of(node.refs[0]), list(node.named["pad"])
    before = [0] * len(shape)
    for i in range(len(amounts) // 2):
        before[len(shape) - 1 - i] = amounts[2 * i]
    needed, filling = [], []
    for (a, b), size, offset in zip(box, shape, before):
        low, high = intersect_ranges((a - offset, b - offset), (0, size))
        low, high = (low, high) if high > low else (0, 0)
        needed.append((low, high))
        filling.append((low - (a - offset), (b - offset) - high) if high > low else (b - a, 0))
    widths = [width for pair in reversed(filling) for width in pair]
    value = node.named["value"]
    return Plan((Demand(node.refs[0], tuple(needed)),), lambda tensors, is_wide: pad(tensors[0], widths, value=value))


@add_rule("slice_scatter select_scatter")
def plan_slice_scatter(context: Context, node: Node, result: int, box: Box) -> Plan | None:
    """The written part comes from the second operand, the rest from the first."""
    named, shape = node.named, node.shapes[result]
    axis = named["dim"] % len(shape)
    if "index" in named:
        index = named["index"] % shape[axis]
        begin, end, step = index, index + 1, 1
    else:
        begin, end, step = slice(named["start"], named["end"], named["step"]).indices(shape[axis])
    if step != 1:
        return None
    a, b = intersect_ranges(box[axis], (begin, end))
    written = (*box[:axis], (a, b), *box[axis + 1 :])
    demands = [Demand(named["self"], box)]
    if b > a:
        inner: Box = () if "index" in named else ((a - begin, b - begin),)
        demands.append(Demand(named["src"], (*box[:axis], *inner, *box[axis + 1 :])))
    local = to_slices(tuple((c - base, d - base) for (c, d), (base, _) in zip(written, box)))

    def apply(tensors: Sequence[torch.Tensor], is_wide: bool) -> torch.Tensor:
        values = tensors[0].clone()
        if len(tensors) > 1:
            values[local] = tensors[1].reshape(measure_box(written)).to(values.dtype)
        return values

    return Plan(tuple(demands), apply)


@add_rule("unfold")
def plan_unfold(context: Context, node: Node, result: int, box: Box) -> Plan:
    """Windows along an axis: the last axis of the result runs over the window."""
    named = node.named
    axis = named["dimension"] % (len(box) - 1)
    size, step = named["size"], named["step"]
    (a, b), (low, high) = box[axis], box[-1]
    needed = (*box[:axis], (a * step, (b - 1) * step + size), *box[axis + 1 : -1])
    return Plan((Demand(node.refs[0], needed),), lambda tensors, is_wide: tensors[0].unfold(axis, size, step)[..., low:high])


@add_rule("diagonal diagonal_copy")
def plan_diagonal(context: Context, node: Node, result: int, box: Box) -> Plan:
    """A range of a diagonal lies in a square box."""
    named, rank = node.named, len(box) + 1
    one, other, offset = named["dim1"] % rank, named["dim2"] % rank, named["offset"]
    needed = list(box[:-1])
    ranges = {one: tuple(at + max(0, -offset) for at in box[-1]), other: tuple(at + max(0, offset) for at in box[-1])}
    for axis in sorted(ranges):
        needed.insert(axis, (ranges[axis][0], ranges[axis][1]))
    ref: Ref = node.refs[0]
    return Plan((Demand(ref, tuple(needed)),), lambda tensors, is_wide: tensors[0].diagonal(0, one, other))
