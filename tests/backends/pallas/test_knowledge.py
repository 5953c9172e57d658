"""The cards and rules of the pallas backend: their kernels compile, compute, are rejected and take the time that they state."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import card_cases
import card_figures
import card_tools
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sampling import one_in

from evokernel.backends.pallas import compiler
from evokernel.backends.pallas.backend import CHECKED_SIZES
from evokernel.backends.pallas.lower import lower_program, target_chip
from evokernel.backends.pallas.program_rules import collect_findings, load_rules
from evokernel.backends.pallas.schedule import Estimate, diagnose
from evokernel.backends.pallas.schedule.diagnosis import ADVICE
from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.records import ScalarArgument, Signature, Task, Tensor, Work
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.policies.excerpts import contains_identifier
from evokernel.suites.family import FAMILIES
from evokernel.verifier.reasons import REASONS

HERE = plugin_folder("backend", "pallas")
CARDS = {item.id.removeprefix("pallas/"): item for item in load_seed_cards("pallas")}
BLOCKS = {name: re.findall(r"^```python\n(.*?)^```", item.text, re.DOTALL | re.MULTILINE) for name, item in CARDS.items()}
REFUSALS = sorted(name for name, blocks in BLOCKS.items() if blocks and card_tools.parse_refusal(blocks[0]))
KERNELS = sorted(name for name, blocks in BLOCKS.items() if blocks and name not in REFUSALS)
TOLERANCE = {"float32": 1e-4, "bfloat16": 1e-2}
CLOSE = 0.06

needs_compiler = pytest.mark.skipif(compiler.unavailable_reason() is not None, reason=str(compiler.unavailable_reason()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield tmp_path_factory.mktemp("cards")
    compiler.shut_down()


@lru_cache
def program(card: str, sizes: tuple[int, ...], edits: tuple[tuple[str, str], ...] = ()) -> Any:
    """The traced program of a card's kernel, and the arguments it was traced with."""
    source = BLOCKS[card][0]
    for old, new in edits:
        assert source.count(old) == 1, f"{card}: {old}"
        source = source.replace(old, new)
    with card_cases.shapes_only():
        return card_tools.trace(source, card_cases.CASES[card].inputs(*sizes))


@lru_cache
def estimate_card(folder: Path, card: str, sizes: tuple[int, ...], edits: tuple[tuple[str, str], ...]) -> Estimate:
    name = f"{card}-{abs(hash((sizes, edits)))}"
    return card_tools.compile_and_estimate(program(card, sizes, edits), folder / name)


def test_there_are_enough_cards_of_both_kinds() -> None:
    kinds = Counter(item.kind for item in CARDS.values())
    assert kinds["api"] >= 25
    assert kinds["practice"] >= 25
    assert set(kinds) == {"api", "practice"}


def test_every_bottleneck_and_every_family_has_practice() -> None:
    practice = [item for item in CARDS.values() if item.kind == "practice"]
    assert {item.bottleneck for item in practice} == set(ADVICE)
    assert {item.family for item in practice} == {*FAMILIES, ""}
    assert all(not item.bottleneck for item in CARDS.values() if item.kind == "api")


def test_names_in_every_kernel_select_no_card() -> None:
    names = {name for item in CARDS.values() for name in item.apis}
    code = [BLOCKS[name][0] for name in KERNELS]
    everywhere = {name for name in names if sum(contains_identifier(name, text) for text in code) > 0.5 * len(code)}
    assert not everywhere


def test_every_kernel_has_a_test_case() -> None:
    assert sorted(card_cases.CASES) == KERNELS


@pytest.mark.parametrize("card", one_in(8, KERNELS))
def test_kernel_is_correct_at_ragged_sizes(card: str) -> None:
    case = card_cases.CASES[card]
    arguments = case.inputs(*case.ragged)
    closed = program(card, case.ragged)
    assert collect_findings(closed) == []
    arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    results = card_tools.run(closed, arrays)
    answer = case.answer(*arguments)
    answers = answer if isinstance(answer, tuple) else (answer,)
    for result, variable, want in zip(results, closed.jaxpr.outvars, answers, strict=True):
        kind = variable.aval.dtype.name
        got = result.view(variable.aval.dtype).astype(np.float64) if kind == "bfloat16" else result
        assert got.shape == np.shape(want)
        if kind in TOLERANCE:
            allowed = TOLERANCE[kind] * (np.sqrt(np.mean(np.square(want, dtype=np.float64))) + np.abs(want))
            assert np.all(np.abs(got - want) <= allowed)
        else:
            assert np.array_equal(got, want)


@needs_compiler
@pytest.mark.parametrize("card", one_in(8, KERNELS))
def test_kernel_compiles_and_can_be_estimated(folder: Path, card: str) -> None:
    estimate = estimate_card(folder, card, card_cases.CASES[card].bench, ())
    assert estimate.is_certified, estimate.notes
    assert estimate.latency_us > 0
    assert not estimate.unwaited_transfers


