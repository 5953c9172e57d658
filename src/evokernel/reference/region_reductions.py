"""Rules of reductions and matrix products, which can be computed in chunks of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

from evokernel.reference.float64_reference import HALVES
from evokernel.reference.region_boxes import Box, Range, Shape, count_elements, measure_box, shift_box, split_box, to_slices
from evokernel.reference.region_graph import Demand, Node, Plan, make_reduction_plan
from evokernel.reference.region_rules import Context, add_rule


class Reduction(NamedTuple):
    """A call of a reduction on one box of its result."""

    node: Node
    result: int
    box: Box
    axes: tuple[int, ...]
    """Reduced axes of the operand."""
    operand_box: Box
    operand_shape: tuple[int, ...]

    @property
    def kept_box(self) -> Box:
        """The box of the result with reduced axes of size one."""
        return tuple((0, 1) if axis in self.axes else one for axis, one in enumerate(self.operand_box))

    def locate_chunk(self, box: Box) -> tuple[slice, ...]:
        """Return the part of the result that a chunk of the operand contributes to."""
        part = tuple((0, 1) if axis in self.axes else one for axis, one in enumerate(box))
        return to_slices(shift_box(part, self.kept_box))

    @property
    def terms(self) -> int:
        """Number of elements that are reduced to one."""
        return math.prod(self.operand_shape[axis] for axis in self.axes)

    def convert(self, values: torch.Tensor, is_wide: bool) -> torch.Tensor:
        """Convert values to the dtype and shape of the result's box."""
        return values.to(self.node.result_dtype(self.result, is_wide)).reshape(measure_box(self.box))


def accumulation_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which torch accumulates: float32 for half precision."""
    return torch.float32 if dtype in HALVES else dtype


def plan_reduction(context: Context, node: Node, result: int, box: Box, make: Callable[[Reduction, bool], Reducers]) -> Plan:
    """Plan a reduction over some axes: those of the operand are needed whole."""
    ref = node.refs[0]
    shape = context.graph.shape_of(ref)
    dims = node.named.get("dim")
    axes = tuple(range(len(shape))) if dims is None or dims == [] or dims == () else (dims,) if isinstance(dims, int) else tuple(dims)
    axes = tuple(sorted(axis % max(1, len(shape)) for axis in axes)) if shape else ()
    keeps_axes = bool(node.named.get("keepdim"))
    kept = iter([one for axis, one in enumerate(box) if not (keeps_axes and axis in axes)])
    needed = tuple((0, size) if axis in axes else next(kept) for axis, size in enumerate(shape))
    reduction = Reduction(node, result, box, axes, needed, shape)

    def split(limit: int) -> Iterator[tuple[Demand, ...]]:
        return ((Demand(ref, one),) for one in split_box(needed, limit))

    return make_reduction_plan([Demand(ref, needed)], split, lambda is_wide: make(reduction, is_wide))


class FoldReducer:
    """Combines partial results: sums, extrema, products, logical reductions and norms."""

    def __init__(self, reduction: Reduction, is_wide: bool) -> None:
        self.reduction, self.is_wide = reduction, is_wide
        node = reduction.node
        self.name = node.base_name
        self.order = float(node.named.get("ord", node.named.get("p", 2)) or 0) if "norm" in self.name else 0.0
        self.total: torch.Tensor | None = None

    def add(self, boxes: Sequence[Box], tensors: Sequence[torch.Tensor]) -> None:
        partial, place = self.reduce_chunk(tensors[0]), self.reduction.locate_chunk(boxes[0])
        if self.total is None and partial.shape == measure_box(self.reduction.kept_box):
            self.total = partial
            self.seen = None
            return
        if self.total is None:
            self.total = torch.zeros(measure_box(self.reduction.kept_box), dtype=partial.dtype)
            self.seen = torch.zeros(measure_box(self.reduction.kept_box), dtype=torch.bool)
        if self.seen is not None and not bool(self.seen[place].all()):
            self.total[place], self.seen[place] = partial, True
        else:
            self.total[place] = self.combine(self.total[place], partial)

    def reduce_chunk(self, values: torch.Tensor) -> torch.Tensor:
        """Reduce one chunk, keeping the reduced axes."""
        axes, name = self.reduction.axes, self.name
        if name in ("any", "all"):
            return values.any(axes, keepdim=True) if name == "any" else values.all(axes, keepdim=True)
        if name in ("amax", "amin", "max", "min"):
            return values.amax(axes, keepdim=True) if "max" in name else values.amin(axes, keepdim=True)
        values = values.to(accumulation_dtype(self.reduction.node.result_dtype(self.reduction.result, self.is_wide)))
        if name == "prod":
            for axis in axes:
                values = values.prod(axis, keepdim=True)
            return values
        if "norm" in name:
            size = values.abs()
            if math.isinf(self.order):
                return size.amax(axes, keepdim=True) if self.order > 0 else size.amin(axes, keepdim=True)
            values = (size != 0).to(values.dtype) if self.order == 0 else size if self.order == 1 else size**self.order
        return values.sum(axes, keepdim=True) if axes else values

    def combine(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Combine two partial results."""
        name = self.name
        if name in ("amax", "max") or ("norm" in name and self.order == math.inf):
            return torch.maximum(first, second)
        if name in ("amin", "min") or ("norm" in name and self.order == -math.inf):
            return torch.minimum(first, second)
        if name in ("any", "all"):
            return first | second if name == "any" else first & second
        return first * second if name == "prod" else first + second

    def finish(self) -> torch.Tensor:
        total = self.total
        assert total is not None
        if self.name == "mean":
            total = total / self.reduction.terms
        elif "norm" in self.name and self.order not in (0, 1) and not math.isinf(self.order):
            total = total.sqrt() if self.order == 2 else total ** (1 / self.order)
        return self.reduction.convert(total, self.is_wide)


