"""The sweep generator: what it understands, what it decides, what it learns from its context."""

from collections import Counter
from random import Random

import pytest

from evokernel.core.errors import UserError
from evokernel.core.plugins import make
from evokernel.core.records import Attempt, Candidate, Context, GateResult, MemoryItem, Outcome, Profile, Shown, Stage, State
from evokernel.generators.sweep import Sweep, Writer
from evokernel.generators.sweep.cpp import dialect
from evokernel.generators.sweep.cpp.decisions import SKETCHES
from evokernel.generators.sweep.decisions import open_decisions
from evokernel.generators.sweep.learn import Belief, Evidence, decisions_in, gather
from evokernel.generators.sweep.match import recognise
from evokernel.tasks.loader import load

EMPTY = Context(stage=Stage.DRAFT)
SKETCH_OF = {
    "argmax": "argreduce", "attention_head": "attention", "batched_matmul": "matmul", "conv2d": "conv", "cross_entropy": "crossentropy",
    "cumsum": "scan", "embedding": "gather", "gelu": "map", "layernorm": "row", "linear_gelu": "matmul", "matmul": "matmul",
    "max_pool": "pool", "rmsnorm": "row", "scale_shift": "map", "softmax": "row", "sum_rows": "reduce",
}  # fmt: skip


@pytest.fixture(scope="module")
def starter(tmp_path_factory):
    return {task.id.split("/")[1]: task for task in load("starter")}


def attempt(task, code, outcome, n=0):
    return Attempt(
        id=f"{task.id}/{n}", run="r", task=task.id, round=n, stage=Stage.DRAFT, reward=0.0, outcome=outcome,
        candidate=Candidate(backend="cpp", files={"kernel.cpp": code}),
    )  # fmt: skip


def passed(bottleneck=""):
    profile = Profile(bottleneck=bottleneck, summary="") if bottleneck else None
    return Outcome(gates=(GateResult(gate="build", passed=True),), samples_us=(10.0,), baseline_us={"eager": (20.0,)}, profile=profile)


def refused(reason, detail=""):
    return Outcome(gates=(GateResult(gate="check", passed=False, reason=reason, detail=detail),))


def trace(code, feasible, task="other/task", speedup=None, reason="", text=""):
    return MemoryItem(
        id=f"m{hash((code, task))}", kind="trace", backend="cpp", title="", text=text, code=code, task=task,
        feasible=feasible, speedup=speedup, reason=reason,
    )  # fmt: skip


def shown(*items):
    return Context(stage=Stage.DRAFT, items=tuple(Shown(role="trace", item=item) for item in items))


def drafts(task, context, n=60, name="alias"):
    """How often each option of a decision is taken over many seeds."""
    taken = (decisions_in(Sweep(seed=seed).write(State(task=task), context).candidate.code)[1] for seed in range(n))
    return Counter(t.get(name) for t in taken)


def test_every_starter_operator_has_a_sketch(starter):
    assert {name: recognise(task).sketch for name, task in starter.items()} == SKETCH_OF


def test_the_name_of_a_task_is_not_looked_at(starter):
    renamed = starter["softmax"].model_copy(update={"id": "x/matmul", "family": "convolution"})
    assert recognise(renamed).sketch == "row"


def test_equal_seed_state_and_context_give_the_equal_text(starter):
    state = State(task=starter["matmul"])
    assert Sweep(seed=3).write(state, EMPTY) == make("generator", "sweep", seed=3).write(state, EMPTY)
    assert len({Sweep(seed=s).write(state, EMPTY).candidate.id for s in range(10)}) > 5


def test_settings_are_checked():
    with pytest.raises(UserError, match="no sketches for backend 'ascend': use backend cpp"):
        Sweep(backend="ascend")
    with pytest.raises(UserError, match="temperature"):
        Sweep(temperature=0)


@pytest.mark.parametrize("name", SKETCH_OF)
def test_every_drawn_combination_is_written_and_read_back(starter, name):
    operator = dialect.operator(starter[name])
    for seed in range(15):
        taken = Writer(operator, Belief([]), Random(seed), 1.0).complete({})
        assert decisions_in(dialect.render(operator, taken)) == (operator.sketch, taken)


