"""Claims of the pallas cards about supported and refused constructs that no kernel on a card shows, tested with small programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import card_cases
import card_tools
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas import compiler
from evokernel.backends.pallas.lower import lower_program, target_chip
from evokernel.memory.seed_cards import load_seed_cards

CARDS = {item.id.removeprefix("pallas/"): item.text for item in load_seed_cards("pallas")}
HIGHEST = jax.lax.Precision.HIGHEST
needs_compiler = pytest.mark.skipif(compiler.unavailable_reason() is not None, reason=str(compiler.unavailable_reason()))


@pytest.fixture(scope="module", autouse=True)
def end_compiler_process() -> Any:
    yield
    compiler.shut_down()


def trace_operation(operation: Callable[..., Any], *arguments: jax.ShapeDtypeStruct) -> Any:
    """The traced program of a kernel without a grid."""
    result = jax.eval_shape(operation, *arguments)

    def body(*refs: Any) -> None:
        refs[-1][...] = operation(*(ref[...] for ref in refs[:-1]))

    with target_chip(card_tools.V5E):
        return jax.make_jaxpr(lambda *arrays: pl.pallas_call(body, out_shape=result)(*arrays))(*arguments)


def trace_blocked_copy(shape: tuple[int, ...], block: tuple[int | None, ...]) -> Any:
    """The traced program of a copy in blocks."""
    grid = tuple(pl.cdiv(size, step or 1) for size, step in zip(shape, block, strict=True))
    spec, array = pl.BlockSpec(block, lambda *indices: indices), jax.ShapeDtypeStruct(shape, jnp.float32)

    def body(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = x_ref[...]

    with target_chip(card_tools.V5E):
        return jax.make_jaxpr(lambda x: pl.pallas_call(body, out_shape=array, grid=grid, in_specs=[spec], out_specs=spec)(x))(array)


def compile_for_v5e(closed: Any, folder: Path) -> None:
    compiler.compile_program(lower_program(closed, card_tools.V5E), card_tools.V5E.topology, folder)


def fragment(card: str) -> str:
    return str(re.findall(r"^```python\n(.*?)^```", CARDS[card], re.DOTALL | re.MULTILINE)[0])


def array_type(dtype: str, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def table_examples(column: int) -> list[tuple[tuple[int, ...], tuple[int | None, ...]]]:
    """Array and block of every example in one column of the table on the card."""
    examples = []
    for cells in re.findall(r"^\| \[([\d, ]+)\] \| (.*?) \| (.*?) \|$", CARDS["block-shape-rule"], re.MULTILINE):
        shape = tuple(map(int, cells[0].split(",")))
        examples += [
            (shape, tuple(None if size == "None" else int(size) for size in block.split(", ")))
            for block in re.findall(r"\((.*?)\)", cells[column])
        ]
    return examples


@pytest.mark.parametrize(("shape", "block"), table_examples(1), ids=str)
def test_allowed_blocks_are_lowered(shape: tuple[int, ...], block: tuple[int | None, ...]) -> None:
    lower_program(trace_blocked_copy(shape, block), card_tools.V5E)


@pytest.mark.parametrize(("shape", "block"), table_examples(2), ids=str)
def test_refused_blocks_are_rejected(shape: tuple[int, ...], block: tuple[int | None, ...]) -> None:
    with pytest.raises(ValueError, match="divisible by 8 and 128"):
        lower_program(trace_blocked_copy(shape, block), card_tools.V5E)


@pytest.mark.parametrize(
    ("size", "block", "allowed"), [(5000, 1024, True), (5000, 3072, True), (5000, 256, True), (5000, 384, False), (5000, 64, False)]
)
def test_one_dimensional_blocks_follow_their_rule(size: int, block: int, allowed: bool) -> None:
    if allowed:
        lower_program(trace_blocked_copy((size,), (block,)), card_tools.V5E)
    else:
        with pytest.raises(ValueError, match="rank 1 block shapes"):
            lower_program(trace_blocked_copy((size,), (block,)), card_tools.V5E)


SUPPORTED: dict[str, tuple[Callable[..., Any], list[jax.ShapeDtypeStruct]]] = {
    "bfloat16 sum": (lambda x: x + x, [array_type("bfloat16", 32, 128)]),
    "uint32 sum": (lambda x: x + x, [array_type("uint32", 32, 128)]),
    "int16 sum": (lambda x: x + x, [array_type("int16", 32, 128)]),
    "int8 through int32": (lambda x: (x.astype("int32") * 2).astype("int8"), [array_type("int8", 32, 128)]),
    "int8 product": (
        lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.int32),
        [array_type("int8", 128, 128), array_type("int8", 128, 128)],
    ),
    "float8 load": (lambda x: x.astype("float32"), [array_type("float8_e4m3fn", 32, 128)]),
    "bool load": (lambda mask, x: jnp.where(mask, x, 0.0), [array_type("bool", 32, 128), array_type("float32", 32, 128)]),
    "merged rows": (lambda x: x.reshape(56, 128), [array_type("float32", 8, 7, 128)]),
    "wider rows": (lambda x: x.reshape(8, 128), [array_type("float32", 16, 64)]),
    "narrower rows": (lambda x: x.reshape(8, 4, 32), [array_type("float32", 8, 128)]),
    "a vector": (lambda x: x.reshape(1024), [array_type("float32", 8, 128)]),
    "swapped axes": (lambda x: jnp.swapaxes(x, 0, 1), [array_type("bfloat16", 16, 16, 128)]),
    "first dimensions contracted": (
        lambda x, y: jnp.einsum("km,kn->mn", x, y, precision=HIGHEST),
        [array_type("float32", 64, 128), array_type("float32", 64, 128)],
    ),
    "roll by a traced shift": (lambda x, s: pltpu.roll(x, s[0, 0], 1), [array_type("float32", 8, 128), array_type("int32", 1, 1)]),
    "repeated lanes": (lambda x: jnp.tile(x, (1, 2)), [array_type("float32", 8, 128)]),
}


@needs_compiler
@pytest.mark.parametrize("name", SUPPORTED)
def test_supported_operations_compile(tmp_path: Path, name: str) -> None:
    operation, arguments = SUPPORTED[name]
    compile_for_v5e(trace_operation(operation, *arguments), tmp_path)


UNSUPPORTED: dict[str, tuple[str, Callable[..., Any], list[tuple[int, ...]], str]] = {
    "two contracted dimensions": (
        "dot-general-forms",
        lambda x, y: jnp.einsum("ijk,jkl->il", x, y),
        [(8, 16, 128), (16, 128, 128)],
        "contracting dims must be of size 1",
    ),
    "a float iota": (
        "iota-masks",
        lambda x: x + jax.lax.broadcasted_iota(jnp.float32, x.shape, 1),
        [(8, 128)],
        "must be vector of integer",
    ),
    "exact gelu of jax": ("functions-in-kernels", lambda x: jax.nn.gelu(x, approximate=False), [(8, 128)], "erfc"),
    "the largest": ("functions-in-kernels", lambda x: jax.lax.top_k(x, 8)[0], [(8, 128)], "top_k"),
    "a changed row": ("functions-in-kernels", lambda x: x.at[0].set(0.0), [(8, 128)], "scatter"),
    "every second row of a value": ("functions-in-kernels", lambda x: x[::2], [(16, 128)], "strides"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_operations_are_rejected(name: str) -> None:
    card, operation, shapes, message = UNSUPPORTED[name]
    assert card in CARDS
    with pytest.raises(Exception, match=message):
        lower_program(trace_operation(operation, *(array_type("float32", *shape) for shape in shapes)), card_tools.V5E)


def test_three_buffers_are_rejected() -> None:
    message = "Only single (1) and double (2) buffering are supported"
    assert message in CARDS["buffer-count"]
    source = fragment("buffer-count").replace("lambda i: (i, 0))", "lambda i: (i, 0), pipeline_mode=pl.Buffered(3))", 1)
    with pytest.raises(Exception, match=re.escape(message)):
        lower_program(card_tools.trace(source, [array_type("float32", 256, 128), array_type("float32", 128, 128)]), card_tools.V5E)


@needs_compiler
def test_single_rows_of_bfloat16_cannot_be_gathered(tmp_path: Path) -> None:
    assert "a single-row slice is refused" in CARDS["gather-rows"]
    source = fragment("gather-rows")
    with pytest.raises(compiler.CompileError, match="is a multiple of 8"):
        compile_for_v5e(card_tools.trace(source, [array_type("int32", 256), array_type("bfloat16", 64, 128)]), tmp_path)


@pytest.mark.slow(one_in=5)
def test_default_precision_misses_the_tolerance() -> None:
    source = fragment("matmul-precision")
    a, b = card_cases.normal(32, 128), card_cases.normal(128, 32)
    want = a.astype(float) @ b.astype(float)

    def error(text: str) -> float:
        (got,) = card_tools.run(card_tools.trace(text, [a, b]), [a, b])
        return float(np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2)))

    assert error(source) < 2e-6
    assert 1e-3 < error(source.replace("precision=jax.lax.Precision.HIGHEST, ", "")) < 5e-3
