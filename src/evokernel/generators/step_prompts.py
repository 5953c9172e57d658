"""Builds the prompts of the optional steps: the plan, the critic and the repair."""

from __future__ import annotations

from evokernel.core.causes import CAUSES
from evokernel.core.records import Attempt, Candidate, Context, Outcome, Task
from evokernel.core.state import State, visible_state
from evokernel.generators import prompt_text
from evokernel.generators.prompting import HEADING_TOKENS, PROMPTS_FOLDER, PromptBuilder, estimate_tokens, fit_items
from evokernel.llm.render import render_prompt


def build_plan_prompt(builder: PromptBuilder, state: State, context: Context) -> str:
    """The prompt that asks for three plans for the start point; empty while drafting, which has no profile to plan from."""
    return render_step(builder, "plan.md", state, context, context.start_point) if context.start_point else ""


def build_critic_prompt(builder: PromptBuilder, state: State, context: Context) -> str:
    """The prompt that asks for one change of the start point or, while drafting, of the last attempt's kernel; empty if there is none."""
    last = visible_state(state, context).last_attempt
    kernel = context.start_point or last
    return render_step(builder, "critic.md", state, context, kernel) if kernel and kernel.candidate.files else ""


def render_step(builder: PromptBuilder, name: str, state: State, context: Context, kernel: Attempt) -> str:
    """The prompt of a step before writing; the history is shortened until the prompt fits."""
    visible = visible_state(state, context)
    for limits in prompt_text.HISTORY_LIMITS:
        variables = builder.task_variables(state.task) | builder.history_variables(visible, context, limits)
        text = render_prompt(PROMPTS_FOLDER / name, **variables, kernel=kernel, causes=CAUSES, failed_code="")
        if estimate_tokens(text) <= builder.context_tokens:
            break
    return text


def build_repair_prompt(builder: PromptBuilder, state: State, context: Context, candidate: Candidate, outcome: Outcome) -> str:
    """The prompt that asks for a corrected file: the task, the API cards of the context that fit, the file and the error."""
    variables = builder.task_variables(state.task) | {"files": candidate.files, "outcome": outcome, "steps": context.steps}
    base_text = render_prompt(PROMPTS_FOLDER / "repair.md", **variables, items=(), omitted_items=0)
    cards = [entry for entry in context.items if entry.item.kind == "api"]
    items = fit_items(cards, builder.context_tokens - estimate_tokens(base_text) - HEADING_TOKENS).items
    return render_prompt(PROMPTS_FOLDER / "repair.md", **variables, items=items, omitted_items=0)


def build_feedback_prompt(builder: PromptBuilder, task: Task, outcome: Outcome) -> str:
    """The next message of a conversation about one kernel: what the verifier says about the version before, and what to do."""
    return render_prompt(PROMPTS_FOLDER / "feedback.md", **builder.task_variables(task), outcome=outcome)


def build_rewind_prompt(builder: PromptBuilder, state: State, context: Context) -> str:
    """The prompt that asks for the start point without one optimisation, other than those that earlier attempts removed."""
    assert context.start_point
    removed = [attempt.candidate.notes for attempt in state.attempts[1:] if attempt.candidate.files and attempt.candidate.notes]
    variables = builder.task_variables(state.task) | {"kernel": context.start_point, "removed": removed, "refinements": ()}
    return render_prompt(PROMPTS_FOLDER / "rewind.md", **variables)