@pytest.mark.parametrize("name", SKETCH_OF)
def test_every_option_makes_a_difference_somewhere(starter, name):
    operator = dialect.operator(starter[name])
    draws = [Writer(operator, Belief([]), Random(seed), 1.0).complete({}) for seed in range(150)]
    inert = {pair for taken in draws for pair in taken.items()}
    for taken in draws:
        writer = Writer(operator, Belief([]), Random(0), 1.0)
        for decision in (d for d in open_decisions(operator) if d.name in taken and d.when(taken)):
            others = [o for o in decision.options if o != taken[decision.name]]
            for option in [o for o in others if (decision.name, o) in inert]:
                changed = writer.complete({**taken, decision.name: option})
                if dialect.render(operator, changed).split("\n", 1)[1] != dialect.render(operator, taken).split("\n", 1)[1]:
                    inert.discard((decision.name, option))
    assert not inert


def test_nothing_is_preferred_before_anything_was_shown(starter):
    belief = Belief([])
    assert {belief.score(d.name, o) for ds in SKETCHES.values() for d in ds for o in d.options} == {0.0}
    counts = drafts(starter["max_pool"], EMPTY, 300)
    assert max(counts.values()) < 2 * min(counts.values())


def test_a_failed_option_is_avoided_in_another_family(starter):
    failed = "// decisions: scan order=rows algorithm=serial acc=float alias=restrict index=int64_t threads=none\n"
    warned = shown(trace(failed, False, reason="compile_error", text="error: expected ',' before 'restrict'"))
    cold, warm = drafts(starter["gelu"], EMPTY, 200), drafts(starter["gelu"], warned, 200)
    assert warm["restrict"] < 0.7 * cold["restrict"]


def test_what_worked_fast_is_taken_over(starter):
    code = "// decisions: map simd={} math={} alias=none index=int64_t threads=none\n"
    items = shown(trace(code.format("vec", "poly5"), True, speedup=3.0), trace(code.format("auto", "libm"), True, speedup=0.1))
    cold, warm = drafts(starter["gelu"], EMPTY, 100, "math"), drafts(starter["gelu"], items, 100, "math")
    assert warm["poly5"] > 2 * cold["poly5"]
    assert warm["libm"] < cold["libm"]


def test_a_draft_takes_over_a_kernel_that_worked_best_one_for_the_same_task(starter):
    line = "map simd=omp math={} alias=none index=int64_t threads=none"
    here = trace(f"// decisions: {line.format('poly5')}\n", True, starter["gelu"].id, speedup=2.0)
    elsewhere = trace(f"// decisions: {line.format('poly6')}\n", True, speedup=9.0)
    broken = trace(f"// decisions: {line.format('poly2')}\n", False, starter["gelu"].id, reason="mismatch")
    replies = [Sweep(seed=seed).write(State(task=starter["gelu"]), shown(elsewhere, broken, here)) for seed in range(60)]
    over = [reply.text for reply in replies if reply.text.startswith("taken over from a kernel shown: ")]
    assert len(over) > 30
    assert all(line.format("poly5") in text for text in over)
    tried = State(task=starter["gelu"], attempts=(attempt(starter["gelu"], here.code, refused("mismatch")),))
    assert all(line.format("poly5") not in Sweep(seed=seed).write(tried, shown(here)).text for seed in range(20))


def test_blame_falls_on_what_did_not_work_elsewhere():
    good = Evidence({"tail": "scalar", "math": "poly5"}, 1.0, True)
    bad = Evidence({"tail": "scalar", "math": "poly2"}, 1.0, False, "mismatch")
    belief = Belief([good, bad], dialect.hints)
    assert belief.score("math", "poly2") < -0.5 < belief.score("tail", "scalar")


def test_the_judges_hint_decides_between_suspects():
    bad = Evidence({"tail": "assume", "math": "poly4"}, 1.0, False, "mismatch", "only the last columns are wrong: ragged tail?")
    belief = Belief([bad], dialect.hints)
    assert belief.score("tail", "assume") < belief.score("math", "poly4") < 0


def test_an_unknown_reason_blames_everything_a_little():
    belief = Belief([Evidence({"tail": "assume", "math": "poly4"}, 1.0, False, "strange")], dialect.hints)
    assert belief.score("tail", "assume") == belief.score("math", "poly4") < 0


def test_own_failures_teach_and_are_not_repeated(starter):
    task, tried = starter["max_pool"], []
    for n in range(60):
        reply = Sweep(seed=1).write(State(task=task, attempts=tuple(tried)), EMPTY)
        careless = "alias=restrict" in reply.candidate.code
        tried.append(attempt(task, reply.candidate.code, refused("compile_error", "no 'restrict'") if careless else passed(), n))
    codes = [a.candidate.code for a in tried]
    assert len(set(codes)) == len(codes)
    assert sum("alias=restrict" in c for c in codes) < 8 < 60 / 5


