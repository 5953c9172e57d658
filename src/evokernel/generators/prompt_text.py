"""Phrases for prompts: outcomes, latencies, attempts and sizes in terms that a kernel author can act on."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from evokernel.core import labels
from evokernel.core.causes import CAUSES
from evokernel.core.numeric_contract import error_limit as error_limit
from evokernel.core.records import Attempt, ContextItem, Hypothesis, MemoryItem, Outcome, Profile, Stage, Task, Tuning
from evokernel.core.state import State
from evokernel.llm.render import one_line
from evokernel.reference.constants import FORWARD_CLASS, find_constants

ROLE_LABELS = {
    "start": "start point",
    "child": "refinement of the start point",
    "trace": "kernel from memory",
    "experience": "experience",
    "practice": "good practice",
    "bottleneck": "advice for the start point's bottleneck",
    "partner": "kernel to combine with the start point",
    "variant": "another fast kernel",
    "api": "reference",
}
ROLE_ORDER = ("api", "practice", "bottleneck", "experience", "trace", "variant", "start", "child", "partner")
MAX_OPPORTUNITY_ROWS, MAX_MOVE_CHARS, MAX_QUOTE_CHARS = 6, 400, 60
MAX_DETAIL_CHARS = 3000
MAX_ATTEMPT_LINES = 30
MAX_RESULT_CHARS = 120
MAX_TRIALS_SHOWN = 3
INPUT_FUNCTIONS = ("get_inputs", "get_forward_inputs", "get_init_inputs")
MODE_NAMES = ("BatchNorm", "batch_norm", "Dropout", "dropout")


class HistoryLimits(NamedTuple):
    """How much of a task's history a prompt shows."""

    failures: int
    """Number of failed attempts shown with the verifier's message."""
    detail_chars: int
    """Characters of the verifier's message for each failure."""
    attempts: int
    """Number of attempts listed, one line each."""


HISTORY_LIMITS = (HistoryLimits(3, MAX_DETAIL_CHARS, MAX_ATTEMPT_LINES), HistoryLimits(2, 1200, 10), HistoryLimits(1, 800, 5))
"""From the complete history to what fits a small context."""


class FailedAttempt(NamedTuple):
    """A failed attempt as a prompt shows it."""

    number: str
    outcome: str
    detail: str
    code: str


def format_latency(latency_us: float) -> str:
    """A latency with three or four significant digits."""
    return f"{latency_us:.1f} us" if latency_us < 1000 else f"{latency_us / 1000:.2f} ms"


def describe_speed(latency_us: float | None, speedup: float | None, clock: str = "", baseline: str = "") -> str:
    """`12.3 us, estimate (schedule), 1.50x the speed of XLA`; a slower kernel also says by how much; `not timed` without a latency."""
    if latency_us is None:
        return "not timed"
    note = labels.estimate_note([clock])
    slowdown = f" ({1 / speedup:.1f}x slower)" if speedup and round(1 / speedup, 1) > 1 else ""
    return format_latency(latency_us) + (f", {note}" if note else "") + labels.speedup_phrase(speedup, baseline) + slowdown


def describe_outcome(outcome: Outcome) -> str:
    """The outcome of an attempt in a few words."""
    if outcome.failure:
        return f"failed at gate {outcome.failure.gate}: {outcome.failure.reason or 'no reason given'}"
    return f"correct, {describe_speed(outcome.latency_us, outcome.speedup, outcome.clock, outcome.baseline_name)}"


def describe_partner(item: MemoryItem, task: Task) -> str:
    """Where a second kernel comes from and how fast it is, in one sentence."""
    origin = "this task" if item.task == task.id else f"{one_line(item.task or '', 80)}, which has a part in common with this task"
    return f"It is a kernel for {origin}: {describe_item_outcome(item)}."


def describe_baseline(outcome: Outcome) -> str:
    """The latency of the baseline for the same work, as a sentence; empty if there is no baseline."""
    latency_us, note = outcome.baseline_latency_us(), labels.estimate_note([outcome.clock])
    if latency_us is None:
        return ""
    baseline = labels.baseline_label([outcome.baseline_name])
    return f"{baseline} takes {format_latency(latency_us)} for the same work ({note or 'measured alongside it'})."


def describe_item_outcome(item: MemoryItem) -> str:
    """The outcome of the kernel in a memory item; empty for items that were never verified."""
    if item.feasible is None:
        return ""
    return f"correct, {describe_speed(item.latency_us, item.speedup)}" if item.feasible else f"failed: {item.reason or 'no reason given'}"


def item_heading(entry: ContextItem) -> str:
    """Role, title, origin and outcome of an item on one line, without repeating what the title says."""
    item = entry.item
    word = "correct" if item.feasible else item.reason
    outcome = "" if word and word in item.title else describe_item_outcome(item)
    origin = f" (from {one_line(item.task, 80)})" if item.task and item.task not in item.title else ""
    label = f"for {entry.cause}" if entry.cause else ROLE_LABELS[entry.role]
    origin += " · excerpt" if entry.excerpt and entry.role != "child" and entry.excerpt != item.code else ""
    return f"{label[0].upper()}{label[1:]}: {one_line(item.title, 120)}{origin}" + (f" · {one_line(outcome, 120)}" if outcome else "")


