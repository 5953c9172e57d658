"""Checks the ascendc cards and rules on the simulator: examples compute the right values, and warnings name real violations."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import ascendc_cards as cards
import numpy as np
import pytest
from ascendc_answers import ANSWERS, FASTER, softmax
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sampling import mark_sampled, one_in

from evokernel.backends.ascendc import profile
from evokernel.backends.ascendc.api_names import suggest_names
from evokernel.backends.ascendc.build import LANGUAGE_FLAGS, SIMULATOR_FOLDER
from evokernel.backends.ascendc.chips import find_chip
from evokernel.backends.native.toolchain import find_compiler
from evokernel.core.plugins import plugin_folder
from evokernel.core.records import ScalarArgument, Signature, Tensor
from evokernel.generators.prompt_topics import TOPICS

HERE = plugin_folder("backend", "ascendc")
EXAMPLES = {path.stem for path in (HERE / "examples").iterdir()}
"""Cards that show parts of complete kernels: test_ascendc_examples.py verifies these."""
RULES = tomllib.loads((HERE / "rules.toml").read_text())
CODE = re.compile(r"\bE-[A-Z0-9]+(?:-[A-Z0-9]+)+")
VECTOR, MEETING, REFUSED = cards.cases("vector.cpp"), cards.cases("meeting.cpp"), cards.cases("refused.cpp")
PROJECTS = {  # cards whose fragments or claims are checked by whole projects below
    "project-skeleton": set(),
    "kernel-entry": set(),
    "op-definition": {"E-OP-DTYPE", "E-OP-SOC"},
    "tiling-function": {"E-TILING-BLOCKS", "E-TILING-SIZE"},
    "tiling-data-in-kernel": set(),
    "host-shapes": {"E-TILING-DIM"},
    "host-attributes": {"E-TILING-NULL"},
    "core-counts": set(),
    "exec-npu-cmd": {"E-OP-ARGS"},
    "pybind-module": set(),
    "softmax-library": set(),
    "norm-library": set(),
    "matmul-object": {"E-MM-REGIST"},
    "matmul-tiles": {"E-GM-OOB"},
    "matmul-tiling": set(),
    "cube-parameters": {"E-UNINIT"},
}
ADVICE = {  # cards that are text alone, and what holds them to it
    "common-mistakes": "its codes, below",
    "diagnosis-words": "the words of the diagnosis, below",
    "what-binds": "figures of the chip, below",
    "cube-throughput": "figures of the chip, below",
    "l2-order": "the estimate knows L2 by size only",
}
GROUPS = [(f"vector-{number}", [case for case in VECTOR if cards.group_of(case.card) == number]) for number in range(cards.GROUPS)]
GROUPS.append(("meeting", MEETING))


def mark_group(position: int) -> pytest.MarkDecorator:
    """Mark the cases of one group, which is compiled at once: one group runs by default."""
    return mark_sampled(position, len(GROUPS), len(GROUPS), "ascendc cards")


EVERY = [
    pytest.param(group, case, id=f"{group}-{case.name}", marks=mark_group(position))
    for position, (group, chosen) in enumerate(GROUPS)
    for case in chosen
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory):
    """Runs a group of cases, once."""
    kept: dict[str, dict[int, cards.Ran]] = {}

    def of(group: str) -> dict[int, cards.Ran]:
        if group not in kept:
            kept[group] = cards.ran_cases(dict(GROUPS)[group], tmp_path_factory.mktemp(group))
        return kept[group]

    return of


@pytest.mark.parametrize(("group", "case"), EVERY)
def test_card_example_computes_expected_values(ran, group: str, case: cards.Case) -> None:
    found = ran(group)[case.number]
    if case.kind == "breaks":
        assert found.code == case.what, found.text
        return
    assert not found.code, f"{found.code}: {found.text}"
    if case.kind == "works":
        output, want = ANSWERS[case.what](cards.given(case.n))
        got = found.outputs[output][: want.size].astype("float64")
        tolerance = {"y": 2e-6, "yh": 1e-3, "yi": 0}[output]
        np.testing.assert_allclose(got, want, rtol=tolerance * 10, atol=tolerance * max(1.0, float(np.abs(want).max())))


def faster() -> list[object]:
    """Runs by default when both prices are in the group that does."""
    group = {case.what: cards.group_of(case.card) for case in VECTOR if case.kind == "timed"}
    return [pytest.param(*row, id="-".join(row[:3]), marks=[mark_group(group[what]) for what in row[1:3]]) for row in FASTER]


@pytest.mark.parametrize(("card", "better", "other", "ratio"), faster())
def test_faster_variant_of_a_card_is_faster(ran, card: str, better: str, other: str, ratio: float) -> None:
    prices = {}
    for group, chosen in GROUPS:
        wanted = [case for case in chosen if case.kind == "timed" and case.what in (better, other)]
        prices |= {case.what: ran(group)[case.number].cycles for case in wanted}
    assert card in {case.card for case in VECTOR if case.what in (better, other)}
    assert prices[other] > ratio * prices[better], prices


def test_code_that_cards_call_invalid_does_not_compile(tmp_path: Path) -> None:
    compiler = find_compiler("")
    assert compiler
    (tmp_path / "refused.cpp").write_text(cards.refusals())
    options = [
        *LANGUAGE_FLAGS[:-1],
        "-fmax-errors=0",
        "-fsyntax-only",
        "-DSIMULATOR_KERNEL_TU",
        f"-I{SIMULATOR_FOLDER / 'include'}",
        f"-I{SIMULATOR_FOLDER / 'runtime'}",
    ]
    done = subprocess.run([compiler, *options, "refused.cpp"], cwd=tmp_path, capture_output=True, text=True)
    for case in REFUSED:
        said = [line for line in done.stderr.splitlines() if re.match(rf"case{case.number}:\d+:\d+: error", line)]
        assert any(case.what in line for line in said), f"{case.name} compiles, or is refused otherwise: {said}"


def test_all_invented_names_are_explained() -> None:
    text = cards.CARDS["invented-names"].text
    left = {name for row in re.findall(r"^\| (.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert left == {case.what for case in REFUSED if case.card == "invented-names"}
    assert all(suggest_names(f"kernel.cpp:1:1: error: '{name}' was not declared in this scope") for name in left - {"DataCopyPad"})


def skeleton(edit: tuple[str, str] = ("", "")) -> str:
    text = cards.FRAGMENTS["project-skeleton"]
    assert edit[0] in text
    return text.replace(*edit) if edit[0] else text


def one_input(n: int) -> cards.Job:
    return {"x": cards.given(n)["x"]}, {}, {"out": np.full(n, 1e30, "float32")}


def test_skeleton_works_at_all_sizes(tmp_path: Path) -> None:
    jobs = [one_input(n) for n in (1, 7, 129, 6145, 500_003)]
    cards.build(skeleton(), cards.task_of(*jobs[0]), tmp_path)
    for job, found in zip(jobs, cards.run(tmp_path, jobs), strict=True):
        assert not found.code, found.text
        np.testing.assert_allclose(found.outputs["out"], 2 * job[0]["x"] + 1, rtol=1e-6)


WRONG = [
    ("with 3 parameters, not 4", "GM_ADDR workspace, ", ""),
    ("E-OP-DTYPE", 'Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT})', 'Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT16})'),
    ("E-OP-SOC", '.AddConfig("ascend910b")', ""),
]


@pytest.mark.parametrize(("code", "old", "new"), one_in(3, WRONG))
def test_broken_skeleton_violates_the_rule_of_its_card(tmp_path: Path, code: str, old: str, new: str) -> None:
    assert code in cards.outcome(skeleton((old, new)), one_input(100), tmp_path).code


BOUND = [
    ("", "", ""),
    ("E-OP-ARGS", "aclnnKernelCustom, x, out", "aclnnKernelCustom, x"),
    ("model_src calls scaled, but the binding defines only scale", '"scaled"', '"scale"'),
]


@pytest.mark.slow
@pytest.mark.parametrize(("code", "old", "new"), BOUND)
def test_cards_about_bindings_are_correct(tmp_path: Path, code: str, old: str, new: str) -> None:
    bind, model = (cards.FOLDER / "bind.cpp").read_text(), (cards.FOLDER / "model.py").read_text()
    job = one_input(100)
    found = cards.outcome(cards.six_parts(bind.replace(old, new), model), job, tmp_path, "kernel.txt")
    assert found.code == code, found.text
    if not code:
        np.testing.assert_allclose(found.outputs["out"], 2 * job[0]["x"] + 1, rtol=1e-6)


@pytest.mark.slow
def test_cards_about_host_code_are_correct(tmp_path: Path) -> None:
    x, out = np.zeros((3, 4, 5), "float32"), np.zeros(4, "float32")
    jobs = [({"x": x}, {"wrong": wrong, "eps": 0.25}, {"y": out.copy()}) for wrong in range(5)]
    cards.build(cards.filled("host.asc"), cards.task_of(*jobs[0]), tmp_path)
    right, *others = cards.run(tmp_path, jobs)
    assert not right.code, right.text
    assert right.outputs["y"].tolist() == [12, 4807, 0.25, 56]
    assert [found.code for found in others] == ["E-TILING-NULL", "E-TILING-DIM", "E-TILING-BLOCKS", "E-TILING-SIZE"]


@pytest.mark.slow
def test_cards_about_matmul_are_correct(tmp_path: Path) -> None:
    random = np.random.default_rng(cards.SEED)
    a, b = random.standard_normal((300, 70)).astype("float32"), random.standard_normal((70, 200)).astype("float32")
    jobs = [({"a": a, "b": b}, {"split": split}, {"c": np.full((300, 200), 1e30, "float32")}) for split in range(4)]
    cards.build(cards.filled("matmul.asc"), cards.task_of(*jobs[0]), tmp_path)
    whole, parts, untailed, late = cards.run(tmp_path, jobs)
    for found in (whole, parts):
        assert not found.code, found.text
        np.testing.assert_allclose(found.outputs["c"], a @ b, rtol=1e-4, atol=1e-4)
    assert (untailed.code, late.code) == ("E-GM-OOB", "E-MM-REGIST")


@pytest.mark.slow(one_in=5)
def test_cards_about_the_cube_are_correct(tmp_path: Path) -> None:
    random = np.random.default_rng(cards.SEED)
    a, b = random.standard_normal((50, 70)).astype("float32"), random.standard_normal((70, 37)).astype("float32")
    jobs: list[cards.Job] = [
        (
            {"a": np.ascontiguousarray(a.T if turned & 1 else a), "b": np.ascontiguousarray(b.T if turned & 2 else b)},
            {"turned": turned},
            {"c": np.full((50, 37), 1e30, "float32")},
        )
        for turned in range(5)
    ]
    cards.build(cards.filled("cube.asc"), cards.task_of(*jobs[0]), tmp_path)
    *right, unfilled = cards.run(tmp_path, jobs)
    for found in right:
        assert not found.code, found.text
        np.testing.assert_allclose(found.outputs["c"], a @ b, rtol=1e-4, atol=1e-4)
    assert unfilled.code == "E-UNINIT"


@pytest.mark.slow
def test_cards_about_row_functions_are_correct(tmp_path: Path) -> None:
    x = np.random.default_rng(cards.SEED).standard_normal((12, 40)).astype("float32")
    found = cards.outcome(cards.filled("library.asc"), ({"x": x}, {}, {"soft": np.zeros_like(x), "norm": np.zeros_like(x)}), tmp_path)
    assert not found.code, f"{found.code} {found.text}"
    np.testing.assert_allclose(found.outputs["soft"], np.apply_along_axis(softmax, 1, x.astype("float64")), rtol=1e-5)
    mean, variance = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    np.testing.assert_allclose(found.outputs["norm"], 2 * (x - mean) / np.sqrt(variance + 1e-5) + 0.5, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("card", sorted(cards.CARDS))
def test_every_card_has_a_test(card: str) -> None:
    """Whatever rule a card names is broken by a case of that card; whatever fragment it has is compiled."""
    own = [case for case in (*VECTOR, *MEETING, *REFUSED) if case.card == card]
    assert own or card in PROJECTS or card in ADVICE or card in EXAMPLES
    broken = {case.what for case in own if case.kind == "breaks"} | PROJECTS.get(card, set())
    named = set(CODE.findall(cards.CARDS[card].text))
    assert named <= RULES.keys()
    if card == "common-mistakes":
        broken = {case.what for case in (*VECTOR, *MEETING) if case.kind == "breaks"}
    assert named <= broken, f"{sorted(named - broken)} are named and never broken"
    if card in cards.FRAGMENTS:
        assert card in PROJECTS or card in EXAMPLES or any(case.kind in ("works", "timed") for case in own)


def test_every_expected_answer_is_used() -> None:
    asked = {case.what for case in (*VECTOR, *MEETING) if case.kind == "works"}
    assert asked == ANSWERS.keys()
    priced = {case.what for case in VECTOR if case.kind == "timed"}
    assert priced == {price for row in FASTER for price in row[1:3]}


def test_bottlenecks_are_words_of_the_diagnosis() -> None:
    words = {*profile.BOTTLENECK_BY_PIPE.values(), "latency", "overhead"}
    assert {item.bottleneck for item in cards.CARDS.values()} - {""} <= words
    assert set(re.findall(r"^\| `(\w+)` \|", cards.CARDS["diagnosis-words"].text, re.MULTILINE)) == words


def test_figures_in_cards_match_the_chip() -> None:
    b1, b4 = find_chip("910B1"), find_chip("910B4")
    cycles = dict(re.findall(r"(\d+) KiB (?:takes about )?(\d{3})\b", cards.CARDS["copy-size"].text))
    assert cycles == {"1": "235", "4": "291", "16": "404", "32": "712"}
    table = dict(zip(b1.copy_kib, b1.copy_cycles, strict=True))
    assert all(table[float(size)] == float(count) for size, count in cycles.items())
    counts = cards.CARDS["core-counts"].text
    assert f"`platform.GetCoreNumAiv()` ({b1.aiv_cores:g}; {b4.aiv_cores:g} on B3 and B4)" in counts
    assert f"`GetCoreNumAic()` ({b1.aic_cores:g}; {b4.aic_cores:g})" in counts
    assert f"= {b1.cube_macs_half:g} half" in cards.CARDS["cube-throughput"].text
    assert f"bytes / {b1.hbm_bytes_per_s / 1e12:g} TB/s" in cards.CARDS["what-binds"].text
    assert b1.ub_bytes == 196_608
    for card in ("rows-in-one-call", "count-form", "hoist-constants"):
        assert f"{b1.vector_start:g} cycles" in cards.CARDS[card].text


def test_rules_render_with_existing_names() -> None:
    tensor = Tensor(name="x", dtype="float32", shape=(4, 8))
    weight, out = (tensor.model_copy(update={"name": name}) for name in ("weight", "out"))
    signature = Signature(
        inputs=(tensor,), params=(weight,), scalars=(ScalarArgument(name="eps", kind="float", value=1e-5),), outputs=(out,)
    )
    task = cards.task_of({}, {}, {}).model_copy(update={"signature": signature})
    environment = Environment(loader=FileSystemLoader(HERE / "prompts"), undefined=StrictUndefined)
    template = environment.get_template("rules.md")
    text = template.render(task=task, has_products=True, topics=TOPICS, start_code="", shown_code="")
    assert set(CODE.findall(text)) <= RULES.keys()
    for family in re.findall(r"(E-[A-Z]+-)…", text):
        assert any(code.startswith(family) for code in RULES)
    for part in ("tiling.h", "op_host.cpp", "op_kernel.cpp"):
        assert f"`// file: {part}`" in text
    assert "{" not in re.sub(r"`[^`]*`", "", text)
    code = cards.FRAGMENTS["project-skeleton"]
    refining = template.render(task=task, has_products=True, topics=TOPICS, start_code=code, shown_code=code)
    assert len(refining) < len(text) - 500, "a start point shows the layout of its file"
