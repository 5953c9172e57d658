"""Loops with reductions: which are kept and which are folded, what each pass over them computes, and how its operands are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from evokernel.generators.template_search.dialects.cpp.common_decisions import extents, numbers, position
from evokernel.generators.template_search.dialects.cpp.operand_access import (
    Argument,
    Call,
    Read,
    argument,
    called,
    leaves,
    precision,
    reads_of,
)
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import TRANSCENDENTAL, Node, NoSketch, Num, apply, equal_shapes, reached, rebuilt, walk
from evokernel.generators.template_search.sketch import Described, free_numbers

FOLDS = {"sum": "add", "mean": "add", "max": "max", "min": "min", "prod": "mul"}


@dataclass
class Pass:
    """One value per row: a reduction, or a step that joins such values (`scalar`)."""

    target: str
    kind: str
    f: Call
    fold: Call | None = None
    """What an element of it becomes when the next one is met; where neighbouring rows are folded side by side."""
    store: Call | None = None
    """The same, from elements that were written to the output."""
    kept: bool = False
    role: str = ""
    """First of two that one pass can do together: `softmax` or `moments`; `second` is the other."""
    other: Pass | None = None
    square: Call | None = None
    """Of moments: the square of what is averaged."""
    fold_square: Call | None = None
    turned: bool = False
    """Whether only the product with a reciprocal needs it."""
    group: int = 0
    """Reductions of one group do not need each other."""

    @property
    def reads(self) -> tuple[Read, ...]:
        """What the pass reads from memory, with what is done together with it."""
        calls = [self.f, self.square, self.other.f if self.other else None]
        return tuple(dict.fromkeys(r for call in calls if call for r in call.reads))


@dataclass
class Nest:
    """What is known while passes are laid out: values per row by name, and functions emitted so far."""

    reads: tuple[Read, ...]
    strided: bool
    """Whether the innermost loop is kept, so that values per row lie in arrays along it."""
    free: dict[Num, str]
    rows: dict[Node, Argument] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    known: dict[tuple[Node, tuple[Argument, ...]], Call] = field(default_factory=dict)

    def emit(self, tree: Node, **also: Node) -> Call:
        """A function for a tree and its call; `also` are values read through pointers of that name."""
        given = {node: Argument("full", name, "") for name, node in also.items()}
        used = reached(tree, {*self.rows, *given})
        args = {node: arg for node, arg in given.items() if node in used}
        args |= {r.node: argument(r) for r in self.reads if r.node in used}
        args |= {node: arg for node, arg in self.rows.items() if node in used}
        key = (tree, tuple(args.values()))
        if key not in self.known:
            text, self.known[key] = called(f"step{len(self.functions)}", tree, args, self.free)
            self.functions.append(text)
        return self.known[key]

    def add(self, node: Node, kind: str, f: Call, turned: bool = False) -> Pass:
        """A new value per row."""
        target = f"r{len(self.rows)}"
        self.rows[node] = Argument("full" if self.strided else "scalar", target, f"all_{target}[k]")
        self.passes.append(Pass(target, kind, f, turned=turned))
        return self.passes[-1]

    def join(self, tree: Node, turned: bool = False) -> None:
        """Steps that only join values per row are done once per row."""
        for node in walk(tree):
            if node in self.rows or not node.is_elementwise or node.dtype == "bool":
                continue
            if all(a in self.rows or a.op == "const" for a in node.args) and any(a in self.rows for a in node.args):
                self.add(node, "scalar", self.emit(node), turned)

    def reduction(self, node: Node) -> None:
        """One more reduction, after what it needs."""
        if node.name not in FOLDS:
            raise NoSketch(f"a reduction by {node.name}")
        x = node.args[0]
        self.join(x)
        f = self.emit(x)
        fold = self.fold(f"r{len(self.rows)}", node.name, x) if self.strided else None
        self.add(node, node.name, f).fold = fold

    def fold(self, target: str, kind: str, x: Node, **also: Node) -> Call:
        """What a running value becomes when an element is met."""
        running = Node("leaf", (), x.shape, "running")
        return self.emit(apply(FOLDS[kind], running, x), **{target: running}, **also)


def nest(form: Form) -> Described:
    """A form of reductions as passes over its loops."""
    if not form.axes:
        raise NoSketch("a reduction of a single element")
    last = len(form.axes) - 1
    work = Nest(reads_of(form.operands), not form.axes[last].reduced, free_numbers(form.root))
    for node in form.heavy:
        work.reduction(node)
    is_full = any(a.reduced for a in form.axes) and equal_shapes(form.root.shape, form.heavy[0].args[0].shape)
    traits = pair_up(work, form.heavy) or group(work, form.heavy)
    finals, more = results(work, form, is_full)
    traits |= more | {"strided" if work.strided else "inner"} | ({"math"} if form.uses_math else set())
    if all(a.reduced for a in form.axes):
        traits.add("whole")
    given = (*leaves(work.reads), *extents(form.axes), *numbers(work.free))
    return Described(
        given,
        {**shape(form, is_full), **listed(work), "finals": finals, "has_math": form.uses_math, **precision(form.root)},
        frozenset(traits),
    )


def shape(form: Form, is_full: bool) -> dict[str, object]:
    """The loops as text."""
    last = len(form.axes) - 1
    kept = [i for i, a in enumerate(form.axes) if not a.reduced]
    folded = [i for i, a in enumerate(form.axes) if a.reduced]
    inside, strided = [i for i in folded if i != last], last in kept
    outer = position([i for i in kept if i != last])
    at = position(list(range(last))) if is_full else outer
    return {
        "last": last, "strided": strided, "kept": kept, "folded": folded, "outside": [i for i in kept if i != last], "inside": inside,
        "is_full": is_full, "count": " * ".join(f"n{i}" for i in folded) or "1", "rows": " * ".join(f"n{i}" for i in kept) or "1",
        "row": position(kept), "flat": position(list(range(last + 1))),
        "at": (f"{at} * n{last}" if at != "0" else "0") if is_full or strided else at,
        "ordered": folded + kept if not strided else kept + folded,
    }  # fmt: skip


def listed(work: Nest) -> dict[str, object]:
    """The passes, grouped where they do not need each other."""
    groups: dict[int, list[Pass]] = {}
    for p in work.passes:
        groups.setdefault(p.group, []).append(p)
    return {
        "functions": work.functions, "passes": work.passes, "groups": groups,
        "places": any(r.inner and not r.kind for r in work.reads),
    }  # fmt: skip


def results(work: Nest, form: Form, is_full: bool) -> tuple[list[Call], set[str]]:
    """The last step, as it is and with products in place of quotients; then the same from elements kept in the output."""
    root, traits = form.root, set()
    for arg in root.args if root not in work.rows else ():
        work.join(arg)
    wanted: list[Node | None] = [None]
    kept = kept_of(form) if is_full and root.dtype == "float32" else None
    if kept is not None:
        traits.add("kept")
        wanted.append(kept)
        made = next(p for p, h in zip([p for p in work.passes if p.kind != "scalar"], form.heavy) if h.args[0] == kept)
        made.kept = True
        if work.strided:
            made.store = work.fold(made.target, made.kind, kept, dest=kept)
    turned = reciprocal(root, work) if is_full else root
    if turned != root:
        traits.add("divide")
        work.join(turned, turned=True)
    return [work.emit(tree, **({"dest": stored} if stored else {})) for stored in wanted for tree in (root, turned)], traits


def kept_of(form: Form) -> Node | None:
    """What is costly, reduced, and needed again for the result."""
    inside = walk(form.root)
    costly = (h.args[0] for h in form.heavy if not h.args[0].is_given and any(n.op in TRANSCENDENTAL for n in walk(h.args[0])))
    return next((x for x in costly if any(x in n.args for n in inside if n.op != "reduce")), None)


def pair_up(work: Nest, heavy: Sequence[Node]) -> set[str]:
    """Marks reductions that one pass can do together: maximum and sum of exponentials, mean and variance."""
    steps = [p for p in work.passes if p.kind != "scalar"]
    for (one, a), (two, b) in zip(zip(steps, heavy), list(zip(steps, heavy))[1:]):
        x = a.args[0]
        if a.name == "max" and b.name == "sum" and b.args[0] == apply("exp", apply("sub", x, a)):
            one.role, one.other, two.role = "softmax", two, "second"
            return {"softmax"}
        away = apply("sub", x, a)
        if a.name == "mean" and b.name in ("mean", "sum") and b.args[0] == apply("mul", away, away):
            one.role, one.other, two.role = "moments", two, "second"
            square = apply("mul", x, x)
            one.square = work.emit(square)
            if work.strided:
                one.fold_square = work.fold(two.target, "sum", square)
            return {"moments"}
    return set()


def group(work: Nest, heavy: Sequence[Node]) -> set[str]:
    """Finds neighbouring reductions that do not need each other."""
    number, members, left = 0, list[Node](), list(heavy)
    for p in work.passes:
        node = left.pop(0) if p.kind != "scalar" else None
        if node is None or not members or any(m in walk(node.args[0]) for m in members):
            number, members = number + 1, []
        members += [node] if node is not None else []
        p.group = number
    counted = [p.group for p in work.passes]
    return {"joint"} if len(set(counted)) < len(counted) else set()


def reciprocal(tree: Node, work: Nest) -> Node:
    """The same tree with divisions by a value per row turned into products."""
    new: dict[Node, Node] = {}
    for node in walk(tree):
        if node.op == "div" and node.args[1] in work.rows and node.args[0] not in work.rows and node.args[0].op != "const":
            new[node] = apply("mul", rebuilt(node.args[0], new), apply("div", 1.0, node.args[1]))
    return rebuilt(tree, {**new, **{n: n for n in work.rows}}) if new else tree
