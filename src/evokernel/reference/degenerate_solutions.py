"""Finds degenerate solutions of a task: kernels that pass without computing, or that ignore an input or parameter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch

from evokernel.core.errors import UserError
from evokernel.reference.module import NamedTensor, Reference, Sample

Outputs = tuple[NamedTensor, ...]
SAMPLE_COUNT = 3
"""Sets of inputs for one set of parameters: an output that passes for all of them does not depend on the inputs."""


class Tolerance(NamedTuple):
    """Allowed error of an element: `atol * unit + rtol * |expected|`."""

    atol: float
    rtol: float
    unit: float | None = None
    """None: the root mean square of the expected output."""

    def allowed_error(self, expected: torch.Tensor) -> torch.Tensor:
        """Return the allowed error of each element of a float64 output; 0 for non-finite elements."""
        unit = root_mean_square(expected) if self.unit is None else self.unit
        allowed = expected.abs().mul_(self.rtol).add_(self.atol * unit)
        return allowed if allowed.sum().isfinite() else torch.where(allowed.isfinite(), allowed, torch.zeros_like(allowed))


PAPER_TOLERANCE = Tolerance(1e-2, 1e-2, 1.0)
"""Tolerance of the paper's protocol."""


class AcceptedRange(NamedTuple):
    """Lower and upper bounds within which an output passes."""

    low: torch.Tensor
    high: torch.Tensor

    def intersect(self, other: AcceptedRange) -> AcceptedRange:
        """Return the range that satisfies both."""
        return AcceptedRange(torch.maximum(self.low, other.low), torch.minimum(self.high, other.high))

    def accepts_everywhere(self, value: float) -> bool:
        """Return whether an output passes that has this value everywhere."""
        return bool(((self.low <= value) & (value <= self.high)).all())

    @property
    def is_satisfiable(self) -> bool:
        """Whether any output passes."""
        return bool((self.low <= self.high).all())

    @property
    def accepts_constant(self) -> bool:
        """Whether some constant output passes."""
        return bool(self.low.max() <= self.high.min())


def root_mean_square(values: torch.Tensor) -> float:
    """Return the root mean square of the finite elements."""
    mean_square = values.square().mean()
    if not mean_square.isfinite():
        mean_square = values[values.isfinite()].square().mean().nan_to_num()
    return float(mean_square.sqrt())


