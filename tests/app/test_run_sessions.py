"""How the sessions of a run ended is kept beside the run: finished, interrupted, stopped, failed, killed."""

import os
import signal

import pytest
from engine_parts import ArithmeticExecutor, EchoGenerator, make_engine

from evokernel.app.run_lifecycle import SessionRecorder, run_to_completion
from evokernel.core.errors import InfraError, StopRun, UserError
from evokernel.core.sessions import SESSIONS_FILE, SessionEnd, has_writer, read_incidents, read_sessions, record_session_start
from evokernel.engine.final_eval import INTERRUPTED
from evokernel.reports import metrics
from evokernel.reports.run_list import run_row
from evokernel.reports.run_state import group_incidents, run_state

REFUSAL = "http://model/v1 refused the request (HTTP 401: invalid key); check the key in EVOKERNEL_API_KEY"


class RaisingGenerator(EchoGenerator):
    """A generator whose service answers with an error."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def write(self, state, context):
        raise self.error


class LostExecutor(ArithmeticExecutor):
    """Executor whose device is lost."""

    def verify(self, job):
        raise InfraError("device lost.")


def state_of(run):
    return run_state(run, metrics.collect_results(run, run.attempts()))


def test_finished_run_has_one_finished_session(tmp_path):
    engine = make_engine(tmp_path / "run")
    assert state_of(engine.run).name == "running"
    list(run_to_completion(engine))
    (session,) = read_sessions(tmp_path / "run")
    assert session.end is SessionEnd.FINISHED
    assert session.ended_at >= session.started_at
    assert state_of(engine.run).label == "finished"


def test_refused_request_is_kept_in_its_own_words(tmp_path):
    engine = make_engine(tmp_path / "run", generator=RaisingGenerator(UserError(REFUSAL)))
    with pytest.raises(UserError):
        list(run_to_completion(engine))
    state = state_of(engine.run)
    assert (state.name, state.explanation) == ("failed", REFUSAL)
    assert run_row(tmp_path / "run")["reason"] == REFUSAL


def test_lost_device_is_kept_with_its_incidents(tmp_path):
    engine = make_engine(tmp_path / "run", executor=LostExecutor())
    with pytest.raises(InfraError):
        list(run_to_completion(engine))
    state = state_of(engine.run)
    assert state.name == "failed"
    assert "Once fixed" not in state.explanation
    (group,) = group_incidents(read_incidents(tmp_path / "run"))
    assert (group.message, group.occurrences) == ("device lost.", len(engine.run.tasks))
    assert set(group.tasks) == {task.id for task in engine.run.tasks}


def test_limit_and_interrupt_are_told_apart(tmp_path):
    stopped = make_engine(tmp_path / "stopped", generator=RaisingGenerator(StopRun("the budget is spent: $1.00 of $1.00")))
    list(run_to_completion(stopped))
    assert state_of(stopped.run)[:3] == ("stopped", "stopped", "the budget is spent: $1.00 of $1.00")
    interrupted = make_engine(tmp_path / "interrupted")
    records = run_to_completion(interrupted)
    next(records)
    interrupted.stop_reason = INTERRUPTED
    interrupted.stop.set()
    list(records)
    assert state_of(interrupted.run).name == "interrupted"


def test_bug_is_recorded_with_its_type(tmp_path):
    engine = make_engine(tmp_path / "run", generator=RaisingGenerator(ZeroDivisionError("by zero")))
    with pytest.raises(ZeroDivisionError):
        list(run_to_completion(engine))
    assert state_of(engine.run).explanation == "ZeroDivisionError: by zero"


@pytest.mark.toolchain
def test_killed_process_leaves_a_session_without_an_end(tmp_path):
    engine = make_engine(tmp_path / "run")
    engine.clock = lambda: 5.0
    engine.run.unlock()
    child = os.fork()
    if child == 0:
        engine.run.lock()
        with SessionRecorder(engine):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    state = state_of(engine.run)
    assert state.name == "killed"
    assert "without recording why" in state.explanation
    assert state.since == 5.0


def test_run_with_a_writer_is_running(tmp_path):
    engine = make_engine(tmp_path / "run")
    record_session_start(tmp_path / "run", 1.0)
    assert has_writer(tmp_path / "run")
    assert state_of(engine.run).name == "running"
    engine.run.unlock()
    assert state_of(engine.run).name == "killed"


def test_torn_and_foreign_lines_are_skipped(tmp_path):
    (tmp_path / SESSIONS_FILE).write_text('{"event": "end", "end": "failed", "at": 1}\n[1]\nnot json\n{"event": "start", "at": 2}\n{"ev')
    assert [session.started_at for session in read_sessions(tmp_path)] == [2.0]
    record_session_start(tmp_path, 3.0)
    assert [session.started_at for session in read_sessions(tmp_path)] == [2.0, 3.0]


def test_run_without_a_correct_kernel_is_not_called_finished(tmp_path):
    class WrongExecutor(ArithmeticExecutor):
        def verify(self, job):
            outcome = super().verify(job)
            return outcome.model_copy(update={"gates": (outcome.gates[0].model_copy(update={"passed": False, "reason": "compile_error"}),)})

    engine = make_engine(tmp_path / "run", executor=WrongExecutor())
    list(run_to_completion(engine))
    assert state_of(engine.run)[:2] == ("unsolved", "nothing correct")
