"""The pallas backend's cards and rules: what they show compiles, computes, is refused and takes the time as they say."""

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
from evokernel.backends.pallas.backend import TRIED
from evokernel.backends.pallas.lower import lower, target
from evokernel.backends.pallas.program_rules import findings, rules
from evokernel.backends.pallas.schedule import Estimate, diagnose
from evokernel.backends.pallas.schedule.diagnosis import ADVICE
from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.records import ScalarArgument, Signature, Task, Tensor, Work
from evokernel.memory.seed_cards import seeds
from evokernel.policies.retrieval import occurs
from evokernel.tasks.family import FAMILIES
from evokernel.verify.reasons import REASONS

HERE = plugin_folder("backend", "pallas")
CARDS = {item.id.removeprefix("pallas/"): item for item in seeds("pallas")}
BLOCKS = {name: re.findall(r"^```python\n(.*?)^```", item.text, re.DOTALL | re.MULTILINE) for name, item in CARDS.items()}
REFUSALS = sorted(name for name, blocks in BLOCKS.items() if blocks and card_tools.refused(blocks[0]))
KERNELS = sorted(name for name, blocks in BLOCKS.items() if blocks and name not in REFUSALS)
TOLERANCE = {"float32": 1e-4, "bfloat16": 1e-2}
CLOSE = 0.06

needs_compiler = pytest.mark.skipif(compiler.missing() is not None, reason=str(compiler.missing()))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Any:
    yield tmp_path_factory.mktemp("cards")
    compiler.close()


@lru_cache
def program(card: str, sizes: tuple[int, ...], edits: tuple[tuple[str, str], ...] = ()) -> Any:
    """The traced program of a card's kernel, and the arguments it was traced with."""
    source = BLOCKS[card][0]
    for old, new in edits:
        assert source.count(old) == 1, f"{card}: {old}"
        source = source.replace(old, new)
    with card_cases.shapes_only():
        return card_tools.traced(source, card_cases.CASES[card].inputs(*sizes))


@lru_cache
def price(place: Path, card: str, sizes: tuple[int, ...], edits: tuple[tuple[str, str], ...]) -> Estimate:
    name = f"{card}-{abs(hash((sizes, edits)))}"
    return card_tools.priced(program(card, sizes, edits), place / name)


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


def test_names_that_stand_in_every_kernel_call_no_card() -> None:
    named = {name for item in CARDS.values() for name in item.apis}
    code = [BLOCKS[name][0] for name in KERNELS]
    everywhere = {name for name in named if sum(occurs(name, text) for text in code) > 0.5 * len(code)}
    assert not everywhere


def test_every_kernel_has_its_answer() -> None:
    assert sorted(card_cases.CASES) == KERNELS


