"""The report of an experiment: both protocols, every baseline, intervals, costs, unknown figures; the page and its plots."""

import json
import re
from dataclasses import replace
from itertools import accumulate, combinations

import pytest
import sample_experiment
import sample_run
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from evokernel.core.final_results import FinalResult
from evokernel.experiments import cost_estimate, cost_tables, plots, report_writer, result_tables, spec
from evokernel.experiments.figures import PAPER_FIGURES
from evokernel.experiments.intervals import Interval
from evokernel.experiments.metrics import PairedDifference, attempts_to_first_correct, is_faster_of_all, passes_protocol
from evokernel.experiments.summary import compare_first_attempts, summarize_results
from evokernel.reports import page, round_stats
from evokernel.reports.metrics import group_by_task

pytestmark = pytest.mark.heavy  # draws figures


@pytest.fixture(scope="module")
def two_arms(tmp_path_factory):
    """Results of two_arms arms, with costs."""
    return sample_experiment.make_experiment(tmp_path_factory.mktemp("two_arms"), ["passk", "value"], cost=0.25)


def find_table(results, title):
    (table,) = [one for one in result_tables.build_tables(results) if one.title == title]
    return [dict(zip((column.name for column in table.columns), row)) for row in table.format_rows()]


def test_success_table_shows_both_protocols(two_arms):
    rows = find_table(two_arms, "L1: compiled and correct")
    assert list(rows[0]) == ["arm", "CR", "Acc, as published (1e-2)", "Acc, strict", "Acc, not vacuous"]
    assert re.fullmatch(r"\(\d+ %\) \d+ % \[\d+ to \d+\]", rows[1]["Acc, as published (1e-2)"])
    arm = result_tables.results_to_json(two_arms)["groups"]["L1"]["arms"]["value"]
    assert arm["Acc"]["mean"] - arm["Acc, strict"]["mean"] >= 0.25, "a kernel that fails the re-evaluation counts under one protocol only"
    assert arm["Acc, not vacuous"]["value_count"] == 6, "three of four operators, two_arms seeds"


def test_strict_runs_swap_the_protocol_columns(two_arms):
    strict = replace(two_arms, spec=spec.with_protocol(two_arms.spec, "strict"))
    rows = find_table(strict, "L1: compiled and correct")
    assert list(rows[0])[2:4] == ["Acc, as published (1e-2)", "Acc, strict"]
    assert rows[0]["Acc, strict"].startswith("("), "the loop's protocol has a first round"
    assert rows[0]["Acc, as published (1e-2)"] == "–", "not evaluated"
    assert "Protocol during the runs: strict. Protocol of the re-evaluation of the best kernels: paper" in result_tables.protocol_sentence(
        strict
    )


def test_accuracy_under_another_protocol_is_none_if_not_evaluated():
    task = sample_run.make_task("relu")
    wrong = sample_run.make_attempt(task, 0, sample_run.failed_outcome("check", "mismatch"))
    (unevaluated,) = group_by_task([task], [wrong])
    passing = sample_run.passed_outcome(1.0).model_copy(update={"protocol": "paper"})
    final = FinalResult(task=task.id, attempt=wrong.id, outcome=passing)
    assert passes_protocol("paper")(unevaluated) is None
    assert passes_protocol("paper")(replace(unevaluated, other_protocol_results={})) == 0.0
    assert passes_protocol("paper")(replace(unevaluated, other_protocol_results={wrong.id: final})) == 1.0
    assert passes_protocol("strict")(unevaluated) == 0.0, "a kernel that fails the paper protocol fails the strict one"
    (not_reevaluated,) = group_by_task([task], [sample_run.make_attempt(task, 0, passing)])
    assert passes_protocol("strict")(not_reevaluated) is None, "a best kernel without re-evaluation"
    assert is_faster_of_all("eager")(unevaluated) == 0.0
    assert is_faster_of_all("xla")(not_reevaluated) is None, "correct, but not timed with this baseline"


