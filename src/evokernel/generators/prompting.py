"""Builds prompts from a state and a context, and candidates from replies; shared by the generators that ask someone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.protocols import Backend
from evokernel.core.records import Candidate, Context, ContextItem, Outcome, Stage, State, Task, Usage
from evokernel.generators import prompt_text
from evokernel.llm.render import render
from evokernel.llm.replies import plain_text, read_reply

HERE = Path(__file__).parent / "prompts"
LANGUAGES = {".asc": "cpp", ".cpp": "cpp", ".cu": "cuda", ".py": "python", ".c": "c"}
LESSON_CHARS = 1200
HEADING_TOKENS = 130
BRIEF_HEADING_TOKENS = 60
COPIED_SHARE = 0.65
"""Of a reply's tokens, what a kernel may take (estimated) that is to be copied into it."""
BARE_SHARE = 0.6
"""Of a prompt's tokens, what may be other than memory before the history is told in fewer words."""


class Fitted(NamedTuple):
    """The items that fit a token budget, in the context's order, and how many did not."""

    kept: tuple[ContextItem, ...]
    left_out: int


class Prompt(NamedTuple):
    """A prompt, and the ids of the context's items that found no room in it."""

    text: str
    left_out: tuple[str, ...] = ()


class Prompts:
    """Prompts for one backend. `context_tokens` bounds a prompt (estimated); what is always needed stays even beyond it.

    `brief` ones are for small models: examples as reference and kernel, few rules, and a reply that is nothing but the file. Such a model
    copies what it is shown, so a kernel that would not fit into `reply_tokens` again (0: not bounded) is no example.
    """

    def __init__(self, backend: str, context_tokens: int = 24000, brief: bool = False, reply_tokens: int = 0) -> None:
        self.backend, self.context_tokens, self.is_brief = backend, context_tokens, brief
        self.longest = int(reply_tokens * COPIED_SHARE) if brief and reply_tokens else None
        self.plugin: Backend = make_plugin("backend", backend)
        where = plugin_folder("backend", backend) / "prompts"
        self.rules = where / ("brief.md" if brief and (where / "brief.md").exists() else "rules.md")
        self.file = file_name(self.plugin)

    def write(self, state: State, context: Context) -> str:
        """The text of the prompt for the next attempt."""
        return self.fitted(state, context).text

    def fitted(self, state: State, context: Context) -> Prompt:
        """The prompt for the next attempt: draft.md, or refine.md when there is a start point; what has no room in it is told."""
        seen = state if context.history else State(task=state.task, round=state.round)
        name = "brief.md" if self.is_brief else "refine.md" if context.stage is Stage.REFINE and context.start_point else "draft.md"
        values, bare = self.bare(HERE / name, seen, context)
        room = self.context_tokens - tokens(bare) - (BRIEF_HEADING_TOKENS if self.is_brief else HEADING_TOKENS)
        wanted = worth_showing(context)
        kept = self.chosen(wanted, room)
        failed_code = self.failed_code(seen, context, kept, room - sum(item_tokens(s, self.is_brief) for s in kept))
        items = sorted(kept, key=lambda shown: prompt_text.ORDER.index(shown.role))
        text = render(HERE / name, **values, items=items, left_out=len(wanted) - len(kept), failed_code=failed_code)
        there = {shown.item.id for shown in kept}
        return Prompt(text, tuple(shown.item.id for shown in wanted if shown.item.id not in there))

    def bare(self, file: Path, state: State, context: Context) -> tuple[dict[str, object], str]:
        """The values of a prompt without memory, and its text: with as much history as leaves memory its share of the room."""
        task = self.task_values(state.task)
        for extent in prompt_text.EXTENTS[-1:] if self.is_brief else prompt_text.EXTENTS:
            values = task | self.history_values(state, context, extent)
            text = render(file, **values, items=(), left_out=0, failed_code="")
            if tokens(text) <= self.context_tokens * BARE_SHARE:
                break
        return values, text

    def chosen(self, wanted: Sequence[ContextItem], room: int) -> tuple[ContextItem, ...]:
        """Of what a policy would show, what this prompt shows."""
        if not self.is_brief:
            return fit(wanted, room).kept
        longest = self.longest or self.context_tokens
        return the_one([shown for shown in wanted if prompt_text.rank(shown) != 0 or tokens(shown.item.code) <= longest], room)

    def lesson(self, state: State, candidate: Candidate, outcome: Outcome) -> str:
        """The prompt that asks what an attempt has taught."""
        return render(
            HERE / "lesson.md",
            **self.task_values(state.task),
            code=candidate.code,
            outcome=outcome,
            tried=prompt_text.tried(state),
            best=state.best,
        )

    def candidate(self, text: str, task: Task, usage: Usage) -> Candidate:
        """The candidate a reply holds; without any code, an empty one whose notes say what was wrong with the reply."""
        found = read_reply(text, self.file, symbol(self.plugin.entry_point(task)), getattr(self.plugin, "parts", ()))
        return Candidate(backend=self.backend, files=found.files, notes=found.note, usage=usage)

    def task_values(self, task: Task) -> dict[str, object]:
        """What every prompt says about the task."""
        entry = self.plugin.entry_point(task)
        rules = render(self.rules, task=task, entry=entry) if self.rules.exists() else ""
        language = LANGUAGES.get(Path(self.file).suffix, Path(self.file).suffix.lstrip("."))
        return {
            "task": task,
            "entry": entry,
            "rules": rules,
            "file": self.file,
            "language": language,
            "words": prompt_text,
            "backend": self.backend,
        }

    def history_values(self, state: State, context: Context, extent: prompt_text.Extent) -> dict[str, object]:
        """What a prompt says about earlier attempts on the task."""
        start = context.start_point
        return {
            "start": start,
            "best": state.best,
            "children": prompt_text.children(state, start) if start else [],
            "failures": prompt_text.failures(state, context.stage, extent),
            "tried": prompt_text.tried(state, extent.lines),
            "untold": max(0, len(state.attempts) - extent.lines),
        }

    def failed_code(self, state: State, context: Context, kept: Sequence[ContextItem], room: int) -> str:
        """The kernel of the last failure, to be repaired while drafting; not when memory shows it already or it does not fit. A small model
        that has an example copies what is wrong, too.
        """
        last = state.last_attempt
        if context.start_point or last is None or not last.outcome.failure or not last.candidate.files or (self.is_brief and kept):
            return ""
        shown = any(item.item.id == last.memory_id or item.item.code == last.candidate.code for item in kept)
        return "" if shown or tokens(last.candidate.code) > room else last.candidate.code


