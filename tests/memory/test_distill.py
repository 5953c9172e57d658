"""Attempts become traces and notes."""

import pytest
from engine_parts import make_attempt, make_task

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, GateResult, Outcome, Profile, Stage
from evokernel.memory.bank import Bank
from evokernel.memory.distill import CHANGE_LINES, DETAIL_CHARS, QUARANTINED_REASONS, distill
from evokernel.verifier.reasons import REASONS

RELU = make_task("relu")


def make_failed_attempt(n, detail="line 3: expected ';'", **more):
    gates = (GateResult(gate="build", passed=False, reason="compile_error", detail=detail),)
    return make_attempt(n, "relu", feasible=False).model_copy(update={"outcome": Outcome(gates=gates), **more})


def make_timed_attempt(n, latency=10.0, code="", **more):
    outcome = Outcome(
        gates=(GateResult(gate="check", passed=True), GateResult(gate="time", passed=True)),
        samples_us=(latency,) * 4,
        baseline_us={"eager": (20.0,) * 4},
        profile=Profile(bottleneck="memory", summary="Reads the input twice."),
    )
    candidate = Candidate(backend="cpp", files={"kernel.cpp": code}) if code else make_attempt(n, "relu").candidate
    return make_attempt(n, "relu").model_copy(update={"outcome": outcome, "candidate": candidate, **more})


def test_correct_kernel_gives_a_trace_and_a_note():
    attempt = make_timed_attempt(2, stage=Stage.REFINE, start_point="t/relu/1")
    trace, note = distill(RELU, attempt)
    assert (trace.id, trace.kind) == ("r:t/relu/2", "trace") == (attempt.memory_id, "trace")
    assert (note.id, note.kind) == ("r:t/relu/2/note", "experience")
    assert trace.code == attempt.candidate.code
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


def test_estimated_latency_is_labelled():
    outcome = make_timed_attempt(0).outcome.model_copy(update={"clock": "estimate (schedule)", "baseline_us": {"xla": (15.0,)}})
    trace, note = distill(RELU, make_timed_attempt(0).model_copy(update={"outcome": outcome}))
    for text in (trace.title, trace.text, note.text):
        assert "10.0 us, estimate (schedule), 1.50x the speed of XLA" in text


def test_failure_keeps_the_verifier_feedback():
    trace, note = distill(RELU, make_failed_attempt(0))
    assert "compile_error at build" in trace.title
    assert "expected ';'" in trace.text
    assert "expected ';'" in note.text
    assert (trace.feasible, trace.reason, trace.latency_us, trace.speedup) == (False, "compile_error", None, None)
    assert trace.parent == ""


def test_attempt_without_code_gives_only_a_note():
    empty = Candidate(backend="cpp", files={}, notes="the reply contained no code")
    gates = (GateResult(gate="write", passed=False, reason="no_code", detail="the reply contained no code"),)
    (note,) = distill(RELU, make_attempt(0, "relu").model_copy(update={"candidate": empty, "outcome": Outcome(gates=gates)}))
    assert note.id == "r:t/relu/0/note"
    assert "no code" in note.text


def test_note_of_a_fix_shows_the_changed_lines():
    broken = make_failed_attempt(0, candidate=Candidate(backend="cpp", files={"kernel.cpp": "a\nfor (i < n + 1)\nb"}))
    fixed = make_timed_attempt(1, code="a\nfor (i < n)\nb")
    _, note = distill(RELU, fixed, [broken])
    assert "compile_error" in note.text
    assert "-for (i < n + 1)" in note.text
    assert "+for (i < n)" in note.text
    assert "\n a" not in note.text
    _, plain = distill(RELU, fixed)
    assert "Changed lines" not in plain.text


def test_note_of_a_refinement_compares_with_its_start_point():
    start = make_timed_attempt(0, latency=30.0, code="scalar")
    better = make_timed_attempt(2, latency=10.0, code="vector", stage=Stage.REFINE, start_point=start.id)
    _, note = distill(RELU, better, [start, make_failed_attempt(1)])
    assert "3.00x as fast" in note.text
    assert "-scalar\n+vector" in note.text


def test_note_contains_lesson_and_generator_notes():
    attempt = make_timed_attempt(0, lesson="Read each row once.")
    attempt = attempt.model_copy(update={"candidate": attempt.candidate.model_copy(update={"notes": "tiles of 8"})})
    _, note = distill(RELU, attempt)
    assert "Lesson: Read each row once." in note.text
    assert "Approach: tiles of 8" in note.text


def test_texts_are_truncated_and_code_is_complete():
    long = "\n".join(f"line {n}" for n in range(300))
    trace, note = distill(
        RELU,
        make_failed_attempt(1, detail="x" * 100_000, lesson="y" * 100_000, candidate=Candidate(backend="cpp", files={"kernel.cpp": long})),
    )
    assert trace.code == long
    assert len(trace.text) < DETAIL_CHARS + 100
    assert len(note.text) < 2 * DETAIL_CHARS + 1000
    _, fix = distill(RELU, make_timed_attempt(2, code="\n".join(f"other {n}" * 100 for n in range(300))), [make_failed_attempt(1)])
    assert len(fix.text.splitlines()) < CHANGE_LINES + 10
    assert len(fix.text) < 10_000


def test_the_same_attempt_gives_the_same_items():
    assert distill(RELU, make_timed_attempt(3)) == distill(RELU, make_timed_attempt(3))


def make_quarantined_attempt(n, reason, **more):
    gates = (GateResult(gate="screen", passed=False, reason=reason, detail="line 3 reaches for a library"),)
    candidate = Candidate(backend="cpp", files={"kernel.cpp": "the trick itself"}, notes="how the trick works")
    return make_attempt(n, "relu").model_copy(
        update={"outcome": Outcome(gates=gates), "candidate": candidate, "lesson": "do the trick", **more}
    )


@pytest.mark.parametrize("reason", sorted(QUARANTINED_REASONS))
def test_quarantined_attempt_gives_a_note_without_its_code(reason):
    assert reason in REASONS
    attempt = make_quarantined_attempt(0, reason)
    (note,) = distill(RELU, attempt)
    assert (note.kind, note.reason, note.code) == ("experience", reason, "")
    assert "line 3 reaches for a library" in note.text
    assert "trick" not in note.model_dump_json()
    assert note.candidate == attempt.candidate.id
    _, after = distill(RELU, make_timed_attempt(1, code="honest"), [attempt])
    assert reason in after.text
    assert "trick" not in after.text


def test_bank_hides_traces_with_quarantined_code(tmp_path):
    trace = distill(RELU, make_failed_attempt(0))[0].model_copy(update={"reason": "forbidden"})
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="r") as bank:
        bank.add([trace])
        assert bank.get([trace.id]) == []
        assert bank.search(RELU.source, 9) == []
    with Bank.open(tmp_path / "bank.db", make_plugin("embedder", "hash"), backend="cpp", run="s") as bank:
        assert bank.search(RELU.source, 9) == []