@pytest.mark.parametrize("card", one_in(4, KERNELS))
def test_a_kernel_computes_what_it_says_at_ragged_sizes(card: str) -> None:
    case = card_cases.CASES[card]
    arguments = case.inputs(*case.ragged)
    closed = program(card, case.ragged)
    assert findings(closed) == []
    arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    results = card_tools.run(closed, arrays)
    wanted = case.answer(*arguments)
    for result, variable, want in zip(results, closed.jaxpr.outvars, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
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
def test_a_kernel_compiles_and_can_be_priced(place: Path, card: str) -> None:
    found = price(place, card, card_cases.CASES[card].bench, ())
    assert found.certified, found.notes
    assert found.us > 0
    assert not found.unwaited


@needs_compiler
@pytest.mark.parametrize("card", one_in(2, REFUSALS))
def test_what_a_card_calls_refused_is_refused_in_those_words(place: Path, card: str) -> None:
    reason, words, shapes = card_tools.refused(BLOCKS[card][0]) or ("", "", [])
    got, said = card_tools.refusal(BLOCKS[card][0], shapes, place / card)
    assert got == reason in REASONS
    assert words in said


@needs_compiler
@pytest.mark.parametrize("figure", one_in(8, card_figures.FIGURES, lambda figure: f"{figure.card}-{figure.us:g}"))
def test_a_time_on_a_card_is_what_the_schedule_says(place: Path, figure: card_figures.Figure) -> None:
    for card, words in figure.says.items():
        assert words in CARDS[card].text
    found = price(place, figure.card, figure.sizes, tuple(figure.edits.items()))
    assert found.us == pytest.approx(figure.us, rel=CLOSE)
    if figure.bottleneck:
        assert diagnose(found).bottleneck == figure.bottleneck


def test_every_time_on_a_card_is_checked() -> None:
    """Microseconds stand on a card only if a figure covers its words."""
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


def counted(place: Path, function: str) -> tuple[float, float]:
    """VPU and EUP operations of a function of one tile, on top of what takes its argument and its result."""
    tiles, times = 4, 8

    def body(x_ref: Any, out_ref: Any) -> None:
        total = 0.0
        for factor in range(times):
            total = total + eval(function, {"x": x_ref[...] * (factor + 2.0), "jax": jax, "jnp": jnp, "pl": pl})
        out_ref[...] = total

    shape = jax.ShapeDtypeStruct((8, 128 * tiles), jnp.float32)
    with target(card_tools.V5E):
        closed = jax.make_jaxpr(lambda x: pl.pallas_call(body, out_shape=shape)(x))(shape)
    found = card_tools.priced(closed, place / re.sub(r"\W", "_", function))
    cycles = {unit: found.units.get(unit, 0.0) * found.cycles / (tiles * times) for unit in ("vpu", "eup")}
    return 4 * cycles["vpu"] - (2 - 1 / times), cycles["eup"]


ROWS = re.findall(r"^\| (`.*?) \| (\d+) \| (\d+) \|$", CARDS["function-costs"].text, re.MULTILINE)
COSTS = [(function, int(vpu), int(eup)) for names, vpu, eup in ROWS for function in re.findall(r"`(.*?)`", names)]


@needs_compiler
@pytest.mark.parametrize(("function", "vpu", "eup"), one_in(4, [cost for cost in COSTS if cost[0] != "jnp.cos(x)"]))
def test_functions_cost_what_the_table_says(place: Path, function: str, vpu: int, eup: int) -> None:
    operations, transcendental = counted(place, function)
    assert operations == pytest.approx(vpu, rel=0.1, abs=0.5)
    assert transcendental == pytest.approx(eup, abs=0.1)


def listed(heading: str) -> list[str]:
    (line,) = re.findall(rf"^{heading}: (.*)$", CARDS["functions-in-kernels"].text, re.MULTILINE)
    return re.findall(r"`(.*?)`", line)


def lowered(function: str) -> None:
    """Lowers a kernel that applies a function, along rows if it reduces."""
    named = eval(function, {"jnp": jnp, "jax": jax})
    reduces = {"axis": 1, "keepdims": True} if "keepdims" in inspect.signature(named).parameters else {}
    square = jax.ShapeDtypeStruct((128, 128), jnp.float32)
    result = jax.eval_shape(lambda x: named(x, **reduces), square)

    def body(x_ref: Any, out_ref: Any) -> None:
        out_ref[...] = named(x_ref[...], **reduces).astype(jnp.float32)

    with target(card_tools.V5E):
        closed = jax.make_jaxpr(lambda x: pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(result.shape or (1, 1), jnp.float32))(x))(
            square
        )
    lower(closed, card_tools.V5E)


@pytest.mark.parametrize("function", listed("Works"))
def test_a_function_that_works_is_lowered(function: str) -> None:
    lowered(function)


@pytest.mark.parametrize("function", listed("Refused"))
def test_a_function_that_is_refused_is_not_lowered(function: str) -> None:
    with pytest.raises(NotImplementedError, match="Unimplemented primitive"):
        lowered(function)


