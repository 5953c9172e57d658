"""What is remembered of an attempt."""

import pytest
from engine_parts import attempt, task

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, GateResult, Outcome, Profile, Stage
from evokernel.memory.bank import Bank
from evokernel.memory.distill import CHANGE_LINES, DETAIL, QUARANTINED, distill
from evokernel.verify.reasons import REASONS

RELU = task("relu")


def failed(n, detail="line 3: expected ';'", **more):
    gates = (GateResult(gate="build", passed=False, reason="compile_error", detail=detail),)
    return attempt(n, "relu", feasible=False).model_copy(update={"outcome": Outcome(gates=gates), **more})


def timed(n, latency=10.0, code="", **more):
    outcome = Outcome(
        gates=(GateResult(gate="check", passed=True), GateResult(gate="time", passed=True)),
        samples_us=(latency,) * 4,
        baseline_us={"eager": (20.0,) * 4},
        profile=Profile(bottleneck="memory", summary="Reads the input twice."),
    )
    written = Candidate(backend="cpp", files={"kernel.cpp": code}) if code else attempt(n, "relu").candidate
    return attempt(n, "relu").model_copy(update={"outcome": outcome, "candidate": written, **more})


def test_a_correct_kernel_leaves_a_trace_and_a_note():
    made = timed(2, stage=Stage.REFINE, start="t/relu/1")
    trace, note = distill(RELU, made)
    assert (trace.id, trace.kind) == ("r:t/relu/2", "trace") == (made.memory_id, "trace")
    assert (note.id, note.kind) == ("r:t/relu/2/note", "experience")
    assert trace.code == made.candidate.code
    assert note.code == ""
    for item in (trace, note):
        assert item.key == RELU.source
        assert (item.task, item.family, item.backend) == (RELU.id, RELU.family, "cpp")
        assert (item.feasible, item.latency_us, item.speedup, item.bottleneck) == (True, 10.0, 2.0, "memory")
        assert item.parent == "r:t/relu/1"
        assert item.source == "r/t/relu/2"
    assert "10.0 us" in trace.title
    assert "2.00x the speed of PyTorch eager" in trace.title
    assert "Reads the input twice" in trace.text


def test_an_estimate_is_remembered_as_one():
    outcome = timed(0).outcome.model_copy(update={"clock": "estimate (schedule)", "baseline_us": {"xla": (15.0,)}})
    trace, note = distill(RELU, timed(0).model_copy(update={"outcome": outcome}))
    for text in (trace.title, trace.text, note.text):
        assert "10.0 us, estimate (schedule), 1.50x the speed of XLA" in text


def test_a_failure_keeps_the_verifiers_words():
    trace, note = distill(RELU, failed(0))
    assert "compile_error at build" in trace.title
    assert "expected ';'" in trace.text
    assert "expected ';'" in note.text
    assert (trace.feasible, trace.reason, trace.latency_us, trace.speedup) == (False, "compile_error", None, None)
    assert trace.parent == ""


def test_no_code_leaves_only_the_note():
    empty = Candidate(backend="cpp", files={}, notes="the reply held no code")
    gates = (GateResult(gate="write", passed=False, reason="no_code", detail="the reply held no code"),)
    (note,) = distill(RELU, attempt(0, "relu").model_copy(update={"candidate": empty, "outcome": Outcome(gates=gates)}))
    assert note.id == "r:t/relu/0/note"
    assert "no code" in note.text


def test_a_fix_is_told_by_what_changed():
    broken = failed(0, candidate=Candidate(backend="cpp", files={"kernel.cpp": "a\nfor (i < n + 1)\nb"}))
    fixed = timed(1, code="a\nfor (i < n)\nb")
    _, note = distill(RELU, fixed, [broken])
    assert "compile_error" in note.text
    assert "-for (i < n + 1)" in note.text
    assert "+for (i < n)" in note.text
    assert "\n a" not in note.text
    _, plain = distill(RELU, fixed)
    assert "What changed" not in plain.text


def test_a_refinement_is_told_against_its_start():
    start = timed(0, latency=30.0, code="scalar")
    better = timed(2, latency=10.0, code="vector", stage=Stage.REFINE, start=start.id)
    _, note = distill(RELU, better, [start, failed(1)])
    assert "3.00x as fast" in note.text
    assert "-scalar\n+vector" in note.text


def test_lessons_and_notes_of_the_writer_are_kept():
    made = timed(0, lesson="Read each row once.")
    made = made.model_copy(update={"candidate": made.candidate.model_copy(update={"notes": "tiles of 8"})})
    _, note = distill(RELU, made)
    assert "Lesson: Read each row once." in note.text
    assert "Tried: tiles of 8" in note.text


def test_texts_stay_bounded_but_code_is_whole():
    long = "\n".join(f"line {n}" for n in range(300))
    trace, note = distill(
        RELU, failed(1, detail="x" * 100_000, lesson="y" * 100_000, candidate=Candidate(backend="cpp", files={"kernel.cpp": long}))
    )
    assert trace.code == long
    assert len(trace.text) < DETAIL + 100
    assert len(note.text) < 2 * DETAIL + 1000
    _, fix = distill(RELU, timed(2, code="\n".join(f"other {n}" * 100 for n in range(300))), [failed(1)])
    assert len(fix.text.splitlines()) < CHANGE_LINES + 10
    assert len(fix.text) < 10_000


def test_the_same_attempt_gives_the_same_items():
    assert distill(RELU, timed(3)) == distill(RELU, timed(3))


def refused(n, reason, **more):
    gates = (GateResult(gate="screen", passed=False, reason=reason, detail="line 3 reaches for a library"),)
    written = Candidate(backend="cpp", files={"kernel.cpp": "the trick itself"}, notes="how the trick works")
    return attempt(n, "relu").model_copy(update={"outcome": Outcome(gates=gates), "candidate": written, "lesson": "do the trick", **more})


@pytest.mark.parametrize("reason", sorted(QUARANTINED))
def test_what_tried_to_get_around_the_work_is_remembered_without_its_code(reason):
    assert reason in REASONS
    made = refused(0, reason)
    (note,) = distill(RELU, made)
    assert (note.kind, note.reason, note.code) == ("experience", reason, "")
    assert "line 3 reaches for a library" in note.text
    assert "trick" not in note.model_dump_json()
    assert note.candidate == made.candidate.id
    _, after = distill(RELU, timed(1, code="honest"), [made])
    assert reason in after.text
    assert "trick" not in after.text


def test_a_trace_with_such_code_is_not_shown_wherever_it_comes_from(tmp_path):
    trace = distill(RELU, failed(0))[0].model_copy(update={"reason": "forbidden"})
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        bank.add([trace])
        assert bank.get([trace.id]) == []
        assert bank.search(RELU.source, 9) == []
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="s") as bank:
        assert bank.search(RELU.source, 9) == []
