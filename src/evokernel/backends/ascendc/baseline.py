"""What PyTorch would pay for a task on the chip: every operator of the reference as one kernel, priced by the tables the twin prices by.

It is an estimate, and a friendly one: kernels that overlap copies and work perfectly, one after the other without a gap. What torch_npu
pays to dispatch an operator is not published and not in it; no conversion between memory formats is, either.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, prod
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from evokernel.backends.ascendc.chips import REPEAT_BYTES, Chip
from evokernel.backends.ascendc.matmul_cost import Product, product
from evokernel.core import paths
from evokernel.core.errors import UserError
from evokernel.core.records import Task
from evokernel.reference.program import TRACING, Extent, Program, Ref, Step, Varied, key, program_of

log = logging.getLogger(__name__)

NAME = "torch (estimate)"
BENCH_ALONE = (("bench alone", 0),)
"""Tells programs traced at one size from the others that are kept."""
POOLS = ("max_pool", "avg_pool")
WIDE = "64-bit arithmetic, which the vector units lack, counted as two 32-bit instructions"
UNKNOWN = "priced by its bytes only"


class Part(NamedTuple):
    """One kernel."""

    op: str
    us: float
    bound: str
    """What takes longest beside the launch: `memory`, `vector` or `cube`."""


class Baseline(NamedTuple):
    """What was found out."""

    us: float | None
    """None when there is no baseline."""
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    """What the price leaves open, or why there is none."""


class Value(NamedTuple):
    """A tensor in the program."""

    shape: tuple[int, ...]
    dtype: str
    stored: float
    """Bytes behind it: less than its elements take, when it is expanded."""
    is_strided: bool = False

    @property
    def elements(self) -> int:
        return prod(self.shape)


class Load(NamedTuple):
    """What one kernel has to do."""

    op: str
    read: float
    written: float
    cycles: float = 0.0
    """Of vector units, all together."""
    product: Product = Product()


@dataclass(frozen=True)
class Table:
    """`baseline.toml`."""

    cube_efficiency: float
    tile_bytes: int
    views: frozenset[str]
    strided: frozenset[str]
    ordering: frozenset[str]
    makers: frozenset[str]
    movers: frozenset[str]
    gathers: frozenset[str]
    chains: dict[str, list[str]]
    mix: dict[str, str]


@lru_cache
def table() -> Table:
    rows = tomllib.loads((Path(__file__).parent / "baseline.toml").read_text(encoding="utf-8"))
    sets = {name: frozenset(rows[name].split()) for name in ("views", "strided", "ordering", "makers", "movers", "gathers")}
    return Table(**{**rows, **sets})


def baseline_us(task: Task, chip: Chip) -> Baseline:
    """The sum of all kernels of the reference at bench size."""
    found = program_of(task)
    if found.gap:
        found = at_bench(task.source, task.id)
    if found.gap:
        log.warning("no baseline of %s: %s", task.id, found.gap)
        return Baseline(None, notes=(f"no baseline: {found.gap}",))
    loads, notes = work(found, chip)
    parts = tuple(part(load, chip) for load in loads)
    if not parts:
        return Baseline(None, notes=("no baseline: the reference computes nothing",))
    return Baseline(sum(one.us for one in parts), parts, tuple(dict.fromkeys(notes)))


@lru_cache(maxsize=64)
def at_bench(source: str, name: str) -> Program:
    """Traced at the bench size alone, for references whose steps depend on the size; kept, since such references have many."""
    place = paths.cache_folder() / "programs" / f"{key(source, BENCH_ALONE)}.json"
    try:
        return Program.model_validate_json(place.read_bytes())
    except (OSError, ValidationError):
        pass
    from evokernel.reference.trace import at_size

    try:
        with TRACING:
            found = at_size(source, name, {})
    except UserError as error:
        found = Program(gap=str(error))
    try:
        paths.write_bytes(place, found.model_dump_json().encode())
    except OSError as error:
        log.debug("traced program not kept: %s", error)
    return found


def part(load: Load, chip: Chip) -> Part:
    """The launch, the way of the first and the last copy, and whatever takes longest in between."""
    moved = load.read + load.written
    times = {
        "memory": chip.us(moved / chip.bytes_per_cycle(moved)),
        "vector": chip.us(load.cycles / chip.aiv_cores),
        "cube": chip.us(load.product.macs / (chip.aic_cores * rate(load.product.dtype, chip) * table().cube_efficiency)),
    }
    bound, longest = max(times.items(), key=lambda item: item[1])
    ways = chip.us((2 if load.read else 1) * chip.copy(0))
    return Part(load.op, chip.launch_us + ways + longest, bound)


def rate(dtype: str, chip: Chip) -> int:
    """Multiply-adds of a cube core per cycle; float32 at full precision, as torch_npu has it by default for matrices."""
    if dtype in ("float16", "bfloat16"):
        return chip.cube_macs_half
    return chip.cube_macs_int8 if dtype in ("int8", "uint8") else chip.cube_macs_float


def work(program: Program, chip: Chip) -> tuple[list[Load], list[str]]:
    """The kernels of a program, and what is not known about them."""
    known: dict[Ref, Value] = {}
    for argument in program.arguments:
        known[Ref(name=argument.name)] = value(argument.shape, argument.dtype)
    loads: list[Load] = []
    notes: list[str] = []
    for step in program.steps:
        op = operator(step.op)
        given = [known[ref] for ref in refs((*step.args, *step.settings.values()))]
        made = [value(shape, dtype) for shape, dtype in zip(step.shapes, step.dtypes)]
        if op in table().views and given:
            source = given[0]
            made = [viewed(op, source, one) for one in made]
            if copies(op, source, made):
                made = [one._replace(stored=float(size(one.shape, one.dtype)), is_strided=False) for one in made]
                loads.append(Load(op, source.stored, made[0].stored, vector(op, made[0].elements, made[0].dtype, chip)))
        else:
            loads += kernels(step, op, given, made, chip)
            notes += doubts(op, loads[-1], given, made)
        known |= {Ref(name=step.name, part=i): one for i, one in enumerate(made)}
    return loads, notes


def operator(op: str) -> str:
    """`aten.add_.Tensor` is `add`."""
    name = op.split(".")[1] if "." in op else op
    return name.removesuffix("_") if not name.startswith("__") else name


def refs(values: Iterable[object]) -> Iterator[Ref]:
    """All values an operation is given, however deep in lists; those it is given twice, once."""
    seen = set()
    pending = list(values)
    while pending:
        one = pending.pop(0)
        if isinstance(one, Ref) and one not in seen:
            seen.add(one)
            yield one
        elif isinstance(one, tuple):
            pending = [*one, *pending]


def value(shape: Iterable[Extent], dtype: str) -> Value:
    """At bench size, which is the first."""
    extents = tuple(int(n.at[0]) if isinstance(n, Varied) else n for n in shape)
    return Value(extents, dtype, float(size(extents, dtype)))


def size(shape: Sequence[int], dtype: str) -> int:
    return prod(shape) * width(dtype)


def width(dtype: str) -> int:
    """Bytes of an element."""
    return max(1, int("".join(filter(str.isdigit, dtype)) or 8) // 8)


def viewed(op: str, source: Value, made: Value) -> Value:
    """A view has the bytes behind it that its source has."""
    return made._replace(stored=min(made.stored, source.stored), is_strided=source.is_strided or op in table().strided)


def copies(op: str, source: Value, made: Sequence[Value]) -> bool:
    """Whether what mostly is a view has to copy after all."""
    return source.dtype != made[0].dtype or (source.is_strided and op in table().ordering)


def kernels(step: Step, op: str, given: list[Value], made: list[Value], chip: Chip) -> Iterator[Load]:
    """Those that an operator takes."""
    written = sum(one.stored for one in made)
    read = sum(one.stored for one in given)
    if op in table().gathers and given:
        read += min(given[0].stored, written) - given[0].stored
    if op in table().chains:
        yield from chained(op, given, made, chip)
    elif op == "scaled_dot_product_attention" and made[0].dtype == "float32":
        yield from attention(given, made[0], chip)
    elif found := product(step, op, [one.shape for one in given], [one.shape for one in made], made[0].dtype):
        scores = vector("softmax", found.scores, made[0].dtype, chip)
        yield Load(op, read, written, scores, found)
    else:
        elements = prod(made[0].shape) if op in table().gathers else max(one.elements for one in (*given, *made))
        if op.startswith(POOLS):
            elements = made[0].elements * window(step)
        yield Load(op, read, written, vector(op, elements, worked_in(given, made), chip))


def chained(op: str, given: list[Value], made: list[Value], chip: Chip) -> Iterator[Load]:
    """One kernel after the other; only the last writes the operator's result."""
    between = given[0]
    read, extra = between.stored, sum(one.stored for one in given[1:])
    *first, last = table().chains[op]
    for name in first:
        yield Load(f"{op}: {name}", read, between.stored, vector(name, between.elements, between.dtype, chip))
    cycles = vector(last, between.elements, between.dtype, chip)
    yield Load(f"{op}: {last}", read + extra, sum(one.stored for one in made), cycles)


