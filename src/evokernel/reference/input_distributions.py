"""Input distributions other than the task's own: wide, tiny, heavy-tailed, shifted, constant, or with other signs.

Tensors with structure (masks, probabilities, indices, triangles, sorted values) keep their structure. The reference decides whether an
operator is defined for a kind of inputs: `CaseFactory` tries the options in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

    from evokernel.reference.module import Sample

KINDS = ("own", "near", "normal", "uniform", "wide", "tiny", "heavy", "shifted", "constant", "zeros", "nonfinite")
TIED_KINDS = ("constant", "zeros")
"""Kinds with equal elements: an operator with integer outputs may choose any of them."""
MAX_STRUCTURED_VALUES, STRUCTURE_SAMPLE_SIZE, MAX_FREE_ZERO_SHARE = 16, 4096, 1 / 64
"""A tensor has structure if it has at most this many distinct values, among this many sampled elements, or more than this share of zeros.
"""
CONSTANTS = (1.0, 2.0, 0.5, -1.0, -2.0)
"""Numbers with few mantissa bits: their sums are equal in any order."""
ONE_TOLERANCE = 1e-3


class DrawOptions(NamedTuple):
    """How far a kind of inputs may go."""

    is_extreme: bool
    allow_negative: bool
    """Also if the task's own inputs are never negative."""
    allow_negative_params: bool


DRAW_OPTIONS = (
    DrawOptions(True, True, True),
    DrawOptions(True, True, False),
    DrawOptions(False, True, False),
    DrawOptions(False, False, False),
)


def redraw_inputs(sample: Sample, kind: str, options: DrawOptions, seed: int) -> bool:
    """Replace the inputs of a sample in place by another kind, and vary constant parameters; return False if nothing can change."""
    import torch

    generator = make_generator(sample, seed)
    is_changed = False
    with torch.no_grad():
        for tensor in find_redrawable_inputs(sample):
            values = tensor.detach().double()
            if (
                drawn_values := draw_values(values, kind, classify_structure(values), options, generator, -1.0 if seed % 2 else 1.0)
            ) is not None:
                tensor.copy_(drawn_values)
                is_changed = True
        for tensor in find_constant_params(sample):
            tensor.copy_(vary_constant(tensor.detach().double(), options, generator))
            is_changed = True
    return is_changed


def make_generator(sample: Sample, seed: int) -> torch.Generator:
    """Return a generator on the device of a sample."""
    import torch

    tensors = [tensor for _, tensor in (*sample.inputs, *sample.params)]
    return torch.Generator(tensors[0].device if tensors else "cpu").manual_seed(seed)


def find_redrawable_inputs(sample: Sample) -> list[torch.Tensor]:
    """Return the floating-point inputs that share no memory with other tensors; complex ones as views of their real numbers."""
    import torch

    tensors = [tensor for _, tensor in (*sample.inputs, *sample.params)]
    storages = [tensor.untyped_storage().data_ptr() for tensor in tensors]
    return [
        torch.view_as_real(tensor) if tensor.is_complex() else tensor
        for _, tensor in sample.inputs
        if (tensor.is_floating_point() or tensor.is_complex())
        and tensor.numel() > 1
        and storages.count(tensor.untyped_storage().data_ptr()) == 1
        and all(step for step, size in zip(tensor.stride(), tensor.shape) if size > 1)
    ]


def find_constant_params(sample: Sample) -> list[torch.Tensor]:
    """Return parameters and buffers that are filled with one number, such as the weights and biases of a normalization."""
    module_tensors = {id(tensor) for tensor in (*sample.module.parameters(), *sample.module.buffers())}
    return [
        tensor
        for _, tensor in sample.params
        if id(tensor) in module_tensors and tensor.is_floating_point() and tensor.numel() and bool((tensor == tensor.flatten()[0]).all())
    ]


def vary_constant(values: torch.Tensor, options: DrawOptions, generator: torch.Generator) -> torch.Tensor:
    """Draw values around the number that fills a parameter; a single element keeps its sign and order of magnitude."""
    import torch

    if values.numel() == 1 or not options.allow_negative_params:
        factor = torch.rand(values.shape, generator=generator, dtype=values.dtype, device=values.device) + 0.5
        return values * factor if bool(values.any()) or values.numel() == 1 else factor - 0.5
    return values + 0.5 * torch.randn(values.shape, generator=generator, dtype=values.dtype, device=values.device)


