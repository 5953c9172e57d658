"""Prompts for small contexts: which items are omitted first, which never, and that omitted items are not learned from."""

import pytest
from engine_parts import EchoGenerator, make_engine
from prompt_cases import DRAFTING, EMPTY, FULL, IMPROVE, ITEMS, PLAIN, REFINING, TASK, TRACE, assert_golden, attempt

from evokernel.core.records import Context, ContextItem, GateResult, Stage
from evokernel.core.state import State
from evokernel.generators.prompt_text import describe_required_code, strip_input_functions
from evokernel.generators.prompting import (
    FEEDBACK_FORMS,
    PromptBuilder,
    estimate_item_tokens,
    estimate_tokens,
    fit_items,
    select_single_item,
)
from evokernel.generators.replay import Replay
from evokernel.llm.context_budget import split_context

EXAMPLE = TRACE.model_copy(update={"key": "def forward(self, x):\n    return gelu(x)\n"})


def test_brief_draft_equals_golden_file():
    items = (ContextItem(role="trace", item=EXAMPLE, q=0.7), *ITEMS[1:])
    text = PromptBuilder("golden_backend:Plain", brief=True).build_text(DRAFTING, Context(stage=Stage.DRAFT, items=items))
    assert_golden("brief_draft.md", text)


def test_brief_refinement_equals_golden_file():
    assert_golden("brief_refine.md", PromptBuilder("golden_backend:Plain", brief=True).build_text(REFINING, IMPROVE))


@pytest.mark.parametrize("backend", ["pallas", "cpp", "triton"])
def test_brief_prompt_without_memory_has_under_40_percent_of_the_full_one(backend):
    full, brief = (PromptBuilder(backend, brief=flag).build_text(State(task=TASK), EMPTY) for flag in (False, True))
    assert estimate_tokens(brief) < 0.4 * estimate_tokens(full)
    assert "Copy the correct kernel" not in brief


def test_omitted_items_are_reported():
    prompts = PromptBuilder("golden_backend:Plain", 1700)
    big = tuple(ContextItem(role="trace", item=TRACE.model_copy(update={"id": f"t{n}", "code": "x" * 900}), q=n / 10) for n in range(6))
    prompt = prompts.build_prompt(State(task=TASK), Context(stage=Stage.DRAFT, items=big))
    assert 0 < len(prompt.omitted_ids) < 6
    assert prompt.omitted_ids == tuple(f"t{n}" for n in range(len(prompt.omitted_ids))), "the least valued are omitted first"
    assert prompt.text.count("x" * 900) == 6 - len(prompt.omitted_ids), "a kernel is shown completely or not at all"
    assert prompts.build_prompt(REFINING, IMPROVE).omitted_ids.count(REFINING.attempts[3].memory_id) == 0, "the start point is always shown"
    assert PromptBuilder("golden_backend:Plain").build_prompt(DRAFTING, FULL).omitted_ids == ()


def test_among_equal_values_cards_are_omitted_before_correct_kernels():
    card = ContextItem(role="api", item=ITEMS[3].item)
    bundle = ContextItem(role="api", item=card.item.model_copy(update={"id": "b", "always_include": True}))
    practice, kernel = ContextItem(role="practice", item=ITEMS[2].item), ContextItem(role="trace", item=TRACE)
    items, counts = [card, bundle, practice, kernel], []
    for n in range(1, 5):
        fitting = fit_items(items, sum(sorted((estimate_item_tokens(one) for one in items), reverse=True)[:n])).items
        counts.append(len(fitting))
        assert kernel in fitting
    assert fit_items(items, estimate_item_tokens(kernel)).items == (kernel,)
    assert fit_items(items, estimate_item_tokens(kernel) + estimate_item_tokens(practice)).items == (practice, kernel)
    assert counts[-1] == 4


def test_long_history_is_shortened_for_a_small_context():
    long = GateResult(gate="build", passed=False, reason="compile_error", detail="error: no\n" * 1000)
    state = State(task=TASK, attempts=tuple(attempt(n, failure=long, notes="n" * 500) for n in range(40)))
    wide, narrow = (PromptBuilder("golden_backend:Plain", size).build_text(state, EMPTY) for size in (24000, 2500))
    assert estimate_tokens(wide) > 3000 > 2500 > estimate_tokens(narrow)
    assert "(35 earlier attempts are not listed.)" in narrow
    assert "Attempt 40" in narrow
    assert PLAIN in narrow, "the kernel to repair is complete"


