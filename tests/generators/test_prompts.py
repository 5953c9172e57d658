"""Prompts compared with golden files, and the rules they follow."""

import pytest
from prompt_cases import (
    DRAFTING,
    EMPTY,
    ESTIMATED,
    FULL,
    HOSTILE,
    IMPROVE,
    IMPROVE_ESTIMATED,
    ITEMS,
    PLAIN,
    REFINING,
    TASK,
    TRACE,
    assert_golden,
    attempt,
)

from evokernel.core.records import Candidate, Context, ContextItem, GateResult, Stage, Usage
from evokernel.core.state import State
from evokernel.generators.prompt_topics import TOPICS, list_topics
from evokernel.generators.prompting import (
    PROMPTS_FOLDER,
    PromptBuilder,
    clean_text,
    entry_symbol,
    estimate_item_tokens,
    estimate_tokens,
    fit_items,
)
from evokernel.llm.render import render_prompt
from evokernel.memory.seed_cards import load_seed_cards


@pytest.fixture
def prompts():
    return PromptBuilder("golden_backend:Plain")


def test_draft_without_memory_or_history_equals_golden_file(prompts):
    assert_golden("draft_empty.md", prompts.build_text(State(task=TASK), EMPTY))


def test_draft_with_memory_and_history_equals_golden_file(prompts):
    assert_golden("draft_full.md", prompts.build_text(DRAFTING, FULL))


def test_refine_equals_golden_file(prompts):
    assert_golden("refine.md", prompts.build_text(REFINING, IMPROVE))


def test_refine_with_a_second_kernel_equals_golden_file(prompts):
    item = TRACE.model_copy(update={"id": "r2:toy/scaled_relu/1", "task": TASK.id, "code": PLAIN})
    partner = ContextItem(role="partner", item=item, q=0.5)
    text = prompts.build_text(REFINING, IMPROVE.model_copy(update={"items": (*IMPROVE.items, partner)}))
    assert_golden("refine_partner.md", text)
    other_task = partner.model_copy(update={"item": item.model_copy(update={"task": "toy/gelu"})})
    only = IMPROVE.model_copy(update={"items": (other_task,)})
    text = prompts.build_text(REFINING, only)
    assert "It is a kernel for toy/gelu, which has a part in common with this task: correct" in text
    assert "## From memory" not in text, "the second kernel has a section of its own"
    limits = {"calls": 9, "verifications": 3, "seconds": 60}
    tools = render_prompt(PROMPTS_FOLDER / "tools.md", file="kernel.cpp", suggestions=[partner, *ITEMS], memory=True, **limits)
    assert "- `r2:toy/scaled_relu/1` (trace, to combine with the start point): " in tools
    assert tools.count("to combine with") == 1


def test_hidden_attempts_are_not_shown(prompts):
    hidden = REFINING.attempts[4]
    assert "attempt 5" in prompts.build_text(REFINING, IMPROVE)
    context = IMPROVE.model_copy(update={"items": (), "hidden_attempts": (hidden.id,)})
    text = prompts.build_text(REFINING, context)
    assert "attempt 5" not in text
    assert "attempt 4" in text


def test_python_draft_equals_golden_file():
    state = State(task=TASK, attempts=ESTIMATED.attempts[:1], round=1)
    assert_golden("draft_python.md", PromptBuilder("golden_backend:Traced").build_text(state, EMPTY))


def test_python_refine_with_estimates_equals_golden_file():
    text = PromptBuilder("golden_backend:Traced").build_text(ESTIMATED, IMPROVE_ESTIMATED)
    assert_golden("refine_python.md", text)
    assert "noise is" not in text, "an estimate has no noise"
    assert "PyTorch takes" not in text


def test_shipped_backends_use_their_language_and_file_name():
    for backend, opening, entry in (("pallas", "```python kernel.py\n", "def kernel("), ("cpp", "```cpp kernel.cpp\n", "void kernel(")):
        text = PromptBuilder(backend).build_text(State(task=TASK), EMPTY)
        assert opening in text, backend
        assert entry in text, backend
        reply = PromptBuilder(backend).parse_candidate(f"Done.\n{opening}{entry}x): ...\n```", TASK, Usage())
        assert list(reply.files) == [opening.split()[1]]


def test_lesson_equals_golden_file(prompts):
    last = REFINING.attempts[-1]
    assert_golden("lesson.md", prompts.build_lesson_prompt(State(task=TASK, attempts=REFINING.attempts[:-1]), last.candidate, last.outcome))


@pytest.mark.parametrize(("state", "context"), [(State(task=TASK), EMPTY), (DRAFTING, FULL), (REFINING, IMPROVE)])
def test_held_out_sizes_are_never_shown(prompts, state, context):
    text = prompts.build_text(state, context)
    assert "N = 64, D = 32" in text
    assert "61" not in text
    assert "37" not in text.replace("1.37x", "")


def test_hostile_text_cannot_leave_its_fence(prompts):
    text = prompts.build_text(DRAFTING, FULL)
    assert f"`````text\n{HOSTILE.rstrip()}\n`````" in text


def test_items_with_low_value_are_omitted_first():
    code = "x" * 4000
    items = [
        ContextItem(role="trace", item=TRACE.model_copy(update={"id": str(n), "code": code}), q=q)
        for n, q in enumerate((0.1, 0.9, -0.5, None))
    ]
    cost = estimate_item_tokens(items[0])
    for count, ids in ((4, "0123"), (3, "013"), (2, "01"), (1, "1"), (0, "")):
        fitted = fit_items(items, count * cost)
        assert "".join(s.item.id for s in fitted.items) == ids
        assert fitted.omitted == 4 - len(ids)


