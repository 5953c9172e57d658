"""Any steps over rows in one kernel: a block has some rows, and complete axes behind them, on which it computes everything."""

from __future__ import annotations

from dataclasses import dataclass, field

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
from evokernel.generators.template_search.dialects.pallas.row_program import STEPS, RowProgram, find_program, is_stored_turned
from evokernel.generators.template_search.dialects.steps import emit_steps
from evokernel.generators.template_search.graph import Node, Num, Shape, pad_rank, walk
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern, find_factor, multiply_nums

TOGETHER = "together"
"""The operator of a node that stands for several values."""


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
        Decision("rows", ("128", "256", "512", "1024", "4096"), is_transposed, trait="vectors"),
        Decision("rows", ("1", "2", "4", "8", "16", "64"), trait="blocks"),
        DIVIDE,
        PRECISION._replace(options=("highest", "split", "thirds"), trait="products"),
        SEMANTICS._replace(excluded_by="sums"), LIMIT,
    ),
    describe=describe,
)  # fmt: skip
