"""What the rules and the table of costs in every ascendc prompt say is what the simulator does."""

from __future__ import annotations

import re
from pathlib import Path

import ascendc_cards as cards
import numpy as np
import pytest

from evokernel.backends.ascendc.api_names import declared_names
from evokernel.backends.ascendc.chips import find_chip
from evokernel.core.plugins import plugin_folder

PROMPTS = plugin_folder("backend", "ascendc") / "prompts"
COSTS, RULES = (" ".join((PROMPTS / name).read_text().split()) for name in ("costs.md", "rules.md"))
CHIP = find_chip("910B2")
ROWS = {
    name: (float(single), float(half))
    for names, single, half in re.findall(r"^\| (`.*?) \| (\d+) \| (\d+) \|$", (PROMPTS / "costs.md").read_text(), re.MULTILINE)
    for name in re.findall(r"`(\w+)`", names)
}
INSTRUCTIONS = {
    "Adds": "adds", "Muls": "muls", "Maxs": "maxs", "Mins": "mins", "Relu": "relu", "LeakyRelu": "lrelu", "Abs": "abs", "Cast": "conv",
    "Duplicate": "dup", "Copy": "copy", "CompareScalar": "cmpvs", "Reciprocal": "rec", "Rsqrt": "rsqrt", "Add": "add", "Sub": "sub",
    "Mul": "mul", "Max": "max", "Min": "min", "Axpy": "axpy", "Exp": "exp", "Ln": "ln", "Sqrt": "sqrt", "Compare": "cmp", "Select": "sel",
    "GatherMask": "gathermask", "Div": "div", "MulAddDst": "mla", "FusedMulAdd": "madd", "Gather": "gather", "WholeReduceSum": "cadd",
    "ReduceSum": "cadd", "WholeReduceMax": "cmax", "BlockReduceSum": "cgadd", "PairReduceSum": "cpadd",
}  # fmt: skip
MEASURED_ALONE = {"Brcb", "Sort32", "MrgSort", "TransDataTo5HD", "Transpose", "BlockReduceMax", "ReduceMax"}
"""Calls for which chips.toml has no row."""
LIBRARY = {name: (int(starts), int(cycles)) for name, starts, cycles in re.findall(r"`(\w+)` \((\d+), (\d+)\)", COSTS)}
HARNESS_CARD = "auto-sync"  # a card without a fragment
N = 512
SETUP = """
Stage s(g, 512);
LocalTensor<float> a = s.Load(s.first, g.x, 512), b = s.Load(s.second, g.w, 512), y = s.Result();
LocalTensor<float> t = s.Scratch(0), u = s.Scratch(1);
Duplicate(y, 0.0f, 512); Duplicate(t, 1.0f, 512); Duplicate(u, 1.0f, 512);
LocalTensor<uint32_t> o = s.Scratch<uint32_t>(2);
Duplicate(o, uint32_t(0), 512);
PipeBarrier<PIPE_ALL>();
for (int i = 0; i < %d; ++i) { %s }
"""
CALLS = {
    "Adds": "Adds(y, a, 1.0f, 512);",
    "Mul, same address": "Mul(y, a, a, 512);",
    "Add, other distance": "Add(y, a, a[8], 448);",
    "Add, 256 bytes apart": "Add(y, a, a[64], 448);",
    "Add, mask of 8 lanes": "Add(y, a, a, 8, 8, BinaryRepeatParams{1, 1, 1, 8, 8, 8});",
    "Add, stride 0": "Add(y, a, a, 64, 8, BinaryRepeatParams{1, 1, 1, 8, 8, 0});",
    "Axpy": "Axpy(y, a, 2.0f, 512);",
    "Exp": "Exp(y, a, 512);",
    "Div": "Div(y, a, t, 512);",
    "MulAddDst": "MulAddDst(y, a, b, 512);",
    "FusedMulAdd": "FusedMulAdd(y, a, b, 512);",
    "Brcb": "Brcb(y, a, 8, BrcbRepeatParams{1, 8});",
    "Gather": "Gather(y, a, o, 0, 512);",
    "WholeReduceSum": "WholeReduceSum(y, a, 64, 8, 1, 1, 8);",
    "WholeReduceMax": "WholeReduceMax(y, a, 64, 8, 1, 1, 8);",
    "BlockReduceSum": "BlockReduceSum(y, a, 8, 64, 1, 1, 8);",
    "PairReduceSum": "PairReduceSum(y, a, 8, 64, 1, 1, 8);",
    "Sort32": "Sort32(y, a, o, 8);",
    "Tanh": "Tanh(y, a, 512);",
    "Sigmoid": "Sigmoid(y, a, 512);",
    "Gelu": "Gelu(y, a, 512);",
    "Erf": "Erf(y, a, 512);",
}
"""Eight repeats each, unless the name of the call says otherwise."""
SCALAR_CALLS = {
    "GetValue in UB": ("a.GetValue(i);", CHIP.scalar_ub),
    "SetValue in UB": ("t.SetValue(i, 1.0f);", CHIP.scalar_ub),
    "GetValue in GM, a new line": ("g.x.GetValue(i * 16 + 128);", CHIP.scalar_gm_miss),
    "GetValue in GM, the same line": ("g.x.GetValue(i % 2);", CHIP.scalar_gm_hit),
    "GetValue of copied data, after another copy": ("DataCopy(t, g.x, 256); a.GetValue(i);", CHIP.issue + 235 + CHIP.scalar_ub),
    "PipeBarrier": ("PipeBarrier<PIPE_ALL>();", CHIP.flag),
    "a copy of 1 KiB that nothing waits for": ("DataCopy(t, g.x, 256); PipeBarrier<PIPE_ALL>();", CHIP.issue + 235 + CHIP.flag),
    "eight rows of 128 bytes in one copy": (
        "DataCopyPad(t, g.x, DataCopyExtParams{8, 128, 128, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0.0f});"
        "PipeBarrier<PIPE_ALL>();",
        CHIP.issue + 235 + CHIP.flag,
    ),
}
ORDER = {
    "dependent vector calls": ("Adds(t, a, 1.0f, 64); Muls(t, t, 2.0f, 64); Adds(u, t, 1.0f, 64);", ""),
    "GetValue after a vector call": ("Adds(t, a, 1.0f, 64); y.SetValue(0, t.GetValue(3));", ""),
    "GetValue after a copy": ("DataCopy(t, g.x, 64); y.SetValue(0, t.GetValue(3));", ""),
    "SetValue before a vector call": ("t.SetValue(0, 1.0f); Adds(u, t, 1.0f, 64);", ""),
    "a copy in before a vector call": ("DataCopy(t, g.x, 64); Adds(u, t, 1.0f, 64);", "E-RACE"),
    "a vector call before a copy out": ("Adds(t, a, 1.0f, 64); DataCopy(g.y, t, 64);", "E-RACE"),
    "a vector call on lanes that the copy does not write": ("DataCopy(t, g.x, 8); Adds(u, t[8], 1.0f, 8, 1, {1, 1, 8, 8});", ""),
    "a vector call of another 32 bytes": ("DataCopy(t[64], g.x, 8); Adds(u, t, 1.0f, 64);", ""),
    "Scatter": ("Scatter(y, a, o, 0, 64);", "E-API-CHIP"),
}
BATCH = 8


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, cards.Ran]:
    """All bodies, each run without its call (`NAME 0`) and with eight of them, on one core."""
    bodies = dict(CALLS) | {name: call for name, (call, _) in SCALAR_CALLS.items()}
    texts = {f"{name} {times}": SETUP % (times, call) for name, call in bodies.items() for times in (BATCH, 2 * BATCH)}
    texts |= {name: SETUP % (1, call) for name, (call, _) in ORDER.items()}
    chosen = [cards.Case(HARNESS_CARD, "timed", name, body, number, N) for number, (name, body) in enumerate(texts.items())]
    found = cards.ran_cases(chosen, tmp_path_factory.mktemp("claims"))
    return {case.what: found[case.number] for case in chosen}


