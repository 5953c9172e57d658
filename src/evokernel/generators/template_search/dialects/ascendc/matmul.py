"""Matrix products, plain or batched, with elementwise steps after them: on the cube unit, or row by row on the vector unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evokernel.generators.template_search.decisions import Choice, Decision, one_of
from evokernel.generators.template_search.dialects import TemplateChoice
from evokernel.generators.template_search.dialects.ascendc.activation_forms import rewrite_tree
from evokernel.generators.template_search.dialects.ascendc.common_decisions import BANKS, DEPTH, MATHS, RELEASE, SHARE, STAGING, TAIL
from evokernel.generators.template_search.dialects.ascendc.emit import LIBRARY, Steps, StepValue, reduction_lines
from evokernel.generators.template_search.dialects.ascendc.local_memory import LIBRARY_RESERVE, UNIFIED_BUFFER
from evokernel.generators.template_search.dialects.ascendc.loop_nests import as_choice
from evokernel.generators.template_search.dialects.ascendc.operand_access import OperandRead
from evokernel.generators.template_search.dialects.loop_text import number_arguments
from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern, walk
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument, name_free_numbers
from evokernel.generators.template_search.patterns import RESULT, KernelPattern

OUTSIDE = {(True, True): "(o * M + r)", (True, False): "o", (False, True): "r", (False, False): "0"}
"""The row of an operand, by whether it changes with the batch and with the row."""
FORMS = {(True, True): "tile", (False, True): "row", (True, False): "column", (False, False): "number"}
"""How much of an operand a tile of the product needs, by whether it changes with the row and with the column."""


@dataclass(frozen=True)
class EpilogueRead(OperandRead):
    """An operand of the steps after a product."""

    form: str = "tile"
    varies: bool = False
    """Whether it changes with the batch."""
    by_row: bool = False
    """Whether it changes with the row."""

    @property
    def few(self) -> str:
        """The name of the buffer of a row or column, before it fills a tile."""
        return f"{self.name}_few"

    @property
    def tile_value(self) -> StepValue:
        """The argument for instructions on complete tiles."""
        return self.value if self.form == "number" else StepValue(self.local, True)


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a product by sizes, layouts of the factors and epilogue."""
    (a, b), (rows_a, rows_b) = pattern.tensors, pattern.in_order
    if any(n.dtype != "float32" for n in (a, b, pattern.root, *(o.node for o in pattern.operands))):
        raise UnsupportedPattern("a product of other than float32")
    batch, m, n = (axis.extent for axis in pattern.axes)
    if not (rows_a or m.is_one) and not (rows_b and not n.is_one):
        raise UnsupportedPattern("a product of two factors stored by columns")
    sizes = (
        StageArgument("batch", batch),
        StageArgument("M", m),
        StageArgument("N", n),
        StageArgument("K", a.shape[-1] if rows_a else a.shape[-2]),
    )
    product = describe_product(pattern, OUTSIDE, (rows_a or m.is_one, rows_b and not n.is_one), sizes)
    variables = {
        **product.variables, "turned": ", ".join("false" if in_order else "true" for in_order in pattern.in_order),
        "in_order": pattern.in_order, "batched_b": len(b.shape) > 2,
    }  # fmt: skip
    return PatternDescription((StageArgument("left", a), StageArgument("right", b), *product.arguments), variables, product.traits)


def describe_product(
    pattern: KernelPattern,
    outside: Mapping[tuple[bool, bool], str],
    by_rows: tuple[bool, bool],
    sizes: Sequence[StageArgument],
    used: int = 0,
    further_tiles: int = 0,
) -> PatternDescription:
    """A product in terms of its templates: sizes and epilogue; `outside` has the rows of the epilogue's operands.

    `by_rows` says for each factor whether it is stored row by row, `used` how many bytes of local memory the epilogue cannot have,
    and `further_tiles` how many tiles it needs besides those of its steps.
    """
    after = rewrite_tree(pattern.epilogue) if pattern.epilogue is not None else None
    free = name_free_numbers(after) if after is not None else {}
    reads = []
    for i, o in enumerate(pattern.operands):
        by_batch, by_row, inner = o.present
        row = outside[by_batch, by_row]
        at = f"{row} * N + c" if inner else row
        reads.append(EpilogueRead(o.node, f"e{i}", inner, False, False, at, form=FORMS[by_row, inner], varies=by_batch, by_row=by_row))
    epilogue = epilogue_builder(after, reads, free)
    arguments = (*(StageArgument(r.name, r.node) for r in reads), *sizes, *number_arguments(free))
    variables = {
        "turned": "false, false", "in_order": (True, True), "rows_a": by_rows[0], "rows_b": by_rows[1], "batched_b": True,
        "left_batch": "o", "is_windowed": False,
        "reads": reads, "follows": after is not None, "epilogue": epilogue, "fold": reduction_lines,
        "copied": [("line", "float"), *((r.local, "float") for r in reads if r.form == "tile"),
                   *((r.few, "float") for r in reads if r.form == "column")],
        "room": lambda d, steps: elements_per_buffer(reads, as_choice(d), steps, used, further_tiles),
    }  # fmt: skip
    dots = {"axpy" if by_rows[1] else "dots"}
    return PatternDescription(arguments, variables, frozenset(dots | (epilogue_traits(after, epilogue) if after is not None else set())))


