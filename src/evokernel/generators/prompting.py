"""Builds prompts from a state and a context, and reads candidates from replies; shared by the generators that send prompts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from evokernel.core.backend import Backend
from evokernel.core.code_text import strip_comments
from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.records import Candidate, Context, ContextItem, Outcome, Stage, Task, Usage
from evokernel.core.state import State, visible_state
from evokernel.generators import prompt_text, prompt_variants
from evokernel.generators.prompt_topics import list_topics
from evokernel.llm.render import render_prompt
from evokernel.llm.replies import read_reply, strip_thoughts

PROMPTS_FOLDER = Path(__file__).parent / "prompts"
LANGUAGES = {".asc": "cpp", ".cpp": "cpp", ".cu": "cuda", ".py": "python", ".c": "c"}
TUNABLE_EXAMPLES = {
    True: "ROWS = 256  # tune: ROWS = 128 | 256 | 512\nCOLS = 128  # tune: COLS = 128 | 256\n# tune where: ROWS * COLS <= 65536",
    False: "constexpr int ROWS = 8;  // tune: ROWS = 4 | 8 | 16\nconstexpr int COLS = 2048;  // tune: COLS = 1024 | 2048 | 4096\n"
    "// tune where: ROWS * COLS <= 32768",
}
"""How tunables are declared, in Python and in other languages."""
FEEDBACK_FORMS = ("code", "message", "none")
MAX_LESSON_CHARS = 1200
HEADING_TOKENS = 130
BRIEF_HEADING_TOKENS = 60
EXAMPLE_SHARE = 0.65
"""Share of a reply's tokens (estimated) that an example kernel may take, since a small model copies it into its reply."""
BASE_SHARE = 0.6
"""Share of a prompt's tokens that everything except memory may take before the history is shortened."""


class FittedItems(NamedTuple):
    """The items that fit a token budget, in the context's order, and the number of items that do not."""

    items: tuple[ContextItem, ...]
    omitted: int


class Prompt(NamedTuple):
    """A prompt, the ids of the context's items that did not fit into it, and the variants of its sections."""

    text: str
    omitted_ids: tuple[str, ...]
    variants: dict[str, str]


