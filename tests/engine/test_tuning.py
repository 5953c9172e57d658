"""The tuner: never slower than the default by the same clock, repeatable, bounded, and one attempt that a resumed run reads unchanged."""

import re
from concurrent.futures import Future
from random import Random

import pytest
from engine_parts import EchoGenerator, make_engine, make_task

from evokernel.core.errors import InfraError
from evokernel.core.records import Candidate, GateResult, Job, Outcome
from evokernel.engine.tuning import MAX_FINALISTS, verify_and_tune

FOUR = "constexpr int A = 4;  // tune: A = 1 | 2 | 4 | 8\nconstexpr int B = 3;  // tune: B = 1 | 2 | 3 | 4\n"
WIDE = "".join(f"constexpr int V{i} = 1;  // tune: V{i} = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8\n" for i in range(6))


def read_values(job):
    return {name: int(number) for name, number in re.findall(r"(\w+) = (\d+);", job.candidate.code)}


class ModelExecutor:
    """Computes latencies from the values in the text; `wrong` decides which kernels fail all gates, `broken` which are not timed."""

    def __init__(self, latency, wrong=lambda values: False, broken=lambda values: False, is_paired=False, noise=0.0, pairs=12):
        self.latency, self.wrong, self.broken, self.is_paired, self.noise = latency, wrong, broken, is_paired, noise
        self.random, self.pairs = Random(1), pairs
        self.jobs: list[Job] = []

    def submit(self, job):
        self.jobs.append(job)
        future: Future[Outcome] = Future()
        try:
            future.set_result(self.verify(job))
        except InfraError as error:
            future.set_exception(error)
        return future

    def verify(self, job):
        values = read_values(job)
        if self.broken(values) or (job.purpose == "verify" and self.wrong(values)):
            return Outcome(gates=(GateResult(gate="check", passed=False, reason="mismatch", detail="hidden"),))
        samples = self.draw_samples(values)
        outcome = Outcome(gates=(GateResult(gate="time", passed=True),), samples_us=samples, baseline_us={"eager": samples}, clock="cpu")
        if not (self.is_paired and job.incumbent):
            return outcome
        other = self.draw_samples(read_values(job.model_copy(update={"candidate": job.incumbent})))
        return outcome.model_copy(update={"incumbent_us": other, "incumbent": job.incumbent.id})

    def draw_samples(self, values):
        latency_us = self.latency(values)
        return tuple(latency_us * (1 + self.noise * self.random.random()) for _ in range(self.pairs))

    def close(self):
        pass


def tune(executor, text=FOUR, trials=100, seed=1, **settings):
    candidate = Candidate(backend="cpp", files={"kernel.cpp": text})
    job = Job(backend="cpp", task=make_task("relu"), candidate=candidate, seed=seed, tuning_trials=trials, **settings)
    return verify_and_tune(executor, job)


def bowl(values):
    return 10.0 + abs(values["A"] - 2) + abs(values["B"] - 1)


@pytest.mark.parametrize("is_paired", [False, True])
def test_the_fastest_setting_is_delivered(is_paired):
    executor = ModelExecutor(bowl, is_paired=is_paired)
    kernel = tune(executor)
    tuning = kernel.outcome.tuning
    assert (tuning.default, tuning.chosen) == ({"A": 4, "B": 3}, {"A": 2, "B": 1})
    assert read_values(executor.jobs[-1]) == {"A": 2, "B": 1}
    assert "constexpr int A = 2;  // tune: A = 1 | 2 | 4 | 8" in kernel.candidate.code
    assert sum(trial.stage == "search" for trial in tuning.trials) == 15, "few combinations are all tried, once each"
    assert [trial.stage for trial in tuning.trials[15:]] == (["confirm", "verify"] if is_paired else ["verify"])
    assert kernel.outcome.latency_us < tuning.default_us
    assert tuning.gain == pytest.approx(1.4, rel=0.01)


def test_trials_are_timed_at_known_sizes_and_only_the_winner_passes_all_gates():
    executor = ModelExecutor(bowl)
    tune(executor, llm_review={"model": "m"})
    first, *trials, last = executor.jobs
    assert (first.purpose, last.purpose) == ("verify", "verify")
    assert {(job.purpose, job.baselines, bool(job.llm_review)) for job in trials} == {("tuning", (), False)}
    assert all(job.incumbent == first.candidate for job in trials), "measured next to the default"


@pytest.mark.parametrize("seed", range(12))
def test_tuned_kernel_is_never_slower_than_the_default(seed):
    def rugged(values):
        return 5 + hash((seed, *values.values())) % 97

    executor = ModelExecutor(rugged, wrong=lambda values: hash((values["V0"], seed)) % 3 == 0 and values != dict.fromkeys(values, 1))
    kernel = tune(executor, WIDE, trials=30, seed=seed)
    tuning = kernel.outcome.tuning
    assert kernel.outcome.feasible
    assert kernel.outcome.latency_us <= tuning.default_us
    assert (tuning.chosen == tuning.default) == (kernel.candidate.code == WIDE)
    assert sum(trial.stage == "search" for trial in tuning.trials) == 30
    assert sum(trial.stage == "verify" for trial in tuning.trials) <= MAX_FINALISTS
    assert tune(executor, WIDE, trials=30, seed=seed).outcome.tuning.trials == tuning.trials, "equal seeds give equal trials"
    assert tune(executor, WIDE, trials=30, seed=seed + 1).outcome.tuning.trials != tuning.trials


def test_one_tunable_at_a_time_finds_the_best_of_a_large_space():
    def separable(values):
        return 100.0 + sum((value - 6) ** 2 for value in values.values())

    tuning = tune(ModelExecutor(separable), WIDE, trials=100).outcome.tuning
    assert set(tuning.chosen.values()) == {6}, "6 tunables with 7 other values: one pass"