def view_as_real(tensor: torch.Tensor) -> torch.Tensor:
    """Return a complex tensor with an axis for real and imaginary part; others stay unchanged."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def accepted_range(output: torch.Tensor, tolerance: Tolerance) -> AcceptedRange:
    """Return the range in which an output passes; integers must be exact."""
    output = view_as_real(output)
    exact = output.double()
    if not output.is_floating_point():
        return AcceptedRange(exact, exact)
    slack = tolerance.allowed_error(exact)
    return AcceptedRange(exact - slack, exact + slack)


def find_trivial_solutions(samples: list[Sample], outputs: list[Outputs], tolerance: Tolerance) -> list[str]:
    """Return descriptions of trivial kernels that pass: those that ignore the inputs, simplest first, and copies of an input.

    A sound task has none. The samples differ in their inputs only. Of zeros, a constant and a function of the parameters, only the
    simplest is reported, because each is a special case of the next.
    """
    if any([x.tensor.shape for x in sample_outputs] != [x.tensor.shape for x in outputs[0]] for sample_outputs in outputs):
        return []
    ranges = [accepted_range(x.tensor, tolerance) for x in outputs[0]]
    for sample_outputs in outputs[1:]:
        ranges = [one.intersect(accepted_range(x.tensor, tolerance)) for one, x in zip(ranges, sample_outputs)]
    solutions = []
    if all(one.accepts_everywhere(0.0) for one in ranges):
        solutions.append("zeros")
    elif all(one.accepts_constant for one in ranges):
        solutions.append("a constant")
    elif all(one.is_satisfiable for one in ranges):
        solutions.append("a function of the parameters alone")
    return solutions + [f"a copy of {name}" for name in find_passing_inputs(samples, outputs, tolerance)]


def find_passing_inputs(samples: list[Sample], outputs: list[Outputs], tolerance: Tolerance) -> Iterator[str]:
    """Yield the names of inputs that pass as the output."""
    for i, (name, tensor) in enumerate(samples[0].inputs):
        if all(x.tensor.shape == tensor.shape for x in outputs[0]):
            pairs = [(sample.inputs[i].tensor, x.tensor) for sample, sample_outputs in zip(samples, outputs) for x in sample_outputs]
            if all(is_within_tolerance(input_tensor.to(expected.dtype), expected, tolerance) for input_tensor, expected in pairs):
                yield name


def find_unused_tensors(
    reference: Reference, samples: list[Sample], outputs: list[Outputs], tolerances: Mapping[str, Tolerance]
) -> Iterator[tuple[str, str]]:
    """Yield (protocol, tensor name) for inputs and parameters whose values do not matter beyond the tolerance in any sample."""
    for i, (name, _) in enumerate(samples[0].inputs + samples[0].params):
        remaining = dict(tolerances)
        for sample, expected in zip(samples, outputs):
            if remaining:
                after = run_with_changed_tensor(reference, sample, i)
                remaining = {key: tolerance for key, tolerance in remaining.items() if after and outputs_match(after, expected, tolerance)}
        yield from ((key, name) for key in remaining)


def run_with_changed_tensor(reference: Reference, sample: Sample, index: int) -> Outputs:
    """Return the outputs after changing one tensor; empty if the reference raises, which means that it reads the tensor."""
    tensor = (sample.inputs + sample.params)[index].tensor
    original_data = tensor.data
    try:
        tensor.data = perturb_values(original_data)  # replace instead of writing: elements of an expanded tensor share memory
        return reference.run(sample)
    except UserError:
        return ()
    finally:
        tensor.data = original_data


def outputs_match(outputs: Outputs, expected: Outputs, tolerance: Tolerance) -> bool:
    """Return whether outputs pass as the expected ones."""
    same = [x.tensor.shape for x in outputs] == [x.tensor.shape for x in expected]
    return same and all(is_within_tolerance(a.tensor, b.tensor, tolerance) for a, b in zip(outputs, expected))


def perturb_values(tensor: torch.Tensor) -> torch.Tensor:
    """Return other values of the same kind: reversed order; floats are also scaled, each by another positive factor."""
    if tensor.is_complex():
        return torch.view_as_complex(perturb_values(view_as_real(tensor)))
    flipped = tensor.flatten().flip(0).reshape(tensor.shape)
    if tensor.is_floating_point():
        ramp = torch.linspace(0.5, 2.0, max(tensor.numel(), 1), dtype=torch.float64).reshape(tensor.shape)
        return ((flipped.double() if flipped.any() else 1.0) * ramp).to(tensor.dtype)
    if not torch.equal(flipped, tensor):
        return flipped
    return ~tensor if tensor.dtype == torch.bool else torch.where(tensor > 0, tensor - 1, tensor)


def find_constant_parameters(sample: Sample) -> list[str]:
    """Return the names of parameters with one value everywhere, such as ones: no test detects a kernel that ignores them."""
    return [name for name, tensor in sample.params if tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all())]


def draw_samples(reference: Reference, seed: int, count: int = SAMPLE_COUNT) -> list[Sample]:
    """Draw one module with several sets of inputs."""
    first = reference.sample(seed)
    return [first, *(reference.sample(seed + i, first.module) for i in range(1, count))]


def is_within_tolerance(actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> bool:
    """Return whether every element lies within the tolerance."""
    actual, expected = view_as_real(actual), view_as_real(expected)
    if not expected.is_floating_point():
        return bool(torch.equal(actual, expected))
    exact = expected.double()
    is_close = (actual.double() - exact).abs() <= tolerance.allowed_error(exact)
    return bool(is_close.all()) or bool((is_close | (actual == expected) | (actual.isnan() & expected.isnan())).all())