class PromptBuilder:
    """Builds the prompts for one backend. `context_tokens` bounds a prompt (estimated); required parts are kept even if they exceed it.

    Brief prompts are for small models: one example as reference and kernel, few rules, and a reply that contains only the file. Such a
    model copies its example, so a kernel that does not fit into `reply_tokens` (0: no bound) is not used as one. `tunes` says whether the
    verifier tunes kernels; brief prompts do not mention it. `asks_reply` is False for generators that hand in kernels in another way.
    `feedback` is what a draft shows of the task's failed attempts: `code` (the verifier's messages and the latest failed kernel), `message`
    (no failed kernel of the task) or `none` (nothing, so that each draft is independent of the earlier ones).
    `find_versions` returns the toolchain and device of the verifier, which some rules name: this machine's, unless a run replaces it.
    """

    def __init__(
        self,
        backend: str,
        context_tokens: int = 24000,
        brief: bool = False,
        reply_tokens: int = 0,
        tunes: bool = False,
        asks_reply: bool = True,
        feedback: str = "code",
    ) -> None:
        if feedback not in FEEDBACK_FORMS:
            raise ValueError(f"feedback = {feedback!r} must be one of {', '.join(FEEDBACK_FORMS)}")
        self.asks_reply, self.feedback = asks_reply, feedback
        self.backend, self.context_tokens, self.is_brief = backend, context_tokens, brief
        self.max_example_tokens = int(reply_tokens * EXAMPLE_SHARE) if brief and reply_tokens else None
        self.plugin: Backend = make_plugin("backend", backend)
        folder = plugin_folder("backend", backend) / "prompts"
        self.brief_rules = folder / "brief.md"
        self.rules = self.brief_rules if brief and self.brief_rules.exists() else folder / "rules.md"
        self.costs = folder / "costs.md"
        self.file = self.plugin.file_name
        self.find_versions: Callable[[], Mapping[str, str]] = self.plugin.versions
        self.tunable_example = TUNABLE_EXAMPLES[Path(self.file).suffix == ".py"] if tunes else ""

    def build_text(self, state: State, context: Context) -> str:
        """The text of the prompt for the next attempt."""
        return self.build_prompt(state, context).text

    def build_prompt(self, state: State, context: Context) -> Prompt:
        """The prompt for the next attempt, from draft.md or, with a start point, refine.md; and the items that did not fit."""
        context_items, context = items_to_show(context), self.limit_feedback(state.task, context)
        visible = visible_state(state, context)
        name = "brief.md" if self.is_brief else "refine.md" if context.stage is Stage.REFINE and context.start_point else "draft.md"
        candidates = items_to_show(context) if self.is_brief else tuple(filter(has_content, items_to_show(context)))
        cards = [] if self.is_brief else [entry for entry in candidates if entry.item.task is None and not entry.item.code]
        heading_tokens = BRIEF_HEADING_TOKENS if self.is_brief else HEADING_TOKENS
        for shown_cards in (cards, []):  # the rules are complete if some of the cards do not fit
            variables, base_text = self.build_base(PROMPTS_FOLDER / name, visible, context, shown_cards)
            free_tokens = self.context_tokens - estimate_tokens(base_text) - heading_tokens
            items = self.select_items(candidates, free_tokens)
            if all(entry in items for entry in shown_cards):
                break
        code_tokens = free_tokens - sum(estimate_item_tokens(entry, self.is_brief) for entry in items)
        failed_code = self.select_failed_code(visible, context, items, code_tokens)
        in_order = prompt_text.order_items(items)
        omitted = len(candidates) - len(items)
        text = render_prompt(PROMPTS_FOLDER / name, **variables, items=in_order, omitted_items=omitted, failed_code=failed_code)
        item_ids = {entry.item.id for entry in items}
        omitted_ids = tuple(entry.item.id for entry in context_items if entry.item.id not in item_ids)
        return Prompt(text, omitted_ids, self.shown_variants(visible, context))

    def limit_feedback(self, task: Task, context: Context) -> Context:
        """The context of a draft without what `feedback` leaves out: failed kernels of its task, or everything about earlier attempts."""
        if self.feedback == "code" or context.start_point:
            return context
        is_none = self.feedback == "none"
        items = tuple(entry for entry in context.items if entry.item.task != task.id or not (is_none or is_failed_kernel(entry)))
        return context.model_copy(update={"items": items, "include_history": context.include_history and not is_none})

    def list_variants(self) -> dict[str, tuple[str, ...]]:
        """The variants of each section of the prompts, the default first; brief prompts have none."""
        return {} if self.is_brief else prompt_variants.list_variants(self.brief_rules.exists())

    def shown_variants(self, state: State, context: Context) -> dict[str, str]:
        """The chosen variants of the sections that the prompt contains: no history without attempts, no opportunities without a profile."""
        profile = context.start_point.outcome.profile if context.start_point and context.stage is Stage.REFINE else None
        is_shown = {"history": bool(state.attempts), "opportunities": bool(profile and profile.opportunities), "rules": True}
        return prompt_variants.shown_variants(context.prompt_variants, [name for name, shown in is_shown.items() if shown])

    def build_base(self, file: Path, state: State, context: Context, cards: Sequence[ContextItem]) -> tuple[dict[str, object], str]:
        """The variables of a prompt without memory, and its text; the history is shortened until memory has its share of the tokens.

        The rules leave out what these cards show.
        """
        has_start = context.stage is Stage.REFINE and not self.is_brief  # brief prompts show the rules before it
        start_code = context.start_point.candidate.code if has_start and context.start_point else ""
        task_variables = self.task_variables(state.task, context.prompt_variants, start_code, [entry.item.text for entry in cards])
        for limits in prompt_text.HISTORY_LIMITS[-1:] if self.is_brief else prompt_text.HISTORY_LIMITS:
            variables = task_variables | self.history_variables(state, context, limits)
            text = render_prompt(file, **variables, items=(), omitted_items=0, failed_code="")
            if estimate_tokens(text) <= self.context_tokens * BASE_SHARE:
                break
        return variables, text

    def select_items(self, candidates: Sequence[ContextItem], free_tokens: int) -> tuple[ContextItem, ...]:
        """The items of the context that the prompt shows: all that fit, or one in a brief prompt."""
        if not self.is_brief:
            return fit_items(candidates, free_tokens).items
        limit = self.max_example_tokens or self.context_tokens
        usable = [entry for entry in candidates if prompt_text.item_rank(entry) != 0 or estimate_tokens(entry.item.code) <= limit]
        return select_single_item(usable, free_tokens)

    def build_lesson_prompt(self, state: State, candidate: Candidate, outcome: Outcome) -> str:
        """The prompt that asks for the lesson of an attempt."""
        return render_prompt(
            PROMPTS_FOLDER / "lesson.md",
            **self.task_variables(state.task),
            code=candidate.code,
            outcome=outcome,
            attempts=prompt_text.list_attempts(state),
            best=state.best,
        )

    def parse_candidate(self, text: str, task: Task, usage: Usage) -> Candidate:
        """The candidate in a reply; if the reply has no usable code, an empty candidate whose notes say why."""
        reply = read_reply(text, self.file, entry_symbol(self.plugin.entry_point(task)), self.plugin.part_names)
        return Candidate(backend=self.backend, files=reply.files, notes=reply.note, usage=usage)

    def task_variables(
        self, task: Task, variants: Mapping[str, str] | None = None, start_code: str = "", card_texts: Sequence[str] = ()
    ) -> dict[str, object]:
        """Template variables about the task, for every prompt; `variants` of sections differ from the defaults.

        A backend's rules may leave out what the kernel to refine or the cards in the prompt already show.
        """
        chosen = variants or {}
        has_few_rules = chosen.get(prompt_variants.RULES_SECTION) == prompt_variants.BRIEF_RULES
        rules = self.brief_rules if has_few_rules else self.rules
        entry_point = self.plugin.entry_point(task)
        topics = list_topics(task)
        about_task = {"task": task, "entry_point": entry_point, "topics": topics, "has_products": "products" in topics}
        about_task |= {"start_code": start_code, "shown_code": "\n".join([start_code, *card_texts])}
        language = LANGUAGES.get(Path(self.file).suffix, Path(self.file).suffix.lstrip("."))
        return {
            "task": task,
            "entry_point": entry_point,
            "rules": render_prompt(rules, **about_task, find_versions=self.find_versions) if rules.exists() else "",
            "costs": render_prompt(self.costs, **about_task) if self.costs.exists() and not self.is_brief and not has_few_rules else "",
            "sections": prompt_variants.select_files(chosen),
            "file": self.file,
            "language": language,
            "phrases": prompt_text,
            "backend": self.backend,
            "tunable_example": self.tunable_example,
            "asks_reply": self.asks_reply,
        }

    def describe_task(self, task: Task) -> str:
        """What every prompt states about a task: reference, entry point, rules, sizes and tolerances."""
        return render_prompt(PROMPTS_FOLDER / "task.md", **self.task_variables(task)).rstrip() + "\n"

    def history_variables(self, state: State, context: Context, limits: prompt_text.HistoryLimits) -> dict[str, object]:
        """Template variables about earlier attempts on the task."""
        start = context.start_point
        return {
            "start_point": start,
            "steps": context.steps,
            "focus": context.focus,
            "best": state.best,
            "refinements": prompt_text.list_refinements(state, start) if start else [],
            "failures": prompt_text.recent_failures(state, context.stage, limits),
            "attempts": prompt_text.list_attempts(state, limits.attempts),
            "omitted_attempts": max(0, len(state.attempts) - limits.attempts),
        }

    def select_failed_code(self, state: State, context: Context, items: Sequence[ContextItem], free_tokens: int) -> str:
        """The code of the last failure, for repair while drafting; empty if memory shows it already or it does not fit.

        A brief prompt with an example omits it: a small model would copy its mistakes.
        """
        last = state.last_attempt
        if context.start_point or last is None or not last.outcome.failure or not last.candidate.files:
            return ""
        if self.feedback != "code" or (self.is_brief and items):
            return ""
        is_shown = any(entry.shown_code == last.candidate.code for entry in items)
        return "" if is_shown or estimate_tokens(last.candidate.code) > free_tokens else last.candidate.code