class VarianceReducer:
    """Combines counts, means and squared deviations of chunks (Chan, Golub and LeVeque)."""

    def __init__(self, reduction: Reduction, is_wide: bool) -> None:
        self.reduction, self.is_wide = reduction, is_wide
        dtype = accumulation_dtype(reduction.node.result_dtype(0, is_wide))
        shape = measure_box(reduction.kept_box)
        self.counts, self.means, self.squares = (torch.zeros(shape, dtype=dtype) for _ in range(3))

    def add(self, boxes: Sequence[Box], tensors: Sequence[torch.Tensor]) -> None:
        place, axes = self.reduction.locate_chunk(boxes[0]), self.reduction.axes
        values = tensors[0].to(self.means.dtype)
        count = math.prod(values.shape[axis] for axis in axes)
        spread, mean = torch.var_mean(values, axes, correction=0, keepdim=True)
        before, total = self.counts[place], self.counts[place] + count
        change = mean - self.means[place]
        self.squares[place] += spread * count + change**2 * (before * count / total)
        self.means[place] += change * (count / total)
        self.counts[place] = total

    def finish(self) -> torch.Tensor:
        name, named = self.reduction.node.base_name, self.reduction.node.named
        if self.reduction.result == 1:
            return self.reduction.convert(self.means, self.is_wide)
        correction = named["correction"] if "correction" in named else int(named.get("unbiased", True))
        correction = 1 if correction is None else correction
        variance = (
            self.squares / max(0, self.reduction.terms - correction) if self.reduction.terms > correction else self.squares * math.nan
        )
        return self.reduction.convert(variance.sqrt() if name.startswith("std") else variance, self.is_wide)


