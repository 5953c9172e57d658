"""Several drafts per attempt: what is stored, chosen, paid for and recorded, and that a resumed run equals a straight one."""

from concurrent.futures import Future

import pytest
from engine_parts import ArithmeticExecutor, EchoGenerator, make_attempt, make_engine, make_task

from evokernel.app.factory import check_drafts
from evokernel.core.config import RunConfig
from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Context, GateResult, Outcome, Reply, Stage, Usage
from evokernel.core.run import Run
from evokernel.core.state import State
from evokernel.engine.drafts import RankedDraft, choose_draft, estimate_drafts, expected_result
from evokernel.engine.jobs import attempt_job
from evokernel.engine.surrogate import NO_FORECAST, Forecast
from evokernel.generators.replay import Replay


class DraftGenerator(EchoGenerator):
    """Writes another text for each draft; fails once at the keys in `failing`."""

    def __init__(self, failing=()) -> None:
        super().__init__()
        self.failing, self.keys = set(failing), []

    def write(self, state, context):
        key = state.next_id + context.draft_suffix
        if key in self.failing:
            self.failing.discard(key)
            raise InfraError("service down")
        self.keys.append(key)
        reply = super().write(state, context)
        text = f"{reply.candidate.code} option_{len(context.drafts)} {'fast ' * len(context.drafts)}"
        assert text not in {draft.code for draft in context.drafts}
        return reply.model_copy(update={"candidate": reply.candidate.model_copy(update={"files": {"kernel.cpp": text}})})


def run_drafts(folder, drafts=3, stop_after=None, generator=None, executor=None, schedule="rounds", budget=4):
    engine = make_engine(folder, budget=budget, generator=generator or DraftGenerator(), executor=executor)
    engine.run.save_config(engine.run.config.model_copy(update={"drafts_per_attempt": drafts, "schedule": schedule}))
    attempts = []
    try:
        for attempt in engine.make_attempts():
            attempts.append(attempt)
            if len(attempts) == stop_after:
                break
    finally:
        engine.close()
    return attempts


def test_one_draft_per_attempt_records_no_drafts_and_stores_none(tmp_path):
    generator = DraftGenerator()
    attempts = run_drafts(tmp_path, drafts=1, generator=generator)
    assert [attempt.drafts for attempt in attempts] == [()] * 20
    assert not list(tmp_path.glob("artifacts/**/draft-*"))
    assert len(generator.keys) == 20


def test_every_draft_is_stored_paid_for_and_recorded_with_its_forecast(tmp_path):
    generator = DraftGenerator()
    attempts = run_drafts(tmp_path, generator=generator)
    assert len(generator.keys) == 60
    run = Run.open(tmp_path)
    for attempt in attempts:
        replies = [run.load_reply(attempt.id, f"draft-{number}") for number in (1, 2, 3)]
        assert [draft.candidate for draft in attempt.drafts] == [reply.candidate.id for reply in replies]
        (chosen,) = [draft for draft in attempt.drafts if draft.is_chosen]
        assert chosen.candidate == attempt.candidate.id
        assert (attempt.usage.calls, attempt.usage.input_tokens) == (3, 3)
    assert all(attempt.drafts[0].is_chosen for attempt in attempts[:5]), "without a forecast, the first draft"
    assert all(attempt.drafts[0].p_correct is None for attempt in attempts[:5])
    assert all(draft.p_correct for attempt in attempts[10:] for draft in attempt.drafts)
    assert all(draft.latency_us for attempt in attempts[15:] for draft in attempt.drafts)
    assert any(not attempt.drafts[0].is_chosen for attempt in attempts)


@pytest.mark.parametrize("stop_after", [3, 9, 14])
def test_resumed_run_equals_straight_run(tmp_path, stop_after):
    straight = run_drafts(tmp_path / "straight")
    run_drafts(tmp_path / "cut", stop_after=stop_after)
    assert run_drafts(tmp_path / "cut") == straight


def test_no_draft_is_paid_for_twice_after_a_failure_between_drafts(tmp_path):
    straight = run_drafts(tmp_path / "straight", budget=3)
    keys = [f"{attempt.id}/draft-3" for attempt in straight[10:]]
    generator = DraftGenerator(failing=keys)
    with pytest.raises(InfraError):  # the last round produced nothing
        run_drafts(tmp_path / "cut", generator=generator, budget=3)
    assert run_drafts(tmp_path / "cut", generator=generator, budget=3) == straight
    assert sorted(generator.keys) == sorted(key for a in straight for key in (a.id, f"{a.id}/draft-2", f"{a.id}/draft-3"))


def test_replayed_run_equals_the_recorded_one(tmp_path):
    recorded = run_drafts(tmp_path / "recorded")
    replay = Replay("cpp", journal=str(tmp_path / "recorded"))
    replayed = run_drafts(tmp_path / "replayed", generator=replay)
    without_cost = {"usage": Usage()}
    assert [a.model_copy(update=without_cost).model_dump(exclude={"candidate": {"usage"}}) for a in replayed] == [
        a.model_copy(update=without_cost).model_dump(exclude={"candidate": {"usage"}}) for a in recorded
    ]


def test_streaming_run_forecasts_too(tmp_path):
    attempts = run_drafts(tmp_path, schedule="streaming")
    assert len(attempts) == 20
    assert attempts[-1].drafts[0].p_correct is not None
    assert run_drafts(tmp_path, schedule="streaming") == attempts


