"""Axes of an experiment: arms from combinations, paired effects of each axis, tables and sentences, and the shipped comparison."""

from dataclasses import replace
from math import log
from types import SimpleNamespace

import pytest
import sample_run

from evokernel.core.errors import UserError
from evokernel.experiments import axis_plots, axis_tables, spec
from evokernel.experiments.axis_effects import SearchComparison
from evokernel.experiments.axis_tables import summarize_axis
from evokernel.experiments.results import Results
from evokernel.reports.metrics import group_by_task
from evokernel.suites.loader import find_task_files

FILE = """
title = "Mine"
description = "A try."
seeds = 2

[groups]
A = "starter/softmax"

[settings]
budget = 2

[axes.strategy]
climb = { policy = "hill_climb" }
value = { policy = "value" }

[axes.memory]
few = { policy = { top_n = 2 } }
many = { policy = { top_n = 8 }, budget = 3 }

[[arms]]
name = "passk"
settings = { policy = "passk" }
"""
SPEED = {"one+none": 1.0, "one+full": 1.5, "two+none": 2.0, "two+full": 3.0}


def write_file(folder, text=FILE):
    (folder / "mine.toml").write_text(text)
    return str(folder / "mine.toml")


def test_every_combination_of_the_axes_is_an_arm(tmp_path):
    plan = spec.read_spec(write_file(tmp_path))
    assert [arm.name for arm in plan.arms] == ["passk", "climb+few", "climb+many", "value+few", "value+many"]
    last = plan.arms[-1]
    assert last.settings == {"policy": {"name": "value", "top_n": 8}, "budget": 3}
    assert (last.levels, plan.arms[0].levels) == ({"strategy": "value", "memory": "many"}, {})


def test_overrides_reach_axes_before_and_arms_after_they_are_combined(tmp_path):
    overrides = ["arms.value+few.policy.top_n=1", "axes.memory.few.policy.top_n=5", "budget=7"]
    settings = {arm.name: arm.settings for arm in spec.read_spec(write_file(tmp_path), overrides).arms}
    assert settings["climb+few"]["policy"]["top_n"] == 5
    assert {"climb+many", "value+many", "value+few"} <= settings.keys(), "the other values of the axes stay"
    assert settings["value+few"]["policy"]["top_n"] == 1
    with pytest.raises(UserError, match=r"has no arm 'value\+fw' \(did you mean 'value\+few'\?\)"):
        spec.read_spec(write_file(tmp_path), ["arms.value+fw.budget=1"])


@pytest.mark.parametrize(
    "axes", ['axes = "strategy"', "[axes]\nstrategy = 3", '[axes]\nstrategy = { climb = "hill_climb" }', "[axes.memory]"]
)
def test_wrong_axes_are_reported_in_one_line(tmp_path, axes):
    head, _, rest = FILE.partition("[axes.strategy]")
    text = f"{axes}\n{FILE.partition('[axes')[0]}" if axes.startswith("axes") else f"{head}{axes}\n[[arms]]{rest.partition('[[arms]]')[2]}"
    with pytest.raises(UserError, match=r"axes must name settings for each value\. Write "):
        spec.read_spec(write_file(tmp_path, text))


def make_seeds(speed, tasks, seeds=2):
    """Results of an arm whose first attempts fail, and whose second ones have `speed` on every operator, more on later operators."""
    failed = sample_run.failed_outcome("check", "mismatch")
    by_seed = {}
    for seed in range(seeds):
        attempts = []
        for number, task in enumerate(tasks):
            outcome = sample_run.estimated_outcome(100.0 / (speed * (1 + number)))
            attempts += [sample_run.make_attempt(task, 0, failed), sample_run.make_attempt(task, 1, outcome)]
        by_seed[seed] = group_by_task(tasks, attempts)
    return by_seed


@pytest.fixture
def results(tmp_path):
    """Two strategies with two memories on twelve operators: one strategy is twice as fast, one memory 1.5 times."""
    axes = {"strategy": {"one": {}, "two": {}}, "memory": {"none": {}, "full": {}}}
    arms = [spec.ArmSpec(name=name, levels=dict(zip(axes, name.split("+"), strict=True))) for name in SPEED]
    groups = {"used": "starter", "unseen": "level1"}
    plan = spec.ExperimentSpec(
        name="x", title="X", description="x", groups=groups, seeds=2, axes=axes, arms=arms, settings={"budget": 2}, reuse_outcomes=True
    )
    tasks = [sample_run.make_task(f"operator{number}") for number in range(12)]
    by_group = {"used": tasks[:6], "unseen": tasks[6:]}
    ids = {name: [SimpleNamespace(id=task.id) for task in group] for name, group in by_group.items()}
    return Results(plan, {arm: make_seeds(speed, tasks) for arm, speed in SPEED.items()}, ids, tmp_path)


def test_effect_of_an_axis_is_paired_with_equal_values_of_the_others(results):
    comparison = results.searches["all operators"]
    (strategy,) = comparison.effects("strategy", comparison.area)
    assert (strategy.one, strategy.other) == ("one", "two")
    assert strategy.interval.mean == pytest.approx(-log(2) / 2), "the second of two attempts is twice as fast"
    (memory,) = comparison.effects("memory", comparison.area)
    assert memory.interval.mean == pytest.approx(-log(1.5) / 2)
    assert strategy.is_significant
    assert comparison.sorted_arms() == ["two+full", "two+none", "one+full", "one+none"]
    relative = comparison.relative_to_mean()
    assert sum(interval.mean for interval in relative.values()) == pytest.approx(0.0), "relative to the mean of all arms"


