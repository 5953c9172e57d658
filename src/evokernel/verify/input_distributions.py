"""Inputs of other kinds than a task's own: wide, tiny, heavy-tailed, shifted, constant, with other signs, as far as they have no structure.

A tensor that is more than a heap of numbers (a mask, probabilities, indices, a triangle, something sorted) keeps what makes it so. Whether
an operator is made for a kind of inputs is for its reference to say: `Cases` tries the attempts in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

    from evokernel.reference.module import Sample

KINDS = ("own", "near", "normal", "uniform", "wide", "tiny", "heavy", "shifted", "constant", "zeros", "nonfinite")
TIES = ("constant", "zeros")
"""Kinds with equal elements, among which an operator that gives whole numbers may choose as it likes."""
FEW_VALUES, ENOUGH, SOME_ZEROS = 16, 4096, 1 / 64
"""A tensor with so few different values, among this many, is no heap of numbers, nor is one with this share of zeros."""
CONSTANTS = (1.0, 2.0, 0.5, -1.0, -2.0)
"""Short numbers: sums of them come out the same in any order."""
NEAR_ONE = 1e-3


class Attempt(NamedTuple):
    """How far a kind of inputs goes."""

    far: bool
    signed: bool
    """Also where the task's own inputs are never negative."""
    params_signed: bool


ATTEMPTS = (Attempt(True, True, True), Attempt(True, True, False), Attempt(False, True, False), Attempt(False, False, False))


def redraw(sample: Sample, kind: str, attempt: Attempt, seed: int) -> bool:
    """Gives a sample, in place, inputs of another kind and parameters that are not all alike; False when nothing can be changed."""
    import torch

    chance = torch.Generator().manual_seed(seed)
    changed = False
    with torch.no_grad():
        for tensor in redrawable(sample):
            own = tensor.detach().double()
            if (new := redrawn(own, kind, structure(own), attempt, chance, -1.0 if seed % 2 else 1.0)) is not None:
                tensor.copy_(new)
                changed = True
        for tensor in alike(sample):
            tensor.copy_(unlike(tensor.detach().double(), attempt, chance))
            changed = True
    return changed


def redrawable(sample: Sample) -> list[torch.Tensor]:
    """The floating-point inputs that lie in memory of their own."""
    tensors = [tensor for _, tensor in (*sample.inputs, *sample.params)]
    storages = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [
        tensor
        for _, tensor in sample.inputs
        if tensor.is_floating_point()
        and tensor.numel() > 1
        and storages.count(tensor.untyped_storage().data_ptr()) == 1
        and all(step for step, size in zip(tensor.stride(), tensor.shape) if size > 1)
    ]


def alike(sample: Sample) -> list[torch.Tensor]:
    """Parameters and buffers that start out as one number, as the weights and biases of a normalisation do."""
    owned = {id(tensor) for tensor in (*sample.module.parameters(), *sample.module.buffers())}
    return [
        tensor
        for _, tensor in sample.params
        if id(tensor) in owned and tensor.is_floating_point() and tensor.numel() and bool((tensor == tensor.flatten()[0]).all())
    ]


def unlike(own: torch.Tensor, attempt: Attempt, chance: torch.Generator) -> torch.Tensor:
    """Numbers around the one a parameter is filled with; a lone one keeps its sign and its order of magnitude."""
    import torch

    if own.numel() == 1 or not attempt.params_signed:
        factor = torch.rand(own.shape, generator=chance, dtype=own.dtype) + 0.5
        return own * factor if bool(own.any()) or own.numel() == 1 else factor - 0.5
    return own + 0.5 * torch.randn(own.shape, generator=chance, dtype=own.dtype)


