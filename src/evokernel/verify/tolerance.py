"""How closely an output must be matched: measured on the reference itself, in its own precision against float64.

A kernel may err `kappa` times as much as the reference does in the same types, measured in (|truth| + root mean square). Sums in another
order stay far below that, fewer bits inside far above (docs/adr/0017-errors-are-measured-against-the-references-own.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from evokernel.core.errors import UserError
from evokernel.core.protocols import Array
from evokernel.core.records import Task
from evokernel.verify.compare import FLOATS, Edges, Expected, Rule, numbers, rms

if TYPE_CHECKING:
    from evokernel.reference.float64_reference import Oracle
    from evokernel.reference.module import Named, Reference, Sample

KAPPA, KAPPA_HALF, TERMS = 64.0, 4.0, 512
"""How many times the reference's error is allowed, for sums of up to so many terms; beyond, it grows as the root of their number."""
LEAST, LEAST_HALF = 0.25, 0.5
"""The reference's error counts as at least this part of the output type's epsilon: it may have been lucky."""
WORTHLESS, WORTHLESS_HALF = 0.01, 0.25
"""Where the reference itself errs by this much, inputs tell nothing."""
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
HALVES = ("float16", "bfloat16")
PAPER = Rule(atol=1e-2, rtol=1e-2, unit=1.0)
"""|got - reference| <= 0.01 + 0.01 |reference|, as in much that was published."""
MOVES = (1.0, 2.0, 4.0) * 8
"""By how many roundings inputs are moved to see where an operator jumps. Both sides of a quotient move, and seldom apart: six tries miss
one tie in fifty that may go either way."""
VANISHING = 1e-4
"""Inputs far from zero that make outputs so much smaller than usual show nothing but the tail of a function that levels off."""
NO_ORACLE = "a reference in float64: the tolerance is the task's own"


class Unsuited(Exception):
    """The operator is not made for inputs of this kind."""


class Tolerance:
    """The tolerances of one task under one protocol."""

    def __init__(self, task: Task, protocol: str) -> None:
        self.task, self.protocol = task, protocol
        self.is_half = any(t.dtype in HALVES for t in (*task.signature.inputs, *task.signature.params, *task.signature.outputs))
        self.shares: dict[str, list[float | None]] = {}
        """What was measured on a size's own inputs, output by output: holds for others of that kind."""
        self.usual: dict[str, list[float]] = {}
        """How large a size's outputs are on its own inputs."""
        self.without: str = ""

    def expected(self, reference: Reference, size: str, kind: str, sample: Sample) -> tuple[Expected, ...]:
        """The outputs of a sample with the tolerance they set. Raises Unsuited where they can tell nothing about a kernel."""
        try:
            named = reference.run(sample)
        except UserError:
            if kind == "own":
                raise
            raise Unsuited(kind) from None
        arrays = arrays_of(named)
        if self.protocol == "paper":
            return tuple(Expected(array, PAPER) for array in arrays)
        if kind not in ("own", "nonfinite") and not is_finite(arrays) and np.isfinite(self.usually(reference, size)).all():
            raise Unsuited(kind)
        if kind == "shifted" and vanishes(arrays, self.usually(reference, size)):
            raise Unsuited(kind)
        found = self.oracle(reference, kind, sample, named)
        rules = self.rules(reference, kind, sample, named, found)
        if kind == "own":
            self.shares.setdefault(size, [rule.share for rule in rules])
        truths = [None] * len(arrays) if found is None else truths_of(found, arrays)
        return tuple(
            Expected(array, rule, truth, Jumps(reference, sample, named), index)
            for index, (array, rule, truth) in enumerate(zip(arrays, rules, truths, strict=True))
        )

    def again(self, reference: Reference, size: str, sample: Sample) -> tuple[Expected, ...]:
        """The same, from what is known of the size, for a sample of the task's own kind: quick enough for every timed window."""
        named = reference.run(sample)
        arrays = arrays_of(named)
        if self.protocol == "paper":
            return tuple(Expected(array, PAPER) for array in arrays)
        shares = self.shares.get(size) or [None] * len(arrays)
        return tuple(
            Expected(
                array,
                self.rule(array, "own", None if share is None else share * (1 + 1 / KAPPA_HALF)),
                None,
                Jumps(reference, sample, named),
                index,
            )
            for index, (array, share) in enumerate(zip(arrays, shares, strict=True))
        )

    def usually(self, reference: Reference, size: str) -> list[float]:
        """How large outputs are on the task's own inputs; infinite where they are not numbers only."""
        if size not in self.usual:
            arrays = arrays_of(reference.run(reference.sample(1)))
            self.usual[size] = [size_of(array) if is_finite([array]) else float("inf") for array in arrays]
        return self.usual[size]

    def oracle(self, reference: Reference, kind: str, sample: Sample, named: tuple[Named, ...]) -> Oracle | None:
        """The reference in float64, where it is the same operator in it."""
        from evokernel.reference.float64_reference import oracle

        arrays = arrays_of(named)
        if "random" in self.task.tags or not any(array.dtype in FLOATS and array.dtype != "float64" for array in arrays):
            return None
        found = oracle(reference, sample, named)
        if found and all(same_kind(array, truth) for array, truth in zip(arrays, truths_of(found, arrays), strict=True)):
            return found
        if found and kind != "own":
            raise Unsuited(kind)
        self.without = NO_ORACLE
        return None

    def rules(self, reference: Reference, kind: str, sample: Sample, named: tuple[Named, ...], found: Oracle | None) -> list[Rule]:
        """One rule per output."""
        from evokernel.reference.float64_reference import moved

        arrays = arrays_of(named)

        kappa = KAPPA * max(1.0, sqrt((found.length if found else 1.0) / TERMS))
        worthless = WORTHLESS_HALF if self.is_half or (found is not None and found.halves) else WORTHLESS
        shaken = moved(reference, sample, named, sample.seed) if kind not in ("own", "nonfinite") else None
        others: Sequence[Array | None] = arrays_of(shaken) if shaken else [None] * len(arrays)
        truths = truths_of(found, arrays) if found else [None] * len(arrays)
        rules = []
        for array, truth, other in zip(arrays, truths, others, strict=True):
            if array.dtype not in FLOATS:
                rules.append(Rule(0.0, 0.0))
                continue
            error = native_error(array, truth, other)
            if kind != "own" and error > worthless:
                raise Unsuited(kind)
            share = kappa * max(error, LEAST * EPSILON[array.dtype])
            if array.dtype in HALVES or (found is not None and found.halves):
                share = KAPPA_HALF * max(error, LEAST_HALF * EPSILON[array.dtype])
            rules.append(self.rule(array, kind, share if truth is not None or kind != "own" else None))
        return rules

    def rule(self, array: Array, kind: str, share: float | None) -> Rule:
        """On a task's own inputs both count; on others, or where its author asked for more than is usual, the wider of the two."""
        from evokernel.reference.describe import default_tolerance

        usual = default_tolerance(self.task.signature) * (1 + 1e-9)
        is_wide = max(self.task.atol, self.task.rtol) > usual
        return Rule(self.task.atol, self.task.rtol, share, "most" if is_wide or kind != "own" else "least")