def test_without_history_own_attempts_are_not_looked_at(starter):
    """Pass@k: what is drawn depends on the number of the attempt, never on how the earlier ones went."""
    task, independent = starter["gelu"], Context(stage=Stage.DRAFT, history=False)
    code = "// decisions: map simd=auto unroll=1 math=libm alias=none index=int64_t threads=none\n"
    worked, failed = attempt(task, code, passed()), attempt(task, code, refused("compile_error"))
    for seed in range(20):
        drawn = [Sweep(seed=seed).write(State(task=task, attempts=(one,)), independent) for one in (worked, failed)]
        assert drawn[0] == drawn[1]
        assert drawn[0].text.startswith("drawn afresh: ")
    assert Sweep().write(State(task=task), independent) != drawn[0]


def test_a_trace_and_its_note_are_one_observation(starter):
    line = "map simd=vec lanes=4 unroll=1 tail=steps math=poly2 alias=none index=int64_t threads=none"
    first = trace(f"// decisions: {line}\n", False, reason="mismatch")
    note = first.model_copy(update={"id": "n", "kind": "experience", "code": "", "text": f"Tried: drawn afresh: {line}\nFailed."})
    state = State(task=starter["gelu"])
    assert len(gather("map", state, shown(first, note), "cpp", dialect.hints)) == 1
    assert gather("map", state, shown(note), "cpp", dialect.hints)[0].taken["math"] == "poly2"


def test_other_writers_code_is_read(starter):
    code = "typedef float vec __attribute__((vector_size(16)));\n#pragma omp parallel for\nfloat* __restrict y = std::expf(x);"
    assert decisions_in(code, dialect.hints) == ("", {"simd": "vec", "threads": "omp", "alias": "__restrict", "math": "libm"})
    many = shown(*(trace(code, True, task=f"other/{i}", speedup=4.0) for i in range(4)))
    assert drafts(starter["gelu"], many, 200, "simd")["vec"] > drafts(starter["gelu"], EMPTY, 200, "simd")["vec"] + 20


def test_cards_raise_the_options_they_name(starter):
    card = MemoryItem(id="c", kind="practice", backend="cpp", title="Online softmax", text="Keep a running maximum.")
    counts = drafts(starter["softmax"], shown(card), 300, "algorithm")
    assert counts["online"] > counts["passes"] * 1.1


def test_refining_changes_little_and_follows_the_bottleneck(starter):
    task = starter["layernorm"]
    code = "// decisions: row order=rows algorithm=passes simd=auto unroll=1 acc=double alias=none index=int64_t threads=none\n"
    start = decisions_in(code)[1]
    changed = {"memory": Counter(), "compute": Counter()}
    for bottleneck, counts in changed.items():
        first = attempt(task, code, passed(bottleneck))
        for seed in range(150):
            reply = Sweep(seed=seed).write(State(task=task, attempts=(first,)), Context(stage=Stage.REFINE, start=first))
            taken = decisions_in(reply.candidate.code)[1]
            assert taken != start
            if "explore" not in reply.candidate.notes:
                assert sum(taken.get(name, option) != option for name, option in start.items()) <= 3
                counts.update(name for name, option in start.items() if taken.get(name, option) != option)
    assert changed["memory"]["algorithm"] / changed["memory"]["acc"] > changed["compute"]["algorithm"] / changed["compute"]["acc"]


def test_refining_another_writers_kernel_starts_from_what_it_reveals(starter):
    task = starter["gelu"]
    first = attempt(task, "#pragma omp simd\nfor (;;) y = std::exp(x);", passed())
    context = Context(stage=Stage.REFINE, start=first)
    taken = [decisions_in(Sweep(seed=s).write(State(task=task, attempts=(first,)), context).candidate.code)[1] for s in range(40)]
    assert sum(t["simd"] == "omp" for t in taken) > 20


def test_the_reply_says_why_and_no_lesson_is_written(starter):
    state = State(task=starter["cumsum"])
    reply = Sweep().write(state, EMPTY)
    assert reply.text.startswith("drawn afresh: scan ")
    assert reply.candidate.code in reply.text
    assert Sweep().lesson(state, reply.candidate, passed()) is None


def test_temperature_sharpens(starter):
    operator = dialect.operator(starter["gelu"])
    belief = Belief([Evidence({"math": "poly5"}, 1.0, True, gain=1.0)], dialect.hints)
    share = {}
    for temperature in (0.2, 5.0):
        writer = Writer(operator, belief, Random(0), temperature)
        share[temperature] = sum(writer.pick("math", ("libm", "poly5", "poly2")) == "poly5" for _ in range(300))
    assert 300 > share[0.2] > share[5.0] + 50


def test_the_starter_suite_uses_every_sketch():
    assert set(SKETCHES) == set(SKETCH_OF.values())