def test_a_wrong_winner_falls_back_to_the_next_and_then_to_the_default():
    second = tune(ModelExecutor(bowl, wrong=lambda values: (values["A"], values["B"]) == (2, 1))).outcome.tuning
    assert second.chosen in ({"A": 1, "B": 1}, {"A": 2, "B": 2})
    kernel = tune(ModelExecutor(bowl, wrong=lambda values: values["A"] != 4 or values["B"] != 3))
    assert kernel.candidate.code == FOUR
    assert kernel.outcome.feasible
    assert kernel.outcome.tuning.chosen == kernel.outcome.tuning.default
    assert kernel.outcome.tuning.note == "no faster setting passed all gates"
    assert [trial.reason for trial in kernel.outcome.tuning.trials if trial.stage == "verify"] == ["mismatch"] * MAX_FINALISTS


def test_a_measured_gain_within_the_noise_is_no_gain():
    """All settings are equally fast; the luckiest of fifteen measurements must not win."""
    kernel = tune(ModelExecutor(lambda values: 10.0, is_paired=True, noise=0.1))
    assert kernel.candidate.code == FOUR
    assert any(trial.stage == "confirm" for trial in kernel.outcome.tuning.trials)


@pytest.mark.parametrize(("latency", "is_tuned"), [(bowl, True), (lambda values: 10.0, False)])
def test_few_pairs_must_all_be_faster(latency, is_tuned):
    """A slow kernel is measured a few times only, which gives no interval."""
    kernel = tune(ModelExecutor(latency, is_paired=True, noise=0.02, pairs=3))
    assert any(trial.stage == "confirm" for trial in kernel.outcome.tuning.trials)
    assert (kernel.candidate.code != FOUR) is is_tuned


def test_constraints_and_failures_bound_the_search():
    text = FOUR + "// tune where: A * B <= 12\n"
    tuning = tune(ModelExecutor(bowl, broken=lambda values: values["B"] == 1), text).outcome.tuning
    assert all(trial.setting["A"] * trial.setting["B"] <= 12 for trial in tuning.trials)
    assert {trial.reason for trial in tuning.trials if trial.setting["B"] == 1} == {"mismatch"}
    assert "hidden" not in tuning.model_dump_json(), "the detail of a failed trial is not kept"
    assert tuning.chosen["B"] == 2


def test_no_tuning_without_trials_tunables_or_a_correct_default():
    for settings, text, executor in (
        ({"trials": 0}, FOUR, ModelExecutor(bowl)),
        ({}, "int x;\n", ModelExecutor(lambda values: 10.0)),
        ({}, FOUR, ModelExecutor(bowl, wrong=lambda values: True)),
    ):
        kernel = tune(executor, text, **settings)
        assert len(executor.jobs) == 1
        assert kernel.outcome.tuning is None


def test_the_time_for_tuning_is_bounded(monkeypatch):
    seconds = iter(range(10**6))
    monkeypatch.setattr("evokernel.engine.tuning.time.monotonic", lambda: float(next(seconds)))
    tuning = tune(ModelExecutor(bowl), tuning_s=2).outcome.tuning
    assert sum(trial.stage == "search" for trial in tuning.trials) < 15
    assert tuning.chosen != tuning.default, "the best of the trials so far"


def test_a_lost_device_leaves_the_best_so_far():
    count = iter(range(10**6))

    def latency(values):
        if next(count) == 6:
            raise InfraError("device lost")
        return bowl(values)

    kernel = tune(ModelExecutor(latency))
    assert kernel.outcome.feasible
    assert kernel.outcome.latency_us <= bowl({"A": 4, "B": 3}) * 1.01


class TunableGenerator(EchoGenerator):
    def write(self, state, context):
        reply = super().write(state, context)
        files = {"kernel.cpp": f"{FOUR}// {reply.candidate.code}\n"}
        return reply.model_copy(update={"candidate": reply.candidate.model_copy(update={"files": files})})


def run_tuned(folder, budget):
    engine = make_engine(folder, budget=budget, executor=ModelExecutor(bowl), generator=TunableGenerator(), concurrency=2)
    engine.run.config = engine.run.config.model_copy(update={"tuning_trials": 6})
    attempts = list(engine.make_attempts())
    values = engine.memory.values([attempt.memory_id for attempt in attempts], attempts[-1].stage)
    engine.close()
    return attempts, values, engine


def test_resumed_run_with_trials_equals_straight_run(tmp_path):
    straight, straight_values, _ = run_tuned(tmp_path / "straight", 4)
    run_tuned(tmp_path / "resumed", 2)
    resumed, values, engine = run_tuned(tmp_path / "resumed", 4)
    assert [without_time(a) for a in resumed] == [without_time(a) for a in straight]
    assert values == straight_values
    assert len(engine.generator.calls) == 2 * len(engine.run.tasks), "the attempts of the journal are not made again"
    assert all(attempt.outcome.tuning.chosen != attempt.outcome.tuning.default for attempt in straight)
    assert all(dict(attempt.outcome.tuning.chosen) == read_values_of(attempt) for attempt in straight), "the journal has the tuned text"


def read_values_of(attempt):
    return {name: int(number) for name, number in re.findall(r"(\w+) = (\d+);", attempt.candidate.code)}


def without_time(attempt):
    tuning = attempt.outcome.tuning.model_copy(update={"seconds": 0.0})
    return attempt.model_copy(update={"outcome": attempt.outcome.model_copy(update={"tuning": tuning})})


def test_an_outcome_written_before_tunables_still_loads():
    old = Outcome(gates=()).model_dump(mode="json")
    del old["tuning"]
    assert Outcome.model_validate(old).tuning is None
