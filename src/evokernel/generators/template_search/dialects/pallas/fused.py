"""Any steps over rows in one kernel: a block has some rows, and complete axes behind them, on which it computes everything.

Leading axes on which every step works separately are the rows. Weights of products are complete in VMEM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import ceil

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.pallas.common_decisions import DIVIDE, LIMIT, PRECISION, SEMANTICS, has_tensor_division
from evokernel.generators.template_search.dialects.pallas.emit import (
    format_literal,
    format_reduction,
    format_step,
    is_integer_or_bool,
    join_arguments,
)
from evokernel.generators.template_search.dialects.pallas.layouts import INSIDE, NARROWED, Result
from evokernel.generators.template_search.dialects.steps import emit_steps
from evokernel.generators.template_search.graph import Node, Num, Shape, UnsupportedPattern, pad_rank, walk
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, find_factor, multiply_nums

MOVES = frozenset({"slice", "cat", "expand", "permute"})
STEPS = frozenset({"reduce", "matmul", "takealong"}) | MOVES
LANES, SUBLANES, FLOAT_BYTES = 128, 8, 4
ARRAY_BYTES, ALL_BYTES, WEIGHT_BYTES = 2 << 20, 12 << 20, 8 << 20
"""Limits of one array of a block of one row, of all arrays together, and of all weights."""


@dataclass(frozen=True)
class BlockView:
    """An array that the kernel reads, its blocks, and the expression of a block inside the kernel."""

    name: str
    view: str
    """The expression that makes it from the argument."""
    block: str
    index: str
    inside: str = ""
    """The conversion to float32."""
    has_rows: bool = True
    is_weight: bool = False


@dataclass
class Names:
    """Names of the numbers that the function of a stage takes as arguments."""

    names: dict[Num, str] = field(default_factory=dict)

    def format(self, number: Num) -> str:
        """A literal, or the name of the argument for the number."""
        if number.is_literal:
            return format_literal(number.value, number.is_integer)
        return self.names.setdefault(number, f"s{len(self.names)}")


class RowProgram:
    """The steps of a pattern, split into `rows` leading axes that every step treats separately, and the axes of a block behind them."""

    def __init__(self, root: Node, rank: int, rows: int) -> None:
        self.root, self.rank, self.rows = root, rank, rows
        self.full = pad_rank(root.shape, rank)[:rows]
        self.operands: list[Node] = []
        self.weights: list[Node] = []
        self.visited: set[Node] = set()
        self.visit(root)
        nodes = [n for n in self.visited if n.op != "const"]
        self.is_unrolled = any(n.op in ("matmul", "permute") for n in nodes) and rank - rows > 1
        if self.is_unrolled and rank - rows > 2:
            raise UnsupportedPattern("products of blocks with more than two axes")
        sizes = [self.block_bytes(n.shape) for n in nodes]
        if max(sizes) > ARRAY_BYTES or sum(map(self.block_bytes, (x.shape for x in (*self.operands, root)))) > ALL_BYTES:
            raise UnsupportedPattern("rows that are too large for one block")
        if sum(matrix_bytes(w.shape) for w in self.weights) > WEIGHT_BYTES:
            raise UnsupportedPattern("weights that are too large for one block")

    def block_bytes(self, shape: Shape) -> float:
        """Bytes of a value in VMEM for one row, or for a register of rows if they are in sublanes."""
        sizes = [n.value for n in pad_rank(shape, self.rank)[self.rows :]]
        return matrix_bytes_of([SUBLANES, *sizes] if len(sizes) == 1 else sizes)

    def visit(self, node: Node) -> None:
        """Records a value that has the rows as its leading axes, and what it is computed from."""
        if node in self.visited:
            return
        self.visited.add(node)
        if any(not n.is_one and not n.is_same(m) for n, m in zip(pad_rank(node.shape, self.rank), self.full)):
            raise UnsupportedPattern("rows of different lengths")
        shift = self.rank - len(node.shape)
        own_axes = {i + shift for i in node.dims} if node.op in ("reduce", "slice", "cat", "takealong") else set()
        if any(i < self.rows for i in own_axes):
            raise UnsupportedPattern(f"{node.op} across rows")
        if node.op == "permute":
            last = len(node.dims)
            if node.dims != (*range(last - 2), last - 1, last - 2) or self.rows > self.rank - 2:
                raise UnsupportedPattern("axes that are moved across rows")
        if node.op == "slice" and not node.nums[1].is_one:
            raise UnsupportedPattern("every second element of rows")
        if node.op == "reduce" and node.name not in ("sum", "mean", "max", "min"):
            raise UnsupportedPattern(f"{node.name} of rows among other steps")
        if node.op == "takealong" and (node.name or not node.shape[-1].is_one or own_axes != {self.rank - 1}):
            raise UnsupportedPattern("several elements that are picked from a row")
        if node.op == "matmul" and self.rows == self.rank - 1:
            self.visit(node.args[0])
            weight, _ = find_factor(node.args[1])
            if len(weight.shape) != 2:
                raise UnsupportedPattern("a product of rows with several matrices")
            self.weights.append(weight)
        elif node.op in ("leaf", "index"):
            self.operands.append(node)
        elif node.is_elementwise or node.op in STEPS or node.op == "const":
            for arg in node.args:
                self.visit(arg)
        else:
            raise UnsupportedPattern(f"{node.op} among other steps")

    @property
    def groups(self) -> list[list[int]]:
        """Neighbouring row axes that every operand either has or lacks; at least one group."""
        shapes = [pad_rank(x.shape, self.rank) for x in self.operands]
        patterns = [(i, tuple(not s[i].is_one for s in shapes)) for i in range(self.rows) if not self.full[i].is_one]
        return [[i for i, _ in part] for _, part in groupby(patterns, key=lambda p: p[1])] or [[]]


def matrix_bytes(shape: Shape) -> float:
    """Bytes of a tensor in VMEM at bench size."""
    return matrix_bytes_of([n.value for n in shape])


def matrix_bytes_of(sizes: Sequence[float]) -> float:
    """Bytes of an array in VMEM, whose last two axes are padded to registers."""
    *outer, rows, cols = (1, 1, *sizes)
    total = ceil(rows / SUBLANES) * SUBLANES * ceil(cols / LANES) * LANES * FLOAT_BYTES
    for n in outer:
        total *= n
    return float(total)


def find_program(root: Node) -> RowProgram:
    """The program with most row axes, so that blocks can be small; without rows only if everything fits."""
    nodes = walk(root)
    rank = max(2, *(len(n.shape) for n in nodes))
    reason = UnsupportedPattern("steps without common rows")
    for rows in range(rank - 1, -1, -1):
        try:
            return RowProgram(root, rank, rows)
        except UnsupportedPattern as error:
            reason = error
    raise reason


class FusedText:
    """The text of a program: arrays, blocks and statements."""

    def __init__(self, program: RowProgram) -> None:
        self.program, self.numbers = program, Names()
        self.products: dict[str, str] = {}
        self.groups = program.groups
        self.names = {x: f"x{i}" for i, x in enumerate(program.operands)}
        self.weight_names = {w: f"w{i}" for i, w in enumerate(dict.fromkeys(program.weights))}
        self.extents = [self.numbers.format(multiply_nums([program.full[i] for i in group])) for group in self.groups]
        self.grid = [f"g{i}" for i in range(len(self.groups))]

    def trailing(self, shape: Shape) -> list[str]:
        """The extents of the axes behind the rows."""
        return [self.numbers.format(n) for n in pad_rank(shape, self.program.rank)[self.program.rows :]]

    def has_rows(self, shape: Shape) -> list[bool]:
        """For each group of row axes: whether a value changes along it."""
        sizes = pad_rank(shape, self.program.rank)
        return [any(not sizes[i].is_one for i in group) for group in self.groups]

    def view(self, name: str, shape: Shape, node: Node | None = None) -> BlockView:
        """An operand, or the output, as an array of row groups and trailing axes."""
        present, behind = self.has_rows(shape), self.trailing(shape)
        sizes = [n if there else "1" for n, there in zip(self.extents, present)]
        block = ["None"] * (len(sizes) - 1) + ["br" if present[-1] else "1"] + behind
        index = [g if there else "0" for g, there in zip(self.grid, present)] + ["0"] * len(behind)
        text, inside = name, ""
        if node is not None and node.op == "index":
            text = f"jnp.arange({self.numbers.format(multiply_nums(node.shape))}, dtype=jnp.float32)"
        elif node is not None and node.dtype != "float32":
            is_inside = NARROWED.get(node.dtype, node.dtype) in INSIDE
            text, inside = (name, ".astype(jnp.float32)") if is_inside else (f"{name}.astype(jnp.float32)", "")
        return BlockView(
            name, f"{text}.reshape({join_arguments([*sizes, *behind])})", f"({join_arguments(block)})",
            f"lambda {join_arguments(self.grid)}: ({join_arguments(index)})", inside, present[-1],
        )  # fmt: skip

    def weight_view(self, name: str, weight: Node) -> BlockView:
        """A matrix that every block reads completely."""
        text = name if weight.dtype == "float32" else f"{name}.astype(jnp.float32)"
        sizes = join_arguments(map(self.numbers.format, weight.shape))
        return BlockView(name, text, f"({sizes})", f"lambda {join_arguments(self.grid)}: (0, 0)", is_weight=True)

    def array_axis(self, node: Node, axis: int) -> int:
        """The axis of the array inside the kernel that is an axis of a node."""
        behind = axis + self.program.rank - len(node.shape) - self.program.rows
        return behind if self.program.is_unrolled else behind + 1

    def array_shape(self, node: Node) -> str:
        """The shape of the array inside the kernel."""
        rows = [] if self.program.is_unrolled else ["br" if self.has_rows(node.shape)[-1] else "1"]
        return f"({join_arguments([*rows, *self.trailing(node.shape)])})"

    def body(self, divide: str) -> list[str]:
        """The statements of the function that computes a block, and its return."""
        arguments = [*self.names.values(), *self.weight_names.values()]
        texts = self.names | self.factor_names()

        def format_statement(node: Node, args: list[str], target: str) -> str:
            return f"    {target} = {self.format_node(node, args, divide)}"

        lines, result = emit_steps(self.program.root, texts, self.numbers.format, format_statement, STEPS)
        return [f"def body({join_arguments(arguments)}):", *lines, f"    return {result}"]

    def factor_names(self) -> dict[Node, str]:
        """Factors of products that are read as they are stored: weights, and transposed operands that nothing else uses."""
        nodes = [n for n in walk(self.program.root) if n in self.program.visited]
        products = [n for n in nodes if n.op == "matmul"]
        if not self.program.is_unrolled:
            return {n.args[1]: self.weight_names[find_factor(n.args[1])[0]] for n in products}
        factors = {arg for n in products for arg in n.args if arg.op == "permute" and arg.args[0] in self.names}
        others = {arg for n in nodes if n.op != "matmul" for arg in n.args}
        return {factor: self.names[factor.args[0]] for factor in factors - others}

    def format_node(self, node: Node, args: list[str], divide: str) -> str:
        """One step as a JAX expression."""
        if node.op == "reduce":
            return self.format_fold(node, args[0])
        if node.op == "slice":
            first, axis = self.numbers.format(node.nums[0]), node.dims[0]
            stop = f"{first} + {self.numbers.format(node.shape[axis])}"
            return f"jax.lax.slice_in_dim({args[0]}, {first}, {stop}, axis={self.array_axis(node, axis)})"
        if node.op == "cat":
            parts = [self.spread(arg, text, node) for arg, text in zip(node.args, args)]
            return f"jnp.concatenate([{join_arguments(parts)}], axis={self.array_axis(node, node.dims[0])})"
        if node.op == "expand":
            return f"jnp.broadcast_to({args[0]}, {self.array_shape(node)})"
        if node.op == "permute":
            return f"{args[0]}.T"
        if node.op == "matmul":
            return self.format_product(node, args)
        if node.op == "takealong":
            axis = self.array_axis(node, node.dims[0])
            place = f"jax.lax.broadcasted_iota(jnp.int32, {self.array_shape(node.args[0])}, {axis})"
            return f"jnp.sum(jnp.where({place} == {args[1]}.astype(jnp.int32), {args[0]}, 0.0), axis={axis}, keepdims=True)"
        return format_step(node, args, divide)

    def spread(self, arg: Node, text: str, node: Node) -> str:
        """A part of a concatenation with as many rows as the result."""
        if self.program.is_unrolled or self.has_rows(arg.shape)[-1] == self.has_rows(node.shape)[-1]:
            return text
        return f"jnp.broadcast_to({text}, (br, {join_arguments(self.trailing(arg.shape))}))"

    def format_fold(self, node: Node, text: str) -> str:
        """A reduction of trailing axes."""
        (arg,) = node.args
        value = f"{text}.astype(jnp.float32)" if is_integer_or_bool(arg) else text
        axes = tuple(self.array_axis(node, i) for i in node.dims)
        axis = str(axes[0] if len(axes) == 1 else axes)
        count = self.numbers.format(multiply_nums([arg.shape[i] for i in node.dims]))
        return format_reduction(node, value, "", axis).replace("(1.0 / n)", f"(1.0 / {count})")

    def format_product(self, node: Node, args: list[str]) -> str:
        """A product of two blocks, or of rows with a weight; a transposed factor is contracted along its other axis."""
        (left, right), (first, second) = args, node.args
        stored = self.factor_names()
        left_axis = int(first not in stored)
        right_axis = int(second in stored if self.program.is_unrolled else not find_factor(second)[1])
        name = f"product{left_axis}{right_axis}"
        self.products[name] = f"((({left_axis},), ({right_axis},)), ((), ()))"
        return f"{name}({left}, {right})"


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a program by its arrays, its grid and the function over a block."""
    program = find_program(pattern.root)
    text = FusedText(program)
    views = [text.view(name, x.shape, x) for x, name in text.names.items()]
    views += [text.weight_view(name, w) for w, name in text.weight_names.items()]
    out = text.view("out", program.root.shape)
    text.body("exact")
    variables = {
        "views": views, "out": out, "body": text.body, "products_used": text.products, "grid": text.grid, "extents": text.extents,
        "unrolled": program.is_unrolled, "result": Result(program.root),
        "out_shape": out.view.removeprefix("out.reshape"),
    }  # fmt: skip
    arguments = (
        *(StageArgument(name, x) for x, name in text.names.items() if x.op == "leaf"),
        *(StageArgument(name, w) for w, name in text.weight_names.items()),
        *(StageArgument(name, n) for n, name in text.numbers.names.items()),
    )
    traits = {
        "vectors": program.rank - program.rows == 1, "blocks": program.rank - program.rows > 1, "products": bool(text.products),
        "divide": has_tensor_division(program.root),
    }  # fmt: skip
    return PatternDescription(arguments, variables, frozenset(name for name, holds in traits.items() if holds))


template = KernelTemplate(
    decisions=(
        Decision("rows", ("8", "32", "64", "128", "256", "512"), trait="vectors"),
        Decision("rows", ("1", "2", "4", "8", "16", "64"), trait="blocks"),
        DIVIDE,
        PRECISION._replace(options=("highest", "split", "thirds"), trait="products"),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