def classify_structure(values: torch.Tensor) -> str:
    """Return `free`, `scaled` if only a common factor preserves the structure, or `fixed` if nothing may change."""
    import torch

    head = values.flatten()[:STRUCTURE_SAMPLE_SIZE]
    if (
        not bool(torch.isfinite(values).all())
        or (is_integral(head) and is_integral(values))
        or head.unique().numel() <= min(MAX_STRUCTURED_VALUES, head.numel() // 2)
    ):
        return "fixed"
    for axis in range(values.ndim):
        if values.shape[axis] > 1 and is_normalized(values, axis):
            return "fixed"
    if 1 - int(values.count_nonzero()) / values.numel() > MAX_FREE_ZERO_SHARE:
        return "scaled"
    if values.ndim > 1 and values.shape[-1] == values.shape[-2] > 1 and torch.equal(values, values.mT):
        return "scaled"
    return "scaled" if values.shape[-1] >= 8 and is_sorted(values[(0,) * (values.ndim - 1)]) and is_sorted(values) else "free"


def is_integral(values: torch.Tensor) -> bool:
    """Whether all values are integers."""
    return bool((values == values.round()).all())


def is_sorted(values: torch.Tensor) -> bool:
    """Whether the values never decrease along the last axis."""
    return bool((values.diff(dim=-1) >= 0).all())


def is_normalized(values: torch.Tensor, axis: int) -> bool:
    """Whether the vectors along an axis are probabilities or have unit length. The first vector is tested first and usually decides."""
    first = values.movedim(axis, -1)[(0,) * (values.ndim - 1)]
    if is_close_to_one(first.sum(-1), 2 * ONE_TOLERANCE) and is_close_to_one(values.sum(axis)):
        return True
    return is_close_to_one(first.square().sum(-1), 2 * ONE_TOLERANCE) and is_close_to_one(values.square().sum(axis))


def is_close_to_one(sums: torch.Tensor, tolerance: float = ONE_TOLERANCE) -> bool:
    """Whether all sums are close to one."""
    return bool(((sums - 1).abs() < tolerance).all())


def draw_values(
    values: torch.Tensor, kind: str, structure: str, options: DrawOptions, generator: torch.Generator, sign: float
) -> torch.Tensor | None:
    """Return new values for a tensor of a known structure, or None if it keeps its values."""
    import torch

    if structure == "fixed":
        return None
    if kind in ("wide", "tiny"):
        factor = (32.0 if options.is_extreme else 4.0) if kind == "wide" else (2.0**-9 if options.is_extreme else 2.0**-4)
        return values * factor
    if structure == "scaled":
        return None
    scale = float(values.square().mean().sqrt()) or 1.0

    def draw(function: Callable[..., torch.Tensor]) -> torch.Tensor:
        return function(values.shape, generator=generator, device=values.device)

    drawn_values = {
        "normal": lambda: draw(torch.randn) * scale,
        "uniform": lambda: (draw(torch.rand) * 2 - 1) * scale * 3**0.5,
        "heavy": lambda: values * (draw(torch.randn) * 1.5).exp(),
        "shifted": lambda: (
            scale * ((sign if options.allow_negative else 1.0) * (100.0 if options.is_extreme else 4.0) + 0.05 * draw(torch.randn))
        ),
        "constant": lambda: torch.full_like(values, CONSTANTS[draw_index(len(CONSTANTS), generator)]),
        "zeros": lambda: torch.zeros_like(values),
        "nonfinite": lambda: insert_nonfinite(values, generator),
    }[kind]()
    return drawn_values.abs() if not options.allow_negative and bool((values >= 0).all()) else drawn_values


def insert_nonfinite(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return a copy with a NaN, an infinity and a negative infinity at random places."""
    copy = values.clone()
    flat = copy.view(-1)
    for value in (float("nan"), float("inf"), float("-inf")):
        flat[draw_index(flat.numel(), generator)] = value
    return copy


def change_one_element(sample: Sample, seed: int) -> bool:
    """Change one element of one input in place; a kernel that inspects only a few elements takes the input for the same."""
    import torch

    generator = make_generator(sample, seed)
    tensors = [t for t in find_redrawable_inputs(sample) if classify_structure(t.detach().double()) == "free"]
    for tensor in sorted(tensors, key=lambda t: -t.numel())[:1]:
        at = tuple(draw_interior_index(size, generator) for size in tensor.shape)
        with torch.no_grad():
            largest = float(tensor.abs().max())
            tensor[at] = largest * 2 if bool((tensor >= 0).all()) or tensor[at] < 0 else -2 * largest
        return True
    integer_tensors = [
        t for _, t in sample.inputs if not t.is_floating_point() and t.dtype != torch.bool and t.numel() > 2 and t.is_contiguous()
    ]
    for tensor in integer_tensors[:1]:
        flat = tensor.view(-1)
        one, other = draw_interior_index(flat.numel(), generator), draw_interior_index(flat.numel(), generator)
        if bool((flat.diff() >= 0).all()) or flat[one] == flat[other]:
            return False
        flat[one] = flat[other].clone()
        return True
    return False


def draw_interior_index(size: int, generator: torch.Generator) -> int:
    """Return a random index that is neither first nor last, if the size allows."""
    return 1 + draw_index(size - 2, generator) if size > 2 else draw_index(size, generator)


def draw_index(size: int, generator: torch.Generator) -> int:
    """Return a random index below a size."""
    import torch

    return int(torch.randint(0, size, (), generator=generator, device=generator.device))