def elements_per_buffer(reads: Sequence[EpilogueRead], d: Choice, steps: Steps, used: int, further_tiles: int) -> int:
    """How many elements of a tile fit into each buffer of the steps after a product."""
    depth = int(d.get("depth", "1")) if d.get("staging") == "queue" else 1
    tiles = sum(depth if r.form == "tile" else 1 for r in reads if r.form != "number") + 2 * depth + steps.temps + further_tiles
    reserve = LIBRARY_RESERVE if any(f"{call}(" in line for call in LIBRARY.values() for line in steps.lines) else 0
    return (UNIFIED_BUFFER - used - reserve - 12 * 1024) // (4 * tiles) // 64 * 64


def epilogue_builder(
    after: Node | None, reads: Sequence[EpilogueRead], free: Mapping[Num, str]
) -> Callable[[TemplateChoice | Choice], Steps]:
    """A function from a choice to the steps that compute the output from the product: tiles on the cube, else rows."""
    results = {x: StepValue("line", True) for x in walk(*([after] if after is not None else [])) if x.op == "leaf" and x.name == RESULT}

    def epilogue(d: TemplateChoice | Choice) -> Steps:
        is_tile = d["unit"] == "cube" if isinstance(d, TemplateChoice) else d.get("unit") == "cube"
        arguments = {r.node: r.tile_value if is_tile else r.value for r in reads}
        steps = Steps(arguments | results, free, as_choice(d), "size" if is_tile else "count")
        if after is None:
            steps.emit("Adds(y, line, 0.0f, count);")
        else:
            steps.count_uses(after)
            steps.compute_into(after, "y")
        return steps

    if "bits" in epilogue({}).needs:
        raise UnsupportedPattern("a product followed by a comparison")
    return epilogue


def epilogue_traits(after: Node, epilogue: Callable[[TemplateChoice | Choice], Steps]) -> set[str]:
    """Traits that the decisions about the epilogue depend on."""

    def differs(name: str, *options: str) -> bool:
        texts = [(s.lines, s.temps) for s in (epilogue({name: option}) for option in options)]
        return texts[0] != texts[1]

    nodes = walk(after)
    holds = {
        "epilogue": True, "tanh": any(x.op == "tanh" for x in nodes), "divide": differs("divide", "div", "reciprocal"),
        "temps": differs("temps", "reuse", "fresh"),
        "library": any(x.op in LIBRARY for x in nodes) and differs("temps", "reuse", "inplace"),
    }  # fmt: skip
    return {name for name, there in holds.items() if there}


ON_VECTORS = one_of("unit", "vector")
PRODUCT_DECISIONS = (
        Decision("unit", ("vector", "cube")),
        Decision("part", ("32", "64", "128", "fit"), one_of("unit", "cube")),
        Decision("ksteps", ("1", "2", "4", "8"), one_of("unit", "cube")),
        Decision("block", ("1", "4", "8"), ON_VECTORS),
        Decision("columns", ("32", "64", "256", "1024"), ON_VECTORS),
        Decision("ktile", ("16", "64", "256"), ON_VECTORS),
        Decision("accumulate", ("axpy", "muladd"), ON_VECTORS, trait="axpy"),
        Decision("reduce", ("level", "halves", "scalar"), ON_VECTORS, trait="dots"),
        STAGING._replace(when=ON_VECTORS, excluded_by="epilogue"), STAGING._replace(trait="epilogue"),
        DEPTH, RELEASE,
        TAIL._replace(when=ON_VECTORS, excluded_by="epilogue"), TAIL._replace(trait="epilogue"),
        SHARE._replace(when=ON_VECTORS),
        BANKS._replace(when=ON_VECTORS, excluded_by="epilogue"), BANKS._replace(trait="epilogue"),
        *MATHS,
)  # fmt: skip
"""The vector unit takes blocks of rows and columns and `ktile` summands at a time.

The cube takes parts of the result, square ones or those that the sizes suggest, and the summands in `ksteps` steps.
"""
template = KernelTemplate(decisions=PRODUCT_DECISIONS, describe=describe)