def file_name(backend: object) -> str:
    """The file a candidate consists of: `kernel.cpp`, unless the backend's `file` says otherwise."""
    return str(getattr(backend, "file", "kernel.cpp"))


def symbol(entry: str) -> str:
    """The name an entry point declares, so that a reply's block can be recognised by it."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*|^\s*#[^\n]*", "", entry, flags=re.S | re.M)
    found = re.search(r"(\w+)\s*\(", code)
    return found[1] if found else "kernel"


def worth_showing(context: Context) -> tuple[ContextItem, ...]:
    """The context's items without the start point's own trace, which the prompt shows anyway."""
    start = context.start_point
    if start is None:
        return context.items
    return tuple(
        s for s in context.items if s.item.id != start.memory_id and not (s.role == "start" and s.item.code == start.candidate.code)
    )


def fit(items: Sequence[ContextItem], room: int) -> Fitted:
    """Fills the room from the most valued item down, so that the best is the last to go; an item that was never valued counts as 0 (Q0).

    Among equals, correct kernels go last: a model that does not know the language learns most from one.
    """
    kept: set[int] = set()
    order = sorted(range(len(items)), key=lambda i: (-(items[i].q or 0.0), prompt_text.rank(items[i]), i))
    for index in order:
        if (cost := item_tokens(items[index])) <= room:
            kept.add(index)
            room -= cost
    return Fitted(tuple(items[i] for i in sorted(kept)), len(items) - len(kept))


def the_one(items: Sequence[ContextItem], room: int) -> tuple[ContextItem, ...]:
    """What a small model is shown, which copies whatever it sees: the most valued, and a kernel that failed only if there is nothing
    else. Among equals a correct kernel, then a card every draft is shown, one with code on it; of these the shortest.
    """

    def last(shown: ContextItem) -> tuple[bool, float, int, bool, int]:
        wrong = bool(shown.item.code) and shown.item.feasible is False
        place = (0, 2, 1, 3)[prompt_text.rank(shown)]
        return wrong, -(shown.q or 0.0), place, "```" not in shown.item.text, item_tokens(shown, brief=True)

    return tuple(sorted((shown for shown in items if item_tokens(shown, brief=True) <= room), key=last)[:1])


def item_tokens(shown: ContextItem, brief: bool = False) -> int:
    """Estimated tokens of an item in a prompt, heading and fences included; a brief one shows a kernel with its reference, few words."""
    item = shown.item
    if brief and item.code:
        said = item.text[:300] if item.feasible is False else ""
        return tokens(prompt_text.item_heading(shown) + said + prompt_text.computed(item.key) + item.code) + 32
    return tokens(prompt_text.item_heading(shown) + item.text + item.code) + 12


def tokens(text: str) -> int:
    """An estimate: services count with vocabularies that cannot be had offline, and four characters a token is near for code."""
    return (len(text) + 3) // 4


def lesson_text(reply: str) -> str:
    """A lesson as it is kept: plain words, bounded."""
    text = plain_text(reply).strip()
    return text if len(text) <= LESSON_CHARS else text[:LESSON_CHARS].rstrip() + "…"
