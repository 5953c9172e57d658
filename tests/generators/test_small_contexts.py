"""Prompts that fit a small context: what goes first, what never goes, and that nobody learns from what was not shown."""

import pytest
from engine_parts import Writer, engine
from prompt_cases import DRAFTING, EMPTY, FULL, GOLDEN, IMPROVE, ITEMS, PLAIN, REFINING, TASK, TRACE, attempt, same

from evokernel.core.records import Context, ContextItem, GateResult, Stage, State
from evokernel.generators.prompt_text import computed, wanted
from evokernel.generators.prompting import Prompts, fit, item_tokens, the_one, tokens
from evokernel.generators.replay import Replay
from evokernel.llm.context_budget import room

EXAMPLE = TRACE.model_copy(update={"key": "def forward(self, x):\n    return gelu(x)\n"})


@pytest.fixture(autouse=True)
def golden_backend_is_importable(monkeypatch):
    monkeypatch.syspath_prepend(GOLDEN)


def test_a_brief_draft():
    items = (ContextItem(role="trace", item=EXAMPLE, q=0.7), *ITEMS[1:])
    text = Prompts("golden_backend:Plain", brief=True).write(DRAFTING, Context(stage=Stage.DRAFT, items=items))
    same("brief_draft.md", text)


def test_a_brief_refinement():
    same("brief_refine.md", Prompts("golden_backend:Plain", brief=True).write(REFINING, IMPROVE))


@pytest.mark.parametrize("backend", ["pallas", "cpp"])
def test_a_brief_prompt_without_memory_takes_a_third_of_the_full_one(backend):
    full, brief = (Prompts(backend, brief=flag).write(State(task=TASK), EMPTY) for flag in (False, True))
    assert tokens(brief) < 0.4 * tokens(full)
    assert "Copy the correct kernel" not in brief


def test_what_found_no_room_is_told():
    prompts = Prompts("golden_backend:Plain", 1700)
    big = tuple(ContextItem(role="trace", item=TRACE.model_copy(update={"id": f"t{n}", "code": "x" * 900}), q=n / 10) for n in range(6))
    made = prompts.fitted(State(task=TASK), Context(stage=Stage.DRAFT, items=big))
    assert 0 < len(made.left_out) < 6
    assert made.left_out == tuple(f"t{n}" for n in range(len(made.left_out))), "the least valued go first"
    assert made.text.count("x" * 900) == 6 - len(made.left_out), "a kernel is shown whole or not at all"
    assert prompts.fitted(REFINING, IMPROVE).left_out.count(REFINING.attempts[3].memory_id) == 0, "the start point is always shown"
    assert Prompts("golden_backend:Plain").fitted(DRAFTING, FULL).left_out == ()


def test_among_equals_correct_kernels_go_last_and_cards_first():
    card = ContextItem(role="api", item=ITEMS[3].item)
    bundle = ContextItem(role="api", item=card.item.model_copy(update={"id": "b", "bundle": True}))
    practice, kernel = ContextItem(role="practice", item=ITEMS[2].item), ContextItem(role="trace", item=TRACE)
    items, kept = [card, bundle, practice, kernel], []
    for n in range(1, 5):
        chosen = fit(items, sum(sorted((item_tokens(one) for one in items), reverse=True)[:n])).kept
        kept.append(len(chosen))
        assert kernel in chosen
    assert fit(items, item_tokens(kernel)).kept == (kernel,)
    assert fit(items, item_tokens(kernel) + item_tokens(practice)).kept == (practice, kernel)
    assert kept[-1] == 4


def test_a_long_history_is_told_in_fewer_words_where_there_is_little_room():
    long = GateResult(gate="build", passed=False, reason="compile_error", detail="error: no\n" * 1000)
    state = State(task=TASK, attempts=tuple(attempt(n, failure=long, notes="n" * 500) for n in range(40)))
    wide, narrow = (Prompts("golden_backend:Plain", size).write(state, EMPTY) for size in (24000, 2500))
    assert tokens(wide) > 3000 > 2500 > tokens(narrow)
    assert "(35 earlier attempts not listed.)" in narrow
    assert "Attempt 39" in narrow
    assert PLAIN in narrow, "the kernel to repair is whole"


def test_a_context_is_shared_by_prompt_and_reply():
    assert room(8192, 0).reply == 2048
    assert room(8192, 500).reply == 500
    assert room(8192, 500).prompt > room(8192, 0).prompt
    assert room(8192, 100000).reply == 4096, "a prompt has half, whatever a reply may take"
    for context in (2048, 8192, 131072):
        assert room(context, 0).prompt * 1.22 + room(context, 0).reply <= context, "measured: 1.22 tokens for each that is estimated"


class Forgetful(Writer):
    """Has room for the first item only."""

    def write(self, state, context):
        left = tuple(shown.item.id for shown in context.items[1:])
        return super().write(state, context).model_copy(update={"left_out": left})