def make_draft(text: str, forecast: Forecast = NO_FORECAST, reason: str = "") -> RankedDraft:
    files = {"kernel.cpp": text} if text else {}
    return RankedDraft(Reply(candidate=Candidate(backend="cpp", files=files, usage=Usage(model="m", calls=1))), forecast, reason)


def chosen_text(drafts, attempts=()) -> str:
    stage = Stage.REFINE if attempts else Stage.DRAFT
    context = Context(stage=stage, start_point=attempts[0] if attempts else None)
    reply = choose_draft(State(task=make_task("x"), attempts=attempts), context, drafts)
    assert reply.candidate.usage.calls == len(drafts)
    assert [draft.is_chosen for draft in reply.drafts].count(True) == 1
    return reply.candidate.code


def test_draft_with_the_best_expectation_is_chosen():
    sure, quick = Forecast(0.9, 10.0), Forecast(0.5, 4.0)
    assert chosen_text([make_draft("a", sure), make_draft("b", quick)]) == "b"  # 0.5 / 4 is more than 0.9 / 10
    refined = (make_attempt(0, latency=8.0),)
    assert chosen_text([make_draft("a", sure), make_draft("b", quick)], refined) == "b"
    assert chosen_text([make_draft("a", Forecast(0.9, 8.0)), make_draft("b", Forecast(0.3, 4.0))], refined) == "a"


def test_drafts_without_code_refused_ones_and_repetitions_come_last():
    best = Forecast(0.99, 1.0)
    assert chosen_text([make_draft("", best), make_draft("b", Forecast(0.1, 9.0))]) == "b"
    assert chosen_text([make_draft("a", best, "compile_error"), make_draft("b", Forecast(0.1, 9.0))]) == "b"
    earlier = (make_attempt(0),)
    assert chosen_text([make_draft(earlier[0].candidate.code, best), make_draft("b", Forecast(0.1, 9.0))], earlier) == "b"
    assert chosen_text([make_draft("a"), make_draft("b")]) == "a"


def test_expectation_is_the_reward_when_refining():
    assert expected_result(Forecast(1.0, 10.0), 10.0) == pytest.approx(0.0)
    assert expected_result(Forecast(0.0, 10.0), 10.0) == pytest.approx(-1.0)


class EstimatingExecutor:
    """Estimates the length of the code; refuses code that contains `broken`."""

    def __init__(self) -> None:
        self.jobs = []

    def submit(self, job) -> Future[Outcome]:
        self.jobs.append(job)
        future: Future[Outcome] = Future()
        is_broken = "broken" in job.candidate.code
        gate = GateResult(gate="build", passed=not is_broken, reason="compile_error" if is_broken else "")
        future.set_result(Outcome(gates=(gate,), samples_us=() if is_broken else (float(len(job.candidate.code)),)))
        return future


def test_estimates_replace_forecast_latencies_and_cost_no_verification():
    executor, state = EstimatingExecutor(), State(task=make_task("x"))
    drafts = [make_draft("broken", Forecast(0.9, 1.0)), make_draft("four", Forecast(0.5, 99.0)), make_draft("")]
    job = attempt_job(RunConfig(id="r", backend={"name": "cpp"}, tuning_trials=4), state, drafts[0].reply.candidate)
    estimated = estimate_drafts(drafts, job, executor)
    assert [(one.forecast, one.reason) for one in estimated] == [
        (Forecast(0.9, None), "compile_error"),
        (Forecast(0.5, 4.0), ""),
        (NO_FORECAST, ""),
    ]
    assert [(job.purpose, job.tuning_trials, job.baselines) for job in executor.jobs] == [("tuning", 0, ())] * 2


def test_run_with_estimates_chooses_the_fastest_draft(tmp_path):
    class Executor(ArithmeticExecutor):
        purposes = []

        def verify(self, job):
            self.purposes.append(job.purpose)
            return super().verify(job)

    engine = make_engine(tmp_path, budget=2, generator=DraftGenerator(), executor=Executor())
    engine.run.save_config(engine.run.config.model_copy(update={"drafts_per_attempt": 3, "draft_filter": "estimate"}))
    try:
        attempts = list(engine.make_attempts())
    finally:
        engine.close()
    assert (Executor.purposes.count("tuning"), Executor.purposes.count("verify")) == (30, 10)
    firsts = [attempt for attempt in attempts[:5] if attempt.outcome.feasible]
    assert firsts
    for attempt in firsts:
        estimates = {draft.candidate: draft.latency_us for draft in attempt.drafts if draft.latency_us}
        assert attempt.outcome.latency_us == estimates[attempt.candidate.id] == min(estimates.values())


def test_impossible_settings_are_refused_in_one_line():
    agent = make_plugin("generator", "agent", backend="cpp", command=["true"])
    with pytest.raises(UserError, match="Set drafts_per_attempt to 1"):
        check_drafts(RunConfig(drafts_per_attempt=2, generator={"name": "agent"}), agent)
    config = RunConfig(drafts_per_attempt=2, draft_filter="estimate", backend={"name": "cpp"})
    with pytest.raises(UserError, match="backend 'cpp' measures latencies"):
        check_drafts(config, make_plugin("generator", "template_search"))
    check_drafts(config.model_copy(update={"drafts_per_attempt": 1}), agent)
    check_drafts(config.model_copy(update={"backend": {"name": "ascendc"}}), make_plugin("generator", "template_search"))
