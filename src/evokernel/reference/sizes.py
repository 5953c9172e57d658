"""Derives the size classes of a task: `bench` as given, `small` for checking, `held_out` with ragged sizes nobody has seen.

A change of a constant that breaks the operator (groups that no longer divide channels, a window larger than its image) shows as a
reference that raises or changes the number, rank or dtype of its tensors; such a change is not kept. Nothing here is random.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from evokernel.core.errors import UserError
from evokernel.core.records import Signature
from evokernel.reference.constants import constants, reached
from evokernel.reference.measure import glimpse
from evokernel.reference.module import Reference

ELEMENTS = 1 << 16
"""How many elements, all tensors together, a checking size should stay below."""
LARGE = 1 << 20
"""How many elements are too many to run a reference only to see whether a size works."""
FLOOR = 16
"""Constants up to this are hyper-parameters as often as sizes (a kernel, a stride, an axis) and are never scaled."""
CLASSES = ("small", "held_out")
Overrides = dict[str, int]


class Layout(NamedTuple):
    """What one size of a task looks like."""

    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[tuple[str, str, int], ...]
    """Role, dtype and rank of every tensor: what must not change with the size."""
    elements: int
    finite: bool | None
    """Whether all outputs are; None when only shapes are known."""


class Sizes(NamedTuple):
    """Overrides of the module's constants for each size class."""

    classes: dict[str, Overrides]
    fixed: bool
    """Whether no constant could be changed, so that all classes are the same."""


def sizes(source: str, name: str, bench: Layout) -> Sizes:
    """The size classes of a task file: those its `SIZES` declares, the others derived."""
    search = Search(source, name, bench)
    declared = search.declared()
    small = declared["small"] if "small" in declared else search.small()
    held_out = declared["held_out"] if "held_out" in declared else search.held_out(small)
    shapes = {probe.shapes for probe in (bench, search.probe(small), search.probe(held_out)) if probe}
    return Sizes({"bench": {}, "small": small, "held_out": held_out}, fixed=len(shapes) == 1)


def layout(signature: Signature, finite: bool | None) -> Layout:
    """The layout of what a signature describes."""
    roles = [("input", signature.inputs), ("param", signature.params), ("out", signature.outputs)]
    every = [(role, tensor) for role, tensors in roles for tensor in tensors]
    return Layout(
        shapes=tuple(tensor.shape for _, tensor in every),
        kinds=tuple((role, tensor.dtype, len(tensor.shape)) for role, tensor in every),
        elements=sum(math.prod(tensor.shape) for _, tensor in every),
        finite=finite,
    )