def test_arms_that_lack_a_counterpart_are_left_out_of_an_effect(results):
    arms = {name: seeds for name, seeds in results.by_arm.items() if name != "two+none"}
    comparison = SearchComparison(results.spec, arms)
    (strategy,) = comparison.effects("strategy", comparison.area)
    assert strategy.interval.mean == pytest.approx(-log(2) / 2), "from the arms with full memory alone"


def test_p_values_are_corrected_for_the_number_of_pairs(results):
    axes = {"strategy": {name: {} for name in ("one", "two", "three")}}
    arms = [spec.ArmSpec(name=name, levels={"strategy": name}) for name in axes["strategy"]]
    plan = results.spec.model_copy(update={"axes": axes, "arms": tuple(arms)})
    by_arm = {"one": results.by_arm["one+none"], "two": results.by_arm["two+none"], "three": results.by_arm["two+none"]}
    comparison = SearchComparison(plan, by_arm)
    effects = {(one.one, one.other): one for one in comparison.effects("strategy", comparison.area)}
    different, equal = effects["one", "two"], effects["two", "three"]
    assert different.adjusted_p == pytest.approx(3 * different.p)
    assert (equal.p, equal.is_significant) == (1.0, False)
    assert summarize_axis("strategy", list(effects.values())) == (
        "2 of 3 pairs of the axis strategy can be distinguished by the mean speed-up of the search: "
        "one is 1.41× slower than two, one is 1.41× slower than three. 1 pair cannot be distinguished: two and three."
    )
    assert summarize_axis("strategy", [equal]).endswith("can be distinguished by the mean speed-up of the search: two and three.")
    assert summarize_axis("strategy", [equal] * 7).endswith(" (7 pairs, see the table).")


def test_tables_show_all_operators_then_each_group_and_what_was_reused(results):
    titles = [table.title for table in axis_tables.build_axis_tables(results)]
    kinds = ("the search", "effect of the strategy", "effect of the memory")
    assert titles == [*(f"{name}: {kind}" for name in ("all operators", "used", "unseen") for kind in kinds), "Reused outcomes"]
    search, effect, *_, reused = axis_tables.build_axis_tables(results)
    assert [row[0] for row in search.format_rows()] == ["two+full", "two+none", "one+full", "one+none"]
    assert effect.format_rows()[0][0] == "one / two"
    assert effect.format_rows()[0][1].startswith("0.71× [")
    assert reused.format_rows()[0] == ["one+none", "48", "48", "0", "0"]
    assert "No outcome of another run was reused" in reused.note
    assert axis_tables.build_axis_tables(replace(results, spec=results.spec.model_copy(update={"axes": {}, "reuse_outcomes": False}))) == []
    assert axis_tables.axes_to_json(results)["used"]["effects"]["memory"]["mean speed-up"][0]["other"] == "full"


def test_reused_outcomes_are_counted_by_their_source(results):
    task = sample_run.make_task("operator0")
    sources = ("", "x-two+none-0", f"{task.id}/1")
    outcomes = [sample_run.estimated_outcome(1.0).model_copy(update={"reused_from": source}) for source in sources]
    attempts = [sample_run.make_attempt(task, number, outcome) for number, outcome in enumerate(outcomes)]
    shared = replace(results, by_arm={"one+none": {0: group_by_task([task], attempts)}})
    (table,) = axis_tables.reuse_tables(shared)
    assert table.format_rows() == [["one+none", "3", "1", "1", "1"]]
    assert "no new inputs were drawn" in table.note


@pytest.mark.heavy  # draws figures
def test_plot_shows_every_arm_with_the_best_at_the_top(results, tmp_path):
    drawn = [plot for plot in axis_plots.draw_axis_plots(results, tmp_path) if plot]
    assert [plot.name for plot in drawn] == ["arms", "arms-used", "arms-unseen"]
    text = drawn[0].svg
    assert all(arm in text for arm in SPEED)
    rows = {arm: text.index(f">{arm}<") for arm in SPEED}
    assert rows["one+none"] < rows["two+full"], "labels are written from below"
    assert "memory: full" in text
    assert (tmp_path / "arms.png").exists()


def test_shipped_comparison_of_strategies_is_complete_and_half_of_it_is_unseen():
    plan = spec.read_spec("strategies")
    spec.check_settings(plan)
    assert {tuple(sorted(arm.levels)) for arm in plan.arms} == {(), ("memory", "strategy")}
    assert set(plan.axes["memory"]) == {"none", "similarity", "value"}
    assert plan.seeds >= 5
    operators = {group: {file.id for file in find_task_files(pattern)} for group, pattern in plan.groups.items()}
    assert not operators["used"] & operators["unseen"]
    assert len(operators["used"]) == len(operators["unseen"]) >= 20
    tuned_suites = ("starter/", "level1/", "level2/")
    assert not [id for id in operators["unseen"] if id.startswith(tuned_suites)]
    assert all(id.startswith(tuned_suites) for id in operators["used"])


def test_operators_of_earlier_results_are_not_called_unseen():
    from evokernel.suites.loader import suites_folder

    unseen = {file.id for file in find_task_files(spec.read_spec("strategies").groups["unseen"])}
    root = suites_folder().parents[2]
    earlier = [
        *(root / "results").glob("*.toml"),
        *(path for name, path in spec.shipped_experiments().items() if name in ("steps", "value-scope")),
    ]
    assert earlier
    for path in earlier:
        experiment = spec.read_spec(str(path))
        groups = experiment.plan.tuned_on if experiment.plan else experiment.groups  # a test with a plan chooses nothing on its operators
        assert not unseen & {file.id for group in groups for file in find_task_files(experiment.groups[group])}, path