def test_speed_table_covers_every_known_baseline(two_arms):
    rows = [row for row in find_table(two_arms, "L1: speed of the best kernels") if row["arm"] == "value"]
    assert [row["compared with"] for row in rows] == ["PyTorch eager", "its first correct kernel"], "no roofline was reported"
    assert re.fullmatch(r"[\d.]+× to [\d.]+×", rows[0]["speed-up, middle half"])
    fast = {row["operators"]: row for row in find_table(two_arms, "L1: fast_p") if row["arm"] == "value"}
    assert float(fast["all"]["> 0.5×"].split()[0]) <= float(fast["correct"]["> 0.5×"].split()[0])
    figures = result_tables.results_to_json(two_arms)["groups"]["L1"]
    assert set(figures["speed"]["value"]["PyTorch eager"]) == {"geomean", "median", "quartiles"}
    assert set(figures["fast_p"]["value"]["PyTorch eager"]["all"]) == {"0.5", "1", "1.5", "2", "4"}
    assert {row["category"] for row in figures["categories"]} == {"activation", "matmul"}


def test_costs_are_shown_or_not_reported(two_arms, tmp_path):
    (first, _) = cost_tables.list_costs(two_arms)
    assert first.cost_usd == 80 * 0.25
    assert first.divide_by_correct(first.cost_usd) == 20.0 / first.correct
    free = sample_experiment.make_experiment(tmp_path, ["value"], budget=2, seeds=1)
    assert find_table(free, "Costs")[0]["cost"] == "none"
    without_time = cost_tables.arm_cost(
        "x",
        group_by_task(
            [sample_run.make_task("a")], [sample_run.make_attempt(sample_run.make_task("a"), 0, sample_run.failed_outcome("check", "nan"))]
        ),
    )
    assert without_time.table_row()[-1] == "not reported"
    unknown = cost_tables.ArmCost("x", 1, 1, sample_run.make_usage(None), None)
    assert (unknown.to_json()["cost_usd"], cost_tables.format_cost(unknown)) == (None, "not reported")


def test_attempts_to_first_correct_kernel_follow_the_loop():
    task = sample_run.make_task("relu")
    attempts = [
        sample_run.make_attempt(task, number, outcome)
        for number, outcome in enumerate((sample_run.passed_outcome(2.0), sample_run.passed_outcome(1.0)))
    ]
    failed_final = FinalResult(task=task.id, attempt=attempts[0].id, outcome=sample_run.failed_outcome("check", "mismatch"))
    (result,) = group_by_task([task], attempts, {attempts[0].id: failed_final})
    assert result.first_correct_round == 2, "the first failed the re-evaluation"
    assert attempts_to_first_correct(result) == 1, "but it passed in the loop"
    (never,) = group_by_task([task], [sample_run.make_attempt(task, 0, sample_run.failed_outcome("check", "nan"))] * 3)
    assert attempts_to_first_correct(never) == 3


def test_shares_after_n_attempts(two_arms):
    rows = {row["arm"]: row for row in find_table(two_arms, "L1: correct after N attempts")}
    shares = result_tables.results_to_json(two_arms)["groups"]["L1"]["by_attempts"]["value"]
    assert len(shares["Acc"]) == len(shares["CR"]) == 10
    assert shares["Acc"] == sorted(shares["Acc"])
    assert shares["Acc"][-1] == result_tables.results_to_json(two_arms)["groups"]["L1"]["arms"]["value"]["Acc"]["mean"]
    assert rows["value"]["2"] == f"{100 * shares['Acc'][1]:.0f} %"
    assert list(rows["value"]) == ["arm", "1", "2", "3", "4", "6", "8", "10"]


def test_published_note_without_figures_is_shown(two_arms):
    alone = replace(two_arms, spec=two_arms.spec.model_copy(update={"paper": {"note": "Ten of fifteen."}}))
    assert find_table(alone, "As published") == [{"note": "Ten of fifteen."}]
    for name in spec.shipped_experiments():
        if name.startswith(("figure", "table")):
            assert result_tables.published_tables(replace(two_arms, spec=spec.read_spec(name))), name


def test_every_environment_of_the_runs_is_named(tmp_path):
    results = sample_experiment.make_experiment(tmp_path, ["value"], budget=1, seeds=1)
    results.runs[0].record_environment({"versions": {"evokernel": "0.1.0"}, "hardware": {"machine": "another"}})
    assert result_tables.environment_lines(results) == ["evokernel 0.1.0, machine another", "evokernel 0.1.0, machine test"]
    (run,) = results.runs
    assert "test, then another" in page.render_page(run, [], None, [])