def cycles_per_call(ran: dict[str, cards.Ran], name: str) -> float:
    once, twice = ran[f"{name} {BATCH}"], ran[f"{name} {2 * BATCH}"]
    assert not once.code + twice.code, once.text + twice.text
    return (twice.cycles - once.cycles) / BATCH


@pytest.mark.toolchain
@pytest.mark.slow(one_in=5)
def test_calls_cost_what_the_table_says(ran) -> None:
    expected, found = {}, {}
    for name in CALLS:
        call = name.split(",")[0]
        if call in LIBRARY:
            starts, cycles = LIBRARY[call]
            expected[name] = starts * CHIP.vector_start + 8 * cycles
        else:
            is_apart = name in ("Add, other distance", "Axpy")
            repeats = 7 if name in ("Add, other distance", "Add, 256 bytes apart") else 8
            start = CHIP.reduce_start if "Reduce" in name else CHIP.vector_start
            expected[name] = start + repeats * (2 if is_apart else ROWS[call][0])
        found[name] = cycles_per_call(ran, name)
    assert found == pytest.approx(expected)


@pytest.mark.toolchain
@pytest.mark.slow(one_in=5)
def test_scalar_calls_and_copies_cost_what_the_page_says(ran) -> None:
    found = {name: cycles_per_call(ran, name) for name in SCALAR_CALLS}
    assert found == pytest.approx({name: cycles for name, (_, cycles) in SCALAR_CALLS.items()})