def test_prompt_and_reply_share_a_context():
    assert split_context(8192, 0).reply_tokens == 2048
    assert split_context(8192, 500).reply_tokens == 500
    assert split_context(8192, 500).prompt_tokens > split_context(8192, 0).prompt_tokens
    assert split_context(8192, 100000).reply_tokens == 4096, "a prompt gets at least half"
    for context in (2048, 8192, 131072):
        assert split_context(context, 0).prompt_tokens * 1.22 + split_context(context, 0).reply_tokens <= context, (
            "measured: 1.22 tokens per estimated token"
        )


class SmallContextGenerator(EchoGenerator):
    """A generator whose prompt has room for the first item only."""

    def write(self, state, context):
        omitted = tuple(entry.item.id for entry in context.items[1:])
        return super().write(state, context).model_copy(update={"truncated_items": omitted})


def test_omitted_items_are_not_learned_from(tmp_path):
    e = make_engine(tmp_path / "a", budget=3, generator=SmallContextGenerator())
    made = list(e.make_attempts())
    assert all(len(a.shown_items) <= 1 for a in made)
    assert any(a.truncated_items for a in made)
    never_shown = (
        {ref.id for a in made for ref in a.truncated_items} - {ref.id for a in made for ref in a.shown_items} - {a.memory_id for a in made}
    )
    assert never_shown
    for stage in Stage:
        assert all(value.visits == 0 for value in e.memory.values(sorted(never_shown), stage).values())


def test_replay_gives_equal_values(tmp_path):
    first = make_engine(tmp_path / "a", budget=3, generator=SmallContextGenerator())
    made = list(first.make_attempts())
    again = make_engine(tmp_path / "b", budget=3, generator=Replay("cpp", str(tmp_path / "a")))
    assert [(a.shown_items, a.truncated_items) for a in again.make_attempts()] == [(a.shown_items, a.truncated_items) for a in made]
    ids = sorted({ref.id for a in made for ref in (*a.shown_items, *a.truncated_items)} | {a.memory_id for a in made})
    for stage in Stage:
        assert again.memory.values(ids, stage) == first.memory.values(ids, stage)


def test_brief_prompt_shows_one_item():
    cards = [entry for entry in FULL.items if entry.item.kind == "api"]
    bundle = cards[0].model_copy(update={"item": cards[0].item.model_copy(update={"id": "bundle", "always_include": True})})
    short = ContextItem(role="trace", item=TRACE)
    long = ContextItem(role="trace", item=TRACE.model_copy(update={"id": "long", "code": TRACE.code + "// more" * 20}))
    valued = long.model_copy(update={"q": 0.5})
    failed = ContextItem(role="trace", item=TRACE.model_copy(update={"id": "failed", "feasible": False}))
    assert select_single_item([failed, *cards, bundle, long, short], 10_000) == (short,), "among equal values, the shortest correct kernel"
    assert select_single_item([failed, *cards, bundle, short, valued], 10_000) == (valued,), "the highest value"
    assert select_single_item([failed, *cards, bundle, valued], estimate_item_tokens(valued, brief=True) - 1) == (bundle,), (
        "of the items that fit"
    )
    assert select_single_item([failed, *cards, bundle, short.model_copy(update={"q": -0.1})], 10_000) == (bundle,), (
        "a negative value comes last"
    )
    assert select_single_item([failed.model_copy(update={"q": 0.5}), short], 10_000) == (short,), "a model would copy its mistakes"
    assert select_single_item([failed, cards[-1]], 10_000) == (cards[-1],)
    assert select_single_item([failed], 10_000) == (failed,)
    assert select_single_item([], 10_000) == ()


