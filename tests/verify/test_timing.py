"""Relations between timings; never their absolute values."""

import pytest
from verifier_helpers import HONEST, PRODUCT, SINE, SINE_KERNEL, gains, needs_compiler

from evokernel.core.errors import UserError
from evokernel.core.records import Candidate, Job
from evokernel.verifier import verify
from evokernel.verifier.timing import MAX_CALLS, MIN_PAIRS, WINDOW_S, find_call_count, make_synthetic_timing

TASK = SINE.replace("LENGTH", "200_000")


@pytest.mark.slow(one_in=5)
@needs_compiler
def test_four_times_the_work_takes_longer(compiled):
    once, four = (compiled(TASK, SINE_KERNEL.replace("REPEATS", str(repeats))) for repeats in (1, 4))
    assert once.feasible
    assert four.feasible
    assert 2 < four.latency_us / once.latency_us < 8
    assert once.profile.figures["achieved_gbs"] > four.profile.figures["achieved_gbs"]


@needs_compiler
def test_less_time_gives_fewer_pairs(compiled):
    outcome = compiled(TASK, SINE_KERNEL.replace("REPEATS", "4"), timing_s=1e-3)
    assert outcome.feasible, outcome.failure
    assert len(outcome.samples_us) == MIN_PAIRS


@needs_compiler
def test_two_threads_are_timed_by_wall_clock(compiled):
    outcome = compiled(TASK, SINE_KERNEL.replace("REPEATS", "1"), settings={"threads": 2})
    assert outcome.feasible, outcome.failure
    assert outcome.clock == "wall"


@needs_compiler
def test_remembered_results_are_detected_by_new_inputs(compiled):
    caching_kernel = """
    extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
        static int calls = 0;
        static float kept[200000];
        const int64_t n = x_shape[0];
        if (++calls < 40 || n != 200000) {
            for (int64_t i = 0; i < n; ++i) out[i] = std::sin(x[i]);
            if (n == 200000) std::memcpy(kept, out, n * sizeof(float));
        } else {
            std::memcpy(out, kept, n * sizeof(float));
        }
    }
    """
    failure = compiled(TASK, caching_kernel).failure
    assert failure is not None
    assert (failure.gate, failure.reason) == ("time", "mismatch")


PRODUCT_KERNEL = """
struct Entry { int64_t a_bytes, b_bytes, out_bytes; char *a, *b, *out; };
static Entry kept[8];
static int used;
extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out, const int64_t*) {
    const int64_t n = a_shape[0], k = a_shape[1], m = b_shape[1];
    const int64_t a_bytes = 4 * n * k, b_bytes = 4 * k * m, out_bytes = 4 * n * m;
    if (REMEMBER)
        for (Entry& e : kept)
            if (e.a_bytes == a_bytes && e.b_bytes == b_bytes && !std::memcmp(e.a, a, a_bytes) && !std::memcmp(e.b, b, b_bytes)) {
                std::memcpy(out, e.out, out_bytes);
                return;
            }
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; ++j) {
            float sum = 0;
            for (int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[p * m + j];
            out[i * m + j] = sum;
        }
    if (REMEMBER) {
        Entry& e = kept[used++ % 8];
        delete[] e.a, delete[] e.b, delete[] e.out;
        e = {a_bytes, b_bytes, out_bytes, new char[a_bytes], new char[b_bytes], new char[out_bytes]};
        std::memcpy(e.a, a, a_bytes), std::memcpy(e.b, b, b_bytes), std::memcpy(e.out, out, out_bytes);
    }
}
"""


@needs_compiler
def test_remembering_inputs_with_their_results_gains_nothing(compiled):
    assert not gains(compiled(PRODUCT, PRODUCT_KERNEL.replace("REMEMBER", "true"), incumbent=PRODUCT_KERNEL.replace("REMEMBER", "false")))


@needs_compiler
def test_recognizing_inputs_by_few_elements_is_detected(compiled):
    sampling_kernel = (
        PRODUCT_KERNEL.replace("REMEMBER", "true").replace("e.a, a, a_bytes", "e.a, a, 32").replace("e.b, b, b_bytes", "e.b, b, 32")
    )
    failure = compiled(PRODUCT, sampling_kernel).failure
    assert failure is not None
    assert (failure.gate, failure.reason) == ("check", "mismatch")
    assert "keep nothing between calls" in failure.detail


