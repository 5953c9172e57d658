"""Loops with reductions or without: what is done for a row at a time, chunk by chunk, or for neighbouring rows side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects import Answers
from evokernel.generators.template_search.dialects.ascendc.common_decisions import extents, numbers, position, times, unravelled
from evokernel.generators.template_search.dialects.ascendc.emit import FOLDS, JOINS, LIBRARY, STARTS, Steps, Value, fold
from evokernel.generators.template_search.dialects.ascendc.operand_access import PER_BLOCK, TYPES, Read, leaves, reads_of
from evokernel.generators.template_search.forms import Form
from evokernel.generators.template_search.graph import Node, NoSketch, equal_shapes, reached, walk
from evokernel.generators.template_search.sketch import Described, free_numbers

SPLITS = 16
"""Passes that partial results have room for."""


@dataclass
class Part:
    """One pass over the loops, or what follows them."""

    steps: Steps
    reads: tuple[Read, ...]
    """Operands that come in tiles."""
    numbers: tuple[Read, ...]
    """Operands that are one number meanwhile."""
    before: list[str] = field(default_factory=list)
    name: str = ""
    start: str = ""
    join: str = ""
    mean: bool = False
    result: str = ""

    @property
    def lines(self) -> list[str]:
        return self.steps.lines


@dataclass(frozen=True)
class Needed:
    """Buffers that all passes together need."""

    temps: int
    needs: frozenset[str]


def needed(parts: Sequence[Part], ending: Part) -> Needed:
    """The most of each."""
    every = [p.steps for p in (*parts, ending)]
    return Needed(max(s.temps for s in every), frozenset().union(*(s.needs for s in every)))


class Nest:
    """The loops of a form, and its steps in each way of walking them."""

    def __init__(self, form: Form) -> None:
        self.form, self.reads, self.free = form, reads_of(form.operands), free_numbers(form.root)
        self.last = len(form.axes) - 1
        self.strided = bool(form.heavy) and not form.axes[self.last].reduced
        self.kept = [i for i, a in enumerate(form.axes) if not a.reduced and (i != self.last)]
        self.around = [i for i, a in enumerate(form.axes) if a.reduced and i != self.last]
        self.is_full = not form.heavy or equal_shapes(form.root.shape, form.heavy[0].args[0].shape)

    def given(self) -> dict[Node, Value]:
        return {r.node: r.value for r in self.reads}

    def split(self, *trees: Node, stops: Iterable[Node] = ()) -> tuple[tuple[Read, ...], tuple[Read, ...]]:
        """The operands some values need, those in tiles and those that are numbers."""
        used = set[Node]().union(*(reached(tree, set(stops)) for tree in trees))
        return tuple(r for r in self.reads if r.inner and r.node in used), tuple(r for r in self.reads if not r.inner and r.node in used)

    def program(self, d: Answers | Choice) -> Steps:
        """Everything that is done for one row: all reductions, and what follows them."""
        d = taken(d)
        roots = [*self.form.heavy, self.form.root] if d.get("keep") == "again" else [self.form.root]
        known, whole = self.given(), Steps({}, {}, d)
        for root in roots:
            steps = Steps(known, self.free, d)
            steps.scalars = whole.scalars
            steps.expect(root)
            if root == self.form.root and self.is_full:
                steps.into(root, "y")
            else:
                found = steps.value(root)
                known[root] = found
                whole.result = found.text
            whole.lines += steps.lines
            whole.temps, whole.needs, whole.scalars = max(whole.temps, steps.temps), whole.needs | steps.needs, steps.scalars
        return whole

    def passes(self, d: Answers | Choice) -> list[Part]:
        """Every reduction chunk by chunk."""
        d, rows, found = taken(d), dict[Node, Value](), list[Part]()
        counter = 0
        for i, node in enumerate(self.form.heavy):
            before, counter = self.joined(node.args[0], rows, d, counter)
            steps = Steps({**self.given(), **rows}, self.free, d)
            steps.scalars = counter
            steps.expect(node.args[0])
            text = steps.filled(steps.value(node.args[0]))
            steps.lines += fold(node.name, text, "part", "count", d.get("reduce", "level"))
            steps.needs |= {"one", "work", *before.needs}
            counter = steps.scalars
            reads, single = self.split(node.args[0], stops=rows)
            rows[node] = Value(f"r{i}", False)
            found.append(Part(steps, reads, single, before.lines, f"r{i}", STARTS[node.name],
                              JOINS[node.name].format(f"r{i}", "part"), node.name == "mean"))  # fmt: skip
        return found

    def ending(self, d: Answers | Choice) -> Part:
        """What follows all reductions, chunk by chunk or once."""
        d = taken(d)
        rows = {node: Value(f"r{i}", False) for i, node in enumerate(self.form.heavy)}
        counter = sum(len(p.before) + p.steps.scalars for p in self.passes(d))
        for node in self.form.heavy:
            # Names of what was joined for earlier passes are not used again.
            _, counter = self.joined(node.args[0], dict(rows), d, counter)
        before, counter = self.joined(self.form.root, rows, d, counter)
        steps = Steps({**self.given(), **rows}, self.free, d)
        steps.scalars = counter
        steps.needs |= before.needs
        steps.expect(self.form.root)
        reads, single = self.split(self.form.root, stops=rows)
        part = Part(steps, reads, single, before.lines)
        if self.is_full:
            steps.into(self.form.root, "y")
        else:
            part.result = steps.value(self.form.root).text
        return part

    def joined(self, tree: Node, rows: dict[Node, Value], d: Choice, counter: int) -> tuple[Steps, int]:
        """Steps on numbers alone, done once before a pass."""
        steps = Steps(rows, self.free, d)
        steps.scalars = counter
        for node in walk(tree):
            if node in rows or not node.is_elementwise or node.dtype == "bool":
                continue
            if all(a in rows or a.op == "const" for a in node.args) and any(a in rows for a in node.args):
                rows[node] = steps.value(node)
        return steps, steps.scalars

    def folds(self, d: Answers | Choice) -> list[Part]:
        """Every reduction over neighbouring rows side by side."""
        d, rows, found = taken(d), dict[Node, Value](), list[Part]()
        for i, node in enumerate(self.form.heavy):
            before = self.stored(node.args[0], rows, d)
            steps = Steps({**self.given(), **rows}, self.free, d)
            steps.expect(node.args[0])
            text = steps.filled(steps.value(node.args[0]))
            steps.say(f"{FOLDS[node.name]}(r{i}, r{i}, {text}, count);")
            steps.temps, steps.needs = max(steps.temps, before.temps), steps.needs | before.needs
            reads, single = self.split(node.args[0], stops=rows)
            rows[node] = Value(f"r{i}", True)
            found.append(Part(steps, reads, single, before.lines, f"r{i}", STARTS[node.name], "", node.name == "mean"))
        return found

    def finish(self, d: Answers | Choice) -> Part:
        """What follows them."""
        d, rows = taken(d), dict[Node, Value]()
        for i, node in enumerate(self.form.heavy):
            self.stored(node.args[0], rows, d)
            rows[node] = Value(f"r{i}", True)
        before = self.stored(self.form.root, rows, d) if self.is_full else Steps({}, {}, d)
        steps = Steps({**self.given(), **rows}, self.free, d)
        steps.expect(self.form.root)
        steps.into(self.form.root, "y")
        steps.temps, steps.needs = max(steps.temps, before.temps), steps.needs | before.needs
        reads, single = self.split(self.form.root, stops=rows)
        return Part(steps, reads, single, before.lines)

    def stored(self, tree: Node, rows: dict[Node, Value], d: Choice) -> Steps:
        """Steps on what is known of all rows, done once before a pass; what the pass needs of them lies in j0, j1 and so on."""
        inside = walk(tree)
        joins: set[Node] = set()
        for node in inside:
            if node in rows or not node.is_elementwise or node.dtype == "bool":
                continue
            if all(a in rows or a in joins or a.op == "const" for a in node.args) and any(a in rows or a in joins for a in node.args):
                joins.add(node)
        wanted = [n for n in inside if n in joins and (n == tree or any(n in m.args for m in inside if m not in joins and m not in rows))]
        steps = Steps(rows, self.free, d)
        for node in wanted:
            steps.expect(node)
        for node in wanted:
            name = f"j{sum(v.text.startswith('j') for v in rows.values())}"
            steps.into(node, name)
            rows[node] = steps.known[node] = Value(name, True)
        return steps

    def joins(self, d: Answers | Choice) -> list[str]:
        """The buffers of what is joined between passes."""
        d, rows = taken(d), dict[Node, Value]()
        for i, node in enumerate(self.form.heavy):
            self.stored(node.args[0], rows, d)
            rows[node] = Value(f"r{i}", True)
        if self.is_full:
            self.stored(self.form.root, rows, d)
        return [v.text for v in rows.values() if v.text.startswith("j")]


def taken(d: Answers | Choice) -> Choice:
    """Decisions as a plain table."""
    return d.taken if isinstance(d, Answers) else d


def nest(form: Form) -> Described:
    """A form as loops; raises NoSketch for what it does not cover."""
    if any(h.name not in FOLDS for h in form.heavy):
        raise NoSketch(f"a reduction by {form.heavy[0].name}")
    if form.heavy and not any(a.reduced for a in form.axes):
        raise NoSketch("a reduction over axes of extent one")
    if form.root.dtype not in TYPES or (form.root.dtype != "float32" and form.heavy):
        raise NoSketch(f"a {form.root.dtype} result")
    work = Nest(form)
    flat = not form.heavy and len(form.axes) <= 1
    has_rows = not flat and not work.strided and bool(work.kept) and not work.around
    single = bool(form.heavy) and not work.kept and not work.strided and not work.around and len(form.heavy) <= SPLITS
    if work.strided:
        checked: Sequence[Steps] = [*(p.steps for p in work.folds({})), work.finish({}).steps]
    else:
        checked = [work.program({}), *(p.steps for p in work.passes({})), work.ending({}).steps]
    T_out = TYPES[form.root.dtype]
    kinds = {T_out, *(r.T for r in work.reads)}
    align = 64 if any("bits" in s.needs for s in checked) else max(PER_BLOCK[T] for T in kinds)
    reduced = [i for i, a in enumerate(form.axes) if a.reduced]
    facts = {
        "reads": work.reads, "flat": flat, "strided": work.strided, "is_full": work.is_full, "last": work.last, "align": align,
        "total": times(range(len(form.axes))), "T_out": T_out, "out": "y" if T_out == "float" else "y_raw",
        "narrow": "uint8_t" in kinds,
        "rows": times(work.kept), "around": times(work.around), "reduced": times(reduced),
        "indices": unravelled(work.kept, "row"), "around_indices": unravelled(work.around, "k"),
        "out_at": out_position(work), "program": work.program, "passes_of": work.passes, "ending_of": work.ending, "needed": needed,
        "folds_of": work.folds, "finish_of": work.finish, "joins_of": work.joins, "partials": single,
    }  # fmt: skip
    return Described(
        (*leaves(work.reads), *extents(form.axes), *numbers(work.free)), facts, frozenset(traits(work, flat, has_rows, single))
    )


def out_position(work: Nest) -> str:
    """Where a row of the output starts."""
    outside = [i for i in range(work.last) if work.is_full or i in work.kept]
    return f"{position(outside)} * n{work.last}" if outside and (work.is_full or work.strided) else position(outside)


def traits(work: Nest, flat: bool, has_rows: bool, single: bool) -> set[str]:
    """What decisions depend on: those that make no difference do not arise."""

    def differs(name: str, *options: str) -> bool:
        texts = []
        for option in options:
            d: Mapping[str, str] = {name: option}
            if work.strided:
                parts = [*work.folds(d), work.finish(d)]
                texts.append([(p.before, p.lines, p.steps.temps) for p in parts])
            else:
                whole = work.program(d)
                texts.append([([], whole.lines, whole.temps)])
        return texts[0] != texts[1]

    nodes = walk(work.form.root)
    holds = {
        "flat": flat, "rows": has_rows, "single": single, "points": not work.is_full and not work.strided,
        "shared": has_rows and any(r.shared for r in work.reads),
        "tiled": has_rows and any(r.inner and not r.shared for r in work.reads),
        "reduce": bool(work.form.heavy) and not work.strided, "divide": differs("divide", "div", "reciprocal"),
        "tanh": any(n.op == "tanh" for n in nodes), "library": any(n.op in LIBRARY or n.op == "pow" for n in nodes)
        and differs("temps", "reuse", "inplace"),
        "temps": differs("temps", "reuse", "fresh"), "kept": has_rows and differs("keep", "kept", "again"),
    }  # fmt: skip
    return {name for name, there in holds.items() if there}
