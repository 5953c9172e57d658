"""Contractions: `einsum` as a product of matrices, a sum of products, or a product elementwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evokernel.generators.template_search.graph import Node, NoSketch, Num, apply, arithmetic, as_node, permute, reduce, reshape
from evokernel.generators.template_search.operators.compute_intensive import matmul


def einsum(equation: object, tensors: object, **named: object) -> Node:
    """Two tensors, or one whose axes are summed or reordered."""
    sides, out = str(equation).replace(" ", "").split("->")
    listed = [as_node(t) for t in tensors] if isinstance(tensors, tuple) else []
    terms = sides.split(",")
    if len(listed) not in (1, 2) or any(len(set(term)) != len(term) or "." in term for term in terms):
        raise NoSketch(f"einsum {equation}")
    own = [summed(node, term, "".join([out, *(t for t in terms if t is not term)])) for node, term in zip(listed, terms)]
    if len(own) == 1:
        return ordered(*own[0], out)
    (left, a), (right, b) = own
    inner = [c for c in a if c in b and c not in out]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    sizes = dict(zip(a + b, (*left.shape, *right.shape)))
    if not inner:
        return apply("mul", spread(left, a, out), spread(right, b, out))
    if not rows or not columns:
        whole = b if len(b) >= len(a) else a
        found = reduce("sum", apply("mul", spread(left, a, whole), spread(right, b, whole)), [Num.of(whole.index(c)) for c in inner])
        return ordered(found, "".join(c for c in whole if c not in inner), out)
    batch = [c for c in a if c in b and c in out]
    first = reshape(ordered(left, a, "".join(batch + rows + inner)), extents(sizes, batch, rows, inner))
    second = reshape(ordered(right, b, "".join(batch + inner + columns)), extents(sizes, batch, inner, columns))
    found = reshape(matmul(first, second), tuple(sizes[c] for c in batch + rows + columns))
    return ordered(found, "".join(batch + rows + columns), out)


def extents(sizes: Mapping[str, Num], batch: Sequence[str], *groups: Sequence[str]) -> tuple[Num, ...]:
    """Batch axes on their own, each group as one axis."""
    found = [sizes[c] for c in batch]
    for group in groups:
        total = Num.of(1)
        for c in group:
            total = arithmetic("mul", total, sizes[c])
        found.append(total)
    return tuple(found)


def summed(node: Node, letters: str, elsewhere: str) -> tuple[Node, str]:
    """Without the axes nobody else has."""
    gone = [i for i, c in enumerate(letters) if c not in elsewhere]
    if not gone:
        return node, letters
    return reduce("sum", node, [Num.of(i) for i in gone]), "".join(c for c in letters if c in elsewhere)


def ordered(node: Node, letters: str, wanted: str) -> Node:
    """Axes in another order."""
    if sorted(letters) != sorted(wanted):
        raise NoSketch(f"einsum of {letters} to {wanted}")
    return permute(node, tuple(letters.index(c) for c in wanted))


def spread(node: Node, letters: str, wanted: str) -> Node:
    """Axes in the order wanted, those it has not as one."""
    turned = ordered(node, letters, "".join(c for c in wanted if c in letters))
    sizes = dict(zip(letters, node.shape))
    return reshape(turned, tuple(sizes.get(c, Num.of(1)) for c in wanted))


TABLE: Mapping[str, Callable[..., object]] = {"einsum": einsum}