def test_brief_prompt_with_an_example_omits_failed_code():
    last = attempt(0, failure=GateResult(gate="build", passed=False, reason="compile_error", detail="error: no"))
    state = State(task=TASK, attempts=(last,))
    example = Context(stage=Stage.DRAFT, items=(ContextItem(role="trace", item=EXAMPLE),))
    assert last.candidate.code in PromptBuilder("golden_backend:Plain", brief=True).build_text(state, EMPTY)
    text = PromptBuilder("golden_backend:Plain", brief=True).build_text(state, example)
    assert last.candidate.code not in text
    assert "error: no" in text
    assert last.candidate.code in PromptBuilder("golden_backend:Plain").build_text(state, example)


@pytest.mark.parametrize("brief", [False, True])
def test_forms_of_feedback(brief):
    last = attempt(0, failure=GateResult(gate="build", passed=False, reason="compile_error", detail="error: no"))
    state = State(task=TASK, attempts=(last,))
    own = ContextItem(
        role="trace",
        item=EXAMPLE.model_copy(update={"id": last.memory_id, "task": TASK.id, "code": last.candidate.code, "feasible": False}),
    )
    texts, omitted = {}, {}
    for form in FEEDBACK_FORMS:
        builder = PromptBuilder("golden_backend:Plain", brief=brief, feedback=form)
        texts[form] = builder.build_text(state, EMPTY)
        omitted[form] = builder.build_prompt(state, Context(stage=Stage.DRAFT, items=(own,))).omitted_ids
    assert {form: last.candidate.code in text for form, text in texts.items()} == {"code": True, "message": False, "none": False}
    assert {form: "error: no" in text for form, text in texts.items()} == {"code": True, "message": True, "none": False}
    assert omitted == {"code": (), "message": (own.item.id,), "none": (own.item.id,)}, "no value is learned from what was not shown"
    correct = ContextItem(role="trace", item=own.item.model_copy(update={"feasible": True}))
    messages_only = PromptBuilder("golden_backend:Plain", brief=brief, feedback="message")
    assert messages_only.build_prompt(state, Context(stage=Stage.DRAFT, items=(correct,))).omitted_ids == (), "its own correct kernel stays"
    first = PromptBuilder("golden_backend:Plain", brief=brief).build_text(State(task=TASK), EMPTY)
    assert texts["none"] == first, "a draft without feedback is one more first draft"
    with pytest.raises(ValueError, match="feedback = 'all' must be one of code, message, none"):
        PromptBuilder("golden_backend:Plain", feedback="all")


def test_refinements_show_feedback_in_any_form():
    texts = {PromptBuilder("golden_backend:Plain", feedback=form).build_text(REFINING, IMPROVE) for form in FEEDBACK_FORMS}
    assert len(texts) == 1


def test_kernel_too_long_for_the_reply_is_not_an_example():
    kernel = ContextItem(role="trace", item=EXAMPLE.model_copy(update={"code": "f();\n" * 100}), q=0.9)
    other = ContextItem(role="trace", item=EXAMPLE.model_copy(update={"id": "short"}), q=0.1)
    context = Context(stage=Stage.DRAFT, items=(kernel, other))
    for reply, omitted in ((0, other), (1000, other), (150, kernel)):
        prompt = PromptBuilder("golden_backend:Plain", brief=True, reply_tokens=reply).build_prompt(State(task=TASK), context)
        assert prompt.omitted_ids == (omitted.item.id,)


def test_brief_prompt_omits_input_functions():
    text = PromptBuilder("pallas", brief=True).build_text(State(task=TASK), EMPTY)
    assert "def forward" in text
    assert "get_inputs" not in text
    assert strip_input_functions("not python (") == "not python (\n"


def test_brief_prompt_repeats_the_required_code():
    source = "class Model:\n    def forward(self, x):\n        return torch.tanh(x)\n"
    longer = source.replace("return torch.tanh(x)", "y = x * x\n        return y")
    entry = "def kernel(\n    x,  # input\n    slope,\n):\n    ...\n    return out\n"
    assert describe_required_code(source, entry) == "It defines `kernel(x, slope)` and computes `torch.tanh(x)`."
    assert describe_required_code(longer, entry) == "It defines `kernel(x, slope)`.", "only if forward is a single expression"
    assert describe_required_code(source, "// C++\nvoid kernel(const float* x);") == "It computes `torch.tanh(x)`."
    assert describe_required_code("", "void kernel();") == ""