@needs_compiler
@pytest.mark.parametrize("card", one_in(6, REFUSALS))
def test_refused_kernel_of_a_card_is_rejected_with_its_message(folder: Path, card: str) -> None:
    reason, message, shapes = card_tools.parse_refusal(BLOCKS[card][0]) or ("", "", [])
    actual_reason, actual_message = card_tools.find_refusal(BLOCKS[card][0], shapes, folder / card)
    assert actual_reason == reason in REASONS
    assert message in actual_message


@needs_compiler
@pytest.mark.parametrize("figure", one_in(16, card_figures.FIGURES, lambda figure: f"{figure.card}-{figure.us:g}"))
def test_time_on_a_card_equals_the_estimate(folder: Path, figure: card_figures.Figure) -> None:
    for card, words in figure.says.items():
        assert words in CARDS[card].text
    estimate = estimate_card(folder, figure.card, figure.sizes, tuple(figure.edits.items()))
    assert estimate.latency_us == pytest.approx(figure.us, rel=CLOSE)
    if figure.bottleneck:
        assert diagnose(estimate).bottleneck == figure.bottleneck


def test_every_time_on_a_card_is_checked() -> None:
    """A card may state microseconds only if a figure covers its text."""
    covered = {card for figure in card_figures.FIGURES for card in figure.says}
    stating = {name for name, item in CARDS.items() if re.search(r"\d µs", item.text)}
    assert stating <= covered


def test_rules_of_thumb_follow_from_the_chip() -> None:
    latency, chip = card_tools.V5E.read_latency / card_tools.V5E.clock_hz, card_tools.V5E
    bandwidth = chip.hbm_bytes_per_s * chip.hbm_efficiency
    assert f"{latency * 1e6:.2f} µs × {bandwidth / 1e9:.0f} GB/s ≈ {latency * bandwidth / 1024:.0f} KiB" in CARDS["larger-blocks"].text
    assert f"at {bandwidth / 1e9:.0f} GB/s" in CARDS["fuse-passes"].text
    assert f"takes {2 * 4096 / chip.hbm_bytes_per_cycle:.0f} cycles" in CARDS["function-costs"].text
    sizes = {name: make_plugin("backend", "pallas", chip=name).chip.vmem_bytes >> 20 for name in ("v5e", "v6e", "v5p", "v7x", "v4")}
    assert sizes == {"v5e": 128, "v6e": 128, "v5p": 64, "v7x": 64, "v4": 16}
    assert "v5e, v6e have 128 MiB, v5p and v7x 64 MiB, v4 16 MiB" in CARDS["vmem-budget"].text


def count_operations(folder: Path, function: str) -> tuple[float, float]:
    """VPU and EUP operations of a function on one tile, without those for its argument and result."""
    tiles, times = 4, 8

    def body(x_ref: Any, out_ref: Any) -> None:
        total = 0.0
        for factor in range(times):
            total = total + eval(function, {"x": x_ref[...] * (factor + 2.0), "jax": jax, "jnp": jnp, "pl": pl})
        out_ref[...] = total

    shape = jax.ShapeDtypeStruct((8, 128 * tiles), jnp.float32)
    with target_chip(card_tools.V5E):
        closed = jax.make_jaxpr(lambda x: pl.pallas_call(body, out_shape=shape)(x))(shape)
    estimate = card_tools.compile_and_estimate(closed, folder / re.sub(r"\W", "_", function))
    cycles = {unit: estimate.unit_shares.get(unit, 0.0) * estimate.cycles / (tiles * times) for unit in ("vpu", "eup")}
    return 4 * cycles["vpu"] - (2 - 1 / times), cycles["eup"]


ROWS = re.findall(r"^\| (`.*?) \| (\d+) \| (\d+) \|$", CARDS["function-costs"].text, re.MULTILINE)
COSTS = [(function, int(vpu), int(eup)) for names, vpu, eup in ROWS for function in re.findall(r"`(.*?)`", names)]


@needs_compiler
@pytest.mark.parametrize(("function", "vpu", "eup"), one_in(8, [cost for cost in COSTS if cost[0] != "jnp.cos(x)"]))
def test_functions_cost_as_much_as_the_table_states(folder: Path, function: str, vpu: int, eup: int) -> None:
    operations, transcendental = count_operations(folder, function)
    assert operations == pytest.approx(vpu, rel=0.1, abs=0.5)
    assert transcendental == pytest.approx(eup, abs=0.1)


def functions_under(heading: str) -> list[str]:
    (paragraph,) = re.findall(rf"^{heading}: (.*?)\n\n", CARDS["functions-in-kernels"].text, re.MULTILINE | re.DOTALL)
    return re.findall(r"`(.*?)`", paragraph)


def lower_function(function: str) -> None:
    """Lowers a kernel that applies a function, along rows if it reduces."""
    named = eval(function, {"jnp": jnp, "jax": jax})
    reduces = {"axis": 1, "keepdims": True} if "keepdims" in inspect.signature(named).parameters else {}
    square = jax.ShapeDtypeStruct((128, 128), jnp.float32)
    result = jax.eval_shape(lambda x: named(x, **reduces), square)

    def body(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = named(x_ref[...], **reduces).astype(jnp.float32)

    with target_chip(card_tools.V5E):
        closed = jax.make_jaxpr(lambda x: pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(result.shape or (1, 1), jnp.float32))(x))(
            square
        )
    lower_program(closed, card_tools.V5E)


