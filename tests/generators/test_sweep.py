"""The sweep generator: what it decides, what it learns from its context, and that this is all its text depends on."""

import os
import subprocess
import sys
from collections import Counter
from random import Random

import pytest

from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Attempt, Candidate, Context, ContextItem, GateResult, MemoryItem, Outcome, Profile, Stage, State
from evokernel.generators.template_search import Sweep
from evokernel.generators.template_search.dialects import dialect_of, dialects
from evokernel.generators.template_search.evidence import Evidence, Words, decisions_in, gather
from evokernel.generators.template_search.operator import Taken, operator
from evokernel.generators.template_search.option_model import Belief
from evokernel.generators.template_search.search import Writer, onward
from evokernel.tasks.loader import load

EMPTY = Context(stage=Stage.DRAFT)
STARTER = {task.id.split("/")[1]: task for task in load("starter")}
CPP, PALLAS = dialect_of("cpp").hints, dialect_of("pallas").hints
MARK = {"cpp": "//", "pallas": "#"}


def code_of(line, backend="cpp"):
    return f"{MARK[backend]} decisions: {line}\n"


def attempt(task, code, outcome, n=0, backend="cpp"):
    return Attempt(
        id=f"{task.id}/{n}", run="r", task=task.id, round=n, stage=Stage.DRAFT, reward=0.0, outcome=outcome,
        candidate=Candidate(backend=backend, files={"kernel": code}),
    )  # fmt: skip


def passed(bottleneck="", summary=""):
    profile = Profile(bottleneck=bottleneck, summary=summary) if bottleneck else None
    return Outcome(gates=(GateResult(gate="build", passed=True),), samples_us=(10.0,), baseline_us={"eager": (20.0,)}, profile=profile)


def refused(reason, detail=""):
    return Outcome(gates=(GateResult(gate="check", passed=False, reason=reason, detail=detail),))


def trace(line, feasible, task="other/task", speedup=None, reason="", text="", backend="cpp", code=""):
    return MemoryItem(
        id=f"m{len(line)}{task}{speedup}", kind="trace", backend=backend, title="", text=text, code=code or code_of(line, backend),
        task=task, feasible=feasible, speedup=speedup, reason=reason,
    )  # fmt: skip


def card(title, text="", backend="cpp"):
    return MemoryItem(id=title, kind="practice", backend=backend, title=title, text=text)


def shown(*items):
    return Context(stage=Stage.DRAFT, items=tuple(ContextItem(role=item.kind, item=item) for item in items))


def taken_by(reply, hints=CPP):
    """All decisions of a kernel in one table; later stages win."""
    return {name: option for _, taken in decisions_in(reply.candidate.code, hints) for name, option in taken.items()}


def drafts(task, context, name, n=60, backend="cpp"):
    """How often each option of a decision is taken over many seeds."""
    return Counter(taken_by(Sweep(backend, seed=seed).write(State(task=task), context)).get(name) for seed in range(n))


def drawn(found, seed, belief=None):
    return Writer(found, belief or Belief([]), Random(seed), 1.0).complete(lambda part: {})


def part(sketch, **taken):
    return ((sketch, taken),)


def test_settings_are_checked():
    with pytest.raises(UserError, match="no sketches for backend 'ascend': use backend ascendc or cpp or pallas"):
        Sweep(backend="ascend")
    with pytest.raises(UserError, match="temperature"):
        Sweep(temperature=0)
    assert dialects() == ["ascendc", "cpp", "pallas"]


def test_equal_seed_state_and_context_give_the_equal_text():
    state = State(task=STARTER["matmul"])
    assert Sweep(seed=3).write(state, EMPTY) == make_plugin("generator", "template_search", seed=3).write(state, EMPTY)
    assert len({Sweep(seed=s).write(state, EMPTY).candidate.id for s in range(10)}) > 5


