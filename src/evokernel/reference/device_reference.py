"""Computes the expected outputs of a task on a device, in its own precision and in float64: at once, or in boxes where memory is short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from evokernel.core.errors import UserError, is_device_out_of_memory
from evokernel.reference.device_sample import disable_tf32, draw_on_device, have_equal_bits, move_sample
from evokernel.reference.float64_reference import NARROW, perturb_inputs, run_in_float64, run_with_perturbed_inputs, widen_tensor
from evokernel.reference.input_distributions import DrawOptions, change_one_element, redraw_inputs
from evokernel.reference.module import NamedTensor, Reference, Sample, TaskFileErrors
from evokernel.reference.names import output_names
from evokernel.reference.region_boxes import Box, make_full_box, split_box, to_slices
from evokernel.reference.region_evaluator import Evaluator, Pair
from evokernel.reference.region_graph import Graph, RegionError, trace_graph
from evokernel.reference.trace import call_with_tensors

BOX_SHARE = 1 / 64
"""Elements of an output that are computed at once, as a share of the memory limit in bytes."""


class ExpectedTensors(NamedTuple):
    """Outputs of one sample."""

    own: tuple[NamedTensor, ...]
    wide: tuple[torch.Tensor, ...] | None
    """In float64, in the same order; None if the reference is not the same operator there."""
    reduction_length: float
    """Number of terms in the longest sum; 0 if it was not counted."""
    rounds_to_half: bool


class DeviceReference:
    """The reference of a task at one size, with its samples and outputs on a device.

    `peak_bytes` is the memory of one call in the reference's own precision. If a call in float64 would need more than `max_bytes`, the
    outputs are computed in boxes within that limit.
    """

    def __init__(self, reference: Reference, device: str, peak_bytes: float, max_bytes: int) -> None:
        self.reference, self.device, self.max_bytes = reference, device, max_bytes
        self.is_split = peak_bytes > max_bytes
        self.graph: Graph | None = None
        self.draws_on_host: bool | None = None

    def draw(self, seed: int, kind: str, options: DrawOptions) -> Sample | None:
        """Draw a sample of a kind of inputs; None if the task's inputs cannot be of this kind. Equal seeds give equal samples."""
        sample = self.draw_own(seed)
        if kind == "own":
            return sample
        with torch.device(self.device):
            is_changed = change_one_element(sample, seed) if kind == "near" else redraw_inputs(sample, kind, options, seed)
        return sample if is_changed else None

    def draw_own(self, seed: int) -> Sample:
        """Draw a sample of the task's own kind. Inputs that differ between two draws on the device are drawn on the host instead."""
        if self.draws_on_host is None:
            one, other = (draw_on_device(self.reference, seed, self.device) for _ in range(2))
            tensors = [[tensor for _, tensor in (*sample.inputs, *sample.params)] for sample in (one, other)]
            self.draws_on_host = not all(have_equal_bits(a.contiguous(), b.contiguous()) for a, b in zip(*tensors))
        if self.draws_on_host:
            return move_sample(self.reference.sample(seed), self.device)
        return draw_on_device(self.reference, seed, self.device)

    def compute(self, sample: Sample, with_float64: bool = True) -> ExpectedTensors:
        """Compute the outputs of a sample. Raises UserError if they cannot be computed within the memory limit."""
        with disable_tf32(), torch.device(self.device):
            if not self.is_split:
                try:
                    return self.compute_whole(sample, with_float64)
                except (UserError, RuntimeError) as error:
                    if not is_device_out_of_memory(error):
                        raise
            self.is_split = True
            release_cached_memory()
            return self.compute_in_boxes(sample)

    def compute_whole(self, sample: Sample, with_float64: bool) -> ExpectedTensors:
        """Run the reference at once in both precisions."""
        own = self.reference.run(sample)
        if not with_float64 or not any(tensor.dtype in NARROW for _, tensor in own):
            return ExpectedTensors(own, None, 0.0, False)
        exact = run_in_float64(self.reference, sample, own)
        if exact is None:
            return ExpectedTensors(own, None, 0.0, False)
        return ExpectedTensors(own, tuple(output.tensor for output in exact.outputs), exact.reduction_length, exact.rounds_to_half)

    def compute_in_boxes(self, sample: Sample) -> ExpectedTensors:
        """Compute the outputs box by box, each from the parts of the inputs it depends on."""
        graph = self.trace()
        tensors = [tensor.detach() for _, tensor in (*sample.inputs, *sample.params)]

        def read_argument(index: int, box: Box) -> Pair:
            own = tensors[index][to_slices(box)]
            return Pair(own, widen_tensor(own))

        evaluator = Evaluator(graph, self.max_bytes, read_argument)
        own_outputs, wide_outputs = [], []
        with TaskFileErrors(self.reference.name, "Model.forward"), torch.no_grad():
            for ref in graph.outputs:
                shape, dtype = graph.shape_of(ref), graph.dtype_of(ref)
                own = torch.empty(shape, dtype=dtype)
                wide = torch.empty(shape, dtype=torch.float64 if dtype.is_floating_point else dtype)
                for box in split_box(make_full_box(shape), max(1, int(self.max_bytes * BOX_SHARE))):
                    pair = evaluator.evaluate(ref, box)
                    own[to_slices(box)], wide[to_slices(box)] = pair
                own_outputs.append(own)
                wide_outputs.append(wide)
        named = tuple(NamedTensor(name, tensor) for name, tensor in zip(output_names(len(own_outputs)), own_outputs))
        return ExpectedTensors(named, tuple(wide_outputs), 0.0, False)

    def trace(self) -> Graph:
        """Trace the reference on tensors without memory, and check that it can be computed in boxes. Raises RegionError if not."""
        if self.graph is None:
            with torch.device("meta"), torch.no_grad():
                meta = self.reference.sample(0)
                tensors = [tensor for _, tensor in (*meta.inputs, *meta.params)]
                with call_with_tensors(meta) as call, TaskFileErrors(self.reference.name, "Model.forward"):
                    graph = trace_graph(call, tensors)
            evaluator = Evaluator(graph, self.max_bytes, refuse_reading)
            for ref in graph.outputs:
                evaluator.check_memory(ref, tuple((size - 1, size) for size in graph.shape_of(ref)))
            self.graph = graph
        return self.graph

    def run_perturbed(self, sample: Sample, outputs: tuple[NamedTensor, ...], seed: int, epsilons: float) -> tuple[NamedTensor, ...] | None:
        """Compute the outputs in the reference's own precision for inputs that are changed by some roundings; None if that fails."""
        with disable_tf32(), torch.device(self.device):
            if not self.is_split:
                return run_with_perturbed_inputs(self.reference, sample, outputs, seed, epsilons)
            with perturb_inputs(sample, outputs, seed, epsilons):
                return self.compute_in_boxes(sample).own

    def run_all_perturbed(
        self, sample: Sample, outputs: tuple[NamedTensor, ...], steps: tuple[float, ...]
    ) -> Iterator[tuple[NamedTensor, ...]]:
        """Yield the outputs for inputs that are changed by each of these numbers of roundings."""
        for seed, epsilons in enumerate(steps):
            if (moved_outputs := self.run_perturbed(sample, outputs, seed, epsilons)) is not None:
                yield moved_outputs


def refuse_reading(index: int, box: Box) -> Pair:
    """Raise: only shapes are needed."""
    raise RegionError(f"argument {index}{list(box)} has no values here")


def release_cached_memory() -> None:
    """Return memory that PyTorch keeps for later to the device."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
