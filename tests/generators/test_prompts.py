"""Prompts word for word, and the rules they follow."""

import pytest
from prompt_cases import (
    DRAFTING,
    EMPTY,
    ESTIMATED,
    FULL,
    GOLDEN,
    HOSTILE,
    IMPROVE,
    IMPROVE_ESTIMATED,
    ITEMS,
    PLAIN,
    REFINING,
    TASK,
    TRACE,
    attempt,
    same,
)

from evokernel.core.records import Candidate, Context, ContextItem, GateResult, Stage, State, Usage
from evokernel.generators.prompting import Prompts, fit, item_tokens, lesson_text, symbol, tokens


@pytest.fixture(autouse=True)
def golden_backend_is_importable(monkeypatch):
    monkeypatch.syspath_prepend(GOLDEN)


@pytest.fixture
def prompts():
    return Prompts("golden_backend:Plain")


def test_draft_without_memory_or_history(prompts):
    same("draft_empty.md", prompts.write(State(task=TASK), EMPTY))


def test_draft_with_everything(prompts):
    same("draft_full.md", prompts.write(DRAFTING, FULL))


def test_refine(prompts):
    same("refine.md", prompts.write(REFINING, IMPROVE))


def test_draft_in_python():
    failed = State(task=TASK, attempts=ESTIMATED.attempts[:1], round=1)
    same("draft_python.md", Prompts("golden_backend:Traced").write(failed, EMPTY))


def test_refine_in_python_by_estimates():
    text = Prompts("golden_backend:Traced").write(ESTIMATED, IMPROVE_ESTIMATED)
    same("refine_python.md", text)
    assert "noise is" not in text, "an estimate has none"
    assert "PyTorch takes" not in text


def test_the_shipped_backends_have_their_own_language_and_file():
    for backend, opening, entry in (("pallas", "```python kernel.py\n", "def kernel("), ("cpp", "```cpp kernel.cpp\n", "void kernel(")):
        text = Prompts(backend).write(State(task=TASK), EMPTY)
        assert opening in text, backend
        assert entry in text, backend
        reply = Prompts(backend).candidate(f"Done.\n{opening}{entry}x): ...\n```", TASK, Usage())
        assert list(reply.files) == [opening.split()[1]]


def test_lesson(prompts):
    last = REFINING.attempts[-1]
    same("lesson.md", prompts.lesson(State(task=TASK, attempts=REFINING.attempts[:-1]), last.candidate, last.outcome))


@pytest.mark.parametrize(("state", "context"), [(State(task=TASK), EMPTY), (DRAFTING, FULL), (REFINING, IMPROVE)])
def test_held_out_sizes_are_never_shown(prompts, state, context):
    text = prompts.write(state, context)
    assert "N = 64, D = 32" in text
    assert "61" not in text
    assert "37" not in text.replace("1.37x", "")


def test_hostile_text_cannot_leave_its_fence(prompts):
    text = prompts.write(DRAFTING, FULL)
    assert f"`````text\n{HOSTILE.rstrip()}\n`````" in text


def test_the_best_item_is_the_last_to_go():
    code = "x" * 4000
    items = [
        ContextItem(role="trace", item=TRACE.model_copy(update={"id": str(n), "code": code}), q=q)
        for n, q in enumerate((0.1, 0.9, -0.5, None))
    ]
    cost = item_tokens(items[0])
    for room, kept in ((4, "0123"), (3, "013"), (2, "01"), (1, "1"), (0, "")):
        fitted = fit(items, room * cost)
        assert "".join(s.item.id for s in fitted.kept) == kept
        assert fitted.left_out == 4 - len(kept)


def test_an_item_too_large_for_any_prompt_does_not_push_out_the_others():
    big = ContextItem(role="trace", item=TRACE.model_copy(update={"code": "x" * 10**6}), q=1.0)
    assert fit([big, *ITEMS], 1000).kept == ITEMS


def test_a_prompt_stays_within_its_budget_and_says_what_it_left_out():
    wide, narrow = Prompts("golden_backend:Plain", 24000), Prompts("golden_backend:Plain", 1400)
    many = Context(
        stage=Stage.DRAFT,
        items=tuple(ContextItem(role="trace", item=TRACE.model_copy(update={"code": "x" * 800}), q=0.1) for _ in range(9)),
    )
    assert "left out" not in wide.write(State(task=TASK), many)
    text = narrow.write(State(task=TASK), many)
    assert tokens(text) <= 1400
    assert "more items from memory left out" in text
    assert SOURCE_LINE in Prompts("golden_backend:Plain", 10).write(State(task=TASK), many), "what is always needed stays"


SOURCE_LINE = "return torch.relu(x) * self.scale"


def test_a_context_without_history_shows_none(prompts):
    fresh = prompts.write(State(task=TASK, round=DRAFTING.round), FULL)
    assert prompts.write(DRAFTING, FULL.model_copy(update={"history": False})) == fresh
    assert prompts.write(DRAFTING, FULL) != fresh


def test_a_failed_kernel_is_shown_once(prompts):
    code = DRAFTING.attempts[-1].candidate.code
    known = TRACE.model_copy(update={"id": DRAFTING.attempts[-1].memory_id, "code": code})
    assert prompts.write(DRAFTING, EMPTY).count(code) == 1
    assert prompts.write(DRAFTING, Context(stage=Stage.DRAFT, items=(ContextItem(role="trace", item=known),))).count(code) == 1


def test_the_start_point_is_shown_once(prompts):
    text = prompts.write(REFINING, IMPROVE)
    assert text.count("```cpp kernel.cpp\n" + PLAIN) == 1
    assert "The kernel to improve: " not in text, "its own memory item is not shown beside it"


def test_a_long_history_is_bounded(prompts):
    long = GateResult(gate="build", passed=False, reason="compile_error", detail="error: no\n" * 1000)
    state = State(task=TASK, attempts=tuple(attempt(n, failure=long, notes="n" * 500) for n in range(100)))
    text = prompts.write(state, EMPTY)
    assert "(70 earlier attempts not listed.)" in text
    assert tokens(text) < 8000
    assert "characters left out" in text
    assert text.index("Attempt 99") < text.index("Attempt 98") < text.index("Attempt 97")
    assert "Attempt 96" not in text


def test_a_task_with_one_size_says_so(prompts):
    fixed = TASK.model_copy(update={"sizes": {"bench": {}, "small": {}, "held_out": {}}})
    assert "the only ones this task has" in prompts.write(State(task=fixed), EMPTY)


def test_symbol_is_the_declared_name():
    assert symbol('// f(x)\nextern "C" void kernel(const float* x);') == "kernel"
    assert symbol("# call(it)\ndef run(x_ref, o_ref):") == "run"
    assert symbol("/* no (declaration) */") == "kernel"


def test_candidates_come_from_replies(prompts):
    good = prompts.candidate("One loop.\n```cpp kernel.cpp\nvoid kernel(float* x) {}\n```", TASK, Candidate(backend="b", files={}).usage)
    assert good.files == {"kernel.cpp": "void kernel(float* x) {}\n"}
    assert good.notes == "One loop."
    assert "no code" in prompts.candidate("I would rather not.", TASK, good.usage).notes


def test_lessons_are_plain_and_bounded():
    assert lesson_text("<think>hm</think>\nUse one pass. ") == "Use one pass."
    assert len(lesson_text("word " * 1000)) <= 1201
