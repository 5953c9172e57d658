"""What is told of an experiment: both protocols, every baseline, intervals, costs, and what is not known; the page and its plots."""

import json
import re
from dataclasses import replace
from itertools import accumulate, combinations

import made_experiment
import made_run
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from evokernel.core.final_results import FinalResult
from evokernel.experiments import cost_estimate, cost_tables, plots, report_writer, result_tables, spec
from evokernel.experiments.figures import LAYOUTS
from evokernel.experiments.intervals import Interval
from evokernel.experiments.metrics import Apart, attempts_spent, faster_of_all, holds
from evokernel.experiments.summary import at_once, summary
from evokernel.reports import page, round_stats
from evokernel.reports.metrics import by_task


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two arms, with prices."""
    return made_experiment.results(tmp_path_factory.mktemp("two"), ["passk", "value"], cost=0.25)


def table(results, title):
    (found,) = [one for one in result_tables.tables(results) if one.title == title]
    return [dict(zip((column.name for column in found.columns), row)) for row in found.shown()]


def test_both_protocols_stand_side_by_side(two):
    rows = table(two, "L1: compiled and correct")
    assert list(rows[0]) == ["arm", "CR", "Acc, as published (1e-2)", "Acc, strict", "Acc, not vacuous"]
    assert re.fullmatch(r"\(\d+ %\) \d+ % \[\d+ to \d+\]", rows[1]["Acc, as published (1e-2)"])
    arm = result_tables.figures(two)["groups"]["L1"]["arms"]["value"]
    assert arm["Acc"]["mean"] - arm["Acc, strict"]["mean"] >= 0.25, "what fell counts by one protocol only"
    assert arm["Acc, not vacuous"]["figures"] == 6, "three of four operators, two seeds"


def test_runs_by_the_strict_protocol_are_read_the_other_way_round(two):
    strict = replace(two, plan=spec.by(two.plan, "strict"))
    rows = table(strict, "L1: compiled and correct")
    assert list(rows[0])[2:4] == ["Acc, as published (1e-2)", "Acc, strict"]
    assert rows[0]["Acc, strict"].startswith("("), "the loop's has a first round"
    assert rows[0]["Acc, as published (1e-2)"] == "–", "nobody asked"
    assert "went by the protocol strict; bests were judged again by as published" in result_tables.protocol(strict)


def test_what_another_protocol_says_is_known_or_not():
    task = made_run.task("relu")
    wrong = made_run.attempt(task, 0, made_run.failed("check", "mismatch"))
    (unasked,) = by_task([task], [wrong])
    passing = made_run.passed(1.0).model_copy(update={"protocol": "paper"})
    final = FinalResult(task=task.id, attempt=wrong.id, outcome=passing)
    assert holds("paper")(unasked) is None
    assert holds("paper")(replace(unasked, others={})) == 0.0
    assert holds("paper")(replace(unasked, others={wrong.id: final})) == 1.0
    assert holds("strict")(unasked) == 0.0, "what fails as published fails"
    (unseen,) = by_task([task], [made_run.attempt(task, 0, passing)])
    assert holds("strict")(unseen) is None, "a best that was not judged again"
    assert faster_of_all("eager")(unasked) == 0.0
    assert faster_of_all("xla")(unseen) is None, "correct, but not timed beside it"


def test_speeds_are_told_over_everything_they_can_be_over(two):
    rows = [row for row in table(two, "L1: speed of the best kernels") if row["arm"] == "value"]
    assert [row["best kernels over"] for row in rows] == ["PyTorch eager", "its first correct kernel"], "no roofline was reported"
    assert re.fullmatch(r"[\d.]+× to [\d.]+×", rows[0]["middle half"])
    fast = {row["of"]: row for row in table(two, "L1: fast_p") if row["arm"] == "value"}
    assert float(fast["all"]["> 0.5×"].split()[0]) <= float(fast["correct"]["> 0.5×"].split()[0])
    figures = result_tables.figures(two)["groups"]["L1"]
    assert set(figures["speed"]["value"]["PyTorch eager"]) == {"geomean", "median", "quartiles"}
    assert set(figures["fast_p"]["value"]["PyTorch eager"]["all"]) == {"0.5", "1", "1.5", "2", "4"}
    assert {row["category"] for row in figures["categories"]} == {"activation", "matmul"}


def test_what_it_took_is_told_or_not_reported(two, tmp_path):
    (first, _) = cost_tables.costs(two)
    assert first.cost_usd == 80 * 0.25
    assert first.per_correct(first.cost_usd) == 20.0 / first.correct
    free = made_experiment.results(tmp_path, ["value"], budget=2, seeds=1)
    assert table(free, "What it took")[0]["cost"] == "none"
    unpriced = cost_tables.cost(
        "x", by_task([made_run.task("a")], [made_run.attempt(made_run.task("a"), 0, made_run.failed("check", "nan"))])
    )
    assert unpriced.row()[-1] == "not reported"
    unknown = cost_tables.Cost("x", 1, 1, made_run.with_usage(None), None)
    assert (unknown.plain()["cost_usd"], cost_tables.money(unknown)) == (None, "not reported")


def test_attempts_to_a_first_feasible_kernel_are_the_loops():
    task = made_run.task("relu")
    made = [made_run.attempt(task, number, outcome) for number, outcome in enumerate((made_run.passed(2.0), made_run.passed(1.0)))]
    fell = FinalResult(task=task.id, attempt=made[0].id, outcome=made_run.failed("check", "mismatch"))
    (tried,) = by_task([task], made, {made[0].id: fell})
    assert tried.first_round == 2, "the first did not hold up"
    assert attempts_spent(tried) == 1, "but the loop went by it"
    (never,) = by_task([task], [made_run.attempt(task, 0, made_run.failed("check", "nan"))] * 3)
    assert attempts_spent(never) == 3


def test_shares_after_so_many_attempts(two):
    rows = {row["arm"]: row for row in table(two, "L1: correct after so many attempts")}
    shares = result_tables.figures(two)["groups"]["L1"]["by_attempts"]["value"]
    assert len(shares["Acc"]) == len(shares["CR"]) == 10
    assert shares["Acc"] == sorted(shares["Acc"])
    assert shares["Acc"][-1] == result_tables.figures(two)["groups"]["L1"]["arms"]["value"]["Acc"]["mean"]
    assert rows["value"]["2"] == f"{100 * shares['Acc'][1]:.0f} %"
    assert list(rows["value"]) == ["arm", "1", "2", "3", "4", "6", "8", "10"]


def test_what_was_published_is_told_also_where_it_is_a_sentence(two):
    alone = replace(two, plan=two.plan.model_copy(update={"paper": {"note": "Ten of fifteen."}}))
    assert table(alone, "As published") == [{"what": "Ten of fifteen."}]
    for name in spec.shipped():
        if name != "real-model":
            assert result_tables.published(replace(two, plan=spec.read(name))), name


def test_every_toolchain_and_machine_that_runs_had_is_named(tmp_path):
    results = made_experiment.results(tmp_path, ["value"], budget=1, seeds=1)
    results.runs[0].record_environment({"versions": {"evokernel": "0.1.0"}, "hardware": {"machine": "another"}})
    assert result_tables.versions(results) == ["evokernel 0.1.0, machine another", "evokernel 0.1.0, machine test"]
    (run,) = results.runs
    assert "test, then another" in page.render(run, [], None, [])


def overlapping(two, arm, groups, order):
    """Two arms that did the same, one on several groups that share operators, in an order of its own."""
    same = {seed: [tries[place] for place in order] for seed, tries in two.found["value"].items()}
    given = {"all": two.given["L1"], "some": [two.given["L1"][place] for place in (2, 0)]}
    arms = (spec.PlannedArm(name="value", groups=("all",)), spec.PlannedArm(name=arm, groups=groups))
    plan = two.plan.model_copy(update={"groups": dict.fromkeys(given, "x"), "arms": arms, "against": ((arm, "value"),)})
    return replace(two, plan=plan, given=given, found={"value": two.found["value"], arm: same})


def test_pairs_are_of_the_same_operators_where_groups_overlap(two):
    results = overlapping(two, "both", ("some", "all"), (2, 0, 1, 3))
    names = {group: [task.id for task in tasks] for group, tasks in results.given.items()}
    for group in ("all", "some"):
        for seeds in results.arms(group).values():
            assert [[tried.task.id for tried in tries] for tries in seeds.values()] == [names[group]] * 2
        assert set(results.arms(group)) == {"value", "both"}
        for measures in result_tables.figures(results)["groups"][group]["pairs"].values():
            for found in measures.values():
                assert found["interval"] is None or found["interval"]["low"] == found["interval"]["mean"] == found["interval"]["high"] == 0


def test_an_arm_on_a_part_of_a_group_is_told_of_that_part_only(two, tmp_path):
    results = replace(overlapping(two, "part", ("some",), (2, 0)), folder=tmp_path)
    assert {group: list(results.arms(group)) for group in results.groups} == {"all": ["value"], "some": ["value", "part"]}
    assert results.operators("all") == 4
    alone = replace(results, found={"part": results.found["part"]})
    assert alone.operators("all") == 0
    assert report_writer.write(alone), "also where no arm was tried on the whole of a group"


def test_what_was_left_out_is_named(two):
    rows = {row["what"]: row["why"] for row in table(two, "Left out, and to be known")}
    assert rows["arm agent"] == "generator.command is not set"
    assert "computes nothing" in rows["level1/operator1"]


def test_the_summary_says_what_was_found_first(two):
    lines = summary(two)
    assert re.match(r"L1, 4 operators, 2 seeds: value (solves more than|and) passk", lines[0])
    assert [line.partition(":")[0] for line in lines[1:3]] == ["Solved, as published (1e-2)", "Strict"]


def test_the_summary_tells_first_attempts_where_they_can_be_told_apart():
    sure, unsure = Interval(0.02, 0.16, 0.28, 9), Interval(-0.02, 0.16, 0.28, 9)
    assert at_once("value", Apart(sure, 0.027)) == " value is right at the first attempt more often: +16 points [2 to 28], p = 0.027."
    assert at_once("value", Apart(Interval(-0.2, -0.1, -0.05, 9), None)).startswith(" value is right at the first attempt less often: -10")
    assert at_once("value", Apart(unsure, 0.2)) == at_once("value", None) == ""


def test_memories_shown_most_are_counted(two):
    found = round_stats.shown_most(two.first()["value"], 3)
    assert [one.id.partition("card")[0] for one in found] == ["cpp/"] * 3
    assert found[0].times >= found[1].times >= found[2].times
    assert found[0].operators <= 4


def test_spending_is_money_then_tokens_then_time():
    task = made_run.task("a")
    made = [made_run.attempt(task, 0, made_run.passed(1.0))]
    assert round_stats.spending(made) is round_stats.SECONDS
    assert round_stats.spending([made_run.attempt(task, 0, made_run.failed("check", "nan"))]) is None
    assert (
        round_stats.spending([*made, made_run.attempt(task, 1, made_run.passed(1.0), usage=made_run.with_usage(None))])
        is round_stats.TOKENS
    )
    assert (
        round_stats.spending([*made, made_run.attempt(task, 1, made_run.passed(1.0), usage=made_run.with_usage(0.5))]) is round_stats.MONEY
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
    ids=["steady", "a night", "two nights", "a model that is waited for", "all at once", "one attempt"],
)
def test_pauses_do_not_count_as_work(tmp_path, gaps, seconds):
    task = made_run.task("a")
    times = accumulate(gaps, initial=1e9)
    made = [made_run.attempt(task, n, made_run.failed("check", "nan")).model_copy(update={"at": at}) for n, at in enumerate(times)]
    made_run.write_run(tmp_path / "run", [task], made)
    (rate,) = cost_estimate.known([tmp_path]).values() or [None]
    assert rate is None if seconds is None else rate.seconds == pytest.approx(seconds / len(made), abs=1e-6)


def test_the_page_is_whole_and_loads_nothing(tmp_path):
    results = made_experiment.results(tmp_path, ["value"], budget=3, seeds=1)
    report_writer.write(results)
    page, text = ((tmp_path / f"experiment.{ending}").read_text() for ending in ("html", "md"))
    assert "Made up: &lt;b&gt;many&lt;/b&gt; arms" in page
    assert not re.search(r"<(script|img|iframe|link)|@import|url\((?!#)|src=", page)
    assert page.count("<svg") == len(list(tmp_path.glob("*.png"))) == text.count("![")
    for said in ("evokernel experiment made", "Made with: ", "What it took", "As published", "L1: compiled and correct"):
        assert said in page, said
        assert said in text, said
    assert json.loads((tmp_path / "experiment.json").read_text())["versions"] == ["evokernel 0.1.0, machine test"]


def texts(figure):
    """Everything that can be read in a figure, with its box; ticks outside the axes are not drawn."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            hidden |= {label for tick in ticks for label in (tick.label1, tick.label2) if not low <= tick.get_loc() <= high}
        hidden |= set(axes.findobj(Text)) if not axes.get_visible() else set()
    found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip() and text not in hidden]
    return [(text.get_text(), text.get_window_extent(renderer).padded(-1)) for text in found]


