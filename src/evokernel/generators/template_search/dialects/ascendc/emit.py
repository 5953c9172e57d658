"""Numbers as C++ on the host, and elementwise steps as vector instructions over buffers in local memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects.literals import SIGNS, spelled
from evokernel.generators.template_search.graph import CONDITIONS, Node, NoSketch, Num

NUMBERS = {
    "extent": "in_{0}.GetDim({1})",
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "{0} * {1}", "floordiv": "({0} / ({1}))", "div": "(double({0}) / double({1}))",
    "sqrt": "std::sqrt(double({0}))", "rsqrt": "(1.0 / std::sqrt(double({0})))", "reciprocal": "(1.0 / double({0}))",
    "log": "std::log(double({0}))",
}  # fmt: skip
PLAIN = {"exp": "Exp", "log": "Ln", "sqrt": "Sqrt", "abs": "Abs"}
"""Instructions on one source that may write where they read."""
LIBRARY = {"tanh": "Tanh", "erf": "Erf", "sin": "Sin", "cos": "Cos", "floor": "Floor", "round": "Round"}
"""Functions made of many instructions: what they read must not be what they write."""
PAIRS = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "and": "Mul", "or": "Max"}
MODES = {"lt": "LT", "le": "LE", "gt": "GT", "ge": "GE", "eq": "EQ", "ne": "NE", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE"}
FOLDS = {"sum": "Add", "mean": "Add", "max": "Max", "min": "Min", "prod": "Mul"}
STARTS = {"sum": "0.0f", "mean": "0.0f", "max": "-INF", "min": "INF", "prod": "1.0f"}
JOINS = {"sum": "{0} + {1}", "mean": "{0} + {1}", "prod": "{0} * {1}", "max": "({0} > {1} ? {0} : {1})", "min": "({0} < {1} ? {0} : {1})"}


def number(num: Num) -> str:
    """A number as the host computes it from shapes and attributes."""
    return spelled(num, NUMBERS, lambda value, integer: str(int(value)) if integer else repr(float(value)))


def literal(value: float) -> str:
    """A number in the kernel."""
    if value != value:
        return "(INF - INF)"
    if value - value != 0:
        return "INF" if value > 0 else "-INF"
    return f"{float(value)!r}f"


@dataclass(frozen=True)
class Value:
    """What a step is called with: a buffer, or one number of the scalar unit."""

    text: str
    is_vector: bool
    temp: int = -1
    """Which buffer between steps it lies in; -1 is none of them."""


class Steps:
    """Instructions for some values, in order, with the buffers they need in between.

    `given` are values that exist already; `count` names the number of elements all instructions are given.
    """

    def __init__(self, given: Mapping[Node, Value], numbers: Mapping[Num, str], d: Choice, count: str = "count") -> None:
        self.known, self.numbers, self.d, self.count = dict(given), dict(numbers), d, count
        self.fixed = set(given)
        self.lines: list[str] = []
        self.left: Counter[Node] = Counter()
        self.free: list[int] = []
        self.temps = self.scalars = 0
        self.result = ""
        self.needs: set[str] = set()
        """Further buffers: `bits` of comparisons, `one` number, `work` of reductions."""

    def expect(self, *roots: Node) -> None:
        """Counts how often each value will be used, so that its buffer is given back after the last time."""
        seen: set[Node] = set()
        stack = list(roots)
        self.left.update(roots)
        while stack:
            node = stack.pop()
            if node in seen or node in self.fixed:
                continue
            seen.add(node)
            self.left.update(node.args)
            stack += node.args

    def value(self, node: Node) -> Value:
        """The value of a tree; what was computed before is taken from where it lies."""
        if node not in self.known:
            self.known[node] = self.compute(node, "")
        return self.known[node]

    def into(self, node: Node, dest: str) -> None:
        """The value of a tree, written to a buffer of this name."""
        found = self.value(node) if node in self.known or node.op == "const" else self.compute(node, dest)
        if not found.is_vector:
            self.say(f"Duplicate({dest}, {found.text}, {self.count});")
        elif found.text != dest:
            self.say(f"Adds({dest}, {found.text}, 0.0f, {self.count});")

    def compute(self, node: Node, dest: str) -> Value:
        """One step after those it needs."""
        if node.op == "const":
            num = node.nums[0]
            return Value(self.numbers[num] if num in self.numbers else literal(num.value), False)
        args = [self.value(a) for a in node.args]
        if node.op == "reduce":
            result = self.reduced(node, args[0])
        elif not any(a.is_vector for a in args):
            result = self.single(node, [a.text for a in args])
        else:
            result = self.step(node, args, dest)
        for arg in node.args:
            self.used(arg)
        return result

    def used(self, node: Node) -> None:
        """Gives a buffer back after its last use."""
        self.left[node] -= 1
        found = self.known.get(node)
        if found and found.temp >= 0 and not self.left[node] and self.d.get("temps", "reuse") != "fresh":
            self.free.append(found.temp)
            del self.known[node]

    def say(self, line: str) -> None:
        self.lines.append(line)

    def scratch(self) -> int:
        """A buffer between steps."""
        if self.free:
            return self.free.pop(0)
        self.temps += 1
        return self.temps - 1

    def target(self, node: Node, dest: str, args: Sequence[Value], library: bool = False) -> Value:
        """Where a step writes: where it is told to, over an argument nobody needs any more, or to another buffer."""
        if dest:
            return Value(dest, True)
        way = self.d.get("temps", "reuse")
        dying = [a for a, v in zip(node.args, args) if v.temp >= 0 and self.left[a] == node.args.count(a)]
        if dying and way != "fresh" and (not library or way == "inplace"):
            taken = self.known[dying[0]]
            self.known[dying[0]] = Value(taken.text, True)  # its buffer has a new owner
            return taken
        temp = self.scratch()
        return Value(f"t{temp}", True, temp)

    def single(self, node: Node, args: list[str]) -> Value:
        """A step on numbers alone, once for all elements."""
        if node.op in ("add", "sub", "mul", "div"):
            text = f"{args[0]} {SIGNS[node.op]} {args[1]}"
        elif node.op in ("max", "min"):
            text = f"{args[0]} {'>' if node.op == 'max' else '<'} {args[1]} ? {args[0]} : {args[1]}"
        elif node.op == "neg":
            text = f"-{args[0]}"
        elif node.op in PLAIN:
            self.needs.add("one")
            self.say(f"one.SetValue(0, {args[0]});")
            self.say(f"{PLAIN[node.op]}(one, one, 1);")
            text = "one.GetValue(0)"
        else:
            raise NoSketch(f"{node.op} of one value per row")
        self.scalars += 1
        self.say(f"const float q{self.scalars} = {text};")
        return Value(f"q{self.scalars}", False)

    def step(self, node: Node, args: list[Value], dest: str) -> Value:
        """One elementwise step on at least one buffer."""
        if node.op in PLAIN or node.op == "neg":
            to = self.target(node, dest, args)
            self.say(
                f"{PLAIN[node.op]}({to.text}, {args[0].text}, {self.count});" if node.op in PLAIN else self.scaled(to, args[0], "-1.0f")
            )
            return to
        if node.op in LIBRARY:
            return self.library(node, args[0], dest)
        if node.op in PAIRS:
            return self.pair(node, args, dest)
        if node.op == "not":
            to = self.target(node, dest, args)
            self.say(self.scaled(to, args[0], "-1.0f"))
            self.say(f"Adds({to.text}, {to.text}, 1.0f, {self.count});")
            return to
        if node.op in CONDITIONS or node.op in ("select", "where"):
            return self.chosen(node, args, dest)
        if node.op == "pow":
            to = self.target(node, dest, args, library=True)
            base, exponent = (self.filled(v) for v in args)
            self.say(f"Power({to.text}, {base}, {exponent}, {self.count});")
            self.give_back(*(name for name, v in zip((base, exponent), args) if not v.is_vector))
            return to
        if node.op == "cast" and node.name in ("float32", "float16", "bfloat16") and node.args[0].dtype != "bool":
            return self.copied(node, args[0], dest)
        raise NoSketch(f"{node.op if node.op != 'cast' else f'a conversion to {node.name}'} inside an elementwise part")

    def copied(self, node: Node, arg: Value, dest: str) -> Value:
        """The same value under another name."""
        to = self.target(node, dest, [arg])
        if to.text != arg.text:
            self.say(f"Adds({to.text}, {arg.text}, 0.0f, {self.count});")
        return to

    def scaled(self, to: Value, arg: Value, by: str) -> str:
        return f"Muls({to.text}, {arg.text}, {by}, {self.count});"

    def library(self, node: Node, arg: Value, dest: str) -> Value:
        """A function of the library; tanh may be written out."""
        if node.op == "tanh" and self.d.get("tanh") == "exp":
            to = self.target(node, dest if dest != arg.text else "", [arg])
            self.say(self.scaled(to, arg, "2.0f"))
            for line in ("Exp({0}, {0}, {1});", "Adds({0}, {0}, 1.0f, {1});", "Reciprocal({0}, {0}, {1});", "Muls({0}, {0}, -2.0f, {1});"):
                self.say(line.format(to.text, self.count))
            self.say(f"Adds({to.text}, {to.text}, 1.0f, {self.count});")
            return to
        to = self.target(node, dest, [arg], library=True)
        self.say(f"{LIBRARY[node.op]}({to.text}, {arg.text}, {self.count});")
        return to

    def pair(self, node: Node, args: list[Value], dest: str) -> Value:
        """A step on two sources, one of which may be a number."""
        left, right = args
        to = self.target(node, dest, args)
        if left.is_vector and right.is_vector:
            if node.op == "div" and self.d.get("divide") == "reciprocal":
                inverse = f"t{self.scratch()}"
                self.say(f"Reciprocal({inverse}, {right.text}, {self.count});")
                self.say(f"Mul({to.text}, {left.text}, {inverse}, {self.count});")
                self.give_back(inverse)
                return to
            self.say(f"{PAIRS[node.op]}({to.text}, {left.text}, {right.text}, {self.count});")
            return to
        vector, single = (left, right.text) if left.is_vector else (right, left.text)
        if node.op in ("add", "mul", "and", "max", "min", "or"):
            self.say(f"{PAIRS[node.op]}s({to.text}, {vector.text}, {single}, {self.count});")
        elif node.op == "sub" and left.is_vector:
            self.say(f"Adds({to.text}, {vector.text}, {negated(single)}, {self.count});")
        elif node.op == "sub":
            self.say(self.scaled(to, vector, "-1.0f"))
            self.say(f"Adds({to.text}, {to.text}, {single}, {self.count});")
        else:
            self.quotient(to, vector, single, left.is_vector)
        return to

    def quotient(self, to: Value, vector: Value, single: str, above: bool) -> None:
        """A buffer divided by a number, or a number by a buffer."""
        if self.d.get("divide") == "reciprocal":
            if above:
                self.say(self.scaled(to, vector, f"1.0f / ({single})"))
                return
            self.say(f"Reciprocal({to.text}, {vector.text}, {self.count});")
            if single != "1.0f":
                self.say(self.scaled(to, to, single))
            return
        other = f"t{self.scratch()}"
        self.say(f"Duplicate({other}, {single}, {self.count});")
        self.say(f"Div({to.text}, {vector.text if above else other}, {other if above else vector.text}, {self.count});")
        self.give_back(other)

    def filled(self, value: Value) -> str:
        """A buffer with the value in every element."""
        if value.is_vector:
            return value.text
        name = f"t{self.scratch()}"
        self.say(f"Duplicate({name}, {value.text}, {self.count});")
        return name

    def give_back(self, *names: str) -> None:
        """Buffers that were needed for one step only."""
        if self.d.get("temps", "reuse") != "fresh":
            self.free += [int(name[1:]) for name in names]

    def chosen(self, node: Node, args: list[Value], dest: str) -> Value:
        """A comparison, as ones and zeros, or a choice by one."""
        self.needs.add("bits")
        if node.op == "where":
            mode, left, right, yes, no = "GT", args[0], Value("0.5f", False), args[1], args[2]
        elif node.op == "select":
            mode, (left, right, yes, no) = MODES[node.name], args
        else:
            mode, left, right, yes, no = MODES[node.op], args[0], args[1], Value("1.0f", False), Value("0.0f", False)
        whole = f"({self.count} + 63) / 64 * 64"
        first = self.filled(left)
        if right.is_vector:
            self.say(f"Compare(bits, {first}, {right.text}, CMPMODE::{mode}, {whole});")
        else:
            self.say(f"CompareScalar(bits, {first}, {right.text}, CMPMODE::{mode}, {whole});")
        if not left.is_vector:
            self.give_back(first)
        picked = self.filled(yes)
        to = Value(dest, True) if dest else self.fresh()
        if no.is_vector:
            self.say(f"Select({to.text}, bits, {picked}, {no.text}, SELMODE::VSEL_TENSOR_TENSOR_MODE, {self.count});")
        else:
            self.say(f"Select({to.text}, bits, {picked}, {no.text}, SELMODE::VSEL_TENSOR_SCALAR_MODE, {self.count});")
        if not yes.is_vector:
            self.give_back(picked)
        return to

    def fresh(self) -> Value:
        """A buffer of its own."""
        temp = self.scratch()
        return Value(f"t{temp}", True, temp)

    def reduced(self, node: Node, arg: Value) -> Value:
        """One number from a buffer."""
        if node.name not in FOLDS:
            raise NoSketch(f"a reduction by {node.name}")
        self.scalars += 1
        name = f"q{self.scalars}"
        text = self.filled(arg)
        self.lines += fold(node.name, text, name, self.count, self.d.get("reduce", "level"))
        if not arg.is_vector:
            self.give_back(text)
        self.needs |= {"one", "work"}
        if node.name == "mean":
            self.say(f"{name} = {name} / static_cast<float>({self.count});")
        return Value(name, False)


def fold(kind: str, source: str, name: str, count: str, way: str) -> list[str]:
    """Lines that make one number of a buffer, which stays as it is."""
    if way == "scalar" or (kind == "prod" and way == "level"):
        met = JOINS[kind].format(name, f"{name}v")
        loop = f"for (uint32_t j = 0; j < {count}; ++j) {{"
        return [f"float {name} = {STARTS[kind]};", loop, f"    const float {name}v = {source}.GetValue(j);", f"    {name} = {met};", "}"]
    if way == "level":
        call = {"sum": "ReduceSum", "mean": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin"}[kind]
        return [f"{call}(one, {source}, work, {count});", f"float {name} = one.GetValue(0);"]
    last = {"Add": "WholeReduceSum", "Max": "WholeReduceMax", "Min": "WholeReduceMin"}
    begin = [f"Adds(work, {source}, 0.0f, {count});", f"uint32_t {name}n = {count};"]
    halve = [f"while ({name}n > 64) {{", f"    const uint32_t half = ({name}n / 2 + 7) / 8 * 8;",
             f"    {FOLDS[kind]}(work, work, work[half], {name}n - half);", f"    {name}n = half;", "}"]  # fmt: skip
    if kind == "prod":
        return [*begin, *halve, *fold(kind, "work", name, f"{name}n", "scalar")]
    order = ", ReduceOrder::ORDER_ONLY_VALUE" if FOLDS[kind] != "Add" else ""
    ending = [f"{last[FOLDS[kind]]}(one, work, {name}n, 1, 1, 1, 8{order});", f"float {name} = one.GetValue(0);"]
    return [*begin, *halve, *ending]


def negated(text: str) -> str:
    """A number with the other sign."""
    return text[1:] if text.startswith("-") else f"-{text}"
