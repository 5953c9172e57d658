"""Any steps over rows in one kernel: a block has some rows, and complete axes behind them, on which it computes everything.

Leading axes on which every step works separately are the rows. Weights of products are complete in VMEM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import ceil, prod

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    DIVIDE,
    LIMIT,
    PRECISION,
    SEMANTICS,
    TURN,
    has_tensor_division,
    is_transposed,
)
from evokernel.generators.template_search.dialects.pallas.emit import (
    format_literal,
    format_reduction,
    format_step,
    is_integer_or_bool,
    join_arguments,
)
from evokernel.generators.template_search.dialects.pallas.layouts import INSIDE, NARROWED, Result
from evokernel.generators.template_search.dialects.steps import emit_steps
from evokernel.generators.template_search.graph import Node, Num, Shape, UnsupportedPattern, broadcast_shapes, pad_rank, walk
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, find_factor, multiply_nums

MOVES = frozenset({"slice", "cat", "expand", "permute"})
TOGETHER = "together"
"""The operator of a node that stands for several values."""
STEPS = frozenset({"reduce", "matmul", "takealong"}) | MOVES
LANES, SUBLANES, FLOAT_BYTES = 128, 8, 4
BLOCK_BYTES = 1 << 20
"""Largest block of one array."""
ARRAY_BYTES, ALL_BYTES, WEIGHT_BYTES = 2 << 20, 12 << 20, 8 << 20
"""Limits of one array of a block of one row, of all arrays together, and of all weights."""


@dataclass(frozen=True)
class BlockView:
    """An array that the kernel reads, its blocks, and the expression of a block inside the kernel."""

    name: str
    view: str
    """The expression that makes it from the argument."""
    shape: str
    block: str
    index: str
    inside: str = ""
    """The conversion to float32."""
    has_rows: bool = True
    is_turned: bool = False
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

    def __init__(self, root: Node, rank: int, rows: int, sums: Sequence[Node] = ()) -> None:
        self.root, self.rank, self.rows, self.sums = root, rank, rows, tuple(sums)
        self.results = tuple(node.args[0] for node in sums) or (root,)
        """What a block computes: a block of the root, or the values of its rows that are added up over all blocks."""
        self.full = broadcast_shapes(*(pad_rank(node.shape, rank)[:rows] for node in self.results))
        self.operands: list[Node] = []
        self.weights: list[Node] = []
        self.visited: set[Node] = set()
        for node in self.results:
            self.visit(node)
        nodes = [n for n in self.visited if n.op != "const"]
        self.is_unrolled = any(n.op in ("matmul", "permute") for n in nodes) and rank - rows > 1
        if self.is_unrolled and sums:
            raise UnsupportedPattern("a sum over products of blocks")
        if self.is_unrolled and rank - rows > 2:
            raise UnsupportedPattern("products of blocks with more than two axes")
        sizes = [self.block_bytes(n.shape) for n in nodes]
        if max(sizes) > ARRAY_BYTES or sum(self.block_bytes(x.shape) for x in self.arrays) > ALL_BYTES:
            raise UnsupportedPattern("rows that are too large for one block")
        if sum(matrix_bytes(w.shape) for w in self.weights) > WEIGHT_BYTES:
            raise UnsupportedPattern("weights that are too large for one block")

    @property
    def arrays(self) -> tuple[Node, ...]:
        """The values that a block reads and writes."""
        return (*self.operands, *(() if self.sums else (self.root,)))

    def block_bytes(self, shape: Shape) -> float:
        """Bytes of a value in VMEM for one row, or for a register of rows if they are in sublanes."""
        sizes = [n.value for n in pad_rank(shape, self.rank)[self.rows :]]
        return matrix_bytes_of([SUBLANES, *sizes] if len(sizes) == 1 else sizes)

    def count_blocks(self) -> float:
        """Number of blocks at bench size if each has as many rows as a block can have."""
        *outer, rows = ([self.full[i].value for i in group] for group in self.groups)
        row_bytes = max(self.block_bytes(x.shape) for x in self.arrays) / (SUBLANES if self.rank - self.rows == 1 else 1)
        return prod(n for group in outer for n in group) * ceil(prod(rows) * row_bytes / max(BLOCK_BYTES, row_bytes))

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
    """The program with fewest blocks; without rows only if there is no other.

    Most row axes are best for products with weights, and if XLA stores rows in lanes.
    """
    nodes = walk(root)
    rank = max(2, *(len(n.shape) for n in nodes))
    reason = UnsupportedPattern("steps without common rows")
    sums, programs = find_sums(root), list[RowProgram]()
    for rows in range(rank - 1, 0 if sums else -1, -1):
        if rows == 0 and programs:
            break
        try:
            programs.append(RowProgram(root, rank, rows, sums))
        except UnsupportedPattern as error:
            reason = error
    if not programs:
        raise reason
    first = programs[0]
    if any(n.op == "matmul" for n in nodes) or (rank - first.rows == 1 and is_better_turned(first)):
        return first
    return min(programs, key=lambda program: program.count_blocks())


def find_sums(root: Node) -> list[Node]:
    """The sums over all elements from which a result is computed that is a single number; empty if it depends on anything else."""
    sums: dict[Node, None] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.op == "reduce" and node.name in ("sum", "mean") and all(n.is_one for n in node.shape):
            sums[node] = None
        elif node.is_elementwise and all(n.is_one for n in node.shape):
            stack += node.args
        elif node.op != "const":
            return []
    return list(sums)


class FusedText:
    """The text of a program: arrays, blocks and statements."""

    def __init__(self, program: RowProgram, numbers: Names, is_turned: bool) -> None:
        self.program, self.numbers = program, numbers
        self.is_turned = is_turned and (program.is_unrolled or program.rank - program.rows == 1)
        self.products: dict[str, str] = {}
        *outer, last = program.groups
        self.groups = [*outer, last[:-1], last[-1:]] if self.is_turned and not program.is_unrolled and len(last) > 1 else program.groups
        self.names = {x: f"x{i}" for i, x in enumerate(program.operands)}
        self.weight_names = {w: f"w{i}" for i, w in enumerate(dict.fromkeys(program.weights))}
        self.extents = [self.numbers.format(multiply_nums([program.full[i] for i in group])) for group in self.groups]
        self.grid = [f"g{i}" for i in range(len(self.groups))]
        self.turned_operands = self.find_turned_operands() if self.is_turned else set()

    def trailing(self, shape: Shape) -> list[str]:
        """The extents of the axes behind the rows."""
        return [self.numbers.format(n) for n in pad_rank(shape, self.program.rank)[self.program.rows :]]

    def has_rows(self, shape: Shape) -> list[bool]:
        """For each group of row axes: whether a value changes along it."""
        sizes = pad_rank(shape, self.program.rank)
        return [any(not sizes[i].is_one for i in group) for group in self.groups]

    def find_turned_operands(self) -> set[Node]:
        """Operands that are read with their last two axes exchanged: all, or factors of products that XLA stores like this."""
        if not self.program.is_unrolled:
            return {*self.program.arrays}
        products = [n for n in self.program.visited if n.op == "matmul"]
        factors = {f.args[0] if f.op == "permute" else f for n in products for f in n.args}
        others = {arg for n in self.program.visited if n.op not in ("matmul", "permute") for arg in n.args}
        outputs = {self.program.root} if self.program.root.op == "matmul" else set[Node]()
        return {x for x in ((factors & {*self.program.operands}) - others) | outputs if is_stored_turned(x.shape)}

    def view(self, name: str, node: Node) -> BlockView:
        """An operand, or the output, as an array of row groups and trailing axes."""
        present, behind = self.has_rows(node.shape), self.trailing(node.shape)
        sizes = [n if there else "1" for n, there in zip(self.extents, present)]
        shape = [*sizes, *behind]
        block = ["None"] * (len(sizes) - 1) + ["br" if present[-1] else "1"] + behind
        index = [g if there else "0" for g, there in zip(self.grid, present)] + ["0"] * len(behind)
        text, inside = name, ""
        if node.op == "index":
            text = f"jnp.arange({self.numbers.format(multiply_nums(node.shape))}, dtype=jnp.float32)"
        elif node.op == "leaf" and node.dtype != "float32":
            is_inside = NARROWED.get(node.dtype, node.dtype) in INSIDE
            text, inside = (name, ".astype(jnp.float32)") if is_inside else (f"{name}.astype(jnp.float32)", "")
        text = f"{text}.reshape({join_arguments(shape)})"
        if node in self.turned_operands:
            text = f"{text}.swapaxes(-1, -2)"
            for texts in (shape, block, index):
                texts[-2:] = texts[:-3:-1]
        return BlockView(
            name, text, f"({join_arguments(shape)})", f"({join_arguments(block)})",
            f"lambda {join_arguments(self.grid)}: ({join_arguments(index)})", inside, present[-1],
            node in self.turned_operands,
        )  # fmt: skip

    def weight_view(self, name: str, weight: Node) -> BlockView:
        """A matrix that every block reads completely."""
        text = name if weight.dtype == "float32" else f"{name}.astype(jnp.float32)"
        sizes = join_arguments(map(self.numbers.format, weight.shape))
        return BlockView(name, text, f"({sizes})", f"({sizes})", f"lambda {join_arguments(self.grid)}: (0, 0)", is_weight=True)

    def array_axis(self, node: Node, axis: int) -> int:
        """The axis of the array inside the kernel that is an axis of a node."""
        behind = axis + self.program.rank - len(node.shape) - self.program.rows
        return behind if self.program.is_unrolled or self.is_turned else behind + 1

    def array_shape(self, node: Node) -> str:
        """The shape of the array inside the kernel."""
        return self.block_shape("br" if self.has_rows(node.shape)[-1] else "1", self.trailing(node.shape))

    def block_shape(self, rows: str, behind: list[str]) -> str:
        """The shape of an array inside the kernel with these rows."""
        if self.program.is_unrolled:
            return f"({join_arguments(behind)})"
        return f"({join_arguments([*behind, rows] if self.is_turned else [rows, *behind])})"

    def body(self, divide: str) -> list[str]:
        """The statements of the function that computes a block, and its return."""
        arguments = [*self.names.values(), *self.weight_names.values()]
        texts = self.names | self.factor_names()

        def format_statement(node: Node, args: list[str], target: str) -> str:
            return f"    {target} = {self.format_node(node, args, divide)}"

        tree = Node(TOGETHER, self.program.results) if self.program.sums else self.program.root
        lines, result = emit_steps(tree, texts, self.numbers.format, format_statement, STEPS | {TOGETHER})
        return [f"def body({join_arguments(arguments)}):", *lines, f"    return {result}"]

    def finish(self) -> list[str]:
        """The function that computes the result from sums over all elements."""
        names = {node: f"r{i}" for i, node in enumerate(self.program.sums)}

        def format_statement(node: Node, args: list[str], target: str) -> str:
            return f"    {target} = {format_step(node, args, 'exact')}"

        lines, result = emit_steps(self.program.root, names, self.numbers.format, format_statement)
        return [f"def finish({join_arguments(names.values())}):", *lines, f"    return {result}"]

    @property
    def shares(self) -> list[str]:
        """For each sum over all elements: the factor that makes it a mean, or empty."""
        counts = [multiply_nums([node.args[0].shape[i] for i in node.dims]) if node.name == "mean" else None for node in self.program.sums]
        return [f" * (1.0 / ({self.numbers.format(n)}))" if n else "" for n in counts]

    def finished_sums(self) -> str:
        """The sums and means as arguments of `finish`."""
        return join_arguments(f"totals[{i}][...]{share}" for i, share in enumerate(self.shares))

    @property
    def row_axis(self) -> int:
        """The axis of arrays inside the kernel that has the rows."""
        return 1 if self.is_turned else 0

    def factor_names(self) -> dict[Node, str]:
        """Factors of products that are read as they are stored: weights, and transposed operands that nothing else uses."""
        nodes = [n for n in walk(*self.program.results) if n in self.program.visited]
        products = [n for n in nodes if n.op == "matmul"]
        if not self.program.is_unrolled:
            return {n.args[1]: self.weight_names[find_factor(n.args[1])[0]] for n in products}
        factors = {arg for n in products for arg in n.args if arg.op == "permute" and arg.args[0] in self.names}
        others = {arg for n in nodes if n.op != "matmul" for arg in n.args}
        return {factor: self.names[factor.args[0]] for factor in factors - others}

    def format_node(self, node: Node, args: list[str], divide: str) -> str:
        """One step as a JAX expression."""
        if node.op == TOGETHER:
            return f"[{join_arguments(self.add_trailing(arg, text) for arg, text in zip(node.args, args))}]"
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

    def add_trailing(self, node: Node, text: str) -> str:
        """The sum of each row of a block."""
        value = f"{text}.astype(jnp.float32)" if is_integer_or_bool(node) else text
        axes = [0] if self.is_turned else range(1, 1 + self.program.rank - self.program.rows)
        rows = self.block_shape("br", self.trailing(node.shape))
        return f"jnp.sum(jnp.broadcast_to({value}, {rows}), axis=({join_arguments(map(str, axes))},), keepdims=True)"

    def spread(self, arg: Node, text: str, node: Node) -> str:
        """A part of a concatenation with as many rows as the result."""
        if self.program.is_unrolled or self.has_rows(arg.shape)[-1] == self.has_rows(node.shape)[-1]:
            return text
        return f"jnp.broadcast_to({text}, {self.block_shape('br', self.trailing(arg.shape))})"

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
        if not self.program.is_unrolled:
            summed = int(not find_factor(second)[1])
            return self.call_product(right, summed, left, 0) if self.is_turned else self.call_product(left, 1, right, summed)
        left_axis, right_axis = self.summed_axis(first, 1), self.summed_axis(second, 0)
        if node in self.turned_operands:
            return self.call_product(right, right_axis, left, left_axis)
        return self.call_product(left, left_axis, right, right_axis)

    def summed_axis(self, factor: Node, axis: int) -> int:
        """The axis of a factor's array that a product sums over, `axis` if it is stored as it is used."""
        stored = factor.args[0] if factor in self.factor_names() else factor
        return axis ^ (stored is not factor) ^ (stored in self.turned_operands)

    def call_product(self, left: str, left_axis: int, right: str, right_axis: int) -> str:
        """A call of the product that sums over these axes."""
        name = f"product{left_axis}{right_axis}"
        self.products[name] = f"((({left_axis},), ({right_axis},)), ((), ()))"
        return f"{name}({left}, {right})"


