"""How numbers of a traced program follow from the extents of the kernel's arguments: the simplest expression that fits every size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial, reduce
from itertools import combinations, permutations
from math import log, prod

from evokernel.generators.template_search.graph import NoSketch, Num, Shape, arithmetic
from evokernel.reference.program import Program, Varied

FACTORS = range(1, 17)
SHIFTS = sorted(range(-40, 41), key=abs)


class Sizes:
    """The extents and scalars a kernel is given, and expressions of them."""

    def __init__(self, program: Program) -> None:
        self.sizes = program.sizes
        self.found: dict[tuple[float, ...], Num] = {}
        self.extents: list[Num] = []
        for argument in program.arguments:
            for axis, extent in enumerate(argument.shape):
                if isinstance(extent, Varied) and extent.at not in self.found:
                    number = Num(extent.at, "extent", name=argument.name, axis=axis)
                    self.found[extent.at] = number
                    self.extents.append(number)
        self.scalars: dict[tuple[float, ...], Num] = {}
        for name, value in program.scalars.items():
            at = value.at if isinstance(value, Varied) else (float(value),) * self.sizes
            number = Num(at, "scalar", name=name, integer=isinstance(value, int) or all(float(v).is_integer() for v in at))
            # Two scalars of one value cannot be told apart: then it is the number itself that counts.
            self.scalars[at] = Num.of(value) if at in self.scalars and not isinstance(value, Varied) else number

    def number(self, value: Varied | bool | int | float) -> Num:
        """A number of the program as an expression; a plain one is itself, or the scalar argument it can only come from."""
        if isinstance(value, Varied):
            if value.at not in self.found:
                self.found[value.at] = self.search(value.at)
            return self.found[value.at]
        if isinstance(value, float) and not float(value).is_integer():
            return self.scalars.get((value,) * self.sizes, Num.of(value))
        return Num.of(value if isinstance(value, (int, float)) else int(value))

    def learn(self, shape: Shape) -> None:
        """Takes over how extents come about where an operator knows, in place of what was guessed from their values."""
        for n in shape:
            if n.values in self.found and self.found[n.values].op != "extent":
                self.found[n.values] = n

    def search(self, at: tuple[float, ...]) -> Num:
        """The first candidate with these values at every size."""
        if all(v < 0 for v in at):
            return arithmetic("sub", Num.of(0), self.number(Varied(at=tuple(-v for v in at))))
        for candidate in self.candidates(at):
            if all(abs(a - b) <= 1e-9 * abs(b) for a, b in zip(candidate.values, at)):
                return Num(at, candidate.op, candidate.args, candidate.name, candidate.axis, candidate.integer)
        raise NoSketch("a number that depends on the size in a way not understood")

    def candidates(self, at: tuple[float, ...]) -> Iterator[Num]:
        """Expressions from simple to less simple."""
        yield from (number for values, number in self.scalars.items() if values == at)
        whole = all(float(v).is_integer() for v in at)
        products = [arithmetic("mul", a, b) for a, b in combinations(self.extents, 2)]
        products += [arithmetic("mul", a, a) for a in self.extents]
        triples = [arithmetic("mul", arithmetic("mul", a, b), c) for a, b, c in combinations(self.extents, 3)]
        # What an earlier step made of the extents may be what this one starts from, and so may scalars.
        made = [n for n in self.found.values() if n.op not in ("extent", "mul") and n.integer]
        given = [n for n in self.scalars.values() if n.integer and len(set(n.values)) > 1]
        if whole:
            for extent in (*self.extents, *products, *made, *triples):
                yield from affine(extent, at)
            atoms = [*self.extents, *given, *(n for n in self.found.values() if n.op != "extent" and n.integer)]
            yield from pairs(atoms, [*products, *triples], at)
        else:
            sums = [arithmetic("add", a, b) for a, b in combinations([*self.extents, *given], 2)]
            for extent in (*self.extents, *given, *products, *made, *triples, *sums):
                yield from fractions(extent, at)


def pairs(atoms: Sequence[Num], products: Sequence[Num], at: tuple[float, ...]) -> Iterator[Num]:
    """Quotients, products, sums and differences of two or three numbers."""
    for a, b in permutations(atoms, 2):
        if all(b.values) and a.values[0] // b.values[0] == at[0]:
            yield arithmetic("floordiv", a, b)
    for count in (2, 3):
        for few in combinations(atoms, count):
            if prod(n.values[0] for n in few) == at[0]:
                yield reduce(partial(arithmetic, "mul"), few)
    for a, b in combinations(atoms, 2):
        total = arithmetic("add", a, b)
        yield shifted(total, int(at[0] - total.values[0]))
    for a, b in permutations(atoms, 2):
        for factor in (1, 2):
            rest = arithmetic("sub", a, arithmetic("mul", b, Num.of(factor)))
            yield shifted(rest, int(at[0] - rest.values[0]))
    for a in products:
        for b in atoms:
            if all(b.values) and a.values[0] // b.values[0] == at[0]:
                yield arithmetic("floordiv", a, b)


def affine(extent: Num, at: tuple[float, ...]) -> Iterator[Num]:
    """extent * a + b and (extent + b) // a: what windows make of an extent."""
    first, other = extent.values[0], next((i for i, v in enumerate(extent.values) if v != extent.values[0]), None)
    if other is None:
        return
    slope = (at[other] - at[0]) / (extent.values[other] - first)
    if slope >= 1 and slope.is_integer():
        shift = at[0] - slope * first
        scaled = arithmetic("mul", extent, Num.of(int(slope)))
        yield shifted(scaled, int(shift))
    for factor in FACTORS[1:]:
        for shift in SHIFTS:
            if (first + shift) // factor == at[0]:
                yield arithmetic("floordiv", shifted(extent, shift), Num.of(factor))


def shifted(number: Num, by: int) -> Num:
    """A number plus an integer."""
    if by == 0:
        return number
    return arithmetic("add", number, Num.of(by)) if by > 0 else arithmetic("sub", number, Num.of(-by))


def fractions(extent: Num, at: tuple[float, ...]) -> Iterator[Num]:
    """Roots and reciprocals of an extent, as scales use them, times a constant."""
    if min(extent.values) <= 0:
        return
    for name, values in (
        ("rsqrt", tuple(v**-0.5 for v in extent.values)),
        ("sqrt", tuple(v**0.5 for v in extent.values)),
        ("reciprocal", tuple(1 / v for v in extent.values)),
    ):
        plain = Num(values, name, (extent,), integer=False)
        factor = at[0] / values[0]
        yield plain if abs(factor - 1) < 1e-12 else arithmetic("mul", plain, Num.of(float(factor)))
    roots = tuple(v**0.5 for v in extent.values)
    yield Num(tuple(v**0.5 for v in roots), "sqrt", (Num(roots, "sqrt", (extent,), integer=False),), integer=False)
    yield Num(tuple(v**-0.5 for v in roots), "rsqrt", (Num(roots, "sqrt", (extent,), integer=False),), integer=False)
    yield Num(tuple(log(v) for v in extent.values), "log", (extent,), integer=False)
    less = shifted(extent, -1)
    yield Num(tuple(1 / v if v else 0.0 for v in less.values), "reciprocal", (less,), integer=False)
    yield Num(tuple(a / b if b else 0.0 for a, b in zip(extent.values, less.values)), "div", (extent, less), integer=False)
