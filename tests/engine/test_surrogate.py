"""The surrogate: a fold of the journal whose forecasts rank kernels of unseen tasks, and whose probabilities are calibrated."""

from random import Random

import numpy as np
import pytest
from engine_parts import make_attempt, make_task

from evokernel.core.records import Attempt, Candidate, GateResult, Outcome, Profile
from evokernel.engine.code_features import extract_features
from evokernel.engine.regression import PlattScaling, fit_logistic, fit_platt, fit_ridge
from evokernel.engine.surrogate import MAX_SAMPLES, MIN_SAMPLES, NO_FORECAST, Surrogate, is_informative

OPTIONS = ("tile", "unroll", "vectorize", "prefetch", "alias")
EFFECTS = {"tile": -0.5, "unroll": 0.2, "vectorize": -0.9, "prefetch": 0.4}


def make_kernel(random: Random, name: str, n: int, scale: float = 1.0, noise: float = 0.05) -> Attempt:
    """Return an attempt whose latency follows from its options; `alias` makes it incorrect."""
    options = [option for option in OPTIONS if random.random() < 0.5]
    code = "\n".join(["void kernel() {", f"  load_{name}();", *(f"  use_{option}({n % 3});" for option in options), "}"])
    latency = scale * np.exp(sum(EFFECTS.get(option, 0.0) for option in options) + random.gauss(0, noise))
    attempt = make_attempt(n, name, "alias" not in options, latency=float(latency))
    return attempt.model_copy(update={"candidate": Candidate(backend="cpp", files={"kernel.cpp": code})})


def make_journal(seed: int = 0, tasks: int = 6, rounds: int = 8) -> list[tuple[str, Attempt]]:
    random = Random(seed)
    return [(f"op{t}", make_kernel(random, f"op{t}", n, 10.0 ** (t % 3))) for n in range(rounds) for t in range(tasks)]


def learn_all(journal, surrogate=None) -> Surrogate:
    surrogate = surrogate or Surrogate()
    history = {}
    for name, attempt in journal:
        surrogate.learn(make_task(name), attempt, tuple(history.setdefault(name, [])))
        history[name].append(attempt)
    return surrogate


def test_equal_journals_give_equal_forecasts_also_when_learned_in_two_sessions():
    journal = make_journal()
    stored = [(name, Attempt.model_validate_json(attempt.model_dump_json())) for name, attempt in journal]
    straight, rebuilt = learn_all(journal), learn_all(stored[20:], learn_all(stored[:20]))
    for name, attempt in journal[::5]:
        forecast = straight.fitted.forecast(make_task(name), attempt.candidate)
        assert forecast == rebuilt.fitted.forecast(make_task(name), attempt.candidate)
        assert 0 < forecast.p_correct < 1
        assert forecast.latency_us > 0


def test_kernels_of_an_unseen_task_are_ranked_by_what_other_tasks_showed():
    fitted = learn_all(make_journal()).fitted
    task = make_task("unseen")

    def forecast(*options):
        code = "\n".join(["void kernel() {", "  load_unseen();", *(f"  use_{option}(1);" for option in options), "}"])
        return fitted.forecast(task, Candidate(backend="cpp", files={"kernel.cpp": code}))

    assert forecast("vectorize").latency_us < forecast("tile").latency_us < forecast().latency_us < forecast("prefetch").latency_us
    assert forecast("alias").p_correct < 0.4 < 0.6 < forecast("tile").p_correct


def test_level_of_a_seen_task_is_its_own():
    fitted = learn_all(make_journal()).fitted
    candidate = make_kernel(Random(5), "x", 0).candidate
    slow, fast = (fitted.forecast(make_task(name), candidate).latency_us for name in ("op2", "op0"))
    assert 30 < slow / fast < 300  # the tasks differ by a factor of 100