def is_stored_turned(shape: Shape) -> bool:
    """Whether XLA stores a tensor with its last two axes exchanged, because that needs less padding at bench size."""
    sizes = [n.value for n in shape if n.value > 1]
    return len(sizes) > 1 and matrix_bytes_of([*sizes[:-2], sizes[-1], sizes[-2]]) < matrix_bytes_of(sizes)


def is_better_turned(program: RowProgram) -> bool:
    """Whether most bytes that a program reads and writes are stored with exchanged axes."""
    tensors = [x for x in program.arrays if x.op != "index"]
    signed = [matrix_bytes(x.shape) * (1 if is_stored_turned(x.shape) else -1) for x in tensors]
    return sum(signed) > 0


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a program by its arrays, its grid and the function over a block."""
    program, numbers = find_program(pattern.root), Names()
    texts = {turn: FusedText(program, numbers, turn == "yes") for turn in ("no", "yes")}
    plain = texts["no"]
    arrays = {
        turn: [
            *(text.view(name, x) for x, name in text.names.items()), *(text.weight_view(name, w) for w, name in text.weight_names.items()),
        ]
        for turn, text in texts.items()
    }  # fmt: skip
    outputs = {turn: text.view("out", program.root) for turn, text in texts.items() if not program.sums}
    for text in texts.values():
        text.body("exact")
        if program.sums:
            text.finish()
            text.finished_sums()
    variables = {
        "texts": texts, "arrays": arrays, "outputs": outputs, "unrolled": program.is_unrolled, "result": Result(program.root),
        "sums": program.sums,
    }  # fmt: skip
    arguments = (
        *(StageArgument(name, x) for x, name in plain.names.items() if x.op == "leaf"),
        *(StageArgument(name, w) for w, name in plain.weight_names.items()),
        *(StageArgument(name, n) for n, name in numbers.names.items()),
    )
    is_vector = program.rank - program.rows == 1
    traits = {
        "vectors": is_vector, "blocks": not is_vector, "turnable": bool(texts["yes"].turned_operands),
        "sums": bool(program.sums), "products": bool(plain.products), "divide": has_tensor_division(program.root),
    }  # fmt: skip
    return PatternDescription(arguments, variables, frozenset(name for name, holds in traits.items() if holds))


template = KernelTemplate(
    decisions=(
        TURN._replace(trait="turnable"),
        Decision("rows", ("8", "32", "64", "128", "256", "512"), one_of("turn", "no"), trait="vectors"),
        Decision("rows", ("128", "256", "512", "1024"), is_transposed, trait="vectors"),
        Decision("rows", ("1", "2", "4", "8", "16", "64"), trait="blocks"),
        DIVIDE,
        PRECISION._replace(options=("highest", "split", "thirds"), trait="products"),
        SEMANTICS._replace(excluded_by="sums"), LIMIT,
    ),
    describe=describe,
)  # fmt: skip
