"""Traced candidates: their code runs once in a separate process, and only the traced program is used afterwards."""

import os
import signal
import sys

import pytest
from time_limits import HANG_S
from verifier_helpers import is_alive

from evokernel.core.records import Candidate, Job
from evokernel.verifier import candidate_process, outcome_cache, verifier, verify

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="zygotes exist on Linux only")
HONEST = "def kernel(shape):\n    return 2\n"


@pytest.fixture
def open_sandbox(monkeypatch):
    """Without these sandbox layers a candidate can write outside its folder and start processes."""
    monkeypatch.setenv("EVOKERNEL_SANDBOX_DISABLE", "landlock,seccomp")


@pytest.fixture
def verify_traced(doubling, tmp_path):
    def verify_text(text, backend="traced_backend:Traced", timeout_s=HANG_S, again=False, **settings):
        candidate = Candidate(backend=backend, files={"kernel.py": text})
        all_settings = {"where": str(tmp_path), **settings}
        return verify(
            Job(backend=backend, settings=all_settings, task=doubling, candidate=candidate, timeout_s=timeout_s, ignore_cache=again)
        )

    return verify_text


def test_honest_candidate_passes_with_a_labelled_estimate(verify_traced):
    outcome = verify_traced(HONEST)
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
        ("while True:\n    pass\n", "screen", "timeout"),
        ("syntax error here\n", "screen", "trace_error"),
    ],
)
def test_failure_has_its_gate_and_reason(verify_traced, text, gate, reason):
    outcome = verify_traced(text, timeout_s=3.0 if reason == "timeout" else HANG_S)
    assert (outcome.failure.gate, outcome.failure.reason) == (gate, reason)
    assert not outcome.samples_us


def test_changes_to_a_process_do_not_outlive_it(verify_traced):
    spoil = "STATE['spoiled'] = True\nbackend.us = 0.001\ntype(backend).inspect = lambda *a: None\n"
    assert verify_traced(spoil + HONEST).latency_us == 5.0
    assert verify_traced(HONEST).feasible


def test_fork_killed_from_outside_is_retried(verify_traced, open_sandbox, tmp_path):
    once = "mark = where / 'mark'\nif not mark.exists():\n    mark.write_text('x')\n    os.kill(os.getpid(), 9)\n"
    assert verify_traced(once + HONEST).feasible


def test_dead_zygote_is_replaced(verify_traced):
    assert verify_traced(HONEST).feasible
    zygote_pids = [zygote.process.pid for zygote in candidate_process.ZYGOTES.values() if zygote.process.poll() is None]
    for pid in zygote_pids:
        os.kill(pid, signal.SIGKILL)
    assert verify_traced(HONEST).feasible
    assert not any(is_alive(pid) for pid in zygote_pids)


def test_no_fork_is_left_behind(verify_traced, open_sandbox, tmp_path):
    verify_traced("(where / 'pid').write_text(str(os.getpid()))\n" + HONEST)
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_processes_of_a_candidate_end_before_its_program_is_inspected(verify_traced, open_sandbox, tmp_path):
    """Otherwise they could change the program between inspection, compilation and check."""
    daemon_code = "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        (where / 'pid').write_text(str(os.getpid()))\n"
    daemon_code += (
        "        import time\n        time.sleep(60)\n    os._exit(0)\nos.wait()\nwhile not (where / 'pid').exists():\n    pass\n"
    )
    assert verify_traced(daemon_code + HONEST).feasible
    assert not is_alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("text", "disabled_layers", "reason"),
    [
        ("from evokernel.core.errors import InfraError\nraise InfraError('it was not me')\n", "", "killed"),
        ("os.kill(os.getppid(), 9)\nwhile True:\n    pass\n", "", "forbidden"),
        ("os.kill(os.getppid(), 9)\nwhile True:\n    pass\n", "landlock,seccomp", "killed"),
        ("os.mkdir('../inspect')\n", "", "trace_error"),
        ("os.mkdir('../inspect')\n", "landlock", "forbidden"),
    ],
    ids=["raised", "parent", "parent, open", "folder", "folder, open"],
)
def test_candidate_cannot_blame_the_machine(verify_traced, monkeypatch, text, disabled_layers, reason):
    monkeypatch.setenv("EVOKERNEL_SANDBOX_DISABLE", disabled_layers)
    outcome = verify_traced(text + HONEST)
    assert (outcome.failure.gate, outcome.failure.reason) == ("screen", reason)


def test_repeatable_outcome_is_cached(verify_traced, open_sandbox, monkeypatch, tmp_path):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    counting_code = "with open(where / 'count', 'a') as file:\n    file.write('x')\n"
    first = verify_traced(counting_code + HONEST, backend="traced_backend:Repeatable")
    second_outcome = verify_traced(counting_code + HONEST, backend="traced_backend:Repeatable")
    assert first == second_outcome
    assert (tmp_path / "count").read_text() == "x"
    verify_traced(counting_code + HONEST, backend="traced_backend:Repeatable", again=True)
    assert (tmp_path / "count").read_text() == "xx", "ignore_cache verifies again"
    (tmp_path / "count").write_text("x")
    verify_traced(counting_code + HONEST, backend="traced_backend:Repeatable", us=6.0)
    assert (tmp_path / "count").read_text() == "xx"
    verify_traced(counting_code + HONEST)
    assert (tmp_path / "count").read_text() == "xxx"


def test_transient_failure_is_not_cached(verify_traced, open_sandbox, monkeypatch, tmp_path):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    counting_code = "with open(where / 'count', 'a') as file:\n    file.write('x')\n"
    for _ in range(2):
        outcome = verify_traced(counting_code + "import os\nos._exit(0)\n" + HONEST, backend="traced_backend:Repeatable")
        assert outcome.failure.reason == "exit"
    assert (tmp_path / "count").read_text() == "xx"


def test_outcome_without_a_baseline_is_not_cached(verify_traced, monkeypatch, tmp_path):
    """The baseline may only have been too slow this time."""
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    outcome = verify_traced(HONEST, backend="traced_backend:Repeatable", baseline=False)
    assert (outcome.feasible, outcome.speedup) == (True, None)
    assert not list((tmp_path / "cache").rglob("*.json"))


def test_damaged_cache_entry_is_ignored(verify_traced, monkeypatch, tmp_path, doubling):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    verify_traced(HONEST, backend="traced_backend:Repeatable")
    (cache_entry,) = (tmp_path / "cache" / "outcomes").rglob("*.json")
    cache_entry.write_text("{ half")
    assert verify_traced(HONEST, backend="traced_backend:Repeatable").feasible


def test_cache_path_depends_on_the_toolchain(doubling):
    job = Job(backend="cpp", task=doubling, candidate=Candidate(backend="cpp", files={"kernel.cpp": ""}))
    backend = verifier.make_plugin("backend", "cpp")
    one, other = (outcome_cache.cache_path(job, backend, {"compiler": name}) for name in ("a", "b"))
    assert one != other
    assert outcome_cache.cache_path(job, backend, {"compiler": "a"}) == one