@pytest.mark.toolchain
@pytest.mark.slow(one_in=5)
def test_order_of_pipes_is_what_the_rules_say(ran) -> None:
    assert {name: ran[name].code for name in ORDER} == {name: code for name, (_, code) in ORDER.items()}


def test_table_of_costs_is_that_of_the_chip() -> None:
    assert ROWS.keys() == INSTRUCTIONS.keys() | MEASURED_ALONE
    given = {name: (CHIP.instruction_cycles(row), CHIP.instruction_cycles(row, "float16")) for name, row in INSTRUCTIONS.items()}
    assert {name: ROWS[name] for name in INSTRUCTIONS} == given


def test_calls_that_the_rules_list_exist() -> None:
    listed = re.findall(r"`(\w+)`", RULES[RULES.index("**Exists** besides") : RULES.index("Not on this chip")])
    assert len(listed) > 25
    assert set(listed) <= declared_names() | {"Broadcast"}


def test_figures_in_the_page_of_costs_are_those_of_the_chip() -> None:
    copies = " ".join(f"{kib:g} KiB {cycles:g}," for kib, cycles in zip(CHIP.copy_kib, CHIP.copy_cycles) if kib in (1, 4, 8, 16, 32, 64))
    start_us = CHIP.cycles_to_us(CHIP.matmul_start)
    for words in (
        f"({CHIP.name}, cycles of one core; {CHIP.ghz * 1e3:g} cycles are 1 µs)",
        f"{CHIP.launch_us:.1f} µs of launch",
        f"Any API call: {CHIP.issue:g} scalar cycles",
        f"A vector call: {CHIP.vector_start:g} + cycles",
        f"(marked *): {CHIP.reduce_start:g} + cycles",
        f"`SetValue`: {CHIP.scalar_ub:g},",
        f"GM: {CHIP.scalar_gm_miss:g} for a new line of 64 bytes, {CHIP.scalar_gm_hit:g} in the cached one",
        f"`WaitFlag`: {CHIP.handshake:g}. `PipeBarrier`: {CHIP.flag:g}.",
        f"are there after {CHIP.copy_cycles[0]:g} cycles; {copies[:-1]}. The next copy",
        f"starts after bytes / {CHIP.long_copy_rate:.0f} (at least {CHIP.copy_start:g})",
        f"UB {CHIP.ub_bytes >> 10} KiB, L1 {CHIP.l1_bytes >> 10} KiB, L0A and L0B {CHIP.l0a_bytes >> 10} KiB each",
        f"L0C {CHIP.l0c_bytes >> 10} KiB",
        f"up to {CHIP.unaligned_gm:g} times slower",
        f"{100 * CHIP.same_address:g} % slower for each other core",
        f"{CHIP.l2_bytes_per_cycle:g} bytes a cycle ({CHIP.l2_bytes_per_cycle * CHIP.ghz / 1e3:.1f} TB/s)",
        f"stay below {CHIP.l2_share * CHIP.l2_bytes / 1e6:.0f} MB (L2)",
        f"the last {CHIP.l2_share * CHIP.l2_bytes / 1e6:.0f} MB of traffic, runs at {CHIP.hbm_bytes_per_cycle:.0f} bytes a cycle",
        f"({CHIP.hbm_bytes_per_cycle * CHIP.ghz / 1e3:.1f} TB/s): an equal share for each core",
        f"({CHIP.hbm_bytes_per_cycle / CHIP.aiv_cores:.1f} with {CHIP.aiv_cores}), at most {CHIP.core_hbm_bytes_per_cycle:g}",
        f"`SyncAll`, and flags of mode 0: {CHIP.sync_all:g} ({CHIP.cycles_to_us(CHIP.sync_all):.2f} µs)",
        f"starts {CHIP.cube_start:g} cycles ({CHIP.cycles_to_us(CHIP.cube_start):.2f} µs) later for each block",
        f"{CHIP.cycles_to_us(CHIP.cube_start * CHIP.aic_cores):.1f} µs with {CHIP.aic_cores}",
        f"costs {CHIP.matmul_start:g} ({start_us:.1f} µs)",
        f"{CHIP.issue + CHIP.copy_cycles[0]:g} + the longest of",
        f"output bytes / {CHIP.fixpipe_bytes_per_cycle:g}.",
        f"at {CHIP.cube_macs_float} multiply-adds a cycle (float) or {CHIP.cube_macs_half} (half)",
        f"at {CHIP.matmul_bytes_per_cycle:g} bytes a cycle, at least {CHIP.matmul_row:g} cycles a row",
        f"{CHIP.matmul_odd_bytes_per_cycle:g} bytes a cycle if rows do not start",
        f"the same bytes at {CHIP.l1_to_l0_bytes_per_cycle:g} a cycle",
        f"{CHIP.cube_macs_float} (float), {CHIP.cube_macs_half} (half), {CHIP.cube_macs_int8} (int8)",
    ):
        assert words in COSTS
    by_hand = CHIP.matmul_start / (1 / CHIP.long_copy_rate - 1 / CHIP.matmul_bytes_per_cycle)
    assert f"below about {round(by_hand / 1e3, -2):.0f} KB" in COSTS
    assert f"`GetCoreNumAiv()` {CHIP.aiv_cores}, `GetCoreNumAic()` {CHIP.aic_cores}" in RULES


