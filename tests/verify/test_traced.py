"""Backends whose candidates are traced: their code runs once, apart, and only the program goes on."""

import os
import signal
import sys

import pytest
from judge_parts import is_alive

from evokernel.core.records import Candidate, Job
from evokernel.verify import candidate_process, outcome_cache, verifier, verify

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")
HONEST = "def kernel(shape):\n    return 2\n"


@pytest.fixture
def opened(monkeypatch):
    """Without these layers of the jail a candidate can leave notes outside of its folder, and start processes."""
    monkeypatch.setenv("EVOKERNEL_WITHOUT", "landlock,seccomp")


@pytest.fixture
def traced(doubling, tmp_path):
    def verified(text, backend="traced_backend:Traced", timeout_s=20.0, again=False, **settings):
        candidate = Candidate(backend=backend, files={"kernel.py": text})
        given = {"where": str(tmp_path), **settings}
        return verify(Job(backend=backend, settings=given, task=doubling, candidate=candidate, timeout_s=timeout_s, ignore_cache=again))

    return verified


def test_an_honest_candidate_passes_and_its_estimate_is_labelled(traced):
    outcome = traced(HONEST)
    assert outcome.feasible, outcome.failure
    assert (outcome.clock, outcome.latency_us, outcome.baseline_name, outcome.speedup) == ("estimate (made up)", 5.0, "other", 2.0)
    assert outcome.profile.summary == "made up"


@pytest.mark.parametrize(
    ("text", "gate", "reason"),
    [
        ("def kernel(shape):\n    return 3\n", "check", "mismatch"),
        ("def kernel(shape):\n    return 2 if shape[0] > 100000 else 3\n", "check", "mismatch"),
        ("def kernel(shape):\n    raise KeyError('x')\n", "screen", "trace_error"),
        ("def kernel(shape):\n    return 'two'\n", "screen", "forbidden"),
        ("def kernel(shape):\n    return 1000\n", "build", "unsupported"),
        ("import os\nos._exit(0)\n", "screen", "exit"),
        ("import os\nos.abort()\n", "screen", "crash"),
        ("import time\ntime.sleep(60)\n", "screen", "timeout"),
        ("syntax error here\n", "screen", "trace_error"),
    ],
)
def test_each_failure_has_its_gate_and_reason(traced, text, gate, reason):
    outcome = traced(text, timeout_s=3.0)
    assert (outcome.failure.gate, outcome.failure.reason) == (gate, reason)
    assert not outcome.samples_us


def test_what_a_candidate_does_to_its_process_is_gone_with_it(traced):
    spoil = "STATE['spoiled'] = True\nbackend.us = 0.001\ntype(backend).inspect = lambda *a: None\n"
    assert traced(spoil + HONEST).latency_us == 5.0
    assert traced(HONEST).feasible


def test_a_copy_that_is_killed_from_outside_is_judged_again(traced, opened, tmp_path):
    once = "mark = where / 'mark'\nif not mark.exists():\n    mark.write_text('x')\n    os.kill(os.getpid(), 9)\n"
    assert traced(once + HONEST).feasible


def test_a_process_to_copy_that_died_is_replaced(traced):
    assert traced(HONEST).feasible
    copied = [zygote.process.pid for zygote in candidate_process.ZYGOTES.values() if zygote.process.poll() is None]
    for pid in copied:
        os.kill(pid, signal.SIGKILL)
    assert traced(HONEST).feasible
    assert not any(is_alive(pid) for pid in copied)


def test_no_copy_is_left_behind(traced, opened, tmp_path):
    traced("(where / 'pid').write_text(str(os.getpid()))\n" + HONEST)
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_what_a_candidate_started_is_gone_before_its_program_is_looked_at(traced, opened, tmp_path):
    """Else it could change the program between inspection, compilation and check."""
    leave = "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        (where / 'pid').write_text(str(os.getpid()))\n"
    leave += "        import time\n        time.sleep(60)\n    os._exit(0)\nos.wait()\nwhile not (where / 'pid').exists():\n    pass\n"
    assert traced(leave + HONEST).feasible
    assert not is_alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("text", "without", "reason"),
    [
        ("from evokernel.core.errors import InfraError\nraise InfraError('it was not me')\n", "", "killed"),
        ("os.kill(os.getppid(), 9)\nwhile True:\n    pass\n", "", "forbidden"),
        ("os.kill(os.getppid(), 9)\nwhile True:\n    pass\n", "landlock,seccomp", "killed"),
        ("os.mkdir('../inspect')\n", "", "trace_error"),
        ("os.mkdir('../inspect')\n", "landlock", "forbidden"),
    ],
    ids=["said", "parent", "parent, open", "folder", "folder, open"],
)
def test_a_candidate_cannot_blame_the_machine(traced, monkeypatch, text, without, reason):
    monkeypatch.setenv("EVOKERNEL_WITHOUT", without)
    outcome = traced(text + HONEST)
    assert (outcome.failure.gate, outcome.failure.reason) == ("screen", reason)


def test_a_repeatable_verdict_is_found_again(traced, opened, monkeypatch, tmp_path):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    counted = "with open(where / 'count', 'a') as file:\n    file.write('x')\n"
    first = traced(counted + HONEST, backend="traced_backend:Repeatable")
    again = traced(counted + HONEST, backend="traced_backend:Repeatable")
    assert first == again
    assert (tmp_path / "count").read_text() == "x"
    traced(counted + HONEST, backend="traced_backend:Repeatable", again=True)
    assert (tmp_path / "count").read_text() == "xx", "who wants it judged again gets no remembered verdict"
    (tmp_path / "count").write_text("x")
    traced(counted + HONEST, backend="traced_backend:Repeatable", us=6.0)
    assert (tmp_path / "count").read_text() == "xx"
    traced(counted + HONEST)
    assert (tmp_path / "count").read_text() == "xxx"


def test_a_verdict_of_the_moment_is_not_kept(traced, opened, monkeypatch, tmp_path):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    counted = "with open(where / 'count', 'a') as file:\n    file.write('x')\n"
    for _ in range(2):
        traced(counted + "import time\ntime.sleep(60)\n" + HONEST, backend="traced_backend:Repeatable", timeout_s=1.0)
    assert (tmp_path / "count").read_text() == "xx"


def test_a_verdict_without_a_baseline_is_not_kept(traced, monkeypatch, tmp_path):
    """It may have been too slow to find today."""
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    outcome = traced(HONEST, backend="traced_backend:Repeatable", baseline=False)
    assert (outcome.feasible, outcome.speedup) == (True, None)
    assert not list((tmp_path / "cache").rglob("*.json"))


def test_a_spoiled_store_is_no_error(traced, monkeypatch, tmp_path, doubling):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    traced(HONEST, backend="traced_backend:Repeatable")
    (kept,) = (tmp_path / "cache" / "verdicts").rglob("*.json")
    kept.write_text("{ half")
    assert traced(HONEST, backend="traced_backend:Repeatable").feasible


def test_other_code_of_the_judge_means_another_verdict(doubling):
    job = Job(backend="cpp", task=doubling, candidate=Candidate(backend="cpp", files={"kernel.cpp": ""}))
    backend = verifier.make_plugin("backend", "cpp")
    one, other = (outcome_cache.entry(job, backend, {"compiler": name}) for name in ("a", "b"))
    assert one != other
    assert outcome_cache.entry(job, backend, {"compiler": "a"}) == one
