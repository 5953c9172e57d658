"""Expresses the numbers of a traced program by the extents of its arguments: the simplest expression that fits every traced size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial, reduce
from itertools import combinations, permutations
from math import log, prod

from evokernel.generators.template_search.graph import Num, Shape, UnsupportedPattern, calculate
from evokernel.reference.program import Program, SizeDependent

FACTORS = range(1, 17)
SHIFTS = sorted(range(-40, 41), key=abs)


class SizeExpressions:
    """The extents and scalar arguments of a kernel, and the expressions found for other numbers."""

    def __init__(self, program: Program) -> None:
        self.sizes = program.sizes
        self.expressions: dict[tuple[float, ...], Num] = {}
        self.extents: list[Num] = []
        for argument in program.arguments:
            for axis, extent in enumerate(argument.shape):
                if isinstance(extent, SizeDependent) and extent.values not in self.expressions:
                    number = Num(extent.values, "extent", name=argument.name, axis=axis)
                    self.expressions[extent.values] = number
                    self.extents.append(number)
        self.scalars: dict[tuple[float, ...], Num] = {}
        for name, value in program.scalars.items():
            at = value.values if isinstance(value, SizeDependent) else (float(value),) * self.sizes
            number = Num(at, "scalar", name=name, is_integer=isinstance(value, int) or all(float(v).is_integer() for v in at))
            # Two scalars with the same value are indistinguishable: then the number is used as a literal.
            self.scalars[at] = Num.of(value) if at in self.scalars and not isinstance(value, SizeDependent) else number

    def express(self, value: SizeDependent | bool | int | float) -> Num:
        """A number of the program as an expression; a constant is a literal, or the scalar argument that has its value."""
        if isinstance(value, SizeDependent):
            if value.values not in self.expressions:
                self.expressions[value.values] = self.find_expression(value.values)
            return self.expressions[value.values]
        if isinstance(value, float) and not float(value).is_integer():
            return self.scalars.get((value,) * self.sizes, Num.of(value))
        return Num.of(value if isinstance(value, (int, float)) else int(value))

    def record_shape(self, shape: Shape) -> None:
        """Records the exact expressions of a shape's extents, which replace expressions guessed from values."""
        for n in shape:
            if n.values in self.expressions and self.expressions[n.values].op != "extent":
                self.expressions[n.values] = n

    def find_expression(self, at: tuple[float, ...]) -> Num:
        """The first candidate with these values at every size."""
        if all(v < 0 for v in at):
            return calculate("sub", Num.of(0), self.express(SizeDependent(values=tuple(-v for v in at))))
        for candidate in self.candidate_expressions(at):
            if all(abs(a - b) <= 1e-9 * abs(b) for a, b in zip(candidate.values, at)):
                return Num(at, candidate.op, candidate.args, candidate.name, candidate.axis, candidate.is_integer)
        raise UnsupportedPattern("a number whose dependence on the sizes is unknown")

    def candidate_expressions(self, at: tuple[float, ...]) -> Iterator[Num]:
        """Candidate expressions, simple ones first."""
        yield from (number for values, number in self.scalars.items() if values == at)
        is_integer = all(float(v).is_integer() for v in at)
        products = [calculate("mul", a, b) for a, b in combinations(self.extents, 2)]
        products += [calculate("mul", a, a) for a in self.extents]
        triples = [calculate("mul", calculate("mul", a, b), c) for a, b, c in combinations(self.extents, 3)]
        # Numbers of earlier steps, and scalars, may be part of the expression.
        earlier = [n for n in self.expressions.values() if n.op not in ("extent", "mul") and n.is_integer]
        size_scalars = [n for n in self.scalars.values() if n.is_integer and len(set(n.values)) > 1]
        if is_integer:
            for extent in (*self.extents, *products, *earlier, *triples):
                yield from affine_expressions(extent, at)
            atoms = [*self.extents, *size_scalars, *(n for n in self.expressions.values() if n.op != "extent" and n.is_integer)]
            yield from pair_expressions(atoms, [*products, *triples], at)
        else:
            sums = [calculate("add", a, b) for a, b in combinations([*self.extents, *size_scalars], 2)]
            for extent in (*self.extents, *size_scalars, *products, *earlier, *triples, *sums):
                yield from scale_expressions(extent, at)