class Search:
    """Tries sizes of one task file by running its reference."""

    def __init__(self, source: str, name: str, bench: Layout) -> None:
        self.source, self.name, self.bench = source, name, bench
        tree = ast.parse(source)
        self.constants = constants(tree)
        self.inputs = reached(tree, "get_inputs")
        self.seen: dict[tuple[tuple[str, int], ...], Layout | None] = {(): bench}

    def probe(self, overrides: Mapping[str, int]) -> Layout | None:
        """The layout at a size; None when the task does not work there."""
        key = tuple(sorted((k, v) for k, v in overrides.items() if v != self.constants[k]))
        if key not in self.seen:
            try:
                found = self.run(overrides)
            except UserError:
                self.seen[key] = None
            else:
                same = found.kinds == self.bench.kinds and not (self.bench.finite and found.finite is False)
                self.seen[key] = found if same and all(n > 0 for shape in found.shapes for n in shape) else None
        return self.seen[key]

    def run(self, overrides: Mapping[str, int]) -> Layout:
        """The layout at a size, whatever it is; of a task with a large bench size in shapes only, where it stays large."""
        if self.bench.finite is None:
            try:
                found = layout(*glimpse(self.source, self.name, overrides, real=False))
            except UserError:  # it may need values
                found = None
            if found is not None and found.elements > LARGE:
                return found
        return layout(*glimpse(self.source, self.name, overrides, real=True))

    def declared(self) -> dict[str, Overrides]:
        """The module's own `SIZES`, checked."""
        given = Reference(self.source, self.name).namespace.get("SIZES", {})
        form = 'write SIZES = {"small": {"N": 64}, "held_out": {"N": 61}}'
        if not isinstance(given, dict) or not set(given) <= set(CLASSES):
            raise UserError(f"task file {self.name}: SIZES must map {' and '.join(CLASSES)} to constants; {form}")
        for label, overrides in given.items():
            if not isinstance(overrides, dict) or not all(type(value) is int for value in overrides.values()):
                raise UserError(f"task file {self.name}: SIZES['{label}'] must map names of constants to integers; {form}")
            if self.run(overrides).kinds != self.bench.kinds:
                raise UserError(f"task file {self.name}: SIZES['{label}'] changes the number, rank or dtype of tensors; change sizes only")
        return {label: dict(overrides) for label, overrides in given.items()}

    def small(self) -> Overrides:
        """The largest size within ELEMENTS and half of bench, else the smallest that works."""
        smallest: tuple[int, Overrides] = (self.bench.elements, {})
        limit = min(ELEMENTS, self.bench.elements // 2)
        every = [key for key, value in self.constants.items() if value > FLOOR]
        for scaled in (every, [key for key in every if key in self.inputs]):
            fitting: Overrides | None = None
            for overrides in self.scales(scaled):
                found = self.probe(overrides)
                if found is not None and found.elements <= limit:
                    fitting = overrides
                elif found is not None and fitting is not None:
                    break
                if found is not None and found.elements < smallest[0]:
                    smallest = (found.elements, overrides)
            if fitting is not None:
                return fitting
        alone = self.one_by_one(every)
        found = self.probe(alone)
        return alone if found is not None and found.elements < smallest[0] else smallest[1]

    def scales(self, keys: list[str]) -> Iterator[Overrides]:
        """All these constants divided by one power of two, the largest power first."""
        most = max((self.constants[key] // FLOOR for key in keys), default=1).bit_length() - 1
        for shift in range(most, 0, -1):
            yield {key: max(FLOOR, self.constants[key] >> shift) for key in keys}

    def one_by_one(self, keys: list[str]) -> Overrides:
        """Each constant as small as the others, already shrunk, allow; the largest first."""
        kept: Overrides = {}
        for key in sorted(keys, key=lambda k: -self.constants[k]):
            for overrides in self.scales([key]):
                if self.probe({**kept, **overrides}) is not None:
                    kept |= overrides
                    break
        return kept

    def held_out(self, small: Overrides) -> Overrides:
        """The small size with every constant that can be made odd or prime; bench made so when small cannot."""
        for start in (small, {}) if self.bench.finite is not None else (small,):
            found = self.ragged(start)
            layout = self.probe(found)
            if layout is not None and layout.shapes not in (self.bench.shapes, self.shapes(small)):
                return found
        return small

    def shapes(self, overrides: Overrides) -> tuple[tuple[int, ...], ...]:
        """Every tensor's shape at a size; none when it does not work."""
        found = self.probe(overrides)
        return found.shapes if found is not None else ()

    def ragged(self, start: Overrides) -> Overrides:
        """One constant after another moved to a nearby odd size; those that only work together are moved together."""
        now = {**self.constants, **start}
        loose = [key for key, value in self.constants.items() if (key in self.inputs and value > 1) or value > FLOOR]
        limit = max(2 * ELEMENTS, 4 * (self.probe(start) or self.bench).elements)
        kept = dict(start)
        stuck = []
        for i, key in enumerate(loose):
            moved = self.move(kept, [key], nearby(now[key], upwards=i % 2 == 0), limit)
            kept |= moved
            if not moved:
                stuck.append(key)
        for value in sorted({now[key] for key in stuck}):
            kept |= self.move(kept, [key for key in stuck if now[key] == value], nearby(value, upwards=True), limit)
        return kept

    def move(self, kept: Overrides, keys: list[str], values: list[int], limit: int) -> Overrides:
        """These constants at the first value that works and changes a shape; empty when there is none."""
        taken = set(kept.values())  # equal sizes hide mixed-up axes, so values not yet used come first
        for value in sorted(values, key=lambda v: v in taken):
            overrides = dict.fromkeys(keys, value)
            found = self.probe({**kept, **overrides})
            if found is not None and found.elements <= limit and found.shapes != self.shapes(kept):
                return overrides
        return {}


def nearby(value: int, upwards: bool) -> list[int]:
    """Ragged neighbours of a size: primes first, then odd multiples of what it is divisible by."""
    above = [n for n in range(value + 1, 4 * value + 4) if is_prime(n)][:2]
    below = [n for n in range(value - 1, 1, -1) if is_prime(n)][:1]
    primes = [above[0], *below, above[1]] if upwards else [*below, *above]
    parts = [value + value // part for part in (16, 8, 4, 2, 1) if value % part == 0]
    return list(dict.fromkeys(n for n in [*primes, value + 1, *parts, 3 * value] if n != value))


def is_prime(n: int) -> bool:
    """Whether only 1 and n divide n."""
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))