class OpportunityRow(NamedTuple):
    """An opportunity as a row of a prompt's table."""

    cause: str
    meaning: str
    line: str
    gain: str
    move: str


def opportunity_rows(start: Attempt) -> list[OpportunityRow]:
    """The largest opportunities of a start point, one row each, with text that cannot leave its cell."""
    profile, lines = start.outcome.profile, [""]
    if len(start.candidate.files) == 1:
        lines += start.candidate.code.splitlines()
    return [
        OpportunityRow(
            one_line(one.cause, 40),
            CAUSES.get(one.cause, "see the next move"),
            f"{one.line}{quote_in_cell(lines[one.line]) if one.line < len(lines) else ''}" if one.line else "–",
            format_latency(one.gain_us),
            one_line(one.summary, MAX_MOVE_CHARS).replace("|", "/") + (f" (card `{one_line(one.card, 60)}`)" if one.card else ""),
        )
        for one in (profile.opportunities[:MAX_OPPORTUNITY_ROWS] if profile else ())
    ]


def quote_in_cell(code: str) -> str:
    """A line of code for the cell of a table, as `: code`; empty for an empty line."""
    text = one_line(code, MAX_QUOTE_CHARS).replace("|", "/").replace("`", "'")
    return f": `{text}`" if text else ""


def describe_focus(focus: Hypothesis) -> str:
    """The cause to address first, what its profile predicts, what came of earlier predictions, and what is expected now."""
    sentences = [f"Address `{one_line(focus.cause, 40)}` first: the profile predicts a gain of {format_latency(focus.predicted_us)}."]
    if focus.refinements:
        brought = "" if focus.realised_share is None else f", and brought {100 * focus.realised_share:.0f} % of the predicted gains"
        sentences.append(f"{focus.correct} of {focus.refinements} earlier refinements for this cause were correct{brought}.")
    sentences.append(f"About {format_latency(focus.expected_us)} are expected.")
    return " ".join(sentences)


def describe_bottleneck(profile: Profile) -> str:
    """The bottleneck of a kernel and the figures behind it, on two lines at most."""
    figures = ", ".join(f"{name} {value:.4g}" for name, value in profile.figures.items())
    return f"Bottleneck: {profile.bottleneck}. {one_line(profile.summary, 600)}" + (f"\nFigures: {figures}." if figures else "")


def depends_on_mode(source: str) -> bool:
    """Whether a reference contains modules that compute something else in training than in evaluation."""
    return any(name in source for name in MODE_NAMES)


def describe_varying_constants(task: Task) -> str:
    """Which constants of the reference differ at other sizes, which of them are larger there, and which never change."""
    try:
        constants = find_constants(ast.parse(task.source))
    except SyntaxError:
        constants = {}
    overrides = {name: size for name, size in task.sizes.items() if name != "bench"}
    varying = list(dict.fromkeys(name for size in overrides.values() for name in size))
    fixed = [f"{name} = {value}" for name, value in constants.items() if name not in varying and name.isidentifier()]
    larger = {
        name for size in overrides.values() for name, value in size.items() if name.isidentifier() and value > constants.get(name, value)
    }
    names = ", ".join(name for name in varying if name.isidentifier())
    sentences = [f"What varies: {names}." if names else "The extents of the arguments vary."]
    sentences.append("Read them from the arguments and handle remainders.")
    if fixed:
        sentences.append(f"These never change, so the kernel may rely on them: {', '.join(fixed)}.")
    if larger:
        sentences.append(f"Some sizes exceed `bench` in: {', '.join(larger)}.")
    elif constants:
        sentences.append("No size is larger than in `bench`.")
    return "\n".join(sentences)


def strip_input_functions(source: str) -> str:
    """A reference without the functions that create its inputs: a brief prompt names the shapes anyway."""
    lines = source.splitlines()
    input_functions = (function for function in find_functions(source) if function.name in INPUT_FUNCTIONS)
    for function in sorted(input_functions, key=lambda function: -function.lineno):
        del lines[function.lineno - 1 : function.end_lineno]
    return "\n".join(lines).strip() + "\n"


def describe_required_code(source: str, entry_point: str) -> str:
    """One sentence that repeats what the code of a reply must do: the function it defines and the expression `forward` returns."""
    clauses = [f"defines `{function.name}({ast.unparse(function.args)})`" for function in find_functions(entry_point)[:1]]
    for function in find_functions(source):
        (*before, last) = function.body
        if (
            function.name == "forward"
            and f"class {FORWARD_CLASS}(" not in source
            and not before
            and isinstance(last, ast.Return)
            and last.value
        ):
            clauses += [f"computes `{result}`" for result in [ast.unparse(last.value)] if len(result) <= MAX_RESULT_CHARS]
    return f"It {' and '.join(clauses)}." if clauses else ""


def find_functions(source: str) -> list[ast.FunctionDef]:
    """All functions that Python code defines; none for other languages."""
    try:
        return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError):
        return []