def make_overlapping(two_arms, arm, groups, order):
    """Two arms with equal results, one on several groups that share operators, in another order."""
    same = {seed: [task_results[index] for index in order] for seed, task_results in two_arms.by_arm["value"].items()}
    tasks = {"all": two_arms.tasks["L1"], "some": [two_arms.tasks["L1"][index] for index in (2, 0)]}
    arms = (spec.ArmSpec(name="value", groups=("all",)), spec.ArmSpec(name=arm, groups=groups))
    experiment = two_arms.spec.model_copy(update={"groups": dict.fromkeys(tasks, "x"), "arms": arms, "compare": ((arm, "value"),)})
    return replace(two_arms, spec=experiment, tasks=tasks, by_arm={"value": two_arms.by_arm["value"], arm: same})


def test_pairs_compare_the_same_operators_if_groups_overlap(two_arms):
    results = make_overlapping(two_arms, "both", ("some", "all"), (2, 0, 1, 3))
    names = {group: [task.id for task in tasks] for group, tasks in results.tasks.items()}
    for group in ("all", "some"):
        for seeds in results.arm_results(group).values():
            assert [[result.task.id for result in task_results] for task_results in seeds.values()] == [names[group]] * 2
        assert set(results.arm_results(group)) == {"value", "both"}
        for measures in result_tables.results_to_json(results)["groups"][group]["pairs"].values():
            for found in measures.values():
                assert found["interval"] is None or found["interval"]["low"] == found["interval"]["mean"] == found["interval"]["high"] == 0


def test_arm_on_part_of_a_group_is_reported_for_that_part_only(two_arms, tmp_path):
    results = replace(make_overlapping(two_arms, "part", ("some",), (2, 0)), folder=tmp_path)
    assert {group: list(results.arm_results(group)) for group in results.groups} == {"all": ["value"], "some": ["value", "part"]}
    assert results.operator_count("all") == 4
    alone = replace(results, by_arm={"part": results.by_arm["part"]})
    assert alone.operator_count("all") == 0
    assert report_writer.write_report_folder(alone), "also if no arm was run on all operators of a group"


def test_skipped_arms_and_vacuous_operators_are_named(two_arms):
    rows = {row["part"]: row["reason"] for row in find_table(two_arms, "Skipped parts and warnings")}
    assert rows["arm agent"] == "generator.command is not set"
    assert "computes nothing" in rows["level1/operator1"]


def test_summary_starts_with_the_comparison(two_arms):
    lines = summarize_results(two_arms)
    assert re.match(r"L1, 4 operators, 2 seeds: value (solves more operators than|and) passk", lines[0])
    assert [line.partition(":")[0] for line in lines[1:3]] == ["Solved, as published (1e-2)", "Solved, strict"]


def test_summary_mentions_first_attempts_only_if_they_differ_significantly():
    sure, unsure = Interval(0.02, 0.16, 0.28, 9), Interval(-0.02, 0.16, 0.28, 9)
    assert (
        compare_first_attempts("value", PairedDifference(sure, 0.027))
        == " value is correct at the first attempt more often: +16 points [2 to 28], p = 0.027."
    )
    assert compare_first_attempts("value", PairedDifference(Interval(-0.2, -0.1, -0.05, 9), None)).startswith(
        " value is correct at the first attempt less often: -10"
    )
    assert compare_first_attempts("value", PairedDifference(unsure, 0.2)) == compare_first_attempts("value", None) == ""


def test_most_shown_memory_items_are_counted(two_arms):
    items = round_stats.most_shown_items(two_arms.first_seed_results()["value"], 3)
    assert [one.id.partition("card")[0] for one in items] == ["cpp/"] * 3
    assert items[0].times >= items[1].times >= items[2].times
    assert items[0].operators <= 4


def test_cost_unit_is_money_then_tokens_then_time():
    task = sample_run.make_task("a")
    attempts = [sample_run.make_attempt(task, 0, sample_run.passed_outcome(1.0))]
    assert round_stats.choose_cost_unit(attempts) is round_stats.SECONDS
    assert round_stats.choose_cost_unit([sample_run.make_attempt(task, 0, sample_run.failed_outcome("check", "nan"))]) is None
    assert (
        round_stats.choose_cost_unit(
            [*attempts, sample_run.make_attempt(task, 1, sample_run.passed_outcome(1.0), usage=sample_run.make_usage(None))]
        )
        is round_stats.TOKENS
    )
    assert (
        round_stats.choose_cost_unit(
            [*attempts, sample_run.make_attempt(task, 1, sample_run.passed_outcome(1.0), usage=sample_run.make_usage(0.5))]
        )
        is round_stats.MONEY
    )