def test_nothing_is_learned_from_what_was_not_shown(tmp_path):
    e = engine(tmp_path / "a", budget=3, generator=Forgetful())
    made = list(e.attempts())
    assert all(len(a.shown_items) <= 1 for a in made)
    assert any(a.truncated_items for a in made)
    never = (
        {ref.id for a in made for ref in a.truncated_items} - {ref.id for a in made for ref in a.shown_items} - {a.memory_id for a in made}
    )
    assert never
    for stage in Stage:
        assert all(value.visits == 0 for value in e.memory.values(sorted(never), stage).values())


def test_a_recording_gives_the_same_values_again(tmp_path):
    first = engine(tmp_path / "a", budget=3, generator=Forgetful())
    made = list(first.attempts())
    again = engine(tmp_path / "b", budget=3, generator=Replay("cpp", str(tmp_path / "a")))
    assert [(a.shown_items, a.truncated_items) for a in again.attempts()] == [(a.shown_items, a.truncated_items) for a in made]
    ids = sorted({ref.id for a in made for ref in (*a.shown_items, *a.truncated_items)} | {a.memory_id for a in made})
    for stage in Stage:
        assert again.memory.values(ids, stage) == first.memory.values(ids, stage)


def test_a_small_model_is_shown_one_thing():
    cards = [shown for shown in FULL.items if shown.item.kind == "api"]
    bundle = cards[0].model_copy(update={"item": cards[0].item.model_copy(update={"id": "bundle", "bundle": True})})
    short = ContextItem(role="trace", item=TRACE)
    long = ContextItem(role="trace", item=TRACE.model_copy(update={"id": "long", "code": TRACE.code + "// more" * 20}))
    valued = long.model_copy(update={"q": 0.5})
    failed = ContextItem(role="trace", item=TRACE.model_copy(update={"id": "failed", "feasible": False}))
    assert the_one([failed, *cards, bundle, long, short], 10_000) == (short,), "of equals a correct kernel, the shortest"
    assert the_one([failed, *cards, bundle, short, valued], 10_000) == (valued,), "the most valued"
    assert the_one([failed, *cards, bundle, valued], item_tokens(valued, brief=True) - 1) == (bundle,), "of what fits"
    assert the_one([failed, *cards, bundle, short.model_copy(update={"q": -0.1})], 10_000) == (bundle,), "what has failed others goes"
    assert the_one([failed.model_copy(update={"q": 0.5}), short], 10_000) == (short,), "it would copy what is wrong"
    assert the_one([failed, cards[-1]], 10_000) == (cards[-1],)
    assert the_one([failed], 10_000) == (failed,)
    assert the_one([], 10_000) == ()


def test_a_small_model_that_has_an_example_is_not_shown_its_failure():
    last = attempt(0, failure=GateResult(gate="build", passed=False, reason="compile_error", detail="error: no"))
    state = State(task=TASK, attempts=(last,))
    example = Context(stage=Stage.DRAFT, items=(ContextItem(role="trace", item=EXAMPLE),))
    assert last.candidate.code in Prompts("golden_backend:Plain", brief=True).write(state, EMPTY)
    text = Prompts("golden_backend:Plain", brief=True).write(state, example)
    assert last.candidate.code not in text
    assert "error: no" in text
    assert last.candidate.code in Prompts("golden_backend:Plain").write(state, example)


def test_a_kernel_that_would_not_fit_into_a_reply_is_no_example():
    kernel = ContextItem(role="trace", item=EXAMPLE.model_copy(update={"code": "f();\n" * 100}), q=0.9)
    other = ContextItem(role="trace", item=EXAMPLE.model_copy(update={"id": "short"}), q=0.1)
    context = Context(stage=Stage.DRAFT, items=(kernel, other))
    for reply, left in ((0, other), (1000, other), (150, kernel)):
        made = Prompts("golden_backend:Plain", brief=True, reply_tokens=reply).fitted(State(task=TASK), context)
        assert made.left_out == (left.item.id,)


def test_a_reference_is_shown_without_what_makes_its_inputs():
    text = Prompts("pallas", brief=True).write(State(task=TASK), EMPTY)
    assert "def forward" in text
    assert "get_inputs" not in text
    assert computed("not python (") == "not python (\n"


def test_what_is_wanted_is_said_once_more_at_the_end():
    source = "class Model:\n    def forward(self, x):\n        return torch.tanh(x)\n"
    longer = source.replace("return torch.tanh(x)", "y = x * x\n        return y")
    entry = "def kernel(\n    x,  # input\n    slope,\n):\n    ...\n    return out\n"
    assert wanted(source, entry) == "It defines `kernel(x, slope)` and computes `torch.tanh(x)`."
    assert wanted(longer, entry) == "It defines `kernel(x, slope)`.", "only where one expression says all"
    assert wanted(source, "// C++\nvoid kernel(const float* x);") == "It computes `torch.tanh(x)`."
    assert wanted("", "void kernel();") == ""
