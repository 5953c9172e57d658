"""The evaluation of the surrogate: honest forecasts, chance as chance, and tables with intervals."""

from planted_run import write_planted_run

from evokernel.engine.surrogate import Forecast
from evokernel.experiments import surrogate_eval
from evokernel.experiments.surrogate_eval import ForecastAttempt, count_verifications, evaluate_runs, forecast_in_order, read_attempts


def test_planted_differences_are_found_on_held_out_tasks(tmp_path):
    in_order, held_out = evaluate_runs([write_planted_run(tmp_path / "a", rounds=10)])
    for one in (in_order, held_out):
        assert one.rank_correlation.interval.low > 0.3
        assert one.rank_correlation.p < 0.05
        assert one.auc.interval.low > 0.6
        assert one.brier < one.base_brier
        assert one.saved_share.interval.mean > 0.1
        assert sum(row.attempts for row in one.calibration) == one.attempts
    assert in_order.attempts == 72  # the first 8 attempts have no forecast
    assert held_out.attempts == 80


def test_chance_is_reported_as_chance(tmp_path):
    runs = [write_planted_run(tmp_path / str(seed), seed, is_planted=False) for seed in range(3)]
    _, held_out = evaluate_runs(runs)
    assert held_out.rank_correlation.p > 0.02
    assert held_out.auc.p > 0.02
    assert 0.2 < held_out.auc.interval.mean < 0.8
    assert held_out.brier < held_out.base_brier * 1.25, "forecasts of chance are nearly as good as a constant"


def test_forecasts_depend_on_earlier_attempts_only(tmp_path):
    records = read_attempts([write_planted_run(tmp_path / "a")])
    complete, cut = forecast_in_order(records), forecast_in_order(records[:30])
    assert [one.forecast for one in complete[:30]] == [one.forecast for one in cut]


def test_held_out_forecasts_ignore_the_task_itself(tmp_path):
    records = read_attempts([write_planted_run(tmp_path / "a")])
    changed = [
        one._replace(sample=one.sample._replace(is_correct=False, log_latency=None)) if one.task.id.endswith("op0") else one
        for one in records
    ]
    before, after = (
        [one.forecast for one in surrogate_eval.forecast_held_out(data) if one.recorded.task.id.endswith("op0")]
        for data in (records, changed)
    )
    assert len(before) == 6
    assert before == after


def test_verifications_are_counted_in_the_order_of_the_forecasts(tmp_path):
    records = [one for one in read_attempts([write_planted_run(tmp_path / "a", rounds=12)]) if one.task.id.endswith("op0")]
    timed = [one for one in records if one.attempt.outcome.feasible][:4]
    best = min(timed, key=lambda one: one.attempt.outcome.latency_us)
    perfect = [ForecastAttempt(one, Forecast(0.5, one.attempt.outcome.latency_us)) for one in timed]
    backwards = [ForecastAttempt(one, Forecast(0.5, 1 / one.attempt.outcome.latency_us)) for one in timed]
    good = sum(one.attempt.outcome.latency_us <= 1.05 * best.attempt.outcome.latency_us for one in timed)
    assert count_verifications(perfect) == (1.0, 5 / (good + 1))
    assert count_verifications(backwards) == (5.0 - good, 5 / (good + 1))
    assert count_verifications(perfect[:2]) is None
