"""Lowers `einsum` to a matrix product, a sum of products, or an elementwise product."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase

from evokernel.generators.template_search.graph import (
    Node,
    Num,
    UnsupportedPattern,
    apply,
    as_integer,
    as_node,
    calculate,
    permute,
    reduce,
    reshape,
)  # fmt: skip
from evokernel.generators.template_search.operators.compute_intensive import matmul


def einsum(equation: object, tensors: object, **named: object) -> Node:
    """The contraction of tensors, pair by pair, or one tensor with axes summed or reordered."""
    nodes = [as_node(t) for t in tensors] if isinstance(tensors, tuple) else []
    terms, out = parse_equation(str(equation), [len(node.shape) for node in nodes])
    if not nodes or any(len(set(term)) != len(term) for term in terms):
        raise UnsupportedPattern(f"einsum {equation}")
    while len(nodes) > 2:
        kept = "".join(c for c in dict.fromkeys(terms[0] + terms[1]) if any(c in term for term in (*terms[2:], out)))
        nodes[:2], terms[:2] = [contract(nodes[:2], terms[:2], kept)], [kept]
    return contract(nodes, terms, out)


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each tensor and of the result; dots stand for as many capital letters as a tensor has further axes."""
    sides, arrow, out = equation.replace(" ", "").partition("->")
    terms = sides.split(",")
    letters = [c for c in ascii_uppercase if c not in equation]
    counts = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks)]
    dots = "".join(letters[: max((n for n, term in zip(counts, terms) if "..." in term), default=0)])
    terms = [term.replace("...", dots[len(dots) - n :] if n else "") for term, n in zip(terms, counts)]
    if not arrow:
        every = "".join(terms)
        return terms, dots + "".join(sorted(c for c in set(every) if every.count(c) == 1 and c not in dots))
    return terms, out.replace("...", dots)


def contract(nodes: Sequence[Node], terms: Sequence[str], out: str) -> Node:
    """The contraction of one or two tensors."""
    reduced_terms = [sum_out_axes(node, term, "".join([out, *(t for t in terms if t is not term)])) for node, term in zip(nodes, terms)]
    if len(reduced_terms) == 1:
        return order_axes(*reduced_terms[0], out)
    (lhs, a), (rhs, b) = reduced_terms
    inner = [c for c in a if c in b and c not in out]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    sizes = dict(zip(a + b, (*lhs.shape, *rhs.shape)))
    if not inner:
        return apply("mul", align_axes(lhs, a, out), align_axes(rhs, b, out))
    if not rows or not columns:
        longer = b if len(b) >= len(a) else a
        product = reduce(
            "sum", apply("mul", align_axes(lhs, a, longer), align_axes(rhs, b, longer)), [Num.of(longer.index(c)) for c in inner]
        )
        return order_axes(product, "".join(c for c in longer if c not in inner), out)
    batch = [c for c in a if c in b and c in out]
    first = reshape(order_axes(lhs, a, "".join(batch + rows + inner)), merge_extents(sizes, batch, rows, inner))
    second = reshape(order_axes(rhs, b, "".join(batch + inner + columns)), merge_extents(sizes, batch, inner, columns))
    product = reshape(matmul(first, second), tuple(sizes[c] for c in batch + rows + columns))
    return order_axes(product, "".join(batch + rows + columns), out)


def tensordot(x: object, y: object, dims_x: object, dims_y: object) -> Node:
    """The contraction over some axes of each tensor."""
    lhs, rhs = as_node(x), as_node(y)
    a = list(ascii_lowercase[: len(lhs.shape)])
    b = list(ascii_uppercase[: len(rhs.shape)])
    for i, j in zip(*(dims if isinstance(dims, tuple) else (dims,) for dims in (dims_x, dims_y))):
        b[as_integer(j) % len(b)] = a[as_integer(i) % len(a)]
    out = [c for c in a if c not in b] + [c for c in b if c not in a]
    return contract([lhs, rhs], ["".join(a), "".join(b)], "".join(out))


def bilinear(x: object, y: object, weight: object, bias: object = None) -> Node:
    """x' W y for every row, with one W per output."""
    product = einsum("...i,oij,...j->...o", (x, weight, y))
    return product if bias is None else apply("add", product, bias)


def merge_extents(sizes: Mapping[str, Num], batch: Sequence[str], *groups: Sequence[str]) -> tuple[Num, ...]:
    """The batch extents, followed by one merged extent per group."""
    extents = [sizes[c] for c in batch]
    for group in groups:
        total = Num.of(1)
        for c in group:
            total = calculate("mul", total, sizes[c])
        extents.append(total)
    return tuple(extents)


def sum_out_axes(node: Node, letters: str, kept_letters: str) -> tuple[Node, str]:
    """A node summed over the axes that are in no other term and not in the output, with its remaining letters."""
    dropped_axes = [i for i, c in enumerate(letters) if c not in kept_letters]
    if not dropped_axes:
        return node, letters
    return reduce("sum", node, [Num.of(i) for i in dropped_axes]), "".join(c for c in letters if c in kept_letters)


def order_axes(node: Node, letters: str, target_letters: str) -> Node:
    """A node with its axes in the order of the target letters."""
    if sorted(letters) != sorted(target_letters):
        raise UnsupportedPattern(f"einsum of {letters} to {target_letters}")
    return permute(node, tuple(letters.index(c) for c in target_letters))


def align_axes(node: Node, letters: str, target_letters: str) -> Node:
    """A node with one axis per target letter: in that order, and with extent 1 for letters it does not have."""
    permuted_node = order_axes(node, letters, "".join(c for c in target_letters if c in letters))
    sizes = dict(zip(letters, node.shape))
    return reshape(permuted_node, tuple(sizes.get(c, Num.of(1)) for c in target_letters))


TABLE: Mapping[str, Callable[..., object]] = {"einsum": einsum, "tensordot": tensordot, "bilinear": bilinear}
