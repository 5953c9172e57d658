"""The protocol of results/generalise.toml: its plan, its power, and its misleading memory."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
import sample_run
from engine_parts import make_attempt, make_task

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate
from evokernel.experiments.arm_runs import export_learned_pack, make_arm_run
from evokernel.experiments.misleading import write_misleading_pack
from evokernel.experiments.power import (
    VarianceParts,
    count_operators_needed,
    detectable_difference,
    estimate_variance,
    read_differences,
    variance_from_interval,
)
from evokernel.experiments.runner import task_patterns
from evokernel.experiments.spec import ArmSpec, ExperimentSpec, check_settings, find_arms, read_spec, with_arms
from evokernel.memory import packs
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.memory.pack_contamination import refuse_contaminated_pack
from evokernel.memory.pack_file import read_pack
from evokernel.suites.loader import describe_task, find_task_files, load_tasks

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "results" / "generalise.toml"
HASH = make_plugin("embedder", "hash")


# --- power ------------------------------------------------------------------------------------------------------------------


def draw_grid(random, parts, operators, seeds, mean=0.0):
    rows = random.normal(0, parts.operators**0.5, (operators, 1)) + random.normal(0, parts.seeds**0.5, (1, seeds))
    return mean + rows + random.normal(0, parts.residual**0.5, (operators, seeds))


def test_variance_parts_are_recovered():
    planted, random = VarianceParts(0.04, 0.01, 0.09), np.random.default_rng(0)
    estimates = np.array([estimate_variance(draw_grid(random, planted, 40, 20)) for _ in range(60)])
    assert estimates.mean(axis=0) == pytest.approx(np.array(planted), rel=0.15)


def test_operators_with_gaps_are_left_out():
    grid = draw_grid(np.random.default_rng(1), VarianceParts(0.04, 0.0, 0.09), 20, 5)
    with_gap = np.vstack([grid, [[np.nan, 9.0, 9.0, 9.0, 9.0]]])
    assert estimate_variance(with_gap) == estimate_variance(grid)
    with pytest.raises(ValueError, match="1 seeds are too few"):
        estimate_variance(grid[:, :1])


def test_number_of_operators_gives_the_promised_power():
    planted, random = VarianceParts(0.05, 0.0, 0.2), np.random.default_rng(2)
    operators = count_operators_needed(planted, 5, 0.08)
    assert detectable_difference(planted, operators, 5) <= 0.08 < detectable_difference(planted, operators - 1, 5)
    error = planted.standard_error(operators, 5)
    shown = [abs(draw_grid(random, planted, operators, 5, 0.08).mean()) > 1.96 * error for _ in range(800)]
    assert sum(shown) / 800 == pytest.approx(0.8, abs=0.05)


def test_differences_are_read_from_recorded_journals(tmp_path):
    tasks = [sample_run.make_task(name) for name in ("relu", "gelu", "tanh")]
    correct = {"one": {0: "relu gelu tanh", 1: "relu gelu"}, "other": {0: "relu", 1: "relu tanh"}}
    for arm, by_seed in correct.items():
        for seed, names in by_seed.items():
            outcomes = [
                sample_run.passed_outcome(3.0) if task.id[5:] in names else sample_run.failed_outcome("check", "mismatch") for task in tasks
            ]
            attempts = [sample_run.make_attempt(task, 0, outcome) for task, outcome in zip(tasks, outcomes, strict=True)]
            sample_run.write_run(tmp_path / f"{arm}-{seed}", tasks, attempts)
    differences = read_differences(tmp_path, "one", "other")
    assert differences.tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, -1.0]]
    assert estimate_variance(differences).residual == pytest.approx(2 / 3)
    with pytest.raises(UserError, match="has no run third-0"):
        read_differences(tmp_path, "one", "third")


def test_too_much_variance_between_seeds_cannot_be_helped_by_operators():
    assert count_operators_needed(VarianceParts(0.01, 0.02, 0.1), 5, 0.08) is None
    assert count_operators_needed(VarianceParts(0.01, 0.02, 0.1), 80, 0.08)


# --- the protocol -----------------------------------------------------------------------------------------------------------


def test_plan_states_the_power_of_recorded_results():
    spec = read_spec(str(SPEC))
    file, _, pair = spec.plan.variance_from.partition(", ")
    groups = json.loads((ROOT / file).read_text())["groups"]
    (group,) = groups.values()
    interval = group["pairs"][pair][spec.plan.measures[0]]["interval"]
    seeds = interval["value_count"] // group["operators"]
    variance = variance_from_interval(interval["low"], interval["high"], group["operators"], seeds)
    assert count_operators_needed(variance, spec.seeds, spec.plan.smallest_difference, spec.plan.power) == spec.plan.operators


def test_operators_of_the_test_are_enough():
    spec = read_spec(str(SPEC))
    shipped = sum(len(find_task_files(spec.groups[group])) for group in spec.plan.tested_on if group != "published")
    published = spec.groups["published"].split(",")
    assert (shipped, len(set(published))) == (105, 34)
    assert shipped + len(published) >= spec.plan.operators


@pytest.mark.toolchain
def test_memory_of_the_protocol_reveals_no_operator_of_the_test(tmp_path):
    """Some products of level 1 compute what an operator of the test computes: a pack leaves out what was learned on them."""
    spec = read_spec(str(SPEC))
    groups = {name: find_task_files(pattern) for name, pattern in spec.groups.items() if name != "published"}
    learner = make_arm_run(spec, ArmSpec(name="clean"), task_patterns(groups, ["tuning"]), tmp_path, 0)
    twins = ["level1/matmul_square", "level1/matmul_small_inner"]
    tasks = {file.id: describe_task(file) for file in groups["tuning"] if file.id in (*twins, "level1/relu")}
    learner.folder.mkdir()
    with Bank.open(learner.folder / "memory.db", HASH, backend="cpp", run="r") as bank:
        for task in tasks.values():
            lines = [f"float {task.family}_{line} = {line}.5f;" for line in range(40)]  # a kernel like no other
            candidate = Candidate(backend="cpp", files={"kernel.cpp": "\n".join(lines)})
            bank.add(distill(task, sample_run.make_attempt(task, 0, sample_run.passed_outcome(3.0), candidate=candidate)))
    held_out = task_patterns(groups, [group for group in spec.packs[0].exclude_groups if group != "published"])
    packs.export_pack(learner.folder / "memory.db", tmp_path / "all.jsonl")
    assert {item.item.task for item in read_pack(tmp_path / "all.jsonl").items if item.item.task} == tasks.keys()
    pack = export_learned_pack(learner, tmp_path / "clean.jsonl", held_out)
    assert {item.item.task for item in read_pack(pack).items if item.item.task} == {"level1/relu"}
    refuse_contaminated_pack(pack, [packed.item for packed in read_pack(pack).items], load_tasks("mhc"))


def test_settings_of_the_protocol_are_valid_and_its_memory_comes_from_the_tuning_operators():
    spec = read_spec(str(SPEC))
    check_settings(spec)
    assert {"nothing", "similarity", "varied", "value-published", "value", "contextual"} <= {arm.name for arm in spec.arms}
    selected, _ = with_arms(spec, find_arms(spec, ["contextual-misled"]))
    assert [pack.name for pack in selected.packs] == ["clean", "misleading"], "a derived pack needs its source"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"plan": {"tuned_on": ["attention"]}}, "group 'attention' is both tuned on and tested on"),
        ({"plan": {"tested_on": ["nowhere"]}}, "group 'nowhere' is not defined"),
        ({"plan": {"tested_on": ["mhc"]}}, "is evaluated on group 'attention', which the plan does not test on"),
        ({"pack": {"source": "nothing-such"}}, "'nothing-such', which is not defined before it"),
        ({"pack": {"groups": ["tuning"]}}, "either groups or a source"),
    ],
)
def test_inconsistent_plan_is_refused(tmp_path, change, message):
    table = tomllib.loads(SPEC.read_text())
    table["plan"].update(change.get("plan", {}))
    table["packs"][1].update(change.get("pack", {}))
    with pytest.raises(ValueError, match=message):
        ExperimentSpec.model_validate(table)


# --- misleading memory ------------------------------------------------------------------------------------------------------


def test_misleading_pack_turns_a_share_of_the_attempts_around(tmp_path):
    with Bank.open(tmp_path / "bank.db", HASH, backend="cpp", run="r") as bank:
        for n in range(9):
            attempt = make_attempt(n, "relu", feasible=n % 3 != 0)
            baseline = {"eager": (20.0 if n % 3 == 1 else 5.0,) * 3}
            attempt = attempt.model_copy(update={"outcome": attempt.outcome.model_copy(update={"baseline_us": baseline})})
            bank.add(distill(make_task("relu"), attempt))
            bank.update(attempt.id, attempt.stage, {attempt.memory_id: 1.0}, 0.5)
    packs.export_pack(tmp_path / "bank.db", tmp_path / "clean.jsonl")
    write_misleading_pack(tmp_path / "clean.jsonl", tmp_path / "misled.jsonl", 1 / 3, 0, HASH)
    clean, misled = (read_pack(tmp_path / name) for name in ("clean.jsonl", "misled.jsonl"))
    before, after = ({packed.item.id: packed.item for packed in pack.items} for pack in (clean, misled))
    changed = {id for id in before if before[id] != after[id]}
    assert before.keys() == after.keys()
    assert {id.removesuffix("/note") for id in changed} <= changed
    assert len(changed) == 6, "the kernel and the note of three attempts"
    assert misled.updates == clean.updates
    for id in changed:
        is_fast = before[id].feasible and before[id].speedup >= 1
        assert after[id].feasible is not is_fast
        assert after[id].code == before[id].code
        assert after[id].speedup == (None if is_fast else 3.0)
