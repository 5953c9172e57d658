"""Loop nests with reductions: the passes over the loops, the functions they call, and how they read their operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from evokernel.generators.template_search.dialects.cpp.operand_access import (
    CallArgument,
    FunctionCall,
    OperandRead,
    emit_call,
    make_argument,
    plan_reads,
    precision_variables,
    tensor_arguments,
)
from evokernel.generators.template_search.dialects.loop_text import extent_arguments, flat_index, number_arguments
from evokernel.generators.template_search.graph import (
    TRANSCENDENTAL,
    Node,
    Num,
    UnsupportedPattern,
    apply,
    is_same_shape,
    reachable_nodes,
    replace_nodes,
    walk,
)
from evokernel.generators.template_search.kernel_template import PatternDescription, name_free_numbers
from evokernel.generators.template_search.patterns import KernelPattern

FOLDS = {"sum": "add", "mean": "add", "max": "max", "min": "min", "prod": "mul"}


@dataclass
class Pass:
    """A pass that computes one value per row: a reduction, or a step that combines such values (`scalar`)."""

    target: str
    kind: str
    f: FunctionCall
    fold: FunctionCall | None = None
    """The running value after the next element, if neighbouring rows are reduced together."""
    store: FunctionCall | None = None
    """The same, for elements that were written to the output."""
    is_kept: bool = False
    role: str = ""
    """`softmax` or `moments` for the first of two reductions that one pass can combine, `second` for the other."""
    other: Pass | None = None
    square: FunctionCall | None = None
    """Of moments: the square of the averaged value."""
    fold_square: FunctionCall | None = None
    is_reciprocal: bool = False
    """Whether only the variant with reciprocals needs it."""
    group: int = 0
    """Reductions of one group are independent of each other."""

    @property
    def reads(self) -> tuple[OperandRead, ...]:
        """The operands of the pass and of the reduction combined with it."""
        calls = [self.f, self.square, self.other.f if self.other else None]
        return tuple(dict.fromkeys(r for call in calls if call for r in call.reads))


@dataclass
class Nest:
    """The state while passes are planned: names of values per row, and functions emitted so far."""

    reads: tuple[OperandRead, ...]
    strided: bool
    """Whether the innermost loop is not reduced, so that values per row are arrays along it."""
    free: dict[Num, str]
    rows: dict[Node, CallArgument] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    calls: dict[tuple[Node, tuple[CallArgument, ...]], FunctionCall] = field(default_factory=dict)

    def emit_function(self, tree: Node, **also: Node) -> FunctionCall:
        """Emits a function for a tree and returns its call; `also` names values that are read through pointers."""
        arguments = {node: CallArgument("full", name, "") for name, node in also.items()}
        used_nodes = reachable_nodes(tree, {*self.rows, *arguments})
        args = {node: arg for node, arg in arguments.items() if node in used_nodes}
        args |= {r.node: make_argument(r) for r in self.reads if r.node in used_nodes}
        args |= {node: arg for node, arg in self.rows.items() if node in used_nodes}
        key = (tree, tuple(args.values()))
        if key not in self.calls:
            text, self.calls[key] = emit_call(f"step{len(self.functions)}", tree, args, self.free)
            self.functions.append(text)
        return self.calls[key]

    def add_pass(self, node: Node, kind: str, f: FunctionCall, is_reciprocal: bool = False) -> Pass:
        """Adds a pass that computes a value per row."""
        target = f"r{len(self.rows)}"
        self.rows[node] = CallArgument("full" if self.strided else "scalar", target, f"all_{target}[k]")
        self.passes.append(Pass(target, kind, f, is_reciprocal=is_reciprocal))
        return self.passes[-1]

    def add_scalar_steps(self, tree: Node, is_reciprocal: bool = False) -> None:
        """Adds `scalar` passes for steps that only combine values per row."""
        for node in walk(tree):
            if node in self.rows or not node.is_elementwise or node.dtype == "bool":
                continue
            if all(a in self.rows or a.op == "const" for a in node.args) and any(a in self.rows for a in node.args):
                self.add_pass(node, "scalar", self.emit_function(node), is_reciprocal)

    def add_reduction(self, node: Node) -> None:
        """Adds a pass for a reduction, after the values it needs."""
        if node.name not in FOLDS:
            raise UnsupportedPattern(f"a reduction by {node.name}")
        x = node.args[0]
        self.add_scalar_steps(x)
        f = self.emit_function(x)
        fold = self.emit_fold(f"r{len(self.rows)}", node.name, x) if self.strided else None
        self.add_pass(node, node.name, f).fold = fold

    def emit_fold(self, target: str, kind: str, x: Node, **also: Node) -> FunctionCall:
        """Emits the update of a running value by an element."""
        running = Node("leaf", (), x.shape, "running")
        return self.emit_function(apply(FOLDS[kind], running, x), **{target: running}, **also)


def describe_nest(pattern: KernelPattern) -> PatternDescription:
    """Describes a pattern with reductions as passes over its loops."""
    if not pattern.axes:
        raise UnsupportedPattern("a reduction of a single element")
    last = len(pattern.axes) - 1
    work = Nest(plan_reads(pattern.operands), not pattern.axes[last].is_reduced, name_free_numbers(pattern.root))
    for node in pattern.main_nodes:
        work.add_reduction(node)
    is_full = any(a.is_reduced for a in pattern.axes) and is_same_shape(pattern.root.shape, pattern.main_nodes[0].args[0].shape)
    traits = pair_reductions(work, pattern.main_nodes) or group_passes(work, pattern.main_nodes)
    finals, more = emit_results(work, pattern, is_full)
    traits |= more | {"strided" if work.strided else "inner"} | ({"math"} if pattern.uses_math else set())
    if all(a.is_reduced for a in pattern.axes):
        traits.add("whole")
    arguments = (*tensor_arguments(work.reads), *extent_arguments(pattern.axes), *number_arguments(work.free))
    return PatternDescription(
        arguments,
        {
            **loop_variables(pattern, is_full),
            **pass_variables(work),
            "finals": finals,
            "has_math": pattern.uses_math,
            **precision_variables(pattern.root),
        },
        frozenset(traits),
    )


def loop_variables(pattern: KernelPattern, is_full: bool) -> dict[str, object]:
    """The loops as template variables."""
    last = len(pattern.axes) - 1
    kept_loops = [i for i, a in enumerate(pattern.axes) if not a.is_reduced]
    reduced_loops = [i for i, a in enumerate(pattern.axes) if a.is_reduced]
    inside, is_strided = [i for i in reduced_loops if i != last], last in kept_loops
    outer = flat_index([i for i in kept_loops if i != last])
    at = flat_index(list(range(last))) if is_full else outer
    return {
        "last": last, "strided": is_strided, "kept": kept_loops, "folded": reduced_loops, "outside": [i for i in kept_loops if i != last],
        "inside": inside,
        "is_full": is_full, "count": " * ".join(f"n{i}" for i in reduced_loops) or "1",
        "rows": " * ".join(f"n{i}" for i in kept_loops) or "1",
        "row": flat_index(kept_loops), "flat": flat_index(list(range(last + 1))),
        "at": (f"{at} * n{last}" if at != "0" else "0") if is_full or is_strided else at,
        "ordered": reduced_loops + kept_loops if not is_strided else kept_loops + reduced_loops,
    }  # fmt: skip


def pass_variables(work: Nest) -> dict[str, object]:
    """The passes as template variables, grouped if they are independent of each other."""
    groups: dict[int, list[Pass]] = {}
    for p in work.passes:
        groups.setdefault(p.group, []).append(p)
    return {
        "functions": work.functions, "passes": work.passes, "groups": groups,
        "places": any(r.inner and not r.kind for r in work.reads),
    }  # fmt: skip


def emit_results(work: Nest, pattern: KernelPattern, is_full: bool) -> tuple[list[FunctionCall], set[str]]:
    """The calls for the final step: as written and with reciprocals; then the same two for elements stored in the output."""
    root, traits = pattern.root, set()
    for arg in root.args if root not in work.rows else ():
        work.add_scalar_steps(arg)
    stored_nodes: list[Node | None] = [None]
    reusable = find_reusable_node(pattern) if is_full and root.dtype == "float32" else None
    if reusable is not None:
        traits.add("kept")
        stored_nodes.append(reusable)
        keeping_pass = next(p for p, h in zip([p for p in work.passes if p.kind != "scalar"], pattern.main_nodes) if h.args[0] == reusable)
        keeping_pass.is_kept = True
        if work.strided:
            keeping_pass.store = work.emit_fold(keeping_pass.target, keeping_pass.kind, reusable, dest=reusable)
    with_products = use_reciprocals(root, work) if is_full else root
    if with_products != root:
        traits.add("divide")
        work.add_scalar_steps(with_products, is_reciprocal=True)
    return [
        work.emit_function(tree, **({"dest": stored_node} if stored_node else {}))
        for stored_node in stored_nodes
        for tree in (root, with_products)
    ], traits


def find_reusable_node(pattern: KernelPattern) -> Node | None:
    """An expensive value that is reduced and that the result needs again, or None."""
    inside = walk(pattern.root)
    costly = (h.args[0] for h in pattern.main_nodes if not h.args[0].is_input and any(n.op in TRANSCENDENTAL for n in walk(h.args[0])))
    return next((x for x in costly if any(x in n.args for n in inside if n.op != "reduce")), None)


def pair_reductions(work: Nest, main: Sequence[Node]) -> set[str]:
    """Marks two reductions that one pass can combine: maximum and sum of exponentials, or mean and variance."""
    steps = [p for p in work.passes if p.kind != "scalar"]
    for (one, a), (two, b) in zip(zip(steps, main), list(zip(steps, main))[1:]):
        x = a.args[0]
        if a.name == "max" and b.name == "sum" and b.args[0] == apply("exp", apply("sub", x, a)):
            one.role, one.other, two.role = "softmax", two, "second"
            return {"softmax"}
        away = apply("sub", x, a)
        if a.name == "mean" and b.name in ("mean", "sum") and b.args[0] == apply("mul", away, away):
            one.role, one.other, two.role = "moments", two, "second"
            square = apply("mul", x, x)
            one.square = work.emit_function(square)
            if work.strided:
                one.fold_square = work.emit_fold(two.target, "sum", square)
            return {"moments"}
    return set()


def group_passes(work: Nest, main: Sequence[Node]) -> set[str]:
    """Assigns the same group to neighbouring reductions that are independent of each other."""
    number, members, remaining = 0, list[Node](), list(main)
    for p in work.passes:
        node = remaining.pop(0) if p.kind != "scalar" else None
        if node is None or not members or any(m in walk(node.args[0]) for m in members):
            number, members = number + 1, []
        members += [node] if node is not None else []
        p.group = number
    groups = [p.group for p in work.passes]
    return {"joint"} if len(set(groups)) < len(groups) else set()


def use_reciprocals(tree: Node, work: Nest) -> Node:
    """The same tree with divisions by a value per row replaced by multiplications."""
    new: dict[Node, Node] = {}
    for node in walk(tree):
        if node.op == "div" and node.args[1] in work.rows and node.args[0] not in work.rows and node.args[0].op != "const":
            new[node] = apply("mul", replace_nodes(node.args[0], new), apply("div", 1.0, node.args[1]))
    return replace_nodes(tree, {**new, **{n: n for n in work.rows}}) if new else tree
