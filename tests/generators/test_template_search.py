"""The template_search generator: its decisions, what it learns from its context, and that its text depends on nothing else."""

import os
import subprocess
import sys
from collections import Counter
from functools import partial
from random import Random

import pytest

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Attempt, Candidate, Context, ContextItem, GateResult, MemoryItem, Outcome, Profile, Stage
from evokernel.core.state import State
from evokernel.generators.template_search import TemplateSearch
from evokernel.generators.template_search.dialects import get_dialect, list_dialects
from evokernel.generators.template_search.evidence import ContextText, Evidence, gather_evidence, read_decisions
from evokernel.generators.template_search.option_model import OptionModel
from evokernel.generators.template_search.search import DecisionSearch, alternative_options
from evokernel.generators.template_search.search_space import KernelDecisions, build_search_space
from evokernel.suites.loader import load_tasks

UniformSearch = partial(TemplateSearch, prior="uniform")
"""What is learned is visible only if nothing is known beforehand."""
EMPTY = Context(stage=Stage.DRAFT)
STARTER = {task.id.split("/")[1]: task for task in load_tasks("starter")}
CPP, PALLAS = get_dialect("cpp").hints, get_dialect("pallas").hints
NOT_IN_CUDA = {"attention_head", "batched_matmul", "conv2d", "linear_gelu", "matmul", "max_pool"}
CUDA_TASKS = [name for name in STARTER if name not in NOT_IN_CUDA]
STARTER_DRAFTS = [(name, backend) for backend in ("cpp", "pallas", "triton") for name in STARTER] + [(name, "cuda") for name in CUDA_TASKS]
MARK = {"cpp": "//", "pallas": "#"}


def decision_header(line, backend="cpp"):
    return f"{MARK[backend]} decisions: {line}\n"


def make_attempt(task, code, outcome, n=0, backend="cpp"):
    return Attempt(
        id=f"{task.id}/{n}", run="r", task=task.id, round=n, stage=Stage.DRAFT, reward=0.0, outcome=outcome,
        candidate=Candidate(backend=backend, files={"kernel": code}),
    )  # fmt: skip


def correct_outcome(bottleneck="", summary=""):
    profile = Profile(bottleneck=bottleneck, summary=summary) if bottleneck else None
    return Outcome(gates=(GateResult(gate="build", passed=True),), samples_us=(10.0,), baseline_us={"eager": (20.0,)}, profile=profile)


def failed_outcome(reason, detail=""):
    return Outcome(gates=(GateResult(gate="check", passed=False, reason=reason, detail=detail),))


def make_trace(line, feasible, task="other/task", speedup=None, reason="", text="", backend="cpp", code=""):
    return MemoryItem(
        id=f"m{len(line)}{task}{speedup}", kind="trace", backend=backend, title="", text=text, code=code or decision_header(line, backend),
        task=task, feasible=feasible, speedup=speedup, reason=reason,
    )  # fmt: skip


def make_card(title, text="", backend="cpp"):
    return MemoryItem(id=title, kind="practice", backend=backend, title=title, text=text)


def context_with(*items):
    return Context(stage=Stage.DRAFT, items=tuple(ContextItem(role=item.kind, item=item) for item in items))


def read_options(reply, hints=CPP):
    """All decisions of a kernel in one mapping; later stages win."""
    return {name: option for _, choice in read_decisions(reply.candidate.code, hints) for name, option in choice.items()}


def count_options(task, context, name, n=60, backend="cpp"):
    """How often each option of a decision is chosen over many seeds."""
    return Counter(read_options(UniformSearch(backend, seed=seed).write(State(task=task), context)).get(name) for seed in range(n))


def sample_decisions(space, seed, model=None):
    return DecisionSearch(space, model or OptionModel([]), Random(seed), 1.0).complete(lambda group: {})


def stage_choice(family, **choice):
    return ((family, choice),)


