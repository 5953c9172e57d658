"""Reductions of a tensor whose axes XLA stores in another order: loops in that order, so that nothing is copied before the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evokernel.generators.template_search.dialects.pallas.row_program import stored_order
from evokernel.generators.template_search.graph import Node, pad_rank
from evokernel.generators.template_search.patterns import Axis, KernelPattern, Operand

FAMILIES = ("reduce", "argreduce")


def is_argument(node: Node) -> bool:
    """Whether a tensor of floats is an argument of the kernel, not a result of another stage."""
    return node.op == "leaf" and node.dtype == "float32" and node.name.startswith("in_")


def order_loops(pattern: KernelPattern) -> tuple[KernelPattern, tuple[int, ...]]:
    """The pattern with one loop per axis, and the order in which XLA stores these.

    If XLA stores the tensor in the order of its axes, or it is a matrix, this is the pattern as it is; also for a result of another
    stage, whose order that stage decides.
    """
    as_it_is = (pattern, tuple(range(len(pattern.axes))))
    if pattern.family not in FAMILIES or not all(is_argument(o.node) for o in pattern.operands):
        return as_it_is
    main = pattern.main_nodes[0]
    shape = main.args[0].shape
    loops = [i for i, n in enumerate(shape) if not n.is_one]
    order = stored_order([shape[i] for i in loops])
    if len(loops) < 3 or list(order) == sorted(order) or not any(o.is_full for o in pattern.operands):
        return as_it_is
    sizes = [pad_rank(o.node.shape, len(shape)) for o in pattern.operands]
    operands = tuple(Operand(o.node, tuple(not own[i].is_one for i in loops)) for o, own in zip(pattern.operands, sizes))
    return replace(pattern, axes=tuple(Axis(shape[i], i in main.dims) for i in loops), operands=operands), order


def nest_axes(pattern: KernelPattern) -> Sequence[Axis]:
    """The loops of a nest, from the outermost."""
    split, order = order_loops(pattern)
    return [split.axes[i] for i in order]


def is_reordered(pattern: KernelPattern) -> bool:
    """Whether a nest has its loops in another order than the tensor has its axes."""
    order = order_loops(pattern)[1]
    return list(order) != sorted(order)
