"""Asks of a task whether something that computes nothing would pass it."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from evokernel.reference.module import Named, Reference, Sample

Outputs = tuple[Named, ...]


def shortcuts(reference: Reference, sample: Sample, outputs: Outputs, atol: float, rtol: float) -> list[str]:
    """Which of zeros, the mean, a copy of an input, or the answer to other inputs lies within the tolerance; a sound task has none."""
    guesses = dict(trivial(sample, outputs))
    other = reference.run(reference.sample(sample.seed + 1))
    if [x.tensor.shape for x in other] == [x.tensor.shape for x in outputs]:
        guesses["the answer to other inputs"] = [x.tensor for x in other]
    return [name for name, guess in guesses.items() if all(close(g, x.tensor, atol, rtol) for g, x in zip(guess, outputs))]


def trivial(sample: Sample, outputs: Outputs) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Outputs that need no computing."""
    wanted = [out.tensor for out in outputs]
    yield "zeros", [torch.zeros_like(x) for x in wanted]
    if all(x.numel() > 1 for x in wanted):  # of a single number, the mean is the answer itself
        yield "the mean", [torch.full_like(x, x.double().mean().item()) for x in wanted]
    for name, tensor in sample.inputs:
        if all(x.shape == tensor.shape for x in wanted):
            yield f"a copy of {name}", [tensor.to(x.dtype) for x in wanted]


def close(guess: torch.Tensor, wanted: torch.Tensor, atol: float, rtol: float) -> bool:
    """Whether every element lies within the tolerance, the absolute part in units of the wanted root mean square."""
    if not wanted.is_floating_point():
        return bool(torch.equal(guess, wanted))
    exact, finite = wanted.double(), wanted.isfinite()
    if not finite.any():
        return False
    scale = exact[finite].square().mean().sqrt()
    near = finite & ((guess.double() - exact).abs() <= atol * scale + rtol * exact.abs())
    return bool((near | (guess == wanted) | (guess.isnan() & wanted.isnan())).all())