@cache
def shared_builder(backend: str) -> PromptBuilder:
    """The prompts of a backend with default settings."""
    return PromptBuilder(backend)


def build_first_prompt(task: Task, backend: str) -> str:
    """The prompt of a first draft, without memory and history."""
    return shared_builder(backend).build_text(State(task=task), Context(stage=Stage.DRAFT))


def entry_symbol(entry_point: str) -> str:
    """The name that an entry point declares, by which the right code block of a reply is recognised."""
    match = re.search(r"(\w+)\s*\(", strip_comments(entry_point))
    return match[1] if match else "kernel"


def items_to_show(context: Context) -> tuple[ContextItem, ...]:
    """The context's items without the choice to show nothing and without the trace of the start point, which the prompt shows anyway."""
    start = context.start_point
    items = tuple(entry for entry in context.items if entry.role != "nothing")
    if start is None:
        return items
    return tuple(s for s in items if s.item.id != start.memory_id and not (s.role == "start" and s.item.code == start.candidate.code))


def is_failed_kernel(entry: ContextItem) -> bool:
    """Whether an item shows the code of a kernel that failed."""
    return bool(entry.item.code) and entry.item.feasible is False


def has_content(entry: ContextItem) -> bool:
    """Whether a prompt has more to show of an item than its title: not for a correct kernel of which the context shows no lines."""
    return entry.role == "child" or not (entry.item.code and entry.item.feasible and not entry.shown_code.strip())


