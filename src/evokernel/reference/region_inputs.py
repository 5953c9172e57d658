"""Arguments of a task as functions of a seed: inputs are drawn box by box as `get_inputs` would fill them, parameters are held whole.

`get_inputs` is traced on tensors without memory. Its random numbers become functions of an element's index and the rest is evaluated by
demand, so masks, triangles, probabilities and indices keep their structure at any size.
"""

from __future__ import annotations

import torch

from evokernel.core.errors import UserError
from evokernel.core.seeds import seed_from_text
from evokernel.reference.module import RANDOM_STATE_LOCK, Reference, Sample, SeededRandom, flatten_arguments, module_tensors
from evokernel.reference.region_boxes import Box, count_elements, make_full_box, measure_box, split_box, to_slices
from evokernel.reference.region_draws import draw_floats, draw_node
from evokernel.reference.region_evaluator import Evaluator, Pair
from evokernel.reference.region_graph import Graph, Node, Ref, RegionError, trace_graph

KINDS = ("own", "normal", "uniform", "wide", "tiny")
WIDE_FACTORS, TINY_FACTORS = (4.0, 32.0), (2.0**-4, 2.0**-9)
"""Factors of the kinds `wide` and `tiny`: moderate, and extreme."""
RANDOM_FLOATS = frozenset({"rand", "randn", "rand_like", "randn_like", "uniform", "normal", "normal_functional"})
FREE_OPS = frozenset(
    {"mul", "add", "sub", "div", "neg", "exp", "sigmoid", "_to_copy", "clone", "view", "permute", "unsqueeze", "abs", "tanh"}
)
"""Operators that leave independent numbers independent; a tensor computed otherwise from random numbers has structure to preserve."""
SAMPLE_SIZE = 1 << 16
MAX_PARAMETER_BYTES = 3 << 29
"""A layer with 16,384 inputs and outputs has a little more than 1 GiB."""


class LazyInputs:
    """The inputs of a task at one size, drawn box by box from a seed."""

    def __init__(self, reference: Reference, meta: Sample, seed: int, kind: str, max_bytes: int, is_extreme: bool = True) -> None:
        if kind not in KINDS:
            raise UserError(f"'{kind}' is not a kind of inputs for regions; kinds: {', '.join(KINDS)}")
        self.seed, self.kind, self.is_extreme = seed, kind, is_extreme
        self.tensors: tuple[torch.Tensor, ...] | None = None
        self.evaluator: Evaluator | None = None
        self.shapes = [tuple(tensor.shape) for _, tensor in meta.inputs]
        self.dtypes = [tensor.dtype for _, tensor in meta.inputs]
        try:
            graph = trace_inputs(reference, meta)
            self.evaluator = Evaluator(graph, max_bytes, refuse_argument, self.draw_random)
            for ref in graph.outputs:
                self.evaluator.check_memory(ref, tuple((0, 1) for _ in graph.shape_of(ref)))
        except UserError as error:
            size = sum(tensor.nbytes for _, tensor in meta.inputs)
            if size > max_bytes:
                raise RegionError(f"inputs of {size / 2**30:.1f} GiB that cannot be drawn in parts ({error})") from error
            self.evaluator = None
            self.tensors = tuple(tensor for _, tensor in reference.sample(seed, meta.module).inputs)
        self.scales = [self.choose_scale(index) for index in range(len(self.shapes))]
        if kind != "own" and not any(self.scales):
            raise RegionError(f"no input can be drawn as '{kind}'")

    def draw_random(self, node: Node, box: Box) -> torch.Tensor:
        """Draw a box of a random node of `get_inputs`."""
        return draw_node(node, box, seed_from_text(f"{self.seed}/inputs/{node.index}"))

    def draw(self, index: int, box: Box) -> torch.Tensor:
        """Draw a box of an input."""
        scale = self.scales[index]
        if scale and self.kind in ("normal", "uniform"):
            values = draw_floats(self.shapes[index], box, seed_from_text(f"{self.seed}/{self.kind}/{index}"), self.kind == "normal")
            return (values * scale if self.kind == "normal" else (values * 2 - 1) * (scale * 3**0.5)).to(self.dtypes[index])
        values = self.draw_own(index, box)
        return values * scale if scale else values

    def draw_own(self, index: int, box: Box) -> torch.Tensor:
        """Draw a box as the task's own `get_inputs` would."""
        if self.tensors is not None:
            return self.tensors[index].detach()[to_slices(box)]
        assert self.evaluator is not None
        ref, dtype = self.evaluator.graph.outputs[index], self.dtypes[index]
        node = self.evaluator.graph.nodes[ref.node]
        if torch.Tag.nondeterministic_seeded in node.op.tags:
            return self.draw_random(node, box)
        return self.evaluator.evaluate(ref, box).wide.to(dtype)

    def choose_scale(self, index: int) -> float:
        """Return the factor of an input under this kind: a root mean square or a multiple; zero if the input keeps its values."""
        if self.kind == "own" or not self.is_free(index):
            return 0.0
        if self.kind in ("wide", "tiny"):
            return (WIDE_FACTORS if self.kind == "wide" else TINY_FACTORS)[self.is_extreme]
        head = next(split_box(make_full_box(self.shapes[index]), SAMPLE_SIZE))
        return float(self.draw_own(index, head).double().square().mean().sqrt()) or 1.0

    def is_free(self, index: int) -> bool:
        """Whether the elements of an input are independent random floats."""
        if self.evaluator is None or not self.dtypes[index].is_floating_point or not count_elements(make_full_box(self.shapes[index])):
            return False
        return has_free_elements(self.evaluator.graph, self.evaluator.graph.outputs[index])


def has_free_elements(graph: Graph, ref: Ref) -> bool:
    """Whether a value is computed from random floats and numbers only, element by element."""
    todo, has_random = [ref], False
    while todo:
        node = graph.nodes[todo.pop().node]
        has_random |= node.base_name in RANDOM_FLOATS
        if node.base_name not in RANDOM_FLOATS | FREE_OPS:
            return False
        todo += node.refs if node.base_name not in RANDOM_FLOATS else ()
    return has_random


def refuse_argument(index: int, box: Box) -> Pair:
    """Raise: `get_inputs` has no arguments."""
    raise RegionError(f"get_inputs has no argument {index}{measure_box(box)}")


def trace_inputs(reference: Reference, meta: Sample) -> Graph:
    """Trace `get_inputs` into a graph whose outputs are the task's inputs."""

    def make_tensors() -> list[torch.Tensor]:
        leaves = flatten_arguments(meta.module.forward, reference.make_inputs())
        return [leaf for _, leaf in leaves if isinstance(leaf, torch.Tensor)]

    with RANDOM_STATE_LOCK, SeededRandom(meta.seed), torch.device("meta"), torch.no_grad():
        return trace_graph(make_tensors, ())


def load_parameters(reference: Reference, meta: Sample, seed: int) -> tuple[torch.Tensor, ...]:
    """Return the parameters of the real module, drawn from a seed. Raise RegionError if they are too large."""
    size = sum(tensor.nbytes for _, tensor in meta.params)
    if size > MAX_PARAMETER_BYTES:
        raise RegionError(f"parameters of {size / 2**30:.1f} GiB")
    return tuple(tensor.detach() for _, tensor in module_tensors(reference.make_module(seed))) if meta.params else ()