def attention(given: list[Value], made: Value, chip: Chip) -> Iterator[Load]:
    """Step by step, since CANN's fused attention takes 16-bit types only."""
    query, key, values = given[:3]
    rows, depth = query.elements // query.shape[-1], query.shape[-1]
    scores = rows * key.shape[-2]
    between = float(scores * width(query.dtype))
    masks = sum(one.stored for one in given[3:])
    yield Load("attention: scores", query.stored + key.stored, between, 0.0, Product(float(scores * depth), query.dtype))
    yield Load("attention: softmax", between + masks, between, vector("softmax", scores, query.dtype, chip))
    yield Load("attention: values", between + values.stored, made.stored, 0.0, Product(float(scores * values.shape[-1]), query.dtype))


def window(step: Step) -> int:
    """Elements that a pool looks at for one result."""
    given = step.args[1] if len(step.args) > 1 else step.settings.get("kernel_size", 1)
    extents = given if isinstance(given, tuple) else (given,) * int(operator(step.op)[-2])
    return prod(int(n.at[0]) if isinstance(n, Varied) else int(n) for n in extents if isinstance(n, int | float | Varied))


def worked_in(given: Sequence[Value], made: Sequence[Value]) -> str:
    """The type of the largest tensor."""
    return max((*given, *made), key=lambda one: one.elements).dtype