class ExtremumReducer:
    """Finds the extremum along one axis, or of a whole tensor, with the index of its first occurrence."""

    def __init__(self, reduction: Reduction, is_wide: bool) -> None:
        self.reduction, self.is_wide = reduction, is_wide
        self.is_maximum = "max" in reduction.node.base_name
        shape = measure_box(reduction.kept_box)
        self.values: torch.Tensor | None = None
        self.indices = torch.full(shape, -1, dtype=torch.int64)

    def add(self, boxes: Sequence[Box], tensors: Sequence[torch.Tensor]) -> None:
        place, values, indices = self.reduction.locate_chunk(boxes[0]), *self.reduce_chunk(boxes[0], tensors[0])
        if self.values is None:
            self.values = torch.zeros(self.indices.shape, dtype=values.dtype)
        best, where = self.values[place], self.indices[place]
        is_better = (values > best) if self.is_maximum else (values < best)
        is_better |= (values == best) & (indices < where)
        is_better |= ((values != values) & (best == best)) | (where < 0)
        self.values[place], self.indices[place] = torch.where(is_better, values, best), torch.where(is_better, indices, where)

    def reduce_chunk(self, box: Box, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return extremum and index of one chunk."""
        axes = self.reduction.axes
        if len(axes) == 1:
            best, indices = values.max(axes[0], keepdim=True) if self.is_maximum else values.min(axes[0], keepdim=True)
            return best, indices + box[axes[0]][0]
        local = int(values.argmax() if self.is_maximum else values.argmin())
        flat = 0
        for (start, stop), size, inner in zip(box, self.reduction.operand_shape, chunk_strides(box)):
            flat = flat * size + start + local // inner % (stop - start)
        ones = [1] * values.ndim
        return values.flatten()[local].reshape(ones), torch.full(ones, flat)

    def finish(self) -> torch.Tensor:
        wants_values = self.reduction.node.base_name in ("max", "min") and self.reduction.result == 0
        assert self.values is not None
        return self.reduction.convert(self.values if wants_values else self.indices, self.is_wide)


Reducers = FoldReducer | VarianceReducer | ExtremumReducer


def chunk_strides(box: Box) -> list[int]:
    """Return the distance of neighbours along each axis of a box, in elements."""
    return [count_elements(box[i + 1 :]) for i in range(len(box))]


@add_rule("sum mean amax amin any all prod linalg_vector_norm norm")
def plan_fold(context: Context, node: Node, result: int, box: Box) -> Plan:
    """A reduction whose partial results are combined."""
    return plan_reduction(context, node, result, box, FoldReducer)


@add_rule("max min")
def plan_extremum(context: Context, node: Node, result: int, box: Box) -> Plan:
    """An extremum, with its index if along an axis."""
    return plan_reduction(context, node, result, box, ExtremumReducer if "dim" in node.named else FoldReducer)


@add_rule("argmax argmin")
def plan_argument(context: Context, node: Node, result: int, box: Box) -> Plan:
    """The index of an extremum."""
    return plan_reduction(context, node, result, box, ExtremumReducer)


@add_rule("var var_mean std std_mean")
def plan_variance(context: Context, node: Node, result: int, box: Box) -> Plan:
    """A variance, with its mean."""
    return plan_reduction(context, node, result, box, VarianceReducer)


class ProductReducer:
    """Sums products of matrices over chunks of their common axis; several first operands are rows of one matrix."""

    def __init__(self, node: Node, shape: Shape, is_wide: bool) -> None:
        self.node, self.shape, self.is_wide = node, shape, is_wide
        self.total: torch.Tensor | None = None

    def add(self, boxes: Sequence[Box], tensors: Sequence[torch.Tensor]) -> None:
        dtype = accumulation_dtype(self.node.result_dtype(0, self.is_wide))
        *firsts, second = (one.to(dtype) for one in tensors)
        product = torch.matmul(firsts[0] if len(firsts) == 1 else torch.cat(firsts, -2), second)
        self.total = product if self.total is None else self.total.add_(product)

    def finish(self) -> torch.Tensor:
        assert self.total is not None
        return self.total.to(self.node.result_dtype(0, self.is_wide)).reshape(self.shape)


def make_product_plan(node: Node, shape: Shape, depth: int, demand: Callable[[Range], tuple[Demand, ...]]) -> Plan:
    """Return the plan of a product whose operands in a range of the common axis are given by `demand`, the second one last."""
    whole = demand((0, depth))

    def split(limit: int) -> Iterator[tuple[Demand, ...]]:
        step = max(1, depth * limit // max(1, sum(count_elements(one.box) for one in whole)))
        return (demand((at, min(at + step, depth))) for at in range(0, depth, step))

    return make_reduction_plan(whole, split, lambda is_wide: ProductReducer(node, shape, is_wide))


@add_rule("mm bmm mv dot matmul")
def plan_product(context: Context, node: Node, result: int, box: Box) -> Plan | None:
    """Rows of the first operand and columns of the second."""
    first, second = node.refs
    shapes = context.graph.shape_of(first), context.graph.shape_of(second)
    if node.base_name == "matmul":
        return None
    depth = shapes[0][-1]
    rows = box[: len(shapes[0]) - 1]
    columns = box[len(shapes[0]) - 1 :]
    batch = box[:1] if node.base_name == "bmm" else ()

    def demand(inner: Range) -> tuple[Demand, Demand]:
        return Demand(first, (*rows, inner)), Demand(second, (*batch, inner, *columns))

    return make_product_plan(node, measure_box(box), depth, demand)