def run_on_cores(workdir: Path, kernel: str, cases: list[tuple[int, int]]) -> list[cards.Ran]:
    """Runs the kernel of cores.asc with (case, blocks)."""
    random = np.random.default_rng(cards.SEED)
    a, b = (random.standard_normal((64, 64)).astype("float32") for _ in range(2))
    jobs: list[cards.Job] = [
        ({"a": a, "b": b}, {"which": which, "blocks": blocks}, {"c": np.zeros((64, 64), "float32"), "who": np.zeros(48 * 16, "float32")})
        for which, blocks in cases
    ]
    cards.build(kernel, cards.task_of(*jobs[0]), workdir)
    found = cards.run(workdir, jobs)
    for one in found[:1]:
        assert not one.code, one.text
        np.testing.assert_allclose(one.outputs["c"], a @ b, rtol=1e-3, atol=1e-3)
    return found


@pytest.mark.toolchain
@pytest.mark.slow(one_in=5)
def test_cores_are_numbered_and_priced_as_the_prompts_say(tmp_path: Path) -> None:
    kernel = (cards.FOLDER / "cores.asc").read_text()
    (tmp_path / "mix").mkdir()
    one, four, objects, early, both, unwaited = run_on_cores(tmp_path / "mix", kernel, [(0, 1), (0, 4), (1, 1), (2, 1), (3, 1), (4, 1)])
    rows = four.outputs["who"].reshape(48, 16)[:, :3].tolist()
    assert rows == [[i + 1.0, 4.0, i % 2] if i < 8 else [0.0, 0.0, 0.0] for i in range(48)]
    assert four.cycles - one.cycles == pytest.approx(3 * CHIP.cube_start, abs=50)
    assert objects.cycles - one.cycles == pytest.approx(CHIP.matmul_start, abs=4 * CHIP.scalar_gm_miss)
    assert early.code == "E-MM-ORDER"
    assert both.cycles > unwaited.cycles + CHIP.copy_cycles[0]

    (tmp_path / "cube").mkdir()
    alone, three = run_on_cores(tmp_path / "cube", kernel.replace("KERNEL_TYPE_MIX_AIC_1_2", "KERNEL_TYPE_AIC_ONLY"), [(0, 1), (0, 3)])
    assert three.outputs["who"].reshape(48, 16)[:4, :2].tolist() == [[1, 3], [2, 3], [3, 3], [0, 0]]
    assert one.cycles - alone.cycles == pytest.approx(CHIP.cube_start, abs=50)
    assert three.cycles == pytest.approx(alone.cycles, abs=50)

    # An object that is not registered starts the cube all the same.
    (tmp_path / "init").mkdir()
    plain = kernel.replace("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);", "")
    plain = plain.replace("REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &td.cube);", "mm.Init(&td.cube);")
    plain = plain.replace("REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &td.cube, other, &td.cube);", "other.Init(&td.cube);")
    (unregistered,) = run_on_cores(tmp_path / "init", plain, [(0, 4)])
    assert unregistered.cycles == pytest.approx(four.cycles, abs=50)


@pytest.mark.toolchain
@pytest.mark.slow(one_in=5)
def test_flags_between_all_cores_cost_as_much_as_syncall(tmp_path: Path) -> None:
    bodies = ("SyncAll();", "CrossCoreSetFlag<0, PIPE_MTE3>(1);\nCrossCoreWaitFlag(1);", "PipeBarrier<PIPE_ALL>();")
    cases = [cards.Case("sync-all", "timed", "", body, number, blocks=4) for number, body in enumerate(bodies)]
    meeting, flags, alone = (found.cycles for found in cards.ran_cases(cases, tmp_path).values())
    assert meeting - alone == pytest.approx(CHIP.sync_all, abs=100)
    assert flags == pytest.approx(meeting, abs=100)
