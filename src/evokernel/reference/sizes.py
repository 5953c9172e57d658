"""Derives the size classes of a task: `bench` as given, `small` for checking, `held_out` with ragged sizes that generators never see.

If a change of a constant breaks the operator (groups that no longer divide channels, a window larger than its image), the reference raises
or changes the number, rank or dtype of its tensors; such a change is discarded. The search is deterministic.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from evokernel.core.errors import UserError
from evokernel.core.records import Signature
from evokernel.reference.constants import constants_used_by, find_constants
from evokernel.reference.measure import probe_size
from evokernel.reference.module import Reference

MAX_CHECK_ELEMENTS = 1 << 16
"""Largest total number of elements of a checking size."""
MAX_RUN_ELEMENTS = 1 << 20
"""Largest total number of elements for which the reference is run to test a size."""
MAX_WHOLE_ELEMENTS, MAX_LAPTOP_ELEMENTS = 1 << 24, 1 << 23
"""Tasks with more elements than the first are not run whole in simulation; they get a further size with at most the second."""
MIN_SIZE = 16
"""Constants up to this value are never scaled: they are often hyper-parameters (a kernel size, a stride, an axis)."""
DECLARABLE_CLASSES = ("small", "held_out")
Overrides = dict[str, int]


class Layout(NamedTuple):
    """Shapes and kinds of all tensors of a task at one size."""

    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[tuple[str, str, int], ...]
    """Role, dtype and rank of every tensor; they must be equal at all sizes."""
    elements: int
    finite: bool | None
    """Whether all outputs are finite; None if only shapes are known."""


class SizeClasses(NamedTuple):
    """Values of the module's constants for each size class."""

    overrides: dict[str, Overrides]
    """Constants to override, by size class."""
    is_fixed: bool
    """Whether no constant could be changed, so that all classes are equal."""


def derive_size_classes(source: str, name: str, bench: Layout) -> SizeClasses:
    """Return the size classes of a task file: those declared in its `SIZES`, the others derived."""
    search = SizeSearch(source, name, bench)
    declared_sizes = search.read_declared()
    small = declared_sizes["small"] if "small" in declared_sizes else search.find_small()
    held_out = declared_sizes["held_out"] if "held_out" in declared_sizes else search.find_held_out(small)
    shapes = {probe.shapes for probe in (bench, search.probe(small), search.probe(held_out)) if probe}
    classes = {"bench": {}, "small": small, "held_out": held_out}
    if bench.elements > MAX_WHOLE_ELEMENTS and (laptop := search.find_fitting(MAX_LAPTOP_ELEMENTS)):
        classes["laptop"] = laptop
    return SizeClasses(classes, is_fixed=len(shapes) == 1)


def make_layout(signature: Signature, finite: bool | None) -> Layout:
    """Return the layout of a signature."""
    roles = [("input", signature.inputs), ("param", signature.params), ("out", signature.outputs)]
    every = [(role, tensor) for role, tensors in roles for tensor in tensors]
    return Layout(
        shapes=tuple(tensor.shape for _, tensor in every),
        kinds=tuple((role, tensor.dtype, len(tensor.shape)) for role, tensor in every),
        elements=sum(math.prod(tensor.shape) for _, tensor in every),
        finite=finite,
    )