def structure(own: torch.Tensor) -> str:
    """`free`, `scaled` when only a common factor keeps what it is, `fixed` when nothing may change."""
    import torch

    some = own.flatten()[:ENOUGH]
    if (
        not bool(torch.isfinite(own).all())
        or (is_whole(some) and is_whole(own))
        or some.unique().numel() <= min(FEW_VALUES, some.numel() // 2)
    ):
        return "fixed"
    for axis in range(own.ndim):
        if own.shape[axis] > 1 and is_of_length_one(own, axis):
            return "fixed"
    if 1 - int(own.count_nonzero()) / own.numel() > SOME_ZEROS:
        return "scaled"
    if own.ndim > 1 and own.shape[-1] == own.shape[-2] > 1 and torch.equal(own, own.mT):
        return "scaled"
    return "scaled" if own.shape[-1] >= 8 and rises(own[(0,) * (own.ndim - 1)]) and rises(own) else "free"


def is_whole(own: torch.Tensor) -> bool:
    """Whether all are whole numbers."""
    return bool((own == own.round()).all())


def rises(own: torch.Tensor) -> bool:
    """Whether nothing falls along the last axis."""
    return bool((own.diff(dim=-1) >= 0).all())


def is_of_length_one(own: torch.Tensor, axis: int) -> bool:
    """Whether these are probabilities, or vectors of length one. The first of them is asked first: mostly it settles the matter."""
    first = own.movedim(axis, -1)[(0,) * (own.ndim - 1)]
    if is_one(first.sum(-1), 2 * NEAR_ONE) and is_one(own.sum(axis)):
        return True
    return is_one(first.square().sum(-1), 2 * NEAR_ONE) and is_one(own.square().sum(axis))


def is_one(sums: torch.Tensor, near: float = NEAR_ONE) -> bool:
    """Whether all sums are one."""
    return bool(((sums - 1).abs() < near).all())


def redrawn(own: torch.Tensor, kind: str, made: str, attempt: Attempt, chance: torch.Generator, sign: float) -> torch.Tensor | None:
    """Other values for a tensor; None where it stays."""
    import torch

    if made == "fixed":
        return None
    if kind in ("wide", "tiny"):
        factor = (32.0 if attempt.far else 4.0) if kind == "wide" else (2.0**-9 if attempt.far else 2.0**-4)
        return own * factor
    if made == "scaled":
        return None
    scale = float(own.square().mean().sqrt()) or 1.0
    found = {
        "normal": lambda: torch.randn(own.shape, generator=chance) * scale,
        "uniform": lambda: (torch.rand(own.shape, generator=chance) * 2 - 1) * scale * 3**0.5,
        "heavy": lambda: own * (torch.randn(own.shape, generator=chance) * 1.5).exp(),
        "shifted": lambda: (
            scale * ((sign if attempt.signed else 1.0) * (100.0 if attempt.far else 4.0) + 0.05 * torch.randn(own.shape, generator=chance))
        ),
        "constant": lambda: torch.full_like(own, CONSTANTS[int(torch.randint(0, len(CONSTANTS), (), generator=chance))]),
        "zeros": lambda: torch.zeros_like(own),
        "nonfinite": lambda: nonfinite(own, chance),
    }[kind]()
    return found.abs() if not attempt.signed and bool((own >= 0).all()) else found


def nonfinite(own: torch.Tensor, chance: torch.Generator) -> torch.Tensor:
    """A few elements that are no numbers."""
    import torch

    new = own.clone()
    flat = new.view(-1)
    for value in (float("nan"), float("inf"), float("-inf")):
        flat[int(torch.randint(0, flat.numel(), (), generator=chance))] = value
    return new


def nudge(sample: Sample, seed: int) -> bool:
    """Changes one element inside one input, in place: whoever looks at a few elements only takes the input for the same."""
    import torch

    chance = torch.Generator().manual_seed(seed)
    tensors = [t for t in redrawable(sample) if structure(t.detach().double()) == "free"]
    for tensor in sorted(tensors, key=lambda t: -t.numel())[:1]:
        at = tuple(inside(size, chance) for size in tensor.shape)
        with torch.no_grad():
            largest = float(tensor.abs().max())
            tensor[at] = largest * 2 if bool((tensor >= 0).all()) or tensor[at] < 0 else -2 * largest
        return True
    whole = [t for _, t in sample.inputs if not t.is_floating_point() and t.dtype != torch.bool and t.numel() > 2 and t.is_contiguous()]
    for tensor in whole[:1]:
        flat = tensor.view(-1)
        one, other = inside(flat.numel(), chance), inside(flat.numel(), chance)
        if bool((flat.diff() >= 0).all()) or flat[one] == flat[other]:
            return False
        flat[one] = flat[other].clone()
        return True
    return False


def inside(size: int, chance: torch.Generator) -> int:
    """An index that is neither first nor last where there is such."""
    import torch

    return 1 + int(torch.randint(0, size - 2, (), generator=chance)) if size > 2 else int(torch.randint(0, size, (), generator=chance))