def vector(op: str, elements: int, dtype: str, chip: Chip) -> float:
    """Cycles of vector units; types they cannot work in are converted on the way in and out."""
    mix = table().mix.get(op, "")
    if not mix or op in table().movers:
        return 0.0
    converted = {"bfloat16": ("float32", 2), "bool": ("float16", 2), "int8": ("float16", 2), "uint8": ("float16", 2)}
    inside, conversions = converted.get(dtype, (dtype, 0))
    repeats = ceil(elements * width(inside) / REPEAT_BYTES)
    each = [*instructions(mix), *["conv"] * conversions]
    start = chip.vector_start * REPEAT_BYTES / table().tile_bytes
    return repeats * sum(chip.instruction(name, inside) + start for name in each)


def instructions(mix: str) -> Iterator[str]:
    """`mul*3 add` is three and one."""
    for word in mix.split():
        name, _, times = word.partition("*")
        yield from [name] * int(times or 1)


def doubts(op: str, load: Load, given: Sequence[Value], made: Sequence[Value]) -> Iterator[str]:
    """What is not known about the price of an operator."""
    rows = table()
    priced = load.cycles or load.product.macs or op in rows.chains
    if not priced and op not in rows.makers | rows.movers | rows.gathers | rows.mix.keys():
        yield f"{op}: {UNKNOWN}"
    if load.cycles and width(worked_in(given, made)) == 8:
        yield f"{op}: {WIDE}"