def pair_expressions(atoms: Sequence[Num], products: Sequence[Num], at: tuple[float, ...]) -> Iterator[Num]:
    """Quotients, products, sums and differences of two or three numbers that give the value at the first size."""
    for a, b in permutations(atoms, 2):
        if all(b.values) and a.values[0] // b.values[0] == at[0]:
            yield calculate("floordiv", a, b)
    for count in (2, 3):
        for few in combinations(atoms, count):
            if prod(n.values[0] for n in few) == at[0]:
                yield reduce(partial(calculate, "mul"), few)
    for a, b in combinations(atoms, 2):
        total = calculate("add", a, b)
        yield add_integer(total, int(at[0] - total.values[0]))
    for a, b in permutations(atoms, 2):
        for factor in (1, 2):
            rest = calculate("sub", a, calculate("mul", b, Num.of(factor)))
            yield add_integer(rest, int(at[0] - rest.values[0]))
    for a in products:
        for b in atoms:
            if all(b.values) and a.values[0] // b.values[0] == at[0]:
                yield calculate("floordiv", a, b)


def affine_expressions(extent: Num, at: tuple[float, ...]) -> Iterator[Num]:
    """extent * a + b and (extent + b) // a: output extents of convolutions and poolings."""
    first, other = extent.values[0], next((i for i, v in enumerate(extent.values) if v != extent.values[0]), None)
    if other is None:
        return
    slope = (at[other] - at[0]) / (extent.values[other] - first)
    if slope >= 1 and slope.is_integer():
        shift = at[0] - slope * first
        multiple = calculate("mul", extent, Num.of(int(slope)))
        yield add_integer(multiple, int(shift))
    for factor in FACTORS[1:]:
        for shift in SHIFTS:
            if (first + shift) // factor == at[0]:
                yield calculate("floordiv", add_integer(extent, shift), Num.of(factor))


def add_integer(number: Num, by: int) -> Num:
    """A number plus an integer."""
    if by == 0:
        return number
    return calculate("add", number, Num.of(by)) if by > 0 else calculate("sub", number, Num.of(-by))


def scale_expressions(extent: Num, at: tuple[float, ...]) -> Iterator[Num]:
    """Roots, reciprocals and logarithms of an extent, as scale factors use them, times a constant."""
    if min(extent.values) <= 0:
        return
    for name, values in (
        ("rsqrt", tuple(v**-0.5 for v in extent.values)),
        ("sqrt", tuple(v**0.5 for v in extent.values)),
        ("reciprocal", tuple(1 / v for v in extent.values)),
    ):
        plain = Num(values, name, (extent,), is_integer=False)
        factor = at[0] / values[0]
        yield plain if abs(factor - 1) < 1e-12 else calculate("mul", plain, Num.of(float(factor)))
    roots = tuple(v**0.5 for v in extent.values)
    yield Num(tuple(v**0.5 for v in roots), "sqrt", (Num(roots, "sqrt", (extent,), is_integer=False),), is_integer=False)
    yield Num(tuple(v**-0.5 for v in roots), "rsqrt", (Num(roots, "sqrt", (extent,), is_integer=False),), is_integer=False)
    yield Num(tuple(log(v) for v in extent.values), "log", (extent,), is_integer=False)
    less = add_integer(extent, -1)
    yield Num(tuple(1 / v if v else 0.0 for v in less.values), "reciprocal", (less,), is_integer=False)
    yield Num(tuple(a / b if b else 0.0 for a, b in zip(extent.values, less.values)), "div", (extent, less), is_integer=False)