def test_probabilities_come_true():
    journal, surrogate, pairs = make_journal(seed=3, tasks=10, rounds=16), Surrogate(), []
    noisy = Random(1)
    for name, attempt in journal:
        if noisy.random() < 0.2:  # one attempt in five fails or passes whatever its code is
            gates = (GateResult(gate="check", passed=noisy.random() < 0.5, reason="mismatch"),)
            attempt = attempt.model_copy(update={"outcome": Outcome(gates=gates, samples_us=(9.0,) if gates[0].passed else ())})
        forecast = surrogate.fitted.forecast(make_task(name), attempt.candidate)
        if forecast.p_correct is not None:
            pairs.append((forecast.p_correct, attempt.outcome.feasible))
        surrogate.learn(make_task(name), attempt, ())
    later = pairs[60:]
    sure = [is_correct for p, is_correct in later if p > 0.75]
    doubtful = [is_correct for p, is_correct in later if p < 0.25]
    assert len(sure) > 15
    assert len(doubtful) > 15
    assert 0.75 < np.mean(sure) < 1
    assert 0 < np.mean(doubtful) < 0.25
    assert np.mean([(p - y) ** 2 for p, y in later]) < 0.16 < 0.24 < np.var([y for _, y in later])


def test_nothing_is_forecast_from_too_few_attempts():
    journal = make_journal()[: MIN_SAMPLES - 1]
    assert learn_all(journal).fitted.forecast(make_task("op0"), journal[0][1].candidate) == NO_FORECAST
    empty = Candidate(backend="cpp", files={})
    assert learn_all(make_journal()).fitted.forecast(make_task("op0"), empty) == NO_FORECAST


def test_number_of_samples_is_bounded():
    surrogate = Surrogate(next_fit=10**9)
    attempt = make_journal()[0][1]
    for _ in range(MAX_SAMPLES + 5):
        surrogate.learn(make_task("op0"), attempt, ())
    assert len(surrogate.samples) == MAX_SAMPLES
    assert surrogate.sample_count == MAX_SAMPLES + 5


def test_profile_of_the_start_point_changes_the_features():
    start, refined = make_attempt(0), make_kernel(Random(0), "x", 1)
    bound = start.model_copy(update={"outcome": start.outcome.model_copy(update={"profile": Profile(bottleneck="memory", summary="")})})
    vectors = [extract_features(make_task("x"), refined.candidate, one) for one in (None, start, bound)]
    assert not np.array_equal(vectors[0], vectors[1])
    assert not np.array_equal(vectors[1], vectors[2])
    assert np.array_equal(vectors[2], extract_features(make_task("x"), refined.candidate, bound))


@pytest.mark.parametrize(
    ("gate", "reason", "expected"),
    [("check", "mismatch", True), ("build", "compile_error", True), ("write", "duplicate", False), ("check", "killed", False)],
)
def test_attempts_that_say_nothing_about_code_are_skipped(gate, reason, expected):
    outcome = Outcome(gates=(GateResult(gate=gate, passed=False, reason=reason),))
    attempt = make_attempt(0).model_copy(update={"outcome": outcome})
    assert is_informative(attempt) is expected
    reused = make_attempt(0).outcome.model_copy(update={"reused_from": "t/x/0"})
    assert not is_informative(make_attempt(1).model_copy(update={"outcome": reused}))


def test_ridge_finds_a_linear_function_and_survives_equal_rows():
    random = np.random.default_rng(0)
    rows = random.normal(size=(60, 8))
    targets = rows @ np.arange(8) + 3
    model = fit_ridge(rows, targets)
    fresh = random.normal(size=8)
    assert model.predict(fresh) == pytest.approx(float(fresh @ np.arange(8)) + 3, abs=0.6)
    constant = fit_ridge(np.ones((9, 4)), np.full(9, 2.0))
    assert constant.predict(np.ones(4)) == pytest.approx(2.0)


def test_logistic_regression_with_one_kind_of_label_follows_the_rule_of_succession():
    model = fit_logistic(np.eye(10), np.ones(10, bool))
    assert PlattScaling().probability(model.predict(np.eye(10)[0])) == pytest.approx(11 / 12)


def test_calibration_is_the_identity_without_evidence_and_shrinks_exaggeration():
    assert fit_platt([]) == PlattScaling(1.0, 0.0)
    right = [(4.0, n % 3 != 0) for n in range(60)] + [(-4.0, n % 3 == 0) for n in range(60)]
    scaling = fit_platt(right)
    assert scaling.probability(4.0) == pytest.approx(2 / 3, abs=0.06)
    few = fit_platt([(4.0, False)])
    assert 0.3 < few.probability(4.0) < PlattScaling().probability(4.0)
    reversed_labels = fit_platt([(4.0, False), (-4.0, True)] * 50)
    assert reversed_labels.slope > 0, "calibration never reverses a ranking"
