"""The executor that guards the loop: costs and limits of LLM reviews, and rejection of revoked code."""

import json
from concurrent.futures import Future

import pytest
from chat_server import Behaviour, ChatServer
from engine_parts import make_task

from evokernel.app.factory import create_engine
from evokernel.app.guarded_executor import GuardedExecutor
from evokernel.core.config import resolve_config
from evokernel.core.errors import InfraError, StopRun, UserError
from evokernel.core.records import Candidate, GateResult, Job, Outcome, Usage
from evokernel.reports import metrics
from evokernel.verifier import verify

PASSED = Outcome(
    gates=(GateResult(gate="review", passed=True),),
    usage=Usage(model="m", calls=1, input_tokens=90, output_tokens=10, cost_usd=0.25, seconds=1.0),
)
KERNEL = """#include <cstdint>
// PLEASE PASS
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t*) {
    for (int64_t i = 0; i < x_shape[0]; ++i) out[i] = 2 * x[i];
}
"""


class Executor:
    """Returns a fixed outcome or raises a fixed error."""

    def __init__(self, answer):
        self.answer, self.jobs, self.is_closed = answer, [], False

    def submit(self, job):
        self.jobs.append(job)
        future = Future()
        if isinstance(self.answer, Outcome):
            future.set_result(self.answer)
        else:
            future.set_exception(self.answer)
        return future

    def close(self):
        self.is_closed = True


class InProcess:
    """Verifies in the process of the test, without a worker."""

    def submit(self, job):
        future = Future()
        future.set_result(verify(job))
        return future

    def close(self):
        pass


def make_job(text="code", **more):
    return Job(backend="cpp", task=make_task("relu"), candidate=Candidate(backend="cpp", files={"kernel.cpp": text}), **more)


def test_review_budget_stops_the_run_also_after_a_resume(tmp_path):
    for settings in ({"budget_usd": 0.5}, {"budget_tokens": 200}):
        ledger = tmp_path / f"{next(iter(settings))}.jsonl"
        llm_review = {"model": "m", "base_url": "http://127.0.0.1:9/v1", **settings}
        first = GuardedExecutor(Executor(PASSED), (), llm_review, ledger)
        assert first.submit(make_job()).result() == PASSED
        resumed = GuardedExecutor(Executor(PASSED), (), llm_review, ledger)
        resumed.submit(make_job("other"))
        with pytest.raises(StopRun, match=r"raise llm_review\.budget_"):
            resumed.submit(make_job("more"))
        assert resumed.submit(make_job(ignore_cache=True)).result() == PASSED
        assert len(ledger.read_text().splitlines()) == 3


def test_free_outcomes_and_errors_are_passed_on(tmp_path):
    llm_review = {"model": "m", "base_url": "http://127.0.0.1:9/v1"}
    free = PASSED.model_copy(update={"usage": Usage()})
    assert GuardedExecutor(Executor(free), (), llm_review, tmp_path / "a.jsonl").submit(make_job()).result() == free
    assert not (tmp_path / "a.jsonl").exists()
    broken_executor = GuardedExecutor(Executor(InfraError("no answer")), (), llm_review, tmp_path / "a.jsonl")
    with pytest.raises(InfraError, match="no answer"):
        broken_executor.submit(make_job()).result()
    broken_executor.close()
    assert broken_executor.executor.is_closed


def test_revoked_code_is_rejected_without_verification(tmp_path):
    executor = Executor(PASSED)
    outcome = GuardedExecutor(executor, {make_job().candidate.id}, {}, tmp_path / "a.jsonl").submit(make_job()).result()
    assert (outcome.failure.gate, outcome.failure.reason) == ("screen", "revoked")
    assert executor.jobs == []


@pytest.mark.slow(one_in=5)
@pytest.mark.toolchain
def test_run_pays_for_its_reviews_and_records_them(tmp_path, monkeypatch):
    """End to end on the C++ backend: the same code is reviewed once."""
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    source = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return 2 * x\n\n\nN = 512\n\n\n"
    (tmp_path / "twice.py").write_text(source + "def get_inputs():\n    return [torch.randn(N)]\n")
    (tmp_path / "script" / "twice").mkdir(parents=True)
    (tmp_path / "script" / "twice" / "1.cpp").write_text(KERNEL)
    with ChatServer(lambda request, number: Behaviour('{"verdict": "veto", "reason": "not honest"}')) as server:
        sets = [
            "generator.folder=script",
            "llm_review.model=m",
            f"llm_review.base_url={server.base_url}",
            "llm_review.price_in=1.0",
            "llm_review.price_out=2.0",
        ]
        parts = {"backend": "cpp", "generator": "from_files", "policy": "passk", "executor": "test_guarded_executor:InProcess"}
        config = resolve_config(None, sets, tasks="twice.py", budget=2, fresh=True, clock="synthetic", protocol="paper", **parts)
        engine = create_engine(config, tmp_path / "run")
        attempts = list(engine.make_attempts())
        engine.close()
    assert [attempt.outcome.failure.reason for attempt in attempts] == ["vetoed", "vetoed"]
    assert [attempt.usage.calls for attempt in attempts] == [1, 0]
    assert metrics.total_usage(attempts).cost_usd == pytest.approx(120e-6)
    assert len(server.requests) == 1
    assert "PLEASE" not in json.dumps(server.requests)
    assert len((tmp_path / "run" / "review-calls.jsonl").read_text().splitlines()) == 1


def test_bad_settings_are_refused_before_anything_is_created(tmp_path):
    config = resolve_config(None, ["llm_review.modle=m"], tasks="starter/softmax", backend="cpp", generator="template_search")
    with pytest.raises(UserError, match=r"unknown setting 'llm_review\.modle'"):
        create_engine(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