def test_invalid_settings_are_refused():
    with pytest.raises(UserError, match="no templates for backend 'ascend': use backend ascendc or cpp or cuda or pallas or triton"):
        TemplateSearch(backend="ascend")
    with pytest.raises(UserError, match="temperature"):
        TemplateSearch(temperature=0)
    assert list_dialects() == ["ascendc", "cpp", "cuda", "pallas", "triton"]


def test_equal_seed_state_and_context_give_equal_reply():
    state = State(task=STARTER["matmul"])
    assert UniformSearch(seed=3).write(state, EMPTY) == make_plugin("generator", "template_search", seed=3, prior="uniform").write(
        state, EMPTY
    )
    assert len({UniformSearch(seed=s).write(state, EMPTY).candidate.id for s in range(10)}) > 5


def test_drafts_of_one_attempt_differ_and_repeat():
    state = State(task=STARTER["matmul"])
    candidates = []
    for _ in range(4):
        context = EMPTY.model_copy(update={"drafts": tuple(candidates)})
        candidates.append(TemplateSearch(seed=1).write(state, context).candidate)
        assert candidates[-1] == TemplateSearch(seed=1).write(state, context).candidate
    assert len({candidate.id for candidate in candidates}) == 4
    assert candidates[0] == TemplateSearch(seed=1).write(state, EMPTY).candidate


