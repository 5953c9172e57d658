"""Elements brought into another order: axes exchanged, cut, reversed, stretched, or tensors one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects.cpp.common_decisions import ALIAS, INDEX, ORDER, SIMD, THREADS, is_by_rows
from evokernel.generators.template_search.forms import Form, product
from evokernel.generators.template_search.graph import Node, NoSketch, Num, aligned, arithmetic
from evokernel.generators.template_search.sketch import Described, Given, Sketch


@dataclass(frozen=True)
class Walk:
    """One axis of the result: which axes of the source it runs along, and how."""

    extent: Num
    source: tuple[int, ...] = ()
    """Neighbouring axes, none for one that is stretched."""
    start: str = ""
    step: str = ""
    """By how many elements of the axis; nothing for one."""
    is_whole: bool = True


def permuted(root: Node) -> list[Walk]:
    """Axes in another order."""
    return [Walk(n, (axis,)) for n, axis in zip(root.shape, root.dims)]


def expanded(root: Node) -> list[Walk]:
    """Axes of size one gone over without moving on."""
    full, behind = aligned(root.args[0].shape, len(root.shape)), len(root.shape) - len(root.args[0].shape)
    return [Walk(n, () if one.is_one else (i - behind,)) for i, (n, one) in enumerate(zip(root.shape, full))]


def cut(root: Node) -> list[Walk]:
    """Every so many elements from a start on."""
    step = "" if root.nums[1].is_one else "step"
    return [Walk(n, (i,), "start", step, False) if i in root.dims else Walk(n, (i,)) for i, n in enumerate(root.shape)]


def reversed_(root: Node) -> list[Walk]:
    """From the end."""
    return [Walk(n, (i,), f"(m{i} - 1)", "-1", False) if i in root.dims else Walk(n, (i,)) for i, n in enumerate(root.shape)]


WALKS: Mapping[str, Callable[[Node], list[Walk]]] = {"permute": permuted, "expand": expanded, "slice": cut, "flip": reversed_}


def merged(walks: list[Walk]) -> list[Walk]:
    """Neighbours that are neighbours in the source too, as one."""
    found: list[Walk] = []
    for walk in walks:
        before = found[-1] if found else None
        if walk.extent.is_one and walk.is_whole:
            continue
        if before and not before.source and not walk.source:
            found[-1] = Walk(arithmetic("mul", before.extent, walk.extent))
        elif before and before.source and walk.source and walk.is_whole and not before.step and walk.source[0] == before.source[-1] + 1:
            start = f"{before.start} * m{walk.source[0]}" if before.start else ""
            found[-1] = Walk(arithmetic("mul", before.extent, walk.extent), before.source + walk.source, start, "", before.is_whole)
        else:
            found.append(walk)
    return found


def describe(form: Form) -> Described:
    """The loops over the result with the stride of each in the source; or the widths of what is joined."""
    root = form.root
    if any(x.op != "leaf" or x.dtype != root.dtype for x in root.args):
        raise NoSketch("a rearrangement that also converts")
    if root.op == "cat":
        return joined(root)
    if root.op not in WALKS:
        raise NoSketch(f"a {root.op} kernel")
    x = root.args[0]
    walks = merged(WALKS[root.op](root)) or [Walk(Num.of(1), ())]
    strides, starts = [], []
    for walk in walks:
        stride = " * ".join(f"m{i}" for i in range(walk.source[-1] + 1, len(x.shape)) if not x.shape[i].is_one) if walk.source else "0"
        strides.append(" * ".join(part for part in (walk.step, stride) if part) or "1")
        starts += [" * ".join(part for part in (walk.start, stride) if part)] if walk.start else []
    given = [Given("x0", x), *(Given(f"m{i}", n) for i, n in enumerate(x.shape)), *(Given(f"n{i}", w.extent) for i, w in enumerate(walks))]
    if root.op == "slice":
        given += [Given("start", root.nums[0]), Given("step", root.nums[1])]
    last = len(walks) - 1
    near = next((i for i, stride in enumerate(strides) if stride == "1"), last)
    facts = {
        "strides": strides, "base": " + ".join(starts) or "0", "last": last, "near": near, "is_run": near == last, "parts": (),
        "outside": [i for i in range(last + 1) if i not in (near, last)], "runs": strides[last] == "1",
    }  # fmt: skip
    return Described(tuple(given), facts, frozenset({"run" if strides[last] == "1" else "turned" if near != last else "apart"}))


def joined(root: Node) -> Described:
    """Tensors one after the other along an axis."""
    axis = root.dims[0]
    outer = product(root.shape[:axis])
    widths = [product(x.shape[axis:]) for x in root.args]
    given = [Given(f"x{i}", x) for i, x in enumerate(root.args)] + [Given(f"w{i}", w) for i, w in enumerate(widths)] + [Given("n0", outer)]
    return Described(tuple(given), {"parts": tuple(range(len(widths)))}, frozenset({"run", "cat"}))


def is_looped(taken: Choice) -> bool:
    """Whether elements are copied one by one in memory order."""
    return is_by_rows(taken) and taken.get("algorithm") != "memcpy"


sketch = Sketch(
    decisions=(
        ORDER._replace(without="apart"),
        Decision("algorithm", ("memcpy", "loop"), is_by_rows, trait="run"),
        Decision("algorithm", ("plain", "tiled"), is_by_rows, trait="turned"),
        Decision("tile", ("8", "16", "32", "64"), one_of("algorithm", "tiled")),
        SIMD._replace(options=("auto", "omp"), when=is_looped),
        ALIAS,
        INDEX._replace(when=is_looped),
        THREADS,
    ),
    describe=describe,
)