def fit_items(items: Sequence[ContextItem], free_tokens: int) -> FittedItems:
    """Adds items by descending value while they fit; an item without a value counts as 0 (Q0).

    Among equal values, correct kernels come first: a model that does not know the language learns most from one.
    """
    fitting: set[int] = set()
    order = sorted(range(len(items)), key=lambda i: (-(items[i].q or 0.0), prompt_text.item_rank(items[i]), i))
    for index in order:
        if (cost := estimate_item_tokens(items[index])) <= free_tokens:
            fitting.add(index)
            free_tokens -= cost
    return FittedItems(tuple(items[i] for i in sorted(fitting)), len(items) - len(fitting))


def select_single_item(items: Sequence[ContextItem], free_tokens: int) -> tuple[ContextItem, ...]:
    """The item for a small model, which copies its example: the one with the highest value, a failed kernel only as a last resort.

    Among equal values: a correct kernel, then a card that every draft shows, then one with code; of these the shortest.
    """

    def sort_key(entry: ContextItem) -> tuple[bool, float, int, bool, int]:
        rank = (0, 2, 1, 3)[prompt_text.item_rank(entry)]
        return is_failed_kernel(entry), -(entry.q or 0.0), rank, "```" not in entry.item.text, estimate_item_tokens(entry, brief=True)

    return tuple(sorted((entry for entry in items if estimate_item_tokens(entry, brief=True) <= free_tokens), key=sort_key)[:1])


def estimate_item_tokens(entry: ContextItem, brief: bool = False) -> int:
    """Estimated tokens of an item in a prompt, with heading and fences; brief prompts show a kernel with its reference and little text."""
    item = entry.item
    if brief and item.code:
        text = item.text[:300] if item.feasible is False else ""
        reference = prompt_text.strip_input_functions(item.key)
        return estimate_tokens(prompt_text.item_heading(entry) + text + reference + item.code) + 32
    return estimate_tokens(prompt_text.item_heading(entry) + item.text + entry.shown_code) + 12


def estimate_tokens(text: str) -> int:
    """Estimated tokens of a text, at four characters per token: close for code, and services' tokenizers are not available offline."""
    return (len(text) + 3) // 4


def clean_text(reply: str, limit: int = MAX_LESSON_CHARS) -> str:
    """A lesson, plan or critique for the record: the reply without the model's reasoning, at most `limit` characters long."""
    text = strip_thoughts(reply).strip()
    return text if len(text) <= limit else text[:limit].rstrip() + "…"
