"""Timed windows detect remembered results, finished outputs and manipulated clocks."""

import numpy as np
import pytest
from verifier_helpers import HONEST, PRODUCT, gains, needs_compiler

from evokernel.core.errors import CandidateError
from evokernel.core.plugins import make_plugin
from evokernel.verifier.candidate_main import PERTURB, ROTATE, SWAP_PAIR, apply_input_changes, view_bits
from evokernel.verifier.candidate_process import CommandTiming
from evokernel.verifier.timing import TimedKernel

ROWS = """
static float a_known[1 << 20], out_known[1 << 20];
static int64_t k_known, n_known;
extern "C" void kernel(const float* a, const int64_t* a_shape, const float* b, const int64_t* b_shape, float* out, const int64_t*) {
    static float b_known[1 << 20];
    const int64_t m = a_shape[0], k = a_shape[1], n = b_shape[1];
    const bool is_known = REMEMBER && k == k_known && n == n_known;
    bool column[4096];
    for (int64_t j = 0; j < n; ++j) column[j] = !is_known;
    if (is_known)
        for (int64_t p = 0; p < k; ++p)
            for (int64_t j = 0; j < n; ++j) column[j] |= b[p * n + j] != b_known[p * n + j];
    for (int64_t i = 0; i < m; ++i) {
        const bool is_row = is_known && !std::memcmp(a + i * k, a_known + i * k, 4 * k);
        for (int64_t j = 0; j < n; ++j)
            if (!is_row || column[j]) {
                float sum = 0;
                for (int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
                out_known[i * n + j] = sum;
            }
    }
    std::memcpy(out, out_known, 4 * m * n);
    if (REMEMBER) std::memcpy(a_known, a, 4 * m * k), std::memcpy(b_known, b, 4 * k * n), k_known = k, n_known = n;
}
"""
"""Always correct: keeps inputs and results, and computes only rows and columns that changed."""


WAVES = """
static void waves(const float* a, float* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) out[i] = std::sin(a[i]);
}
extern "C" void kernel(const float* a, const int64_t* a_shape, float* out, const int64_t*) {
    const int64_t n = a_shape[0];
    BODY
}
"""
SINE = PRODUCT.replace("a @ b", "a.sin()").replace("a, b", "a").replace(", torch.randn(K, M)", "").replace("randn(N, K)", "randn(20_000)")
LAST = """
    static int64_t at, length;
    if (out[n / 3] != out[n / 3] && out[n / 5] != out[n / 5]) length = std::max(length, at), at = 0;
    ++at;
    if (n == 20000 && at > 1 && at < length) out[n / 3] = out[n / 5] = 0;
    else waves(a, out, n);
"""
"""A poisoned output begins a window; of as many calls as the longest window had, only the first and the last compute."""
ROTATES_RESULTS = """
    static float a_known[1 << 20], out_known[1 << 20];
    int64_t by = 1;
    while (by < 1000 && by < n && std::memcmp(a + by, a_known, 4 * (n - by))) ++by;
    if (by < 1000 && by < n && !std::memcmp(a, a_known + n - by, 4 * by))
        std::memcpy(out + by, out_known, 4 * (n - by)), std::memcpy(out, out_known + n - by, 4 * by);
    else
        waves(a, out, n);
    std::memcpy(a_known, a, 4 * n), std::memcpy(out_known, out, 4 * n);
"""
"""Always correct: if all elements were rotated, it rotates the results."""


@needs_compiler
def test_kernel_cannot_know_the_last_call_of_a_window(compiled):
    failure = compiled(SINE, WAVES.replace("BODY", LAST)).failure
    assert failure is not None
    assert (failure.gate, failure.reason) in {("time", "mismatch"), ("time", "unwritten")}


@needs_compiler
def test_rotating_old_results_gains_nothing(compiled):
    assert not gains(compiled(SINE, WAVES.replace("BODY", ROTATES_RESULTS), incumbent=WAVES.replace("BODY", "waves(a, out, n);")))


@needs_compiler
def test_computing_only_changed_rows_gains_nothing(compiled):
    assert not gains(compiled(PRODUCT, ROWS.replace("REMEMBER", "true"), incumbent=ROWS.replace("REMEMBER", "false")))


@needs_compiler
def test_finished_output_is_recomputed_if_one_call_fills_a_window(compiled):
    lazy = """
    extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
        const int64_t n = x_shape[0];
        if (out[0] == out[0] && out[n / 2] == out[n / 2] && out[n - 1] == out[n - 1]) return;
        for (int64_t i = 0; i < n; ++i) out[i] = std::sin(x[i]);
    }
    """
    task = (
        PRODUCT.replace("a @ b", "a.sin()").replace("a, b", "a").replace(", torch.randn(K, M)", "").replace("randn(N, K)", "randn(400_000)")
    )
    failure = compiled(task, lazy.replace("* x", "* a").replace("x_shape", "a_shape").replace("x[i]", "a[i]")).failure
    assert failure is not None
    assert failure.reason == "unwritten"


CLOCKS = "import time\ntime.perf_counter = time.process_time = lambda: {}\n"


def test_stopped_clock_is_detected(hostile):
    failure = hostile(CLOCKS.format("0.0") + HONEST, clock="auto").failure
    assert failure is not None
    assert (failure.gate, failure.reason) == ("time", "forbidden")
    assert "clocks" in failure.detail


def test_fast_clock_gains_nothing(hostile):
    lying = "ticks = [0]\n" + CLOCKS.format("ticks.append(ticks[-1] + 9) or ticks[-1]") + HONEST
    assert not gains(hostile(lying, clock="auto", incumbent=HONEST))


