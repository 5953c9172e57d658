"""Evaluates the reference of a task on boxes of its outputs, at sizes at which no tensor may be held whole.

Inputs are functions of a seed and an element's index, so any box of them can be drawn alone. The operations come from a trace on tensors
without memory. A box of an output demands boxes of operands, down to boxes of the arguments; long reductions run in chunks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch

from evokernel.core.errors import UserError
from evokernel.core.records import ScalarArgument, Tensor
from evokernel.reference.arrays import DTYPES, to_array
from evokernel.reference.float64_reference import run_in_float64, widen_tensor
from evokernel.reference.module import Reference, Sample, TaskFileErrors
from evokernel.reference.names import output_names
from evokernel.reference.region_boxes import Box, contains_box, make_full_box, remove_contained_boxes, shift_box, to_slices
from evokernel.reference.region_evaluator import Evaluator, Pair
from evokernel.reference.region_graph import Demand, RandomForwardError, RegionError, trace_graph
from evokernel.reference.region_inputs import LazyInputs, load_parameters
from evokernel.reference.region_products import compute_products
from evokernel.reference.signature import describe_tensors
from evokernel.reference.trace import call_with_tensors

WHOLE_SHARE = 1 / 16
"""A reference that cannot be traced is run whole if its arguments take at most this share of the memory limit."""

MAX_DRAWN_BOXES, MAX_DRAWN_BYTES = 32, 128 << 20


class RegionReference:
    """The reference of a task at one size, evaluated on boxes of its outputs; inputs are drawn element by element from a seed.

    Kinds of inputs: `own` as in `get_inputs`; `normal`, `uniform`, `wide` and `tiny` change inputs of independent random floats only, with
    a moderate factor unless `is_extreme`. Memory stays below about `max_bytes`, plus the parameters, which are held whole.
    """

    arguments: tuple[Tensor, ...] = ()
    """Names, dtypes and shapes of the inputs, then of the parameters, in the order of the signature."""
    input_count: int = 0
    """How many of the arguments are inputs; the rest are parameters."""
    scalars: tuple[ScalarArgument, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    unsupported_reason: str = ""
    """Why the reference cannot be evaluated on regions at this size; empty if it can. Other methods then raise RegionError."""

    def __init__(self, reference: Reference, seed: int, kind: str = "own", max_bytes: int = 1 << 30, *, is_extreme: bool = True) -> None:
        """Trace the reference; allocates nothing but the parameters."""
        self.reference, self.seed, self.max_bytes = reference, seed, max_bytes
        self.evaluator: Evaluator | None = None
        self.whole_outputs: list[Pair] = []
        self.drawn: OrderedDict[tuple[int, Box], torch.Tensor] = OrderedDict()
        try:
            with torch.device("meta"), torch.no_grad():
                meta = reference.sample(0)
            self.arguments = (*describe_tensors(meta.inputs), *describe_tensors(meta.params))
            self.input_count, self.scalars = len(meta.inputs), meta.scalars
            self.parameters = load_parameters(reference, meta, seed)
            self.inputs = LazyInputs(reference, meta, seed, kind, max_bytes, is_extreme)
            try:
                self.trace_outputs(meta)
            except RandomForwardError:
                raise
            except UserError as error:
                self.run_whole(error)
        except UserError as error:
            self.unsupported_reason = str(error)

    def trace_outputs(self, meta: Sample) -> None:
        """Trace the forward pass, and check that elements of each output can be computed."""
        tensors = [tensor for _, tensor in (*meta.inputs, *meta.params)]
        with call_with_tensors(meta) as call, TaskFileErrors(self.reference.name, "Model.forward"), torch.no_grad(), torch.device("meta"):
            graph = trace_graph(call, tensors)
        self.evaluator = Evaluator(graph, self.max_bytes, self.read_argument)
        names = output_names(len(graph.outputs))
        self.outputs = tuple(
            Tensor(name=name, dtype=DTYPES[graph.dtype_of(ref)], shape=graph.shape_of(ref)) for name, ref in zip(names, graph.outputs)
        )
        for ref in graph.outputs:
            self.evaluator.check_memory(ref, tuple((size - 1, size) for size in graph.shape_of(ref)))

    def run_whole(self, error: UserError) -> None:
        """Run a small reference whole that cannot be traced."""
        size = sum(one.nbytes for one in self.arguments)
        if size > self.max_bytes * WHOLE_SHARE:
            raise error
        values = [self.read_argument(index, make_full_box(one.shape)).own for index, one in enumerate(self.arguments)]
        sample = self.reference.sample(self.seed)
        with torch.no_grad():
            for (_, tensor), value in zip((*sample.inputs, *sample.params), values, strict=True):
                tensor.copy_(value)
        outputs = self.reference.run(sample)
        wide = run_in_float64(self.reference, sample, outputs)
        if wide is None:
            raise error
        self.evaluator, self.outputs = None, describe_tensors(outputs)
        self.whole_outputs = [Pair(own, other) for (_, own), (_, other) in zip(outputs, wide.outputs)]

    def read_argument(self, index: int, box: Box) -> Pair:
        """Return a box of an argument in both precisions."""
        own = self.read_own(index, box)
        return Pair(own, widen_tensor(own))

    def read_own(self, index: int, box: Box) -> torch.Tensor:
        """Return a box of an argument. The latest draws are kept: the kernel's inputs and the reference's operands are the same boxes."""
        if index >= self.input_count:
            return self.parameters[index - self.input_count][to_slices(box)]
        for (other, outer), values in reversed(self.drawn.items()):
            if other == index and contains_box(outer, box):
                return values[to_slices(shift_box(box, outer))]
        values = self.inputs.draw(index, box)
        self.drawn[index, box] = values
        while len(self.drawn) > MAX_DRAWN_BOXES or sum(one.nbytes for one in self.drawn.values()) > MAX_DRAWN_BYTES:
            self.drawn.popitem(last=False)
        return values

    def draw(self, argument: int, box: Box) -> np.ndarray:
        """Return a box of an argument as the kernel receives it (bfloat16 as uint16). An element has the same value in every box."""
        self.check_supported()
        return to_array(self.arguments[argument].name, self.read_own(argument, box)).data

    def find_needed(self, output: int, box: Box) -> dict[int, list[Box]]:
        """Return, by argument, the boxes that a box of an output depends on; arguments it does not depend on are left out."""
        self.check_supported()
        if self.evaluator is None:
            return {index: [make_full_box(one.shape)] for index, one in enumerate(self.arguments)}
        needed = self.evaluator.find_arguments(self.evaluator.graph.outputs[output], box)
        return {argument: remove_contained_boxes(boxes) for argument, boxes in needed.items()}

    def compute_shared(self, tiles: Sequence[tuple[int, Box]]) -> None:
        """Compute in advance what boxes of outputs, which are computed one by one afterwards, need of large products."""
        self.check_supported()
        if self.evaluator is not None and len(tiles) > 1:
            compute_products(self.evaluator, [Demand(self.evaluator.graph.outputs[output], box) for output, box in tiles])

    def compute(self, output: int, box: Box) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a box of an output in the reference's own precision, and in float64 (integers: as computed in float64)."""
        self.check_supported()
        if self.evaluator is None:
            own, wide = self.whole_outputs[output]
            return own[to_slices(box)], wide[to_slices(box)]
        own, wide = self.evaluator.evaluate(self.evaluator.graph.outputs[output], box)
        return own.contiguous(), wide.contiguous()

    def check_supported(self) -> None:
        """Raise RegionError if the reference cannot be evaluated on regions."""
        if self.unsupported_reason:
            raise RegionError(f"task {self.reference.name}: regions cannot be evaluated: {self.unsupported_reason}")