@pytest.mark.slow
def test_result_does_not_depend_on_python_hash_seed():
    text = "from evokernel.core.records import *\nfrom evokernel.core.state import State\n"
    text += "from evokernel.generators.template_search import TemplateSearch\nfrom evokernel.suites.loader import load_tasks\n"
    text += "task = load_tasks('starter/layernorm')[0]\n"
    text += "searches = [TemplateSearch('pallas', seed=s, prior='uniform') for s in range(8)]\n"
    text += "print([search.write(State(task=task), Context(stage=Stage.DRAFT)).candidate.id for search in searches])"
    runs = {
        subprocess.run([sys.executable, "-c", text], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


@pytest.mark.parametrize(("name", "backend"), STARTER_DRAFTS)
def test_sampled_decisions_are_rendered_and_read_back(name, backend):
    space = build_search_space(STARTER[name], backend)
    for seed in range(12):
        decisions = sample_decisions(space, seed)
        code = space.render_kernel(decisions)
        if backend in ("pallas", "triton"):
            compile(code, "kernel.py", "exec")
        kernel = (("kernel", dict(decisions.kernel)),) if decisions.kernel else ()
        assert read_decisions(code, CPP) == (*kernel, *((family, dict(choice)) for family, choice in decisions.stages))


@pytest.mark.parametrize(("name", "backend"), STARTER_DRAFTS)
def test_every_option_changes_the_code_somewhere(name, backend):
    space = build_search_space(STARTER[name], backend)
    kernel_choice = {"fuse": "all"} if "all" in space.plans else {}
    (group,) = space.stage_decisions(kernel_choice)[:1]
    search = DecisionSearch(space, OptionModel([]), Random(0), 1.0)
    draws = [DecisionSearch(space, OptionModel([]), Random(seed), 1.0).choose_options(group, {}) for seed in range(120)]

    def text(choice):
        others = [(p.family, search.choose_options(p, {})) for p in space.stage_decisions(kernel_choice)[1:]]
        return space.render_kernel(KernelDecisions(kernel_choice, ((group.family, choice), *others))).split("\n", 1)[1]

    unchanged = {pair for choice in draws for pair in choice.items()}
    for choice in draws:
        for decision in (d for d in group.decisions if d.name in choice and d.when(choice)):
            for option in [o for o in decision.options if o != choice[decision.name] and (decision.name, o) in unchanged]:
                if text(search.choose_options(group, {**choice, decision.name: option})) != text(choice):
                    unchanged.discard((decision.name, option))
        if not unchanged:
            break
    assert not unchanged


@pytest.mark.parametrize("backend", ["cpp", "cuda", "pallas", "triton"])
def test_all_options_score_equal_without_evidence(backend):
    dialect = get_dialect(backend)
    model = OptionModel([], dialect.hints)
    scores = {
        (d.name, o): model.score_option(family, d.name, o)
        for family, template in dialect.templates.items()
        for d in template.decisions
        for o in d.options
    }
    hidden = {pair for pair in scores if pair in dialect.hints.needs}
    assert {score for pair, score in scores.items() if pair not in hidden} == {0.0}
    assert all(scores[pair] < -1 for pair in hidden)
    text = ContextText(cards=" ".join(name for names in dialect.hints.needs.values() for name in names))
    assert all(
        OptionModel([], dialect.hints, text).score_option("map", *pair) >= 0 for pair in hidden if pair not in dialect.hints.forbidden
    )


def test_option_is_chosen_more_often_if_a_card_or_code_shows_its_api():
    in_card = context_with(make_card("Pipelines", "pltpu.emit_pipeline walks blocks", backend="pallas"))
    in_code = context_with(make_trace("", None, backend="pallas", code="pltpu.emit_pipeline(step)"))
    cold = count_options(STARTER["gelu"], EMPTY, "pipeline", 150, "pallas")["emit"]
    for context in (in_card, in_code):
        assert count_options(STARTER["gelu"], context, "pipeline", 150, "pallas")["emit"] > 2 * cold


def test_option_is_chosen_less_often_if_a_card_warns_of_it():
    warning = context_with(make_card("Layer norm", "E[x^2] - mean^2 cancels when the mean is large"))
    cold = count_options(STARTER["layernorm"], EMPTY, "algorithm", 150)["naive"]
    assert count_options(STARTER["layernorm"], warning, "algorithm", 150)["naive"] < 0.5 * cold


def test_option_is_chosen_more_often_if_a_card_names_it():
    counts = count_options(STARTER["softmax"], context_with(make_card("Online softmax", "Keep a running maximum.")), "algorithm", 200)
    assert counts["online"] > counts["passes"] * 1.1


def test_failed_option_is_avoided_in_another_family():
    failed = "scan order=rows algorithm=serial acc=float alias=restrict index=int64_t threads=none"
    warning = context_with(make_trace(failed, False, reason="compile_error", text="error: expected ',' before 'restrict'"))
    cold, warm = (count_options(STARTER["gelu"], context, "alias", 200) for context in (EMPTY, warning))
    assert warm["restrict"] < 0.7 * cold["restrict"]


def test_options_of_fast_kernels_are_preferred():
    line = "map simd={} math={} alias=none index=int64_t threads=none"
    items = context_with(
        make_trace(line.format("vec", "poly5"), True, speedup=3.0), make_trace(line.format("auto", "libm"), True, speedup=0.1)
    )
    cold, warm = (count_options(STARTER["gelu"], context, "math", 100) for context in (EMPTY, items))
    assert warm["poly5"] > 2 * cold["poly5"]
    assert warm["libm"] < cold["libm"]


def test_draft_prefers_decisions_of_a_correct_kernel_for_the_same_task():
    line = "map simd=omp math={} alias=none index=int64_t threads=none"
    here = make_trace(line.format("poly5"), True, STARTER["gelu"].id, speedup=2.0)
    other_task = make_trace(line.format("poly6"), True, speedup=9.0)
    replies = [UniformSearch(seed=seed).write(State(task=STARTER["gelu"]), context_with(other_task, here)) for seed in range(60)]
    reused = [reply.text for reply in replies if reply.text.startswith("reused from kernels shown (map): ")]
    assert len(reused) > 30
    assert all(line.format("poly5") in text for text in reused)
    state = State(task=STARTER["gelu"], attempts=(make_attempt(STARTER["gelu"], here.code, failed_outcome("mismatch")),))
    assert all(line.format("poly5") not in UniformSearch(seed=seed).write(state, context_with(here)).text for seed in range(20))


def test_stages_reuse_decisions_of_single_operator_kernels():
    """Evidence from single operators helps with sequences of them."""
    task = load_tasks("level2/linear_gelu_softmax")[0]
    softmax = make_trace(
        "row order=rows algorithm=online tile=64 divide=exact simd=omp acc=double alias=none index=int64_t threads=none math=poly6", True
    )
    counts = Counter()
    for seed in range(40):
        stages = read_decisions(UniformSearch(seed=seed).write(State(task=task), context_with(softmax)).candidate.code, CPP)
        counts.update(choice.get("algorithm") for family, choice in stages if family == "row")
    assert counts["online"] > 3 * counts["passes"]


def test_options_that_worked_elsewhere_get_less_blame():
    good = Evidence(stage_choice("map", tail="scalar", math="poly5"), True)
    bad = Evidence(stage_choice("map", tail="scalar", math="poly2"), False, "mismatch")
    model = OptionModel([good, bad], CPP)
    assert model.score_option("map", "math", "poly2") < -0.5 < model.score_option("map", "tail", "scalar")


def test_stages_of_a_kernel_share_the_blame():
    one = Evidence(stage_choice("map", math="poly2"), False, "mismatch")
    two = Evidence((*stage_choice("map", math="poly2"), *stage_choice("conv", border="assume")), False, "mismatch")
    assert OptionModel([one], CPP).score_option("map", "math", "poly2") < OptionModel([two], CPP).score_option("map", "math", "poly2") < 0


def test_failure_message_decides_between_suspects():
    bad = Evidence(stage_choice("map", tail="assume", math="poly4"), False, "mismatch", "only the last columns are wrong: ragged tail?")
    model = OptionModel([bad], CPP)
    assert model.score_option("map", "tail", "assume") < model.score_option("map", "math", "poly4") < 0


def test_unknown_failure_reason_blames_all_options_equally():
    model = OptionModel([Evidence(stage_choice("map", tail="assume", math="poly4"), False, "strange")], CPP)
    assert model.score_option("map", "tail", "assume") == model.score_option("map", "math", "poly4") < 0


def test_out_of_memory_makes_only_larger_blocks_suspect():
    model = OptionModel([Evidence(stage_choice("map", rows="512", strip="none"), False, "vmem")], PALLAS)
    assert model.score_option("map", "rows", "512") < model.score_option("map", "rows", "2048") < -0.2
    assert model.score_option("map", "rows", "256") == 0.0
    assert OptionModel([Evidence(stage_choice("map", rows="12"), False, "block_shape")], PALLAS).score_option("map", "rows", "2048") == 0.0


def test_failing_size_distinguishes_mask_from_precision():
    choice = stage_choice("matmul", precision="default", mask="none", algorithm="chunks")
    small = OptionModel([Evidence(choice, False, "mismatch", "output `out` at size small: wrong")], PALLAS)
    odd = OptionModel([Evidence(choice, False, "mismatch", "at a hidden size (odd dimensions): wrong")], PALLAS)
    assert small.score_option("matmul", "precision", "default") < small.score_option("matmul", "mask", "none")
    assert odd.score_option("matmul", "mask", "none") < odd.score_option("matmul", "precision", "default")


def test_failures_on_the_task_are_learned_and_not_repeated():
    task, attempts = STARTER["max_pool"], []
    for n in range(60):
        reply = UniformSearch(seed=1).write(State(task=task, attempts=tuple(attempts)), EMPTY)
        is_wrong = "alias=restrict" in reply.candidate.code
        attempts.append(
            make_attempt(task, reply.candidate.code, failed_outcome("compile_error", "no 'restrict'") if is_wrong else correct_outcome(), n)
        )
    codes = [a.candidate.code for a in attempts]
    assert len(set(codes)) == len(codes)
    assert sum("alias=restrict" in c for c in codes) < 8


def test_without_history_earlier_attempts_have_no_effect():
    """Pass@k: the sample depends on the number of the attempt, never on the outcomes of earlier ones."""
    task, independent = STARTER["gelu"], Context(stage=Stage.DRAFT, include_history=False)
    code = decision_header("map simd=auto unroll=1 math=libm alias=none index=int64_t threads=none")
    correct, wrong = make_attempt(task, code, correct_outcome()), make_attempt(task, code, failed_outcome("compile_error"))
    for seed in range(20):
        first, second = (UniformSearch(seed=seed).write(State(task=task, attempts=(one,)), independent) for one in (correct, wrong))
        assert first == second
        assert first.text.startswith("sampled without evidence: ")


def test_hidden_attempts_are_no_evidence():
    task = STARTER["gelu"]
    start = make_attempt(task, decision_header("map simd=auto unroll=1 math=libm alias=none index=int64_t threads=none"), correct_outcome())
    other = decision_header("map simd=vec lanes=8 unroll=2 tail=masked math=poly1 alias=restrict index=int64_t threads=none")
    hidden = [make_attempt(task, other, outcome, n=1) for outcome in (correct_outcome(), failed_outcome("compile_error"))]
    context = Context(stage=Stage.REFINE, start_point=start, hidden_attempts=(hidden[0].id,))
    for seed in range(10):
        first, second = (UniformSearch(seed=seed).write(State(task=task, attempts=(start, one)), context) for one in hidden)
        assert first == second, "the outcome of a hidden attempt has no effect"


def test_trace_and_its_note_are_one_observation():
    line = "kernel fuse=all | map simd=vec lanes=4 unroll=1 tail=steps math=poly2 alias=none index=int64_t threads=none"
    first = make_trace(line, False, reason="mismatch")
    note = first.model_copy(
        update={"id": "n", "kind": "experience", "code": "", "text": f"Tried: sampled without evidence: {line}\nFailed."}
    )
    state = State(task=STARTER["gelu"])
    assert len(gather_evidence(state, context_with(first, note), "cpp", CPP)) == 1
    assert gather_evidence(state, context_with(note), "cpp", CPP)[0].stages[1][1]["math"] == "poly2"


def test_kernels_of_other_backends_are_ignored():
    items = context_with(make_trace("map order=rows simd=vec lanes=4 alias=none", True, backend="cpp"))
    state = State(task=STARTER["gelu"])
    assert gather_evidence(state, items, "pallas", PALLAS) == []
    assert len(gather_evidence(state, items, "cpp", CPP)) == 1


def test_code_of_other_generators_is_read():
    code = "typedef float vec __attribute__((vector_size(16)));\n#pragma omp parallel for\nfloat* __restrict y = std::expf(x);"
    assert read_decisions(code, CPP) == (("", {"simd": "vec", "threads": "omp", "alias": "__restrict", "math": "libm"}),)
    many = context_with(*(make_trace("", True, task=f"other/{i}", speedup=4.0, code=code) for i in range(4)))
    assert count_options(STARTER["gelu"], many, "simd", 150)["vec"] > count_options(STARTER["gelu"], EMPTY, "simd", 150)["vec"] + 20
    other = "def kernel(x):\n    y = jnp.dot(a, b, precision=jax.lax.Precision.HIGHEST)\n    grid = pl.cdiv(m, 128)\n    vmem_limit_bytes=1"
    assert read_decisions(other, PALLAS) == (("", {"precision": "highest", "edge": "clip", "limit": "64"}),)


def test_refinement_changes_few_decisions_and_follows_the_bottleneck():
    task = STARTER["layernorm"]
    space = build_search_space(task, "cpp")
    line = next(
        t.line for t in (sample_decisions(space, seed) for seed in range(99)) if {"order=rows", "algorithm=passes"} <= set(t.line.split())
    )
    start = read_decisions(decision_header(line), CPP)[0][1]
    changes = {"memory": Counter(), "compute": Counter()}
    for bottleneck, counts in changes.items():
        first = make_attempt(task, decision_header(line), correct_outcome(bottleneck))
        for seed in range(120):
            reply = UniformSearch(seed=seed).write(State(task=task, attempts=(first,)), Context(stage=Stage.REFINE, start_point=first))
            choice = read_options(reply)
            assert choice != start
            if "explore" not in reply.candidate.notes:
                assert sum(choice.get(name, option) != option for name, option in start.items()) <= 6 < len(start)
                counts.update(name for name, option in start.items() if choice.get(name, option) != option)
    assert changes["memory"]["algorithm"] / changes["memory"]["acc"] > changes["compute"]["algorithm"] / changes["compute"]["acc"]


def test_refinement_of_another_generators_kernel_keeps_its_visible_options():
    task = STARTER["gelu"]
    first = make_attempt(task, "#pragma omp simd\nfor (;;) y = std::exp(x);", correct_outcome())
    context = Context(stage=Stage.REFINE, start_point=first)
    choice = [read_options(UniformSearch(seed=s).write(State(task=task, attempts=(first,)), context)) for s in range(40)]
    assert sum(t["simd"] == "omp" for t in choice) > 20


@pytest.mark.parametrize(
    ("bottleneck", "summary", "direction"),
    [("step_overhead", "64 steps: use larger blocks, so that fewer steps do more work each.", 1),
     ("dma_latency", "Waits: use more blocks, so that transfers overlap with work.", -1)],
)  # fmt: skip
def test_bottleneck_moves_block_size_in_its_direction(bottleneck, summary, direction):
    task = STARTER["softmax"]
    line = "row algorithm=whole pipeline=grid turn=no rows=64 strip=none divide=exact semantics=arbitrary limit=default"
    first = make_attempt(task, decision_header(line, "pallas"), correct_outcome(bottleneck, summary), backend="pallas")
    moves = Counter()
    for seed in range(120):
        reply = UniformSearch(backend="pallas", seed=seed).write(
            State(task=task, attempts=(first,)), Context(stage=Stage.REFINE, start_point=first)
        )
        choice = read_options(reply)
        if "explore" not in reply.candidate.notes and choice.get("turn") == "no" and int(choice["rows"]) != 64:
            moves[1 if int(choice["rows"]) > 64 else -1] += 1
    assert moves[direction] > 10
    assert moves[-direction] < 0.2 * moves[direction]


def test_alternative_options_follow_the_direction_if_possible():
    assert alternative_options(("8", "16", "32"), "16", "up") == ("32",)
    assert alternative_options(("8", "16", "32"), "16", "down") == ("8",)
    assert alternative_options(("8", "16", "32"), "32", "up") == ("8", "16")
    assert alternative_options(("8", "16", "32"), "16", "") == ("8", "32")


def test_reply_gives_its_reason_and_no_lesson():
    state = State(task=STARTER["cumsum"])
    reply = UniformSearch().write(state, EMPTY)
    assert reply.text.startswith("sampled without evidence: scan ")
    assert reply.candidate.code in reply.text
    assert UniformSearch().lesson(state, reply.candidate, correct_outcome()) is None


def test_unsupported_operator_is_named_in_the_notes():
    reply = UniformSearch().write(State(task=load_tasks("level1/sort")[0]), EMPTY)
    assert reply.candidate.files == {}
    assert reply.candidate.notes == "template_search has no template for sort(); a model can write this kernel: --generator llm"
    assert reply.candidate.is_unsupported


def test_low_temperature_sharpens_the_distribution():
    model = OptionModel([Evidence(stage_choice("map", math="poly5"), True, gain=1.0)], CPP)
    share = {}
    for temperature in (0.2, 5.0):
        search = DecisionSearch(build_search_space(STARTER["gelu"], "cpp"), model, Random(0), temperature)
        share[temperature] = sum(search.sample_option("map", "math", ("libm", "poly5", "poly2")) == "poly5" for _ in range(300))
    assert 300 > share[0.2] > share[5.0] + 50