def test_substitutes_for_functions_hold() -> None:
    """The forms the cards give for activations, against PyTorch in double precision."""
    import torch
    import torch.nn.functional as F

    x = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    wanted = {"gelu, exact": F.gelu, "sigmoid": torch.sigmoid, "silu": F.silu, "mish": F.mish, "elu": F.elu, "softplus": F.softplus}
    rows = dict(re.findall(r"^\| ([\w, ]+) \| `(.*?)` \|", CARDS["gelu-forms"].text, re.MULTILINE))
    assert {*wanted, "gelu, tanh form"} == rows.keys()
    for name, function in wanted.items():
        *statements, last = rows[name].split("; ")
        values: dict[str, Any] = {"x": jnp.asarray(x.numpy(), jnp.float32), "jnp": jnp, "lax": jax.lax}
        exec("; ".join(statements), values)
        assert np.allclose(eval(last, values), function(x).numpy(), atol=2e-6, rtol=1e-5), name
    small = np.linspace(-0.1, 0.1, 2001)
    close = eval("jnp.tanh(x / 2) * (jnp.exp(x) + 1)", {"x": jnp.asarray(small, jnp.float32), "jnp": jnp})
    assert "`jnp.tanh(x / 2) * (jnp.exp(x) + 1)`" in CARDS["functions-in-kernels"].text
    assert np.max(np.abs(close - np.expm1(small))) < 1e-7


def test_older_names_are_gone_and_newer_ones_exist() -> None:
    from jax.experimental.pallas import tpu as pltpu

    names = {"pl": pl, "pltpu": pltpu}
    table = re.findall(r"^\| (.*?) \| (.*?) \|$", CARDS["renamed-names"].text, re.MULTILINE)[2:]
    for older, newer in table:
        for module, name in re.findall(r"\b(pl|pltpu)\.(\w+)", older):
            assert name in ("BlockSpec", "ds", "dot") or not hasattr(names[module], name)
        for module, name in re.findall(r"\b(pl|pltpu)\.(\w+)", newer):
            assert hasattr(names[module], name)


def test_the_words_of_the_diagnosis_and_the_reasons_are_those_that_exist() -> None:
    words = re.findall(r"^\| `(\w+)`", CARDS["diagnosis-words"].text, re.MULTILINE)
    assert set(words) == set(ADVICE)
    explained = re.findall(r"^\| `(\w+)`", CARDS["what-is-checked"].text, re.MULTILINE)
    assert len(explained) >= 10
    assert set(explained) <= set(REASONS)


def make_task() -> Task:
    tensor = Tensor(name="x", dtype="float32", shape=(4, 8))
    signature = Signature(
        inputs=(tensor,),
        params=(tensor.model_copy(update={"name": "weight"}),),
        scalars=(ScalarArgument(name="eps", kind="float", value=1e-5),),
        outputs=(tensor.model_copy(update={"name": "out"}),),
    )
    return Task(id="t/t", family="elementwise", source="", signature=signature, work=Work(flops=1, bytes=1), sizes={"bench": {}})


def rendered(task: Task) -> str:
    environment = Environment(loader=FileSystemLoader(str(HERE / "prompts")), undefined=StrictUndefined)
    return environment.get_template("rules.md").render(task=task, entry=make_plugin("backend", "pallas").entry(task))


def test_the_rules_say_what_the_backend_does() -> None:
    text, backend = rendered(make_task()), make_plugin("backend", "pallas")
    assert backend.file in text
    assert all(f"`{option}`" in text for option in ("interpret", "debug", "cost_estimate", "metadata"))
    assert {"interpret", "debug", "cost_estimate", "metadata"} <= set(rules().owned)
    assert rules().constant_bytes == 1 << 20
    assert all(f"`{size}`" in text or size == "held_out" for size in TRIED)
    assert "scalars are Python numbers" in text
    assert "returns the output." in text
    assert "{{" not in text
    assert len(text) <= 4500


def test_the_rules_fit_the_task() -> None:
    task = make_task()
    bare = Signature(inputs=task.signature.inputs, outputs=(*task.signature.outputs, *task.signature.outputs))
    text = rendered(task.model_copy(update={"signature": bare}))
    assert "parameters and buffers" not in text
    assert "scalars are" not in text
    assert "returns the outputs as a tuple" in text
