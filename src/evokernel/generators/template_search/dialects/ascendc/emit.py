"""Emits numbers as C++ on the host, and elementwise steps as vector instructions over buffers in local memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice
from evokernel.generators.template_search.dialects.literals import SIGNS, format_number
from evokernel.generators.template_search.graph import CONDITIONS, Node, Num, UnsupportedPattern

NUMBERS = {
    "extent": "in_{0}.GetDim({1})",
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "{0} * {1}", "floordiv": "({0} / ({1}))", "div": "(double({0}) / double({1}))",
    "sqrt": "std::sqrt(double({0}))", "rsqrt": "(1.0 / std::sqrt(double({0})))", "reciprocal": "(1.0 / double({0}))",
    "log": "std::log(double({0}))",
}  # fmt: skip
PLAIN = {"exp": "Exp", "log": "Ln", "sqrt": "Sqrt", "abs": "Abs"}
"""Instructions on one source that may overwrite it."""
LIBRARY = {"tanh": "Tanh", "erf": "Erf", "sin": "Sin", "cos": "Cos"}
"""Library functions of many instructions: source and destination must differ."""
ROUNDINGS = {"floor": "CAST_FLOOR", "round": "CAST_RINT"}
"""Rounding modes of a conversion from float to float."""
FLOATS = ("float32", "float16", "bfloat16", "float64")
PAIRS = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "and": "Mul", "or": "Max"}
MODES = {"lt": "LT", "le": "LE", "gt": "GT", "ge": "GE", "eq": "EQ", "ne": "NE", "<": "LT", "<=": "LE", ">": "GT", ">=": "GE"}
FOLDS = {"sum": "Add", "mean": "Add", "max": "Max", "min": "Min", "prod": "Mul"}
STARTS = {"sum": "0.0f", "mean": "0.0f", "max": "-INF", "min": "INF", "prod": "1.0f"}
JOINS = {"sum": "{0} + {1}", "mean": "{0} + {1}", "prod": "{0} * {1}", "max": "({0} > {1} ? {0} : {1})", "min": "({0} < {1} ? {0} : {1})"}


def format_num(num: Num) -> str:
    """A number as a host expression over shapes and attributes."""
    return format_number(num, NUMBERS, lambda value, integer: str(int(value)) if integer else repr(float(value)))


def format_literal(value: float) -> str:
    """A literal in the kernel."""
    if value != value:
        return "(INF - INF)"
    if value - value != 0:
        return "INF" if value > 0 else "-INF"
    return f"{float(value)!r}f"


@dataclass(frozen=True)
class StepValue:
    """An argument or result of a step: a buffer, or one number of the scalar unit."""

    text: str
    is_vector: bool
    temp: int = -1
    """The number of its temporary buffer, or -1."""
    per_row: bool = False  # whether it has one element per row of a tile


class Steps:
    """Instructions for some values, in order, with the temporary buffers they need.

    `arguments` are values that exist already; `count` is the name of the element count of all instructions, and `first` the position
    of the first element along the innermost loop.
    """

    prefix = "t"  # of the names of temporary buffers

    def __init__(
        self, arguments: Mapping[Node, StepValue], numbers: Mapping[Num, str], d: Choice, count: str = "count", first: str = "0"
    ) -> None:
        self.known, self.numbers, self.d, self.count, self.first = dict(arguments), dict(numbers), d, count, first
        self.fixed = set(arguments)
        self.lines: list[str] = []
        self.remaining_uses: Counter[Node] = Counter()
        self.free: list[int] = []
        self.temps = self.scalars = 0
        self.result = ""
        self.needs: set[str] = set()
        """Further buffers: `bits` for comparisons, `one` for a single number, `work` for reductions."""

    def count_uses(self, *roots: Node) -> None:
        """Counts the uses of each value, so that its buffer is freed after the last one."""
        visited: set[Node] = set()
        stack = list(roots)
        self.remaining_uses.update(roots)
        while stack:
            node = stack.pop()
            if node in visited or node in self.fixed:
                continue
            visited.add(node)
            self.remaining_uses.update(node.args)
            stack += node.args

    def value(self, node: Node) -> StepValue:
        """The value of a tree, computed on first use."""
        if node not in self.known:
            self.known[node] = self.compute_node(node, "")
        return self.known[node]

    def compute_into(self, node: Node, dest: str) -> None:
        """Computes the value of a tree into a named buffer."""
        value = self.value(node) if node in self.known or node.op == "const" else self.compute_node(node, dest)
        if not value.is_vector:
            self.emit(f"Duplicate({dest}, {value.text}, {self.count});")
        elif value.text != dest:
            self.emit(f"Adds({dest}, {value.text}, 0.0f, {self.count});")

    def compute_node(self, node: Node, dest: str) -> StepValue:
        """Computes one node after its arguments."""
        if node.op == "const":
            num = node.nums[0]
            return StepValue(f"static_cast<float>({self.numbers[num]})" if num in self.numbers else format_literal(num.value), False)
        if node.op == "index":
            to = StepValue(dest, True) if dest else self.allocate_value()
            self.emit(f"CreateVecIndex({to.text}, static_cast<float>({self.first}), {self.count});")
            return to
        args = [self.value(a) for a in node.args]
        if node.op == "reduce":
            result = self.reduce_buffer(node, args[0])
        elif not any(a.is_vector for a in args):
            result = self.compute_scalar(node, [a.text for a in args])
        else:
            result = self.compute_step(node, args, dest)
        for arg in node.args:
            self.release_use(arg)
        return result

    def release_use(self, node: Node) -> None:
        """Counts one use of a value, and frees its buffer after the last."""
        self.remaining_uses[node] -= 1
        value = self.known.get(node)
        if value and value.temp >= 0 and not self.remaining_uses[node] and self.d.get("temps", "reuse") != "fresh":
            self.free.append(value.temp)
            del self.known[node]

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def name_temp(self, temp: int) -> str:
        return f"{self.prefix}{temp}"

    def allocate_temp(self) -> int:
        """The number of a free temporary buffer."""
        if self.free:
            return self.free.pop(0)
        self.temps += 1
        return self.temps - 1

    def choose_target(self, node: Node, dest: str, args: Sequence[StepValue], library: bool = False) -> StepValue:
        """The destination of a step: the requested buffer, an argument with no further use, or another buffer."""
        if dest:
            return StepValue(dest, True)
        way = self.d.get("temps", "reuse")
        dying = [a for a, v in zip(node.args, args) if v.temp >= 0 and self.remaining_uses[a] == node.args.count(a)]
        if dying and way != "fresh" and (not library or way == "inplace"):
            reused = self.known[dying[0]]
            self.known[dying[0]] = StepValue(reused.text, True)  # its buffer has a new owner
            return reused
        temp = self.allocate_temp()
        return StepValue(self.name_temp(temp), True, temp)

    def compute_scalar(self, node: Node, args: list[str]) -> StepValue:
        """A step on numbers only, computed once for all elements."""
        if node.op in ("add", "sub", "mul", "div"):
            text = f"{args[0]} {SIGNS[node.op]} {args[1]}"
        elif node.op in ("max", "min", "or"):
            text = f"{args[0]} {'<' if node.op == 'min' else '>'} {args[1]} ? {args[0]} : {args[1]}"
        elif node.op == "and":
            text = f"{args[0]} * {args[1]}"
        elif node.op == "neg":
            text = f"-{args[0]}"
        elif node.op == "not":
            text = f"1.0f - {args[0]}"
        elif node.op in CONDITIONS:
            text = f"{args[0]} {SIGNS[node.op]} {args[1]} ? 1.0f : 0.0f"
        elif node.op == "select":
            text = f"{args[0]} {node.name} {args[1]} ? {args[2]} : {args[3]}"
        elif node.op == "where":
            text = f"{args[0]} > 0.5f ? {args[1]} : {args[2]}"
        elif node.op == "cast" and node.name == "bool":
            text = f"{args[0]} != 0.0f ? 1.0f : 0.0f"
        elif node.op == "cast":
            text = f"static_cast<float>(static_cast<int32_t>({args[0]}))" if truncates(node) else args[0]
        else:
            text = self.call_on_scalar(node, args)
        self.scalars += 1
        self.emit(f"const float q{self.scalars} = {text};")
        return StepValue(f"q{self.scalars}", False)

    def call_on_scalar(self, node: Node, args: list[str]) -> str:
        """An instruction on one number, in a small buffer."""
        self.needs.add("one")
        for i, arg in enumerate(args):
            self.emit(f"one.SetValue({8 * i}, {arg});")
        if node.op in PLAIN:
            self.emit(f"{PLAIN[node.op]}(one, one, 1);")
            return "one.GetValue(0)"
        if node.op in ROUNDINGS:
            self.emit(f"Cast(one[16], one, RoundMode::{ROUNDINGS[node.op]}, 1);")
        elif node.op in LIBRARY:
            self.emit(f"{LIBRARY[node.op]}(one[16], one, 1);")
        elif node.op == "pow":
            self.emit("Power(one[16], one, one[8], 1);")
        else:
            raise UnsupportedPattern(f"{node.op} of one value per row")
        return "one.GetValue(16)"

    def compute_step(self, node: Node, args: list[StepValue], dest: str) -> StepValue:
        """One elementwise step on at least one buffer."""
        if node.op in PLAIN or node.op == "neg":
            to = self.choose_target(node, dest, args)
            self.emit(
                f"{PLAIN[node.op]}({to.text}, {args[0].text}, {self.count});" if node.op in PLAIN else self.scale_line(to, args[0], "-1.0f")
            )
            return to
        if node.op in LIBRARY:
            return self.call_library(node, args[0], dest)
        if node.op in PAIRS:
            return self.compute_pair(node, args, dest)
        if node.op == "not":
            to = self.choose_target(node, dest, args)
            self.emit(self.scale_line(to, args[0], "-1.0f"))
            self.emit(f"Adds({to.text}, {to.text}, 1.0f, {self.count});")
            return to
        if node.op in CONDITIONS or node.op in ("select", "where"):
            return self.compute_select(node, args, dest)
        if node.op == "pow":
            to = self.choose_target(node, dest, args, library=True)
            base, exponent = (self.fill_buffer(v) for v in args)
            self.emit(f"Power({to.text}, {base}, {exponent}, {self.count});")
            self.free_buffers(*(name for name, v in zip((base, exponent), args) if not v.is_vector))
            return to
        if node.op in ROUNDINGS or (node.op == "cast" and truncates(node)):
            to = self.choose_target(node, dest, args)
            self.emit(f"Cast({to.text}, {args[0].text}, RoundMode::{ROUNDINGS.get(node.op, 'CAST_TRUNC')}, {self.count});")
            return to
        if node.op == "cast" and node.name == "bool" and node.args[0].dtype != "bool":
            return self.compute_select(node, args, dest)
        if node.op == "cast":
            return self.copy_value(node, args[0], dest)
        raise UnsupportedPattern(f"{node.op} inside an elementwise part")

    def copy_value(self, node: Node, arg: StepValue, dest: str) -> StepValue:
        """A copy of a value."""
        to = self.choose_target(node, dest, [arg])
        if to.text != arg.text:
            self.emit(f"Adds({to.text}, {arg.text}, 0.0f, {self.count});")
        return to

    def scale_line(self, to: StepValue, arg: StepValue, by: str) -> str:
        return f"Muls({to.text}, {arg.text}, {by}, {self.count});"

    def call_library(self, node: Node, arg: StepValue, dest: str) -> StepValue:
        """A call of a library function; tanh may be computed from exp instead."""
        if node.op == "tanh" and self.d.get("tanh") == "exp":
            to = self.choose_target(node, dest if dest != arg.text else "", [arg])
            self.emit(self.scale_line(to, arg, "2.0f"))
            for line in ("Exp({0}, {0}, {1});", "Adds({0}, {0}, 1.0f, {1});"):
                self.emit(line.format(to.text, self.count))
            self.divide_number("-2.0f", to.text, to.text)
            self.emit(f"Adds({to.text}, {to.text}, 1.0f, {self.count});")
            return to
        to = self.choose_target(node, dest, [arg], library=True)
        self.emit(f"{LIBRARY[node.op]}({to.text}, {arg.text}, {self.count});")
        return to

    def compute_pair(self, node: Node, args: list[StepValue], dest: str) -> StepValue:
        """A step on two sources, one of which may be a number."""
        lhs, rhs = args
        to = self.choose_target(node, dest, args)
        if lhs.is_vector and rhs.is_vector:
            self.emit(f"{PAIRS[node.op]}({to.text}, {lhs.text}, {rhs.text}, {self.count});")
            return to
        vector, single = (lhs, rhs.text) if lhs.is_vector else (rhs, lhs.text)
        if node.op in ("add", "mul", "and", "max", "min", "or"):
            self.emit(f"{PAIRS[node.op]}s({to.text}, {vector.text}, {single}, {self.count});")
        elif node.op == "sub" and lhs.is_vector:
            self.emit(f"Adds({to.text}, {vector.text}, {negate_text(single)}, {self.count});")
        elif node.op == "sub":
            self.emit(self.scale_line(to, vector, "-1.0f"))
            self.emit(f"Adds({to.text}, {to.text}, {single}, {self.count});")
        else:
            self.compute_quotient(to, vector, single, lhs.is_vector)
        return to

    def compute_quotient(self, to: StepValue, vector: StepValue, single: str, above: bool) -> None:
        """A buffer divided by a number, or a number divided by a buffer."""
        if not above:
            self.divide_number(single, vector.text, to.text)
        elif self.d.get("divide") == "reciprocal":
            self.emit(self.scale_line(to, vector, f"1.0f / ({single})"))
        else:
            other = self.name_temp(self.allocate_temp())
            self.emit(f"Duplicate({other}, {single}, {self.count});")
            self.emit(f"Div({to.text}, {vector.text}, {other}, {self.count});")
            self.free_buffers(other)

    def divide_number(self, number: str, by: str, to: str) -> None:
        """A number divided by a buffer, with Div: Reciprocal has only nine significant bits."""
        other = self.name_temp(self.allocate_temp())
        self.emit(f"Duplicate({other}, {number}, {self.count});")
        self.emit(f"Div({to}, {other}, {by}, {self.count});")
        self.free_buffers(other)

    def fill_buffer(self, value: StepValue) -> str:
        """A buffer that holds the value in every element."""
        if value.is_vector:
            return value.text
        name = self.name_temp(self.allocate_temp())
        self.emit(f"Duplicate({name}, {value.text}, {self.count});")
        return name

    def free_buffers(self, *names: str) -> None:
        """Frees buffers that only one step needed."""
        if self.d.get("temps", "reuse") != "fresh":
            self.free += [int(name[1:]) for name in names]

    def compute_select(self, node: Node, args: list[StepValue], dest: str) -> StepValue:
        """A comparison as ones and zeros, or a selection by a comparison."""
        self.needs.add("bits")
        if node.op == "where":
            mode, lhs, rhs, yes, no = "GT", args[0], StepValue("0.5f", False), args[1], args[2]
        elif node.op == "select":
            mode, (lhs, rhs, yes, no) = MODES[node.name], args
        elif node.op == "cast":
            mode, lhs, rhs, yes, no = "NE", args[0], StepValue("0.0f", False), StepValue("1.0f", False), StepValue("0.0f", False)
        else:
            mode, lhs, rhs, yes, no = MODES[node.op], args[0], args[1], StepValue("1.0f", False), StepValue("0.0f", False)
        padded_count = f"({self.count} + 63) / 64 * 64"
        first = self.fill_buffer(lhs)
        if rhs.is_vector:
            self.emit(f"Compare(bits, {first}, {rhs.text}, CMPMODE::{mode}, {padded_count});")
        else:
            self.emit(f"CompareScalar(bits, {first}, {rhs.text}, CMPMODE::{mode}, {padded_count});")
        if not lhs.is_vector:
            self.free_buffers(first)
        yes_buffer = self.fill_buffer(yes)
        to = StepValue(dest, True) if dest else self.allocate_value()
        if no.is_vector:
            self.emit(f"Select({to.text}, bits, {yes_buffer}, {no.text}, SELMODE::VSEL_TENSOR_TENSOR_MODE, {self.count});")
        else:
            self.emit(f"Select({to.text}, bits, {yes_buffer}, {no.text}, SELMODE::VSEL_TENSOR_SCALAR_MODE, {self.count});")
        if not yes.is_vector:
            self.free_buffers(yes_buffer)
        return to

    def allocate_value(self) -> StepValue:
        """A value in a new buffer."""
        temp = self.allocate_temp()
        return StepValue(self.name_temp(temp), True, temp)

    def reduce_buffer(self, node: Node, arg: StepValue) -> StepValue:
        """A buffer reduced to one number."""
        if node.name not in FOLDS:
            raise UnsupportedPattern(f"a reduction by {node.name}")
        self.scalars += 1
        name = f"q{self.scalars}"
        text = self.fill_buffer(arg)
        self.lines += reduction_lines(node.name, text, name, self.count, self.d.get("reduce", "level"))
        if not arg.is_vector:
            self.free_buffers(text)
        self.needs |= {"one", "work"}
        if node.name == "mean":
            self.emit(f"{name} = {name} / static_cast<float>({self.count});")
        return StepValue(name, False)


def reduction_lines(kind: str, source: str, name: str, count: str, way: str) -> list[str]:
    """Lines that reduce a buffer to one number and leave the buffer unchanged."""
    if way == "scalar" or (kind == "prod" and way == "level"):
        joined_text = JOINS[kind].format(name, f"{name}v")
        loop = f"for (uint32_t j = 0; j < {count}; ++j) {{"
        return [
            f"float {name} = {STARTS[kind]};",
            loop,
            f"    const float {name}v = {source}.GetValue(j);",
            f"    {name} = {joined_text};",
            "}",
        ]
    if way == "level":
        call = {"sum": "ReduceSum", "mean": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin"}[kind]
        return [f"{call}(one, {source}, work, {count});", f"float {name} = one.GetValue(0);"]
    last = {"Add": "WholeReduceSum", "Max": "WholeReduceMax", "Min": "WholeReduceMin"}
    begin = [f"Adds(work, {source}, 0.0f, {count});", f"uint32_t {name}n = {count};"]
    halve = [f"while ({name}n > 64) {{", f"    const uint32_t half = ({name}n + 15) / 16 * 8;",
             f"    {FOLDS[kind]}(work, work, work[half], {name}n - half);", f"    {name}n = half;", "}"]  # fmt: skip
    if kind == "prod":
        return [*begin, *halve, *reduction_lines(kind, "work", name, f"{name}n", "scalar")]
    order = ", ReduceOrder::ORDER_ONLY_VALUE" if FOLDS[kind] != "Add" else ""
    ending = [f"{last[FOLDS[kind]]}(one, work, {name}n, 1, 1, 1, 8{order});", f"float {name} = one.GetValue(0);"]
    return [*begin, *halve, *ending]


def truncates(node: Node) -> bool:
    """Whether a conversion drops the fraction."""
    return node.name not in (*FLOATS, "bool") and node.args[0].dtype in FLOATS


def negate_text(text: str) -> str:
    """The text of a number with the opposite sign."""
    return text[1:] if text.startswith("-") else f"-{text}"