@pytest.mark.slow
def test_no_hash_of_python_decides():
    text = "from evokernel.generators.template_search import Sweep\nfrom evokernel.tasks.loader import load\nfrom evokernel.core.records import *\n"
    text += "task = load('starter/layernorm')[0]\n"
    text += "print([Sweep('pallas', seed=s).write(State(task=task), Context(stage=Stage.DRAFT)).candidate.id for s in range(8)])"
    runs = {
        subprocess.run([sys.executable, "-c", text], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


@pytest.mark.parametrize("backend", ["cpp", "pallas"])
@pytest.mark.parametrize("name", STARTER)
def test_every_drawn_combination_is_written_and_read_back(name, backend):
    found = operator(STARTER[name], backend)
    for seed in range(12):
        taken = drawn(found, seed)
        code = found.render(taken)
        if backend == "pallas":
            compile(code, "kernel.py", "exec")
        whole = (("kernel", dict(taken.whole)),) if taken.whole else ()
        assert decisions_in(code, CPP) == (*whole, *((sketch, dict(choice)) for sketch, choice in taken.stages))


@pytest.mark.parametrize("backend", ["cpp", "pallas"])
@pytest.mark.parametrize("name", STARTER)
def test_every_option_makes_a_difference_somewhere(name, backend):
    found = operator(STARTER[name], backend)
    whole = {"fuse": "all"} if "all" in found.plans else {}
    (part_of,) = found.parts(whole)[:1]
    writer = Writer(found, Belief([]), Random(0), 1.0)
    draws = [Writer(found, Belief([]), Random(seed), 1.0).answer(part_of, {}) for seed in range(120)]

    def text(choice):
        others = [(p.sketch, writer.answer(p, {})) for p in found.parts(whole)[1:]]
        return found.render(Taken(whole, ((part_of.sketch, choice), *others))).split("\n", 1)[1]

    inert = {pair for taken in draws for pair in taken.items()}
    for taken in draws:
        for decision in (d for d in part_of.decisions if d.name in taken and d.when(taken)):
            for option in [o for o in decision.options if o != taken[decision.name] and (decision.name, o) in inert]:
                if text(writer.answer(part_of, {**taken, decision.name: option})) != text(taken):
                    inert.discard((decision.name, option))
        if not inert:
            break
    assert not inert


@pytest.mark.parametrize("backend", ["cpp", "pallas"])
def test_nothing_is_preferred_before_anything_was_shown(backend):
    dialect = dialect_of(backend)
    belief = Belief([], dialect.hints)
    scores = {
        (d.name, o): belief.score(family, d.name, o)
        for family, sketch in dialect.sketches.items()
        for d in sketch.decisions
        for o in d.options
    }
    closed = {pair for pair in scores if pair in dialect.hints.needs}
    assert {score for pair, score in scores.items() if pair not in closed} == {0.0}
    assert all(scores[pair] < -1 for pair in closed)
    words = Words(cards=" ".join(name for names in dialect.hints.needs.values() for name in names))
    assert all(Belief([], dialect.hints, words).score("map", *pair) >= 0 for pair in closed if pair not in dialect.hints.forbidden)


def test_an_option_opens_when_its_api_is_shown_in_a_card_or_in_code():
    named = shown(card("Pipelines", "pltpu.emit_pipeline walks blocks", backend="pallas"))
    code = shown(trace("", None, backend="pallas", code="pltpu.emit_pipeline(step)"))
    cold = drafts(STARTER["gelu"], EMPTY, "pipeline", 150, "pallas")["emit"]
    for context in (named, code):
        assert drafts(STARTER["gelu"], context, "pipeline", 150, "pallas")["emit"] > 2 * cold


def test_a_warning_keeps_an_option_from_being_taken():
    warned = shown(card("Layer norm", "E[x^2] - mean^2 cancels when the mean is large"))
    cold = drafts(STARTER["layernorm"], EMPTY, "algorithm", 150)["naive"]
    assert drafts(STARTER["layernorm"], warned, "algorithm", 150)["naive"] < 0.5 * cold


def test_cards_raise_the_options_they_name():
    counts = drafts(STARTER["softmax"], shown(card("Online softmax", "Keep a running maximum.")), "algorithm", 200)
    assert counts["online"] > counts["passes"] * 1.1


def test_a_failed_option_is_avoided_in_another_family():
    failed = "scan order=rows algorithm=serial acc=float alias=restrict index=int64_t threads=none"
    warned = shown(trace(failed, False, reason="compile_error", text="error: expected ',' before 'restrict'"))
    cold, warm = (drafts(STARTER["gelu"], context, "alias", 200) for context in (EMPTY, warned))
    assert warm["restrict"] < 0.7 * cold["restrict"]


def test_what_worked_fast_is_taken_over():
    line = "map simd={} math={} alias=none index=int64_t threads=none"
    items = shown(trace(line.format("vec", "poly5"), True, speedup=3.0), trace(line.format("auto", "libm"), True, speedup=0.1))
    cold, warm = (drafts(STARTER["gelu"], context, "math", 100) for context in (EMPTY, items))
    assert warm["poly5"] > 2 * cold["poly5"]
    assert warm["libm"] < cold["libm"]


def test_a_draft_takes_over_a_kernel_that_worked_best_one_for_the_same_task():
    line = "map simd=omp math={} alias=none index=int64_t threads=none"
    here = trace(line.format("poly5"), True, STARTER["gelu"].id, speedup=2.0)
    elsewhere = trace(line.format("poly6"), True, speedup=9.0)
    replies = [Sweep(seed=seed).write(State(task=STARTER["gelu"]), shown(elsewhere, here)) for seed in range(60)]
    over = [reply.text for reply in replies if reply.text.startswith("taken over from kernels shown (map): ")]
    assert len(over) > 30
    assert all(line.format("poly5") in text for text in over)
    tried = State(task=STARTER["gelu"], attempts=(attempt(STARTER["gelu"], here.code, refused("mismatch")),))
    assert all(line.format("poly5") not in Sweep(seed=seed).write(tried, shown(here)).text for seed in range(20))


def test_stages_of_a_sequence_take_over_from_single_operators():
    """What was learned on single operators helps with sequences of them."""
    task = load("level2/linear_gelu_softmax")[0]
    softmax = trace(
        "row order=rows algorithm=online tile=64 divide=exact simd=omp acc=double alias=none index=int64_t threads=none math=poly6", True
    )
    counts = Counter()
    for seed in range(40):
        parts = decisions_in(Sweep(seed=seed).write(State(task=task), shown(softmax)).candidate.code, CPP)
        counts.update(taken.get("algorithm") for sketch, taken in parts if sketch == "row")
    assert counts["online"] > 3 * counts["passes"]


def test_blame_falls_on_what_did_not_work_elsewhere():
    good = Evidence(part("map", tail="scalar", math="poly5"), True)
    bad = Evidence(part("map", tail="scalar", math="poly2"), False, "mismatch")
    belief = Belief([good, bad], CPP)
    assert belief.score("map", "math", "poly2") < -0.5 < belief.score("map", "tail", "scalar")


def test_blame_is_shared_between_the_stages_of_a_kernel():
    one = Evidence(part("map", math="poly2"), False, "mismatch")
    two = Evidence((*part("map", math="poly2"), *part("conv", border="assume")), False, "mismatch")
    assert Belief([one], CPP).score("map", "math", "poly2") < Belief([two], CPP).score("map", "math", "poly2") < 0


def test_the_judges_hint_decides_between_suspects():
    bad = Evidence(part("map", tail="assume", math="poly4"), False, "mismatch", "only the last columns are wrong: ragged tail?")
    belief = Belief([bad], CPP)
    assert belief.score("map", "tail", "assume") < belief.score("map", "math", "poly4") < 0


def test_an_unknown_reason_blames_everything_a_little():
    belief = Belief([Evidence(part("map", tail="assume", math="poly4"), False, "strange")], CPP)
    assert belief.score("map", "tail", "assume") == belief.score("map", "math", "poly4") < 0


def test_too_much_memory_makes_larger_blocks_suspect_and_smaller_ones_not():
    belief = Belief([Evidence(part("map", rows="512", strip="none"), False, "vmem")], PALLAS)
    assert belief.score("map", "rows", "512") < belief.score("map", "rows", "2048") < -0.2
    assert belief.score("map", "rows", "256") == 0.0
    assert Belief([Evidence(part("map", rows="12"), False, "block_shape")], PALLAS).score("map", "rows", "2048") == 0.0


def test_the_size_that_failed_tells_masks_from_precision():
    taken = part("matmul", precision="default", mask="none", algorithm="chunks")
    small = Belief([Evidence(taken, False, "mismatch", "output `out` at size small: wrong")], PALLAS)
    odd = Belief([Evidence(taken, False, "mismatch", "at a size that is not shown (odd dimensions): wrong")], PALLAS)
    assert small.score("matmul", "precision", "default") < small.score("matmul", "mask", "none")
    assert odd.score("matmul", "mask", "none") < odd.score("matmul", "precision", "default")


def test_own_failures_teach_and_are_not_repeated():
    task, tried = STARTER["max_pool"], []
    for n in range(60):
        reply = Sweep(seed=1).write(State(task=task, attempts=tuple(tried)), EMPTY)
        careless = "alias=restrict" in reply.candidate.code
        tried.append(attempt(task, reply.candidate.code, refused("compile_error", "no 'restrict'") if careless else passed(), n))
    codes = [a.candidate.code for a in tried]
    assert len(set(codes)) == len(codes)
    assert sum("alias=restrict" in c for c in codes) < 8


def test_without_history_own_attempts_are_not_looked_at():
    """Pass@k: what is drawn depends on the number of the attempt, never on how the earlier ones went."""
    task, independent = STARTER["gelu"], Context(stage=Stage.DRAFT, history=False)
    code = code_of("map simd=auto unroll=1 math=libm alias=none index=int64_t threads=none")
    worked, failed = attempt(task, code, passed()), attempt(task, code, refused("compile_error"))
    for seed in range(20):
        first, second = (Sweep(seed=seed).write(State(task=task, attempts=(one,)), independent) for one in (worked, failed))
        assert first == second
        assert first.text.startswith("drawn afresh: ")


def test_a_trace_and_its_note_are_one_observation():
    line = "kernel fuse=all | map simd=vec lanes=4 unroll=1 tail=steps math=poly2 alias=none index=int64_t threads=none"
    first = trace(line, False, reason="mismatch")
    note = first.model_copy(update={"id": "n", "kind": "experience", "code": "", "text": f"Tried: drawn afresh: {line}\nFailed."})
    state = State(task=STARTER["gelu"])
    assert len(gather(state, shown(first, note), "cpp", CPP)) == 1
    assert gather(state, shown(note), "cpp", CPP)[0].parts[1][1]["math"] == "poly2"


def test_what_other_backends_kernels_decided_is_not_looked_at():
    items = shown(trace("map order=rows simd=vec lanes=4 alias=none", True, backend="cpp"))
    state = State(task=STARTER["gelu"])
    assert gather(state, items, "pallas", PALLAS) == []
    assert len(gather(state, items, "cpp", CPP)) == 1


def test_other_writers_code_is_read():
    code = "typedef float vec __attribute__((vector_size(16)));\n#pragma omp parallel for\nfloat* __restrict y = std::expf(x);"
    assert decisions_in(code, CPP) == (("", {"simd": "vec", "threads": "omp", "alias": "__restrict", "math": "libm"}),)
    many = shown(*(trace("", True, task=f"other/{i}", speedup=4.0, code=code) for i in range(4)))
    assert drafts(STARTER["gelu"], many, "simd", 150)["vec"] > drafts(STARTER["gelu"], EMPTY, "simd", 150)["vec"] + 20
    other = "def kernel(x):\n    y = jnp.dot(a, b, precision=jax.lax.Precision.HIGHEST)\n    grid = pl.cdiv(m, 128)\n    vmem_limit_bytes=1"
    assert decisions_in(other, PALLAS) == (("", {"precision": "highest", "edge": "clip", "limit": "64"}),)


def test_refining_changes_little_and_follows_the_bottleneck():
    task = STARTER["layernorm"]
    found = operator(task, "cpp")
    line = next(t.line for t in (drawn(found, seed) for seed in range(99)) if {"order=rows", "algorithm=passes"} <= set(t.line.split()))
    start = decisions_in(code_of(line), CPP)[0][1]
    changed = {"memory": Counter(), "compute": Counter()}
    for bottleneck, counts in changed.items():
        first = attempt(task, code_of(line), passed(bottleneck))
        for seed in range(120):
            reply = Sweep(seed=seed).write(State(task=task, attempts=(first,)), Context(stage=Stage.REFINE, start_point=first))
            taken = taken_by(reply)
            assert taken != start
            if "explore" not in reply.candidate.notes:
                assert sum(taken.get(name, option) != option for name, option in start.items()) <= 6 < len(start)
                counts.update(name for name, option in start.items() if taken.get(name, option) != option)
    assert changed["memory"]["algorithm"] / changed["memory"]["acc"] > changed["compute"]["algorithm"] / changed["compute"]["acc"]


def test_refining_another_writers_kernel_starts_from_what_it_reveals():
    task = STARTER["gelu"]
    first = attempt(task, "#pragma omp simd\nfor (;;) y = std::exp(x);", passed())
    context = Context(stage=Stage.REFINE, start_point=first)
    taken = [taken_by(Sweep(seed=s).write(State(task=task, attempts=(first,)), context)) for s in range(40)]
    assert sum(t["simd"] == "omp" for t in taken) > 20


@pytest.mark.parametrize(
    ("bottleneck", "summary", "direction"),
    [("step_overhead", "64 steps: use larger blocks, so that fewer steps do more work each.", 1),
     ("dma_latency", "Waits: use more blocks, so that transfers overlap with work.", -1)],
)  # fmt: skip
def test_a_diagnosis_moves_the_blocks(bottleneck, summary, direction):
    task = STARTER["softmax"]
    line = "row algorithm=whole pipeline=grid turn=no rows=64 strip=none divide=exact semantics=arbitrary limit=default"
    first = attempt(task, code_of(line, "pallas"), passed(bottleneck, summary), backend="pallas")
    moved = Counter()
    for seed in range(120):
        reply = Sweep(backend="pallas", seed=seed).write(
            State(task=task, attempts=(first,)), Context(stage=Stage.REFINE, start_point=first)
        )
        taken = taken_by(reply)
        if "explore" not in reply.candidate.notes and taken.get("turn") == "no" and int(taken["rows"]) != 64:
            moved[1 if int(taken["rows"]) > 64 else -1] += 1
    assert moved[direction] > 10
    assert moved[-direction] < 0.2 * moved[direction]


def test_directions_end_where_the_options_end():
    assert onward(("8", "16", "32"), "16", "up") == ("32",)
    assert onward(("8", "16", "32"), "16", "down") == ("8",)
    assert onward(("8", "16", "32"), "32", "up") == ("8", "16")
    assert onward(("8", "16", "32"), "16", "") == ("8", "32")


def test_the_reply_says_why_and_no_lesson_is_written():
    state = State(task=STARTER["cumsum"])
    reply = Sweep().write(state, EMPTY)
    assert reply.text.startswith("drawn afresh: scan ")
    assert reply.candidate.code in reply.text
    assert Sweep().lesson(state, reply.candidate, passed()) is None


def test_what_is_not_covered_is_said_in_one_line():
    reply = Sweep().write(State(task=load("level1/sort")[0]), EMPTY)
    assert reply.candidate.files == {}
    assert reply.candidate.notes == "sweep has no sketch for sort()"


def test_temperature_sharpens():
    belief = Belief([Evidence(part("map", math="poly5"), True, gain=1.0)], CPP)
    share = {}
    for temperature in (0.2, 5.0):
        writer = Writer(operator(STARTER["gelu"], "cpp"), belief, Random(0), temperature)
        share[temperature] = sum(writer.pick("map", "math", ("libm", "poly5", "poly2")) == "poly5" for _ in range(300))
    assert 300 > share[0.2] > share[5.0] + 50