class Jumps:
    """Between which values the outputs of a sample lie when its inputs move by a rounding or a few: wider with every try, as long as
    somebody asks."""

    def __init__(self, reference: Reference, sample: Sample, usual: tuple[Named, ...]) -> None:
        self.reference, self.sample, self.usual = reference, sample, usual

    def __call__(self, index: int) -> Iterator[Edges]:
        from evokernel.reference.float64_reference import moved, oracle

        array = arrays_of(self.usual)[index]
        edges = Edges(*[numbers(array.data, array.dtype).astype(np.float64)] * 2)
        if exact := oracle(self.reference, self.sample, self.usual):
            edges = edges.widened(exact.outputs[index].tensor.double().numpy())
            yield edges
        for seed, steps in enumerate(MOVES):
            if found := moved(self.reference, self.sample, self.usual, seed, steps):
                array = arrays_of(found)[index]
                edges = edges.widened(numbers(array.data, array.dtype).astype(np.float64))
                yield edges


def arrays_of(named: tuple[Named, ...]) -> list[Array]:
    """Outputs as arrays."""
    from evokernel.reference.arrays import to_array

    return [to_array(name, tensor) for name, tensor in named]


def truths_of(found: Oracle, arrays: Sequence[Array]) -> list[np.ndarray | None]:
    """The floats of an oracle whose outputs are narrower than its own."""
    narrow = [array.dtype in FLOATS and array.dtype != "float64" for array in arrays]
    return [named.tensor.numpy() if wanted else None for named, wanted in zip(found.outputs, narrow, strict=True)]


def is_finite(arrays: Sequence[Array]) -> bool:
    """Whether all floating-point outputs are numbers."""
    return all(bool(np.isfinite(numbers(array.data, array.dtype)).all()) for array in arrays if array.dtype in FLOATS)


def size_of(array: Array) -> float:
    """Root mean square of an output."""
    return rms(numbers(array.data, array.dtype))


def vanishes(arrays: Sequence[Array], usual: Sequence[float]) -> bool:
    """Whether an output of floats all but vanishes beside what is usual."""
    return any(size_of(array) < VANISHING * size for array, size in zip(arrays, usual, strict=True) if array.dtype in FLOATS)


def same_kind(array: Array, truth: np.ndarray | None) -> bool:
    """Whether infinities and NaN are at the same places in both."""
    if truth is None:
        return True
    values = numbers(array.data, array.dtype)
    odd = ~np.isfinite(values)
    return bool((odd == ~np.isfinite(truth)).all() and np.array_equal(values[odd], truth[odd], equal_nan=True))


def native_error(array: Array, truth: np.ndarray | None, other: Array | None) -> float:
    """How far the reference is off in its own type, in (|truth| + rms); the few elements at which an operator may jump left out."""
    values = numbers(array.data, array.dtype).astype(np.float64)
    centre = values if truth is None else truth
    size = np.abs(centre) + rms(centre)
    errors = []
    with np.errstate(all="ignore"):
        if truth is not None:
            off = np.nan_to_num(np.abs(values - truth) / size, nan=0.0)
            errors.append(min(float(off.max(initial=0.0)), 4 * float(np.quantile(off, 0.99)) if off.size else 0.0))
        if other is not None:
            off = np.nan_to_num(np.abs(numbers(other.data, other.dtype) - values) / size, nan=0.0)
            errors.append(float(np.quantile(off, 0.9)) if off.size else 0.0)
    return max(errors, default=0.0)