def item_rank(entry: ContextItem) -> int:
    """Order among items of equal value, most useful first: correct kernels, advice, cards that every draft shows, other cards."""
    item = entry.item
    if item.code and item.feasible:
        return 0
    return 1 if entry.role != "api" else 2 if item.always_include else 3


def order_items(items: Sequence[ContextItem]) -> list[ContextItem]:
    """The items in the order of a prompt: help with the causes of latency, cause by cause, then by role."""
    causes = list(dict.fromkeys(entry.cause for entry in items if entry.cause))
    return sorted(items, key=lambda entry: (causes.index(entry.cause) if entry.cause else len(causes), ROLE_ORDER.index(entry.role)))


def has_example(items: Sequence[ContextItem]) -> bool:
    """Whether the items include a correct kernel."""
    return any(item_rank(entry) == 0 for entry in items)


def attempt_number(attempt_id: str) -> str:
    """The number of an attempt from its id, counted from 1; ids count from 0."""
    number = attempt_id.rpartition("/")[2]
    return str(int(number) + 1) if number.isdecimal() else number


def list_attempts(state: State, limit: int = MAX_ATTEMPT_LINES) -> list[str]:
    """One line for each of the latest attempts, oldest first."""
    return [describe_attempt(attempt) for attempt in state.attempts[-limit:]]


def describe_attempt(attempt: Attempt) -> str:
    """An attempt on one line: its stage, its outcome and the generator's note."""
    stage = f"refining attempt {attempt_number(attempt.start_point)}" if attempt.start_point else str(attempt.stage)
    note = one_line(attempt.lesson or attempt.candidate.notes, 160)
    return f"attempt {attempt_number(attempt.id)} ({stage}): {describe_outcome(attempt.outcome)}" + (f" · {note}" if note else "")


def list_refinements(state: State, start: Attempt) -> list[str]:
    """The earlier refinements of a start point, one line each, with the speed relative to it."""
    lines = []
    for refinement in (a for a in state.attempts if a.start_point == start.id):
        latency_us, start_latency_us = refinement.outcome.latency_us, start.outcome.latency_us
        ratio = ""
        if refinement.outcome.feasible and latency_us and start_latency_us:
            ratio = f" ({start_latency_us / latency_us:.2f}x the speed of the start point)"
        note = one_line(refinement.lesson or refinement.candidate.notes, 160)
        outcome = describe_outcome(refinement.outcome)
        lines.append(f"attempt {attempt_number(refinement.id)}: {outcome}{ratio}" + (f" · {note}" if note else ""))
    return lines


def recent_failures(state: State, stage: Stage, limits: HistoryLimits = HISTORY_LIMITS[0]) -> list[FailedAttempt]:
    """The last failed attempts, most recent first: of both stages while drafting, of refinements only while refining."""
    failures = [a for a in reversed(state.attempts) if a.outcome.failure and stage in (a.stage, Stage.DRAFT)][: limits.failures]
    return [
        FailedAttempt(
            attempt_number(a.id),
            describe_outcome(a.outcome),
            shorten_detail(a.outcome, limits.detail_chars),
            a.candidate.code if a.candidate.files else "",
        )
        for a in failures
    ]


def shorten_detail(outcome: Outcome, limit: int = MAX_DETAIL_CHARS) -> str:
    """The verifier's message about a failure; a long one is reduced to its beginning and its end."""
    text = outcome.failure.detail if outcome.failure else ""
    if len(text) <= limit:
        return text
    return f"{text[: limit * 3 // 4]}\n[... {len(text) - limit} characters omitted ...]\n{text[-limit // 4 :]}"


def format_small_sizes(task: Task) -> str:
    """`N = 64, D = 32`: the constants of the small size that differ from the reference. Held-out sizes are never named."""
    return ", ".join(f"{name} = {value}" for name, value in task.sizes.get("small", {}).items())


def has_other_sizes(task: Task) -> bool:
    """Whether correctness is checked at other sizes than the bench size."""
    return any(task.sizes.get(name) for name in ("small", "held_out"))


def exact_outputs(task: Task) -> list[str]:
    """Outputs without a tolerance, because they contain integers or booleans."""
    return [t.name for t in task.signature.outputs if not t.dtype.startswith(("float", "bfloat"))]


def describe_tuning(tuning: Tuning) -> str:
    """The values that the tuner chose, and what other values gave, in one or two sentences."""
    searched = [trial for trial in tuning.trials if trial.stage == "search"]
    chosen = f"Tuned: {labels.format_setting(tuning.chosen)} ({tuning.gain:.2f}x the speed of the values as written)."
    timed = sorted((t for t in searched if t.latency_us and t.setting != tuning.chosen), key=lambda t: t.latency_us or 0.0)
    others = [f"{labels.format_setting(trial.setting)}: {format_latency(trial.latency_us or 0.0)}" for trial in timed[:MAX_TRIALS_SHOWN]]
    failed = [f"{labels.format_setting(trial.setting)}: {trial.reason}" for trial in searched if trial.reason][:MAX_TRIALS_SHOWN]
    return f"{chosen} Other values: {'; '.join([*others, *failed])}." if others or failed else chosen