class SizeSearch:
    """Searches for sizes at which the reference of one task file works, by running it."""

    def __init__(self, source: str, name: str, bench: Layout) -> None:
        self.source, self.name, self.bench = source, name, bench
        tree = ast.parse(source)
        self.constants = find_constants(tree)
        self.inputs = constants_used_by(tree, "get_inputs")
        self.layouts: dict[tuple[tuple[str, int], ...], Layout | None] = {(): bench}

    def probe(self, overrides: Mapping[str, int]) -> Layout | None:
        """Return the layout at a size; None if the task does not work at this size."""
        key = tuple(sorted((k, v) for k, v in overrides.items() if v != self.constants[k]))
        if key not in self.layouts:
            try:
                size_layout = self.run_at(overrides)
            except UserError:
                self.layouts[key] = None
            else:
                same = size_layout.kinds == self.bench.kinds and not (self.bench.finite and size_layout.finite is False)
                self.layouts[key] = size_layout if same and all(n > 0 for shape in size_layout.shapes for n in shape) else None
        return self.layouts[key]

    def run_at(self, overrides: Mapping[str, int]) -> Layout:
        """Return the layout at a size without checking it; for large sizes of a large task from shapes only."""
        if self.bench.finite is None:
            try:
                size_layout = make_layout(*probe_size(self.source, self.name, overrides, with_values=False))
            except UserError:  # the reference may need values
                size_layout = None
            if size_layout is not None and size_layout.elements > MAX_RUN_ELEMENTS:
                return size_layout
        return make_layout(*probe_size(self.source, self.name, overrides, with_values=True))

    def read_declared(self) -> dict[str, Overrides]:
        """Read and check the module's own `SIZES`."""
        sizes = Reference(self.source, self.name).namespace.get("SIZES", {})
        form = 'write SIZES = {"small": {"N": 64}, "held_out": {"N": 61}}'
        if not isinstance(sizes, dict) or not set(sizes) <= set(DECLARABLE_CLASSES):
            raise UserError(f"task file {self.name}: SIZES must map {' and '.join(DECLARABLE_CLASSES)} to constants; {form}")
        for label, overrides in sizes.items():
            if not isinstance(overrides, dict) or not all(type(value) is int for value in overrides.values()):
                raise UserError(f"task file {self.name}: SIZES['{label}'] must map names of constants to integers; {form}")
            if self.run_at(overrides).kinds != self.bench.kinds:
                raise UserError(f"task file {self.name}: SIZES['{label}'] changes the number, rank or dtype of tensors; change sizes only")
        return {label: dict(overrides) for label, overrides in sizes.items()}

    def find_small(self) -> Overrides:
        """Find the largest size within MAX_CHECK_ELEMENTS and half of bench, or else the smallest that works."""
        if fitting := self.find_fitting(min(MAX_CHECK_ELEMENTS, self.bench.elements // 2)):
            return fitting
        every = self.scalable_constants()
        candidates = [
            {},
            *(overrides for keys in self.key_choices() for overrides in self.scaled_overrides(keys)),
            self.shrink_one_by_one(every),
        ]
        layouts = [(layout.elements, number) for number, one in enumerate(candidates) if (layout := self.probe(one)) is not None]
        return candidates[min(layouts)[1]]

    def find_fitting(self, limit: int) -> Overrides | None:
        """Find the largest size with at most this many elements; None if none works."""
        for keys in self.key_choices():
            fitting: Overrides | None = None
            for overrides in self.scaled_overrides(keys):
                size_layout = self.probe(overrides)
                if size_layout is not None and size_layout.elements <= limit:
                    fitting = overrides
                elif size_layout is not None and fitting is not None:
                    break
            if fitting is not None:
                return fitting
        return None

    def scalable_constants(self) -> list[str]:
        """Return the constants that may be sizes."""
        return [key for key, value in self.constants.items() if value > MIN_SIZE]

    def key_choices(self) -> tuple[list[str], list[str]]:
        """Return the constants to scale together: all that may be sizes, or only those of the inputs."""
        every = self.scalable_constants()
        return every, [key for key in every if key in self.inputs]

    def scaled_overrides(self, keys: list[str]) -> Iterator[Overrides]:
        """Yield these constants divided by a common power of two, largest power first."""
        most = max((self.constants[key] // MIN_SIZE for key in keys), default=1).bit_length() - 1
        for shift in range(most, 0, -1):
            yield {key: max(MIN_SIZE, self.constants[key] >> shift) for key in keys}

    def shrink_one_by_one(self, keys: list[str]) -> Overrides:
        """Shrink each constant as far as the already shrunk ones allow, largest constant first."""
        shrunk_sizes: Overrides = {}
        for key in sorted(keys, key=lambda k: -self.constants[k]):
            for overrides in self.scaled_overrides([key]):
                if self.probe({**shrunk_sizes, **overrides}) is not None:
                    shrunk_sizes |= overrides
                    break
        return shrunk_sizes

    def find_held_out(self, small: Overrides) -> Overrides:
        """Find a size with odd or prime constants, derived from the small size, or from bench if that fails."""
        for start in (small, {}) if self.bench.finite is not None else (small,):
            overrides = self.make_ragged(start)
            layout = self.probe(overrides)
            if layout is not None and layout.shapes not in (self.bench.shapes, self.shapes_at(small)):
                return overrides
        return small

    def shapes_at(self, overrides: Overrides) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of all tensors at a size; empty if the size does not work."""
        size_layout = self.probe(overrides)
        return size_layout.shapes if size_layout is not None else ()

    def make_ragged(self, start: Overrides) -> Overrides:
        """Move one constant after another to a nearby odd value; equal constants that only work together move together."""
        now = {**self.constants, **start}
        loose = [key for key, value in self.constants.items() if (key in self.inputs and value > 1) or value > MIN_SIZE]
        limit = max(2 * MAX_CHECK_ELEMENTS, 4 * (self.probe(start) or self.bench).elements)
        overrides = dict(start)
        stuck = []
        for i, key in enumerate(loose):
            changes = self.try_values(overrides, [key], ragged_neighbours(now[key], upwards=i % 2 == 0), limit)
            overrides |= changes
            if not changes:
                stuck.append(key)
        for value in sorted({now[key] for key in stuck}):
            overrides |= self.try_values(
                overrides, [key for key in stuck if now[key] == value], ragged_neighbours(value, upwards=True), limit
            )
        return overrides

    def try_values(self, kept: Overrides, keys: list[str], values: list[int], limit: int) -> Overrides:
        """Return these constants at the first value that works and changes a shape; empty if there is none."""
        used_values = set(kept.values())  # equal sizes hide confused axes, so unused values come first
        for value in sorted(values, key=lambda v: v in used_values):
            overrides = dict.fromkeys(keys, value)
            size_layout = self.probe({**kept, **overrides})
            if size_layout is not None and size_layout.elements <= limit and size_layout.shapes != self.shapes_at(kept):
                return overrides
        return {}


def ragged_neighbours(value: int, upwards: bool) -> list[int]:
    """Return ragged values near a size: primes first, then odd multiples of its divisors."""
    above = [n for n in range(value + 1, 4 * value + 4) if is_prime(n)][:2]
    below = [n for n in range(value - 1, 1, -1) if is_prime(n)][:1]
    primes = [above[0], *below, above[1]] if upwards else [*below, *above]
    parts = [value + value // part for part in (16, 8, 4, 2, 1) if value % part == 0]
    return list(dict.fromkeys(n for n in [*primes, value + 1, *parts, 3 * value] if n != value))


def is_prime(n: int) -> bool:
    """Return whether n is a prime number."""
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))