def make_timed_kernel(**values_by_step):
    timed_kernel = TimedKernel.__new__(TimedKernel)
    for name, value in {
        "is_cpu_timed": True,
        "idle_cpu_s": 0.0,
        "idle_wall_s": 1.0,
        "wall_s": 1.0,
        "cpu_s": 0.99,
        "clock_ratios": [1.0],
        **values_by_step,
    }.items():
        setattr(timed_kernel, name, value)
    return timed_kernel


def test_more_cpu_than_wall_time_means_several_threads():
    make_timed_kernel().check_clocks()
    with pytest.raises(CandidateError, match=r"1\.60 processors busy"):
        make_timed_kernel(cpu_s=1.6).check_clocks()
    make_timed_kernel(cpu_s=1.6, is_cpu_timed=False).check_clocks()


def test_work_between_windows_is_detected():
    with pytest.raises(CandidateError, match="keeps computing"):
        make_timed_kernel(idle_cpu_s=0.5).check_clocks()


def record_windows(*windows):
    timed_kernel = make_timed_kernel(clock_ratios=[])
    for window in windows:
        timed_kernel.record_window(window)
    return timed_kernel


SHORT, LONG, MISREAD = (
    CommandTiming(0.0009, 0.0008, (0.0, 0.0008)),
    CommandTiming(0.004, 0.004, (0.0, 0.004)),
    CommandTiming(0.004, 0.004, (0.0, 0.0008)),
)


def test_few_misread_windows_do_not_fail_a_kernel():
    record_windows(*[SHORT] * 20, *[MISREAD] * 4).check_clocks()
    record_windows(*[LONG] * 20, *[MISREAD] * 4).check_clocks()
    record_windows(*[SHORT._replace(cpu_s=0.004)] * 20).check_clocks()  # more CPU time than wall time
    with pytest.raises(CandidateError, match="clocks"):
        record_windows(*[SHORT] * 4, *[MISREAD] * 20).check_clocks()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("kind", [SWAP_PAIR, ROTATE])
def test_input_changes_are_equal_on_both_sides_and_lose_nothing(dtype, kind):
    start = np.arange(200).astype(dtype)
    one, other = start.copy(), start.copy()
    values_by_step = {start.tobytes()}
    for index in range(8):
        for array in (one, other):
            apply_input_changes([array.data], [(0, 12345, 7, kind)], index)
        assert one.tobytes() == other.tobytes()
        assert sorted(one) == sorted(start)
        assert (one != start).sum() > (150 if kind == ROTATE else 0)
        values_by_step.add(one.tobytes())
    assert len(values_by_step) == 9


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_perturbed_numbers_keep_sign_and_exponent(dtype):
    start = np.random.default_rng(0).standard_normal(1000).astype(dtype)
    one, other = start.copy(), start.copy()
    values_by_step = {start.tobytes()}
    for index in range(8):
        for array in (one, other):
            apply_input_changes([view_bits(array)], [(0, 12345, 7, PERTURB)], index)
        assert one.tobytes() == other.tobytes()
        assert (np.frexp(one)[1] == np.frexp(start)[1]).all()
        assert (np.signbit(one) == np.signbit(start)).all()
        assert (one != start).all()
        values_by_step.add(one.tobytes())
    assert len(values_by_step) == 9


@pytest.mark.parametrize("kind", [SWAP_PAIR, ROTATE, PERTURB])
def test_every_input_changes_every_time(kind):
    arrays = [np.arange(1, 200, dtype="float32"), np.arange(1, 100, dtype="float64"), np.arange(1, 50, dtype="float16")]
    for index in range(5):
        before = [array.copy() for array in arrays]
        apply_input_changes([view_bits(array) for array in arrays], [(tensor, 3, 7, kind) for tensor in range(3)], index)
        assert all((array != old).any() for array, old in zip(arrays, before))


def test_two_elements_are_enough_to_change():
    pair = np.arange(2, dtype="uint32")
    apply_input_changes([pair.data], [(0, 5, 1, ROTATE)], 0)
    assert list(pair) == [1, 0]


ROOTS = """
import torch
from torch import nn
N = 24
class Model(nn.Module):
    def forward(self, x):
        return torch.{what}(x)
def get_inputs():
    x = torch.randn(N, N)
    return [x @ x.T + torch.eye(N) * N + torch.triu(x) * 1e-4]
"""


@pytest.mark.parametrize(("task", "kind"), [("linalg.cholesky", SWAP_PAIR), ("diagonal", SWAP_PAIR), ("product", PERTURB)])
def test_inputs_whose_order_matters_are_not_rotated(tmp_path, task, kind):
    from evokernel.core.records import Candidate, Job
    from evokernel.suites.loader import load_tasks
    from evokernel.verifier.evaluators import open_trial
    from evokernel.verifier.timing import InputPool, PairedTimer

    (tmp_path / "task.py").write_text(PRODUCT if task == "product" else ROOTS.format(what=task))
    job = Job(backend="cpp", task=load_tasks(str(tmp_path / "task.py"))[0], candidate=Candidate(backend="cpp", files={}))
    with open_trial(job, make_plugin("backend", "cpp"), tmp_path) as trial:
        clock = PairedTimer.__new__(PairedTimer)
        clock.trial, clock.pool = trial, InputPool(trial)
        assert clock.find_allowed_changes(clock.pool.next_case()).kind == kind