def test_item_too_large_for_a_prompt_does_not_displace_others():
    big = ContextItem(role="trace", item=TRACE.model_copy(update={"code": "x" * 10**6}), q=1.0)
    assert fit_items([big, *ITEMS], 1000).items == ITEMS


def test_prompt_stays_within_its_budget_and_reports_omitted_items():
    wide, narrow = PromptBuilder("golden_backend:Plain", 24000), PromptBuilder("golden_backend:Plain", 1400)
    many = Context(
        stage=Stage.DRAFT,
        items=tuple(ContextItem(role="trace", item=TRACE.model_copy(update={"code": "x" * 800}), q=0.1) for _ in range(9)),
    )
    assert "did not fit" not in wide.build_text(State(task=TASK), many)
    text = narrow.build_text(State(task=TASK), many)
    assert estimate_tokens(text) <= 1400
    assert "more items from memory did not fit" in text
    assert SOURCE_LINE in PromptBuilder("golden_backend:Plain", 10).build_text(State(task=TASK), many), "required parts are kept"


SOURCE_LINE = "return torch.relu(x) * self.scale"


def test_context_without_history_shows_no_attempts(prompts):
    fresh = prompts.build_text(State(task=TASK, round=DRAFTING.round), FULL)
    assert prompts.build_text(DRAFTING, FULL.model_copy(update={"include_history": False})) == fresh
    assert prompts.build_text(DRAFTING, FULL) != fresh


def test_failed_kernel_is_shown_once(prompts):
    code = DRAFTING.attempts[-1].candidate.code
    same_trace = TRACE.model_copy(update={"id": DRAFTING.attempts[-1].memory_id, "code": code})
    assert prompts.build_text(DRAFTING, EMPTY).count(code) == 1
    assert prompts.build_text(DRAFTING, Context(stage=Stage.DRAFT, items=(ContextItem(role="trace", item=same_trace),))).count(code) == 1


def test_start_point_is_shown_once(prompts):
    text = prompts.build_text(REFINING, IMPROVE)
    assert text.count("```cpp kernel.cpp\n" + PLAIN) == 1
    assert "Start point: " not in text, "its memory item is not shown again"


def test_long_history_is_bounded(prompts):
    long = GateResult(gate="build", passed=False, reason="compile_error", detail="error: no\n" * 1000)
    state = State(task=TASK, attempts=tuple(attempt(n, failure=long, notes="n" * 500) for n in range(100)))
    text = prompts.build_text(state, EMPTY)
    assert "(70 earlier attempts are not listed.)" in text
    assert estimate_tokens(text) < 8000
    assert "characters omitted" in text
    assert text.index("Attempt 100") < text.index("Attempt 99") < text.index("Attempt 98")
    assert "Attempt 97" not in text


def test_task_with_one_size_is_described_as_such(prompts):
    fixed = TASK.model_copy(update={"sizes": {"bench": {}, "small": {}, "held_out": {}}})
    assert "this task has no others" in prompts.build_text(State(task=fixed), EMPTY)


def test_entry_symbol_is_the_declared_name():
    assert entry_symbol('// f(x)\nextern "C" void kernel(const float* x);') == "kernel"
    assert entry_symbol("# call(it)\ndef run(x_ref, o_ref):") == "run"
    assert entry_symbol("/* no (declaration) */") == "kernel"


def test_candidates_are_parsed_from_replies(prompts):
    good = prompts.parse_candidate(
        "One loop.\n```cpp kernel.cpp\nvoid kernel(float* x) {}\n```", TASK, Candidate(backend="b", files={}).usage
    )
    assert good.files == {"kernel.cpp": "void kernel(float* x) {}\n"}
    assert good.notes == "One loop."
    assert "no code" in prompts.parse_candidate("I would rather not.", TASK, good.usage).notes


def test_lessons_are_plain_text_and_bounded():
    assert clean_text("<think>hm</think>\nUse one pass. ") == "Use one pass."
    assert len(clean_text("word " * 1000)) <= 1201


def test_kernel_without_shown_lines_is_left_out_and_earns_nothing(prompts):
    hidden = ContextItem(role="trace", item=TRACE, q=0.7, excerpt="")
    prompt = prompts.build_prompt(DRAFTING, Context(stage=Stage.DRAFT, items=(hidden, *ITEMS[2:])))
    assert TRACE.title not in prompt.text
    assert prompt.omitted_ids == (TRACE.id,)
    assert "did not fit" not in prompt.text


@pytest.mark.parametrize(("context_tokens", "is_complete"), [(24_000, False), (1_700, True)])
def test_rules_are_complete_if_a_card_that_shows_the_layout_does_not_fit(context_tokens, is_complete):
    card = next(card for card in load_seed_cards("ascendc") if card.always_include and "// file: tiling.h" in card.text)
    context = Context(stage=Stage.DRAFT, items=(ContextItem(role="api", item=card),))
    prompt = PromptBuilder("ascendc", context_tokens=context_tokens).build_prompt(State(task=TASK), context)
    assert (bool(prompt.omitted_ids), "each after a line with exactly" in prompt.text) == (is_complete, is_complete)


def test_topics_are_those_of_all_parts_and_all_of_an_unknown_kind():
    assert list_topics(TASK) == {"functions"}
    assert list_topics(TASK.model_copy(update={"family": "fuse", "families": ("matmul", "softmax")})) == {"products", "softmax"}
    assert list_topics(TASK.model_copy(update={"source": "a @ b"})) == {"functions", "products"}
    assert list_topics(TASK.model_copy(update={"family": "spectral", "families": ("spectral",)})) == TOPICS
