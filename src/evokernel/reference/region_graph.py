"""The operations of a reference at one size as a graph, traced on tensors without memory, and plans to compute boxes of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, Protocol

import torch
from torch import fx
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from evokernel.core.errors import UserError
from evokernel.reference.float64_reference import widen_dtype, widen_tensor
from evokernel.reference.region_boxes import Box, Shape

IGNORED_SETTINGS = ("device", "layout", "memory_format", "pin_memory")


class RegionError(UserError):
    """The reference cannot be evaluated on regions; the message names the operator."""


class RandomForwardError(RegionError):
    """The forward pass draws random numbers, so its outputs are no function of its arguments."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of a graph: a result of one of its nodes."""

    node: int
    result: int = 0


class Demand(NamedTuple):
    """A box of a value."""

    ref: Ref
    box: Box


@dataclass(frozen=True, eq=False)
class Node:
    """One operation, or an argument of the graph."""

    index: int
    op: Any
    """A torch operator overload; None for an argument."""
    leaves: tuple[Any, ...]
    """Arguments of the call, flattened; a tensor is a `Ref`."""
    spec: TreeSpec | None
    shapes: tuple[Shape, ...]
    dtypes: tuple[torch.dtype, ...]
    argument: int = -1
    """Index of the argument, for an argument."""

    @cached_property
    def refs(self) -> tuple[Ref, ...]:
        """The operands in order."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, Ref))

    @cached_property
    def name(self) -> str:
        """Name of the operator, such as `aten.sum.dim_IntList`."""
        return f"argument {self.argument}" if self.op is None else str(self.op)

    @cached_property
    def base_name(self) -> str:
        """Name of the operator without namespace and overload, such as `sum`."""
        return "" if self.op is None else str(self.op._schema.name).partition("::")[2]

    @cached_property
    def named(self) -> dict[str, Any]:
        """Arguments of the call by their names in the operator's schema, with defaults."""
        args, kwargs = self.restore_arguments(self.leaves)
        schema = self.op._schema.arguments
        values = {one.name: one.default_value for one in schema if one.has_default_value()}
        return values | {one.name: value for one, value in zip(schema, args)} | kwargs

    def restore_arguments(self, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return positional and keyword arguments from flattened ones."""
        assert self.spec is not None
        return tree_unflatten(list(leaves), self.spec)  # type: ignore[no-any-return]

    def call(self, tensors: Sequence[torch.Tensor], is_wide: bool) -> tuple[torch.Tensor, ...]:
        """Run the operator on tensors in place of its operands, in float64 if `is_wide`."""
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(leaf, Ref) else leaf for leaf in self.leaves]
        if is_wide:
            leaves = [widen_dtype(leaf) if isinstance(leaf, torch.dtype) else leaf for leaf in leaves]
        args, kwargs = self.restore_arguments(leaves)
        results = [leaf for leaf in tree_leaves(self.op(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
        return tuple(widen_tensor(one) for one in results) if is_wide else tuple(results)

    def result_dtype(self, result: int, is_wide: bool) -> torch.dtype:
        """Return the dtype of a result, as float64 if `is_wide` and it is a float."""
        return widen_dtype(self.dtypes[result]) if is_wide else self.dtypes[result]


@dataclass(frozen=True, eq=False)
class Graph:
    """Operations in order; the arguments come first."""

    nodes: tuple[Node, ...]
    outputs: tuple[Ref, ...]

    def shape_of(self, ref: Ref) -> Shape:
        """Return the shape of a value."""
        return self.nodes[ref.node].shapes[ref.result]

    def dtype_of(self, ref: Ref) -> torch.dtype:
        """Return the dtype of a value."""
        return self.nodes[ref.node].dtypes[ref.result]


class Reducer(Protocol):
    """Combines the chunks of a long reduction in one precision."""

    def add(self, boxes: Sequence[Box], tensors: Sequence[torch.Tensor]) -> None:
        """Take the next chunk: one box of each operand with its values."""

    def finish(self) -> torch.Tensor:
        """Return the box of the result."""


class Plan(NamedTuple):
    """How to compute one box of a value from boxes of other values."""

    demands: tuple[Demand, ...]
    apply: Callable[[Sequence[torch.Tensor], bool], torch.Tensor]
    """Receives the demanded boxes, all in one precision; the second argument says whether it is float64."""
    split: Callable[[int], Iterator[tuple[Demand, ...]]] | None = None
    """For reductions: cuts the demands into chunks of at most this many elements."""
    make_reducer: Callable[[bool], Reducer] | None = None


def make_reduction_plan(
    demands: Sequence[Demand], split: Callable[[int], Iterator[tuple[Demand, ...]]], make_reducer: Callable[[bool], Reducer]
) -> Plan:
    """Return the plan of a reduction, which can be computed at once or in chunks."""

    def apply(tensors: Sequence[torch.Tensor], is_wide: bool) -> torch.Tensor:
        reducer = make_reducer(is_wide)
        reducer.add([demand.box for demand in demands], tensors)
        return reducer.finish()

    return Plan(tuple(demands), apply, split, make_reducer)


@cache
def load_decompositions() -> dict[Any, Callable[..., Any]]:
    """Return torch's decompositions into few operators; softmax and normalisations become reductions and elementwise operations."""
    from torch._decomp import core_aten_decompositions, get_decompositions

    aten = torch.ops.aten
    further = get_decompositions(
        [
            aten._softmax,
            aten._log_softmax,
            aten.native_layer_norm,
            aten.native_group_norm,
            aten.native_batch_norm,
            aten._native_batch_norm_legit_functional,
            aten._native_batch_norm_legit_no_training,
            aten.addmm,
            aten.baddbmm,
            aten.logsumexp,
        ]
    )
    return {**core_aten_decompositions(), **further}


def trace_graph(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Graph:
    """Trace a function of tensors on the device `meta` into a graph without in-place operations."""
    try:
        module = make_fx(functionalize(function), decomposition_table=load_decompositions())(*tensors)
    except RuntimeError as error:
        if "requires_grad_" not in str(error):
            raise
        module = make_fx(function, decomposition_table=load_decompositions())(*tensors)  # a backward pass asks autograd while it is traced
    if any(
        node.op == "call_function" and getattr(node.target, "_schema", None) and node.target._schema.is_mutable
        for node in module.graph.nodes
    ):
        module = make_fx(functionalize(module))(*tensors)  # decompositions may write in place
    module.graph.eliminate_dead_code()
    return convert_graph(module)


def convert_graph(module: fx.GraphModule) -> Graph:
    """Convert an fx graph to nodes with shapes."""
    refs: dict[fx.Node, Ref] = {}
    nodes: list[Node] = []
    outputs: tuple[Ref, ...] = ()
    for node in module.graph.nodes:
        if node.op == "output":
            leaves = [leaf for leaf in tree_leaves(node.args[0]) if leaf is not None]
            if not all(isinstance(leaf, fx.Node) for leaf in leaves):
                raise RegionError("an output that is no tensor")
            outputs = tuple(refs[leaf] for leaf in leaves)
        elif node.op == "call_function" and node.target is operator.getitem:
            refs[node] = Ref(refs[node.args[0]].node, node.args[1])
        elif node.op in ("placeholder", "call_function"):
            refs[node] = Ref(len(nodes))
            nodes.append(convert_node(node, len(nodes), refs))
        else:
            raise RegionError("a tensor of numbers that the task's source contains")
    return Graph(tuple(nodes), outputs)


def convert_node(node: fx.Node, index: int, refs: dict[fx.Node, Ref]) -> Node:
    """Convert one fx node."""
    results = [value for value in tree_leaves(node.meta.get("val")) if isinstance(value, torch.Tensor)]
    if not results or not all(isinstance(size, int) for result in results for size in result.shape):
        raise RegionError(f"{node.target}, whose result is no tensor of a known size")
    shapes, dtypes = tuple(tuple(result.shape) for result in results), tuple(result.dtype for result in results)
    if node.op == "placeholder":
        return Node(index, None, (), None, shapes, dtypes, argument=index)
    kwargs = {key: value for key, value in node.kwargs.items() if key not in IGNORED_SETTINGS}
    args = fx.node.map_arg((node.args, kwargs), lambda one: refs[one])
    leaves, spec = tree_flatten(args)
    return Node(index, node.target, tuple(leaves), spec, shapes, dtypes)