@pytest.mark.parametrize("function", functions_under("Works"))
def test_supported_function_is_lowered(function: str) -> None:
    lower_function(function)


@pytest.mark.parametrize("function", functions_under("Refused"))
def test_refused_function_is_not_lowered(function: str) -> None:
    with pytest.raises(NotImplementedError, match="Unimplemented primitive"):
        lower_function(function)


def test_substitutes_for_functions_are_accurate() -> None:
    """The forms the cards give for activations, against PyTorch in double precision."""
    import torch
    import torch.nn.functional as F

    x = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    expected = {"gelu, exact": F.gelu, "sigmoid": torch.sigmoid, "silu": F.silu, "mish": F.mish, "elu": F.elu, "softplus": F.softplus}
    rows = dict(re.findall(r"^\| ([\w, ]+) \| `(.*?)` \|", CARDS["gelu-forms"].text, re.MULTILINE))
    assert {*expected, "gelu, tanh form"} == rows.keys()
    for name, function in expected.items():
        *statements, last = rows[name].split("; ")
        values: dict[str, Any] = {"x": jnp.asarray(x.numpy(), jnp.float32), "jnp": jnp, "lax": jax.lax}
        exec("; ".join(statements), values)
        assert np.allclose(eval(last, values), function(x).numpy(), atol=2e-6, rtol=1e-5), name
    small = np.linspace(-0.1, 0.1, 2001)
    close = eval("jnp.tanh(x / 2) * (jnp.exp(x) + 1)", {"x": jnp.asarray(small, jnp.float32), "jnp": jnp})
    assert "`jnp.tanh(x / 2) * (jnp.exp(x) + 1)`" in CARDS["functions-in-kernels"].text
    assert np.max(np.abs(close - np.expm1(small))) < 1e-7


def test_older_names_are_removed_and_newer_ones_exist() -> None:
    from jax.experimental.pallas import tpu as pltpu

    names = {"pl": pl, "pltpu": pltpu}
    table = re.findall(r"^\| (.*?) \| (.*?) \|$", CARDS["renamed-names"].text, re.MULTILINE)[2:]
    for older, newer in table:
        for module, name in re.findall(r"\b(pl|pltpu)\.(\w+)", older):
            assert name in ("BlockSpec", "ds", "dot") or not hasattr(names[module], name)
        for module, name in re.findall(r"\b(pl|pltpu)\.(\w+)", newer):
            assert hasattr(names[module], name)


def test_cards_list_the_existing_bottlenecks_and_reasons() -> None:
    words = re.findall(r"^\| `(\w+)`", CARDS["diagnosis-words"].text, re.MULTILINE)
    assert set(words) == set(ADVICE)
    reasons = re.findall(r"^\| `(\w+)`", CARDS["what-is-checked"].text, re.MULTILINE)
    assert len(reasons) >= 10
    assert set(reasons) <= set(REASONS)


def make_task() -> Task:
    tensor = Tensor(name="x", dtype="float32", shape=(4, 8))
    signature = Signature(
        inputs=(tensor,),
        params=(tensor.model_copy(update={"name": "weight"}),),
        scalars=(ScalarArgument(name="eps", kind="float", value=1e-5),),
        outputs=(tensor.model_copy(update={"name": "out"}),),
    )
    return Task(id="t/t", family="elementwise", source="", signature=signature, work=Work(flops=1, bytes=1), sizes={"bench": {}})


def render_rules(task: Task) -> str:
    environment = Environment(loader=FileSystemLoader(str(HERE / "prompts")), undefined=StrictUndefined)
    return " ".join(
        environment.get_template("rules.md")
        .render(task=task, entry_point=make_plugin("backend", "pallas").entry_point(task), start_code="")
        .split()
    )  # wherever lines are broken


def test_rules_match_the_backend() -> None:
    text, backend = render_rules(make_task()), make_plugin("backend", "pallas")
    assert backend.file_name in text
    assert all(f"`{option}`" in text for option in ("interpret", "debug", "metadata"))
    assert {"interpret", "debug", "metadata"} <= set(load_rules().reserved_params)
    assert load_rules().constant_bytes == 1 << 20
    assert all(f"`{size}`" in text or size == "held_out" for size in CHECKED_SIZES)
    assert "scalars are Python numbers" in text
    assert "returns the output." in text
    assert "{{" not in text
    assert len(text) <= 4500


@pytest.mark.slow(one_in=5)
def test_rules_match_the_task() -> None:
    task = make_task()
    signature = Signature(inputs=task.signature.inputs, outputs=(*task.signature.outputs, *task.signature.outputs))
    text = render_rules(task.model_copy(update={"signature": signature}))
    assert "parameters and buffers" not in text
    assert "scalars are" not in text
    assert "returns the outputs as a tuple" in text
