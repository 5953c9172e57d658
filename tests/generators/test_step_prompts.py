"""The prompts of the optional steps and of rewinding, compared with golden files; and what replies they accept."""

import pytest
from prompt_cases import DRAFTING, EMPTY, FULL, IMPROVE, REFINING, TASK, assert_golden

from evokernel.core.records import Hypothesis, Opportunity, Step
from evokernel.core.state import State
from evokernel.generators import plans, step_prompts
from evokernel.generators.prompting import PromptBuilder

OPPORTUNITIES = (
    Opportunity(cause="no_overlap", gain_us=120.0, line=2, summary="Copies wait for the loop.", card="double-buffering"),
    Opportunity(cause="launch", gain_us=8.0),
)
PLAN = Step(name="plan", text="Plan 2: overlap\nCause: no_overlap\nGain: 90 us\nChange: two buffers.", cause="no_overlap", gain_us=90.0)
CHANGE = Step(name="critic", text="Keep the row in registers.")


@pytest.fixture
def builder():
    return PromptBuilder("golden_backend:Plain")


@pytest.fixture
def improve():
    """The refinement of a start point whose profile has opportunities."""
    start = IMPROVE.start_point
    profile = start.outcome.profile.model_copy(update={"opportunities": OPPORTUNITIES})
    outcome = start.outcome.model_copy(update={"profile": profile})
    return IMPROVE.model_copy(update={"start_point": start.model_copy(update={"outcome": outcome})})


def test_plan_equals_golden_file(builder, improve):
    assert_golden("plan.md", step_prompts.build_plan_prompt(builder, REFINING, improve))


def test_critic_equals_golden_file(builder, improve):
    with_plan = improve.model_copy(update={"steps": (PLAN,)})
    assert_golden("critic.md", step_prompts.build_critic_prompt(builder, REFINING, with_plan))


def test_repair_equals_golden_file(builder):
    failed = next(attempt for attempt in REFINING.attempts if attempt.outcome.failure and attempt.outcome.failure.gate == "build")
    context = FULL.model_copy(update={"steps": (CHANGE,)})
    assert_golden("repair.md", step_prompts.build_repair_prompt(builder, DRAFTING, context, failed.candidate, failed.outcome))


def test_rewind_equals_golden_file(builder, improve):
    assert_golden("rewind.md", step_prompts.build_rewind_prompt(builder, REFINING, improve))


@pytest.mark.parametrize("brief", [False, True])
def test_writer_is_shown_plan_and_change(brief, improve):
    text = PromptBuilder("golden_backend:Plain", brief=brief).build_text(REFINING, improve.model_copy(update={"steps": (PLAN, CHANGE)}))
    assert "Carry out this plan, which is predicted to save 90.0 us:" in text
    assert "Change: two buffers." in text
    assert "Keep the row in registers." in text


TESTED = Hypothesis(cause="launch", predicted_us=8.0, expected_us=2.5, refinements=3, correct=2, realised_share=0.4)
NEW = Hypothesis(cause="no_overlap", predicted_us=120.0, expected_us=45.0)


def test_prompts_name_the_hypothesis_and_what_is_expected_of_it(builder, improve):
    focused = improve.model_copy(update={"focus": TESTED})
    sentences = (
        "Address `launch` first: the profile predicts a gain of 8.0 us. 2 of 3 earlier refinements for this cause were correct, "
        "and brought 40 % of the predicted gains. About 2.5 us are expected."
    )
    refine = builder.build_text(REFINING, focused)
    assert f"do not add up. {sentences} Leave the rest unchanged." in refine
    assert "Address the largest one" not in refine
    assert f"{sentences} At least one plan is for this cause." in step_prompts.build_plan_prompt(builder, REFINING, focused)
    brief = PromptBuilder("golden_backend:Plain", brief=True)
    assert f"Change little. {sentences}" in brief.build_text(REFINING, focused)
    untested = builder.build_text(REFINING, improve.model_copy(update={"focus": NEW}))
    assert "a gain of 120.0 us. About 45.0 us are expected." in untested


def test_there_is_no_step_without_a_kernel(builder):
    assert step_prompts.build_plan_prompt(builder, DRAFTING, EMPTY) == ""
    assert step_prompts.build_critic_prompt(builder, State(task=TASK), EMPTY) == ""
    without_history = EMPTY.model_copy(update={"include_history": False})
    assert step_prompts.build_critic_prompt(builder, DRAFTING, without_history) == ""


@pytest.mark.parametrize(
    ("reply", "cause", "gain_us"),
    [
        ("Plan 1: a\nCause: no_overlap\nGain: 0.05 ms\nChange: b", "no_overlap", 50.0),
        ("## Plan 1\n**Cause**: `launch`\n**Gain**: ~3 us", "launch", 3.0),
        ("Plan 1\nCause: launch\nGain: 50 us\n\nPlan 2\nCause: no_overlap\nGain: 9 us", "no_overlap", 9.0),
        ("Plan 1\nCause: no_overlap\nGain: -4 us", "no_overlap", 0.0),
        ("Plan 1\nCause: magic\nGain: 100 us", "", 8.0),
        ("Plan 1\nCause: no_overlap", "no_overlap", None),
        ("", "", None),
    ],
)
def test_chosen_plan_has_the_largest_bounded_gain(reply, cause, gain_us, improve):
    step = plans.parse_plans(reply, improve.start_point)
    assert (step.cause, step.gain_us) == (cause, gain_us)


def test_without_opportunities_a_plan_gains_at_most_the_latency():
    start = IMPROVE.start_point
    assert plans.parse_plans("Plan 1\nCause: launch\nGain: 9999 us", start).gain_us == start.outcome.latency_us


@pytest.mark.parametrize("reply", ["Change: b.", "## Change 1: b.\n\nChange 2: c.", "b.", "<think>Change: no</think>\nChange: b."])
def test_critic_proposes_one_change(reply):
    assert plans.parse_change(reply).text == "b."
