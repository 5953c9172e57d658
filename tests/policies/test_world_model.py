"""The world model: hypotheses with predicted gains, chosen by expected gain, and corrected by what came of them."""

import pytest
from engine_parts import make_task
from population_parts import make_kernel, make_state, number

from evokernel.core.hypotheses import PRIOR_CHANCE, PRIOR_SHARE, list_predictions, make_hypothesis, rank_hypotheses
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Hypothesis, MemoryItem, Step
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill
from evokernel.policies.world_model import WorldModel, best_hypothesis
from evokernel.reports import hypothesis_table
from evokernel.reports.metrics import TaskResult
from evokernel.reports.page import outcome_line


def with_focus(attempt, cause):
    return attempt.model_copy(update={"focus": Hypothesis(cause=cause, predicted_us=1.0, expected_us=0.5)})


def choice(state):
    """The number of the start point and the cause to address."""
    rank = best_hypothesis(state)
    return (number(rank.start), rank.hypothesis.cause) if rank else None


def simulate(gains, response, attempts=12):
    """The causes that the model addresses, if `response` gives the latency after each; every kernel has the same opportunities."""
    history, causes = [make_kernel(0, 500.0, gains=gains)], []
    for n in range(1, attempts):
        start, cause = choice(make_state(*history))
        latency = response(cause, history[start].outcome.latency_us)
        history.append(with_focus(make_kernel(n, latency, start=start, gains=gains), cause))
        causes.append(cause)
    return causes


def test_first_choice_is_the_largest_predicted_gain():
    assert choice(make_state(make_kernel(0, 100.0, gains={"no_overlap": 40.0, "launch": 30.0}))) == (0, "no_overlap")


def test_cause_whose_gains_never_come_true_loses_its_rank_and_the_one_that_pays_is_chosen_again():
    causes = simulate({"no_overlap": 40.0, "launch": 30.0}, lambda cause, before: before - 25.0 * (cause == "launch"))
    assert causes[0] == "no_overlap"
    first = causes.index("launch")
    assert first <= 3
    assert set(causes[first:]) == {"launch"}


def test_failures_reduce_the_chance():
    causes = simulate({"no_overlap": 40.0, "launch": 30.0}, lambda cause, before: None if cause == "no_overlap" else before - 25.0)
    assert causes[0] == "no_overlap"
    assert causes[-1] == "launch"
    tested = list_predictions([make_kernel(0, 100.0, gains={"launch": 50.0}), with_focus(make_kernel(1, None, start=0), "launch")])
    failed, untested = make_hypothesis("launch", 50.0, tested), make_hypothesis("launch", 50.0, [])
    assert (failed.refinements, failed.correct, failed.realised_share) == (1, 0, None)
    assert failed.expected_us < untested.expected_us == 50.0 * PRIOR_SHARE * PRIOR_CHANCE


def test_outcomes_correct_the_prediction_little_by_little():
    start = make_kernel(0, 100.0, gains={"launch": 20.0})
    expected = []
    for count in range(4):
        tested = list_predictions([start, *(with_focus(make_kernel(n, 80.0, start=0), "launch") for n in range(1, count + 1))])
        expected.append(make_hypothesis("launch", 20.0, tested).expected_us)
    assert expected == sorted(expected)
    assert expected[-1] < 20.0, "three predictions that came true do not make a certainty"


def test_gain_within_the_noise_and_slower_kernels_count_as_nothing():
    start = make_kernel(0, 100.0, gains={"launch": 20.0})
    for latency in (99.5, 130.0):
        (prediction,) = list_predictions([start, make_kernel(1, latency, start=0)])
        assert prediction.share == 0.0


def test_start_point_is_the_kernel_with_the_lowest_expected_latency():
    fast, promising = make_kernel(0, 90.0, gains={"launch": 3.0}), make_kernel(1, 100.0, gains={"no_overlap": 80.0})
    state = make_state(fast, promising)
    assert choice(state) == (1, "no_overlap")
    assert state.best == fast
    ranks = rank_hypotheses(state)
    assert [rank.latency_us for rank in ranks] == sorted(rank.latency_us for rank in ranks)


def test_best_kernel_is_refined_if_no_cause_promises_a_faster_one(tmp_path):
    state = make_state(make_kernel(0, 10.0), make_kernel(1, 100.0, gains={"launch": 5.0}))
    assert choice(state) is None
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        context = WorldModel(memory="none").choose(state, bank)
    assert (number(context.start_point), context.focus) == (0, None)


def test_plan_of_the_generator_outweighs_the_focus():
    start, attempt = make_kernel(0, 100.0, gains={"launch": 9.0, "spills": 8.0}), make_kernel(1, 80.0, start=0)
    planned = with_focus(attempt, "launch").model_copy(update={"steps": (Step(name="plan", text="", cause="spills"),)})
    assert [one.cause for one in list_predictions([start, planned])] == ["spills"]


def test_context_names_the_hypothesis_and_shows_help_for_its_cause_first(tmp_path):
    cards = [
        MemoryItem(id=f"cpp/{cause}", kind="practice", backend="cpp", title=cause, text=cause, causes=(cause,))
        for cause in ("no_overlap", "launch")
    ]
    start = make_kernel(0, 100.0, gains={"no_overlap": 40.0, "launch": 30.0})
    wasted = [with_focus(make_kernel(n, 100.0, start=0), "no_overlap") for n in (1, 2)]
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        bank.add([*cards, *(item for attempt in (start, *wasted) for item in distill(make_task("relu"), attempt))])
        contexts = [WorldModel(memory="similarity").choose(make_state(*attempts), bank) for attempts in ([start], [start, *wasted])]
    for context, cause in zip(contexts, ("no_overlap", "launch"), strict=True):
        assert context.focus.cause == cause
        assert context.items[0].cause == cause
        assert {entry.cause for entry in context.items} == {"", "no_overlap", "launch"}


def test_reports_list_what_came_of_hypotheses_and_which_are_open():
    gains = {"launch": 20.0}
    attempts = (
        make_kernel(0, 100.0, gains=gains),
        with_focus(make_kernel(1, 90.0, start=0, gains=gains), "launch"),
        with_focus(make_kernel(2, None, start=1), "launch"),
    )
    result = TaskResult(task=make_task("relu"), attempts=attempts)
    assert hypothesis_table.tested_table([result]).rows == (("launch", 2, 1, 20.0, 10.0, pytest.approx(0.5)),)
    open_rows = hypothesis_table.open_table(result).rows
    assert [row[1:5] for row in open_rows] == [("launch", 20.0, 2, pytest.approx(0.5))] * 2
    assert "focus launch (predicted 1.00 µs, expected 0.50 µs)" in outcome_line(attempts[1])
    without = TaskResult(task=make_task("relu"), attempts=attempts[:1])
    assert hypothesis_table.tested_table([without]).rows == ()
    assert hypothesis_table.open_table(without) is None