@pytest.mark.parametrize(
    ("gaps", "seconds"),
    [
        ([2.0] * 9, 18.0),
        ([2.0] * 9 + [8 * 3600.0], 18.0 + 300.0),
        ([60.0] * 9 + [8 * 3600.0] * 2, 540.0 + 2 * 600.0),
        ([0.1] * 15 + [120.0] + [0.1] * 15, 123.0),
        ([0.0] * 4, 0.0),
        ([], None),
    ],
    ids=["steady", "a night", "two nights", "waiting for a model", "all at once", "one attempt"],
)
def test_pauses_do_not_count_as_active_time(tmp_path, gaps, seconds):
    task = sample_run.make_task("a")
    times = accumulate(gaps, initial=1e9)
    attempts = [
        sample_run.make_attempt(task, n, sample_run.failed_outcome("check", "nan")).model_copy(update={"finished_at": at})
        for n, at in enumerate(times)
    ]
    sample_run.write_run(tmp_path / "run", [task], attempts)
    (rate,) = cost_estimate.measure_rates([tmp_path]).values() or [None]
    assert rate is None if seconds is None else rate.seconds_per_attempt == pytest.approx(seconds / len(attempts), abs=1e-6)


def test_page_is_complete_and_loads_nothing(tmp_path):
    results = sample_experiment.make_experiment(tmp_path, ["value"], budget=3, seeds=1)
    report_writer.write_report_folder(results)
    page, text = ((tmp_path / f"experiment.{ending}").read_text() for ending in ("html", "md"))
    assert "Sample: &lt;b&gt;many&lt;/b&gt; arms" in page
    assert not re.search(r"<(script|img|iframe|link)|@import|url\((?!#)|src=", page)
    assert page.count("<svg") == len(list(tmp_path.glob("*.png"))) == text.count("![")
    for expected in ("evokernel experiment sample", "Environment: ", "Costs", "As published", "L1: compiled and correct"):
        assert expected in page, expected
        assert expected in text, expected
    assert json.loads((tmp_path / "experiment.json").read_text())["environments"] == ["evokernel 0.1.0, machine test"]


def visible_texts(figure):
    """Return all visible texts of a figure with their boxes; ticks outside the axes are not drawn."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            hidden |= {label for tick in ticks for label in (tick.label1, tick.label2) if not low <= tick.get_loc() <= high}
        hidden |= set(axes.findobj(Text)) if not axes.get_visible() else set()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip() and text not in hidden]
    return [(text.get_text(), text.get_window_extent(renderer).padded(-1)) for text in texts]


@pytest.fixture
def plot_names(monkeypatch):
    """Names of saved plots; each is checked for texts that overlap or are cut off."""
    names = []
    save = Figure.savefig

    def check_and_save(figure, target, **options):
        if str(target).endswith(".png"):
            save(figure, target, dpi=100)
            names.append(target.stem)
            boxes = visible_texts(figure)
            assert boxes
            for (one, box), (other, other_box) in combinations(boxes, 2):
                assert not box.overlaps(other_box), f"{target.stem}: '{one}' overlaps '{other}'"
            for one, box in boxes:
                is_inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
                assert is_inside, f"{target.stem}: '{one}' is cut off"
        else:
            target.write("<svg ></svg>")

    monkeypatch.setattr(Figure, "savefig", check_and_save)
    return names


@pytest.mark.slow(one_in=5)
def test_no_texts_overlap_with_many_arms_and_long_names(plot_names, tmp_path):
    results = sample_experiment.make_experiment(tmp_path, sample_experiment.LONG_NAMES)
    plots.draw_plots(results, tmp_path)
    assert plot_names == ["curve-L1", "rates-L1", "failures", "roles", "value", "cost"]


@pytest.mark.parametrize("kind", PAPER_FIGURES)
def test_no_texts_overlap_in_the_paper_figures(plot_names, tmp_path, kind):
    results = sample_experiment.make_experiment(tmp_path, ["value"], seeds=1, kind=kind)
    drawn_plots = PAPER_FIGURES[kind].draw_plots(results.first_seed_results(), tmp_path)
    assert len(plot_names) == len([plot for plot in drawn_plots if plot])