@pytest.fixture
def checked(monkeypatch):
    """Names of plots that were saved, each looked at for texts that lie over each other or out of the picture."""
    seen = []
    save = Figure.savefig

    def look(figure, place, **options):
        if str(place).endswith(".png"):
            save(figure, place, dpi=100)
            seen.append(place.stem)
            boxes = texts(figure)
            assert boxes
            for (one, box), (other, beside) in combinations(boxes, 2):
                assert not box.overlaps(beside), f"{place.stem}: '{one}' lies over '{other}'"
            for one, box in boxes:
                is_inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
                assert is_inside, f"{place.stem}: '{one}' is cut off"
        else:
            place.write("<svg ></svg>")

    monkeypatch.setattr(Figure, "savefig", look)
    return seen


def test_no_text_lies_over_another_with_many_arms_and_long_names(checked, tmp_path):
    results = made_experiment.results(tmp_path, made_experiment.LONG)
    plots.drawings(results, tmp_path)
    assert checked == ["curve-L1", "rates-L1", "failures", "roles", "worth", "spent"]


@pytest.mark.parametrize("kind", LAYOUTS)
def test_no_text_lies_over_another_in_the_papers_layouts(checked, tmp_path, kind):
    results = made_experiment.results(tmp_path, ["value"], seeds=1, kind=kind)
    found = LAYOUTS[kind].drawings(results.first(), tmp_path)
    assert len(checked) == len([plot for plot in found if plot])
