"""Asks of a task whether something that computes nothing, or leaves something out, would pass it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch

from evokernel.core.errors import UserError
from evokernel.reference.module import Named, Reference, Sample

Outputs = tuple[Named, ...]
DRAWS = 3
"""Sets of inputs for one set of parameters: what fits all of them need not look at inputs."""


class Tolerance(NamedTuple):
    """How far an element may be off: `atol * unit + rtol * |wanted|`."""

    atol: float
    rtol: float
    unit: float | None = None
    """The root mean square of what is wanted when None."""

    def slack(self, wanted: torch.Tensor) -> torch.Tensor:
        """For each element of float64 outputs; none where they are not finite."""
        unit = rms(wanted) if self.unit is None else self.unit
        found = wanted.abs().mul_(self.rtol).add_(self.atol * unit)
        return found if found.sum().isfinite() else torch.where(found.isfinite(), found, torch.zeros_like(found))


PAPER = Tolerance(1e-2, 1e-2, 1.0)
"""As published."""


class Span(NamedTuple):
    """Between what an output has to lie to pass."""

    low: torch.Tensor
    high: torch.Tensor

    def meets(self, other: Span) -> Span:
        """What passes both."""
        return Span(torch.maximum(self.low, other.low), torch.minimum(self.high, other.high))

    def holds(self, value: float) -> bool:
        """Whether one value everywhere passes."""
        return bool(((self.low <= value) & (value <= self.high)).all())

    @property
    def is_open(self) -> bool:
        """Whether anything passes."""
        return bool((self.low <= self.high).all())

    @property
    def is_flat(self) -> bool:
        """Whether some one value everywhere passes."""
        return bool(self.low.max() <= self.high.min())


def rms(wanted: torch.Tensor) -> float:
    """The root mean square of what is finite."""
    found = wanted.square().mean()
    if not found.isfinite():
        found = wanted[wanted.isfinite()].square().mean().nan_to_num()
    return float(found.sqrt())


def span(output: torch.Tensor, tolerance: Tolerance) -> Span:
    """What passes for an output; integers exactly."""
    exact = output.double()
    if not output.is_floating_point():
        return Span(exact, exact)
    slack = tolerance.slack(exact)
    return Span(exact - slack, exact + slack)


def shortcuts(samples: list[Sample], outputs: list[Outputs], tolerance: Tolerance) -> list[str]:
    """What passes without looking at inputs, the simplest first, or as a copy of one; a sound task has none.

    Samples differ in their inputs only. Zeros pass as a constant too, and a constant as what needs parameters alone.
    """
    if any([x.tensor.shape for x in drawn] != [x.tensor.shape for x in outputs[0]] for drawn in outputs):
        return []
    spans = [span(x.tensor, tolerance) for x in outputs[0]]
    for drawn in outputs[1:]:
        spans = [one.meets(span(x.tensor, tolerance)) for one, x in zip(spans, drawn)]
    found = []
    if all(one.holds(0.0) for one in spans):
        found.append("zeros")
    elif all(one.is_flat for one in spans):
        found.append("a constant")
    elif all(one.is_open for one in spans):
        found.append("a function of the parameters alone")
    return found + [f"a copy of {name}" for name in copies(samples, outputs, tolerance)]


def copies(samples: list[Sample], outputs: list[Outputs], tolerance: Tolerance) -> Iterator[str]:
    """Inputs that pass as they are."""
    for i, (name, tensor) in enumerate(samples[0].inputs):
        if all(x.tensor.shape == tensor.shape for x in outputs[0]):
            pairs = [(sample.inputs[i].tensor, x.tensor) for sample, drawn in zip(samples, outputs) for x in drawn]
            if all(passes(given.to(wanted.dtype), wanted, tolerance) for given, wanted in pairs):
                yield name


def idle(
    reference: Reference, samples: list[Sample], outputs: list[Outputs], tolerances: Mapping[str, Tolerance]
) -> Iterator[tuple[str, str]]:
    """Inputs and parameters a kernel could leave out, by tolerance: in every sample, other values change nothing beyond it."""
    for i, (name, _) in enumerate(samples[0].inputs + samples[0].params):
        left = dict(tolerances)
        for sample, wanted in zip(samples, outputs):
            if left:
                after = with_other_values(reference, sample, i)
                left = {key: tolerance for key, tolerance in left.items() if after and unchanged(after, wanted, tolerance)}
        yield from ((key, name) for key in left)


def with_other_values(reference: Reference, sample: Sample, index: int) -> Outputs:
    """The outputs when one tensor holds something else; none where the reference refuses that, so that it is not left unread."""
    tensor = (sample.inputs + sample.params)[index].tensor
    kept = tensor.data
    try:
        tensor.data = changed(kept)  # not written into: elements of an expanded tensor share memory
        return reference.run(sample)
    except UserError:
        return ()
    finally:
        tensor.data = kept


def unchanged(after: Outputs, wanted: Outputs, tolerance: Tolerance) -> bool:
    """Whether one set of outputs passes for another."""
    same = [x.tensor.shape for x in after] == [x.tensor.shape for x in wanted]
    return same and all(passes(a.tensor, b.tensor, tolerance) for a, b in zip(after, wanted))


def changed(tensor: torch.Tensor) -> torch.Tensor:
    """Other values of the same kind: turned round, floats shrunk or grown as well, each by another factor, signs kept."""
    turned = tensor.flatten().flip(0).reshape(tensor.shape)
    if tensor.is_floating_point():
        ramp = torch.linspace(0.5, 2.0, max(tensor.numel(), 1), dtype=torch.float64).reshape(tensor.shape)
        return ((turned.double() if turned.any() else 1.0) * ramp).to(tensor.dtype)
    if not torch.equal(turned, tensor):
        return turned
    return ~tensor if tensor.dtype == torch.bool else torch.where(tensor > 0, tensor - 1, tensor)


def constants_held(sample: Sample) -> list[str]:
    """Parameters with one value everywhere, as ones and zeros: no other is ever tried, so a kernel may leave them out."""
    return [name for name, tensor in sample.params if tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all())]


def draws(reference: Reference, seed: int, count: int = DRAWS) -> list[Sample]:
    """One module with several sets of inputs."""
    first = reference.sample(seed)
    return [first, *(reference.sample(seed + i, first.module) for i in range(1, count))]


def passes(guess: torch.Tensor, wanted: torch.Tensor, tolerance: Tolerance) -> bool:
    """Whether every element lies within the tolerance."""
    if not wanted.is_floating_point():
        return bool(torch.equal(guess, wanted))
    exact = wanted.double()
    near = (guess.double() - exact).abs() <= tolerance.slack(exact)
    return bool(near.all()) or bool((near | (guess == wanted) | (guess.isnan() & wanted.isnan())).all())