@needs_compiler
def test_inputs_that_cannot_change_are_not_changed(compiled):
    """Swapping elements would give a matrix that has no Cholesky factor."""
    task = """
import torch
from torch import nn
N = 24
class Model(nn.Module):
    def forward(self, x):
        return torch.linalg.cholesky(x)
def get_inputs():
    x = torch.randn(N, N)
    return [x @ x.T + N * torch.eye(N)]
"""
    code = """
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t*) {
    const int64_t n = x_shape[0];
    for (int64_t i = 0; i < n * n; ++i) out[i] = 0;
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j <= i; ++j) {
            double sum = x[i * n + j];
            for (int64_t k = 0; k < j; ++k) sum -= (double)out[i * n + k] * out[j * n + k];
            out[i * n + j] = (float)(i == j ? std::sqrt(sum) : sum / out[j * n + j]);
        }
}
"""
    outcome = compiled(task, code)
    assert outcome.feasible, outcome.failure


@needs_compiler
def test_finished_output_does_not_count_as_new_work(compiled):
    lazy = """
    extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
        const int64_t n = x_shape[0];
        if (out[0] == out[0] && out[n / 2] == out[n / 2] && out[n - 1] == out[n - 1]) return;
        for (int64_t i = 0; i < n; ++i) out[i] = x[i] * x[i];
    }
    """
    failure = compiled(TASK.replace("x.sin()", "x * x").replace("200_000", "20_000"), lazy).failure
    assert failure is not None
    assert (failure.gate, failure.reason) == ("time", "unwritten")


def test_synthetic_outcomes_are_reproducible(hostile, doubling):
    first, second = hostile(HONEST), hostile(HONEST)
    assert first.model_dump_json() == second.model_dump_json()
    assert first.clock == "synthetic"
    assert len(first.samples_us) == len(first.baseline_us["eager"])
    assert all(gate.seconds == 0 for gate in first.gates)
    other = hostile(HONEST + "# another candidate\n")
    assert other.samples_us != first.samples_us


def test_synthetic_latencies_spread_around_the_baseline(doubling):
    ratios = []
    for index in range(50):
        candidate = Candidate(backend="cpp", files={"kernel.cpp": str(index)})
        timing = make_synthetic_timing(Job(backend="cpp", task=doubling, candidate=candidate, clock="synthetic"))
        ratios.append(timing.baseline_us["eager"][0] / timing.samples_us[0])
    assert min(ratios) < 1 < max(ratios)


def test_unknown_baseline_is_refused(doubling):
    candidate = Candidate(backend="hostile_backend:Hostile", files={"kernel.py": HONEST})
    with pytest.raises(UserError, match="unknown baseline 'eagre'"):
        verify(Job(backend=candidate.backend, task=doubling, candidate=candidate, baselines=("eagre",)))


@pytest.mark.parametrize("per_call_us", [0.5, 30, 1999, 5_000_000])
def test_window_is_filled_for_any_call_duration(per_call_us):
    calls = find_call_count(lambda calls: per_call_us)
    assert calls * per_call_us * 1e-6 > 0.5 * WINDOW_S
    assert calls == 1 or calls * per_call_us * 1e-6 < 4 * WINDOW_S
    assert find_call_count(lambda calls: 1e-9) == MAX_CALLS


def test_failing_baseline_is_missing(doubling, monkeypatch):
    import torch

    def compile_failing(module):
        def call(*inputs):
            raise RuntimeError("no compiler\nlong story")

        return call

    monkeypatch.setattr(torch, "compile", compile_failing)
    candidate = Candidate(backend="hostile_backend:Hostile", files={"kernel.py": HONEST})
    outcome = verify(Job(backend=candidate.backend, task=doubling, candidate=candidate, baselines=("eager", "compile")))
    assert outcome.feasible
    assert set(outcome.baseline_us) == {"eager"}
