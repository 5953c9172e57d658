"""Programs over the last axes: reductions of a row, each of which may use the ones before, then one elementwise step per element."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from evokernel.generators.sweep.cpp.emit import function
from evokernel.generators.sweep.graph import TRANSCENDENTAL, Node, apply, walk
from evokernel.generators.sweep.match import Form


@dataclass
class Program:
    """What is known while a row program is laid out: row tensors, named row scalars, functions emitted so far."""

    full: tuple[Node, ...]
    along: tuple[Node, ...]
    scalars: dict[Node, str]
    parameters: str
    extra: str
    functions: list[str] = field(default_factory=list)

    def emit(self, tree: Node, stored: Node | None = None) -> dict[str, object]:
        """A function for `tree` and how it is called; `stored` is a subtree that is read back from the output row."""
        names: dict[Node, str] = {}
        called = []
        used = reached(tree, {*self.scalars, *([stored] if stored else [])})
        if stored is not None:
            names[stored] = "kept"
            called.append({"kind": "full", "name": "dest"})
        for x in (*self.full, *self.along):
            if x in used:
                names[x] = x.name
                called.append({"kind": "full", "name": f"row_{x.name}"})
        for node, name in self.scalars.items():
            if node in used:
                names[node] = name
                called.append({"kind": "scalar", "name": name})
        label = f"step{len(self.functions)}"
        self.functions.append(function(label, tree, names, self.parameters))
        return {"name": label, "args": called, "extra": self.extra}


def row_program(form: Form, parameters: str, extra: str) -> tuple[dict[str, object], set[str]]:
    """Facts and traits of a row program."""
    root, heavy, full, along = form.root, form.heavy, form.tensors, form.others
    rank = len(root.shape)
    first = rank - len(heavy[0].dims)
    program = Program(full, along, {}, parameters, extra)
    passes: list[dict[str, object]] = []
    for node in heavy:
        name_scalars(program, passes, node.args[0])
        f = program.emit(node.args[0])
        target = f"r{len(program.scalars)}"
        program.scalars[node] = target
        passes.append({"target": target, "kind": node.name, "f": f, "kept": False, "softmax": 0, "moments": 0})
    traits = pair_up(program, passes, heavy)
    name_scalars(program, passes, root)
    kept = next((h.args[0] for h in heavy if h.args[0] in walk(root) and any(n.op in TRANSCENDENTAL for n in walk(h.args[0]))), None)
    if kept is not None:
        traits.add("kept")
        next(p for p, h in zip([p for p in passes if p["kind"] != "scalar"], heavy) if h.args[0] == kept)["kept"] = True
    if (turned := reciprocal(root, program)) != root:
        traits.add("divide")
        name_scalars(program, passes, turned)
    finals = [program.emit(tree, stored) for stored in (None, kept) for tree in (root, turned)]
    x = full[0].name
    facts: dict[str, object] = {
        "functions": program.functions, "passes": passes, "finals": finals,
        "full": [x.name for x in full], "along": [x.name for x in along],
        "outer": " * ".join(f"{x}_shape[{i}]" for i in range(first)) or "1", "n": " * ".join(f"{x}_shape[{i}]" for i in range(first, rank)),
    }  # fmt: skip
    return facts, traits


def reached(tree: Node, stops: set[Node]) -> set[Node]:
    """The nodes a computation touches when some are given to it."""
    return {tree} if tree in stops else {tree}.union(*(reached(arg, stops) for arg in tree.args))


def name_scalars(program: Program, passes: list[dict[str, object]], tree: Node) -> None:
    """Steps that only join row scalars are done once per row."""
    for node in walk(tree):
        if node in program.scalars or not node.args or node.is_heavy:
            continue
        if all(a in program.scalars or a.op == "const" for a in node.args) and any(a in program.scalars for a in node.args):
            f = program.emit(node)
            target = f"r{len(program.scalars)}"
            program.scalars[node] = target
            passes.append({"target": target, "kind": "scalar", "f": f, "kept": False, "softmax": 0, "moments": 0})


def pair_up(program: Program, passes: list[dict[str, object]], heavy: tuple[Node, ...]) -> set[str]:
    """Marks reductions that one pass can do together: maximum and sum of exponentials, mean and variance."""
    steps = [p for p in passes if p["kind"] != "scalar"]
    for (one, a), (two, b) in zip(zip(steps, heavy), list(zip(steps, heavy))[1:]):
        x = a.args[0]
        if a.name == "max" and b.name == "sum" and b.args[0] == apply("exp", apply("sub", x, a)):
            one |= {"softmax": 1, "sum": two["target"], "next": two["f"]}
            two["softmax"] = 2
            return {"softmax"}
        away = apply("sub", x, a)
        if a.name == b.name == "mean" and b.args[0] == apply("mul", away, away):
            one |= {"moments": 1, "other": two["target"], "square": program.emit(apply("mul", x, x))}
            two["moments"] = 2
            return {"moments"}
    return set()


def reciprocal(tree: Node, program: Program) -> Node:
    """The same tree with divisions by a row scalar turned into products."""
    if not tree.args or tree in program.scalars:
        return tree
    args = tuple(reciprocal(a, program) for a in tree.args)
    if tree.op == "div" and args[1] in program.scalars and args[0] not in program.scalars and args[0].op != "const":
        return apply("mul", args[0], apply("div", 1.0, args[1]))
    return replace(tree, args=args)
