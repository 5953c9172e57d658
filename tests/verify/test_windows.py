"""What a timed window sees through: memories of earlier calls, results that are there already, clocks that were tampered with."""

import numpy as np
import pytest
from judge_parts import HONEST, PRODUCT, needs_compiler

from evokernel.core.errors import CandidateError
from evokernel.core.plugins import make_plugin
from evokernel.verify.candidate_main import MOVED, OTHER, PAIR, bits_of, change
from evokernel.verify.candidate_process import Window
from evokernel.verify.timing_window import TimedKernel

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
"""Always right: keeps inputs and results, and computes only rows and columns that are not as they were."""


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
"""A whole output of poison begins a window; of as many calls as the longest had, only the first and the last are made."""
MOVED_ALONG = """
    static float a_known[1 << 20], out_known[1 << 20];
    int64_t by = 1;
    while (by < 1000 && by < n && std::memcmp(a + by, a_known, 4 * (n - by))) ++by;
    if (by < 1000 && by < n && !std::memcmp(a, a_known + n - by, 4 * by))
        std::memcpy(out + by, out_known, 4 * (n - by)), std::memcpy(out, out_known + n - by, 4 * by);
    else
        waves(a, out, n);
    std::memcpy(a_known, a, 4 * n), std::memcpy(out_known, out, 4 * n);
"""
"""Always right: where all elements have moved, the results move along."""


@needs_compiler
def test_no_call_is_known_to_be_the_last_of_a_window(compiled):
    failure = compiled(SINE, WAVES.replace("BODY", LAST)).failure
    assert failure is not None
    assert (failure.gate, failure.reason) in {("time", "mismatch"), ("time", "unwritten")}


@needs_compiler
def test_results_cannot_move_along_with_inputs(compiled):
    plain, moving = (compiled(SINE, WAVES.replace("BODY", body)) for body in ("waves(a, out, n);", MOVED_ALONG))
    assert plain.feasible, plain.failure
    assert not moving.feasible or moving.latency_us > 0.8 * plain.latency_us


@needs_compiler
def test_computing_only_what_changed_gains_nothing(compiled):
    plain, sparing = (compiled(PRODUCT, ROWS.replace("REMEMBER", word)) for word in ("false", "true"))
    assert plain.feasible, plain.failure
    assert not sparing.feasible or sparing.latency_us > 0.8 * plain.latency_us


@needs_compiler
def test_a_result_that_is_there_is_computed_again_also_where_one_call_fills_a_window(compiled):
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


def test_a_clock_that_stands_still_gives_its_kernel_away(hostile):
    failure = hostile(CLOCKS.format("0.0") + HONEST, clock="auto").failure
    assert failure is not None
    assert (failure.gate, failure.reason) == ("time", "forbidden")
    assert "clocks" in failure.detail


def test_a_clock_that_runs_ahead_gains_nothing(hostile):
    honest, lying = (
        hostile(HONEST, clock="auto"),
        hostile("ticks = [0]\n" + CLOCKS.format("ticks.append(ticks[-1] + 9) or ticks[-1]") + HONEST, clock="auto"),
    )
    assert honest.feasible, honest.failure
    assert not lying.feasible or lying.latency_us > 0.8 * honest.latency_us


def side(**seen):
    made = TimedKernel.__new__(TimedKernel)
    for name, value in {"by_cpu": True, "idle_cpu_s": 0.0, "idle_wall_s": 1.0, "wall_s": 1.0, "cpu_s": 0.99, "told": [1.0], **seen}.items():
        setattr(made, name, value)
    return made


def test_more_processor_time_than_passes_means_more_than_one_thread():
    side().check()
    with pytest.raises(CandidateError, match=r"1\.60 processors busy"):
        side(cpu_s=1.6).check()
    side(cpu_s=1.6, by_cpu=False).check()


def test_work_between_the_windows_is_found():
    with pytest.raises(CandidateError, match="keeps computing"):
        side(idle_cpu_s=0.5).check()


def noted(*windows):
    made = side(told=[])
    for window in windows:
        made.note(window)
    return made


SHORT, LONG, READ_WRONGLY = Window(0.0009, 0.0008, (0.0, 0.0008)), Window(0.004, 0.004, (0.0, 0.004)), Window(0.004, 0.004, (0.0, 0.0008))


def test_windows_that_were_read_wrongly_condemn_nobody_among_others():
    noted(*[SHORT] * 20, *[READ_WRONGLY] * 4).check()
    noted(*[LONG] * 20, *[READ_WRONGLY] * 4).check()
    noted(*[SHORT._replace(cpu_s=0.004)] * 20).check()  # more processor time than went by
    with pytest.raises(CandidateError, match="clocks"):
        noted(*[SHORT] * 4, *[READ_WRONGLY] * 20).check()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("how", [PAIR, MOVED])
def test_changes_are_the_same_on_both_sides_and_lose_nothing(dtype, how):
    start = np.arange(200).astype(dtype)
    one, other = start.copy(), start.copy()
    seen = {start.tobytes()}
    for index in range(8):
        for array in (one, other):
            change([array.data], [(0, 12345, 7, how)], index)
        assert one.tobytes() == other.tobytes()
        assert sorted(one) == sorted(start)
        assert (one != start).sum() > (150 if how == MOVED else 0)
        seen.add(one.tobytes())
    assert len(seen) == 9


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_other_numbers_have_the_same_sign_and_about_the_same_size(dtype):
    start = np.random.default_rng(0).standard_normal(1000).astype(dtype)
    one, other = start.copy(), start.copy()
    seen = {start.tobytes()}
    for index in range(8):
        for array in (one, other):
            change([bits_of(array)], [(0, 12345, 7, OTHER)], index)
        assert one.tobytes() == other.tobytes()
        assert (np.frexp(one)[1] == np.frexp(start)[1]).all()
        assert (np.signbit(one) == np.signbit(start)).all()
        assert (one != start).all()
        seen.add(one.tobytes())
    assert len(seen) == 9


@pytest.mark.parametrize("how", [PAIR, MOVED, OTHER])
def test_every_input_changes_every_time(how):
    arrays = [np.arange(1, 200, dtype="float32"), np.arange(1, 100, dtype="float64"), np.arange(1, 50, dtype="float16")]
    for index in range(5):
        before = [array.copy() for array in arrays]
        change([bits_of(array) for array in arrays], [(which, 3, 7, how) for which in range(3)], index)
        assert all((array != old).any() for array, old in zip(arrays, before))


def test_two_elements_are_enough_to_change():
    pair = np.arange(2, dtype="uint32")
    change([pair.data], [(0, 5, 1, MOVED)], 0)
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


@pytest.mark.parametrize(("task", "how"), [("linalg.cholesky", PAIR), ("diagonal", PAIR), ("product", OTHER)])
def test_inputs_whose_order_matters_are_not_moved_as_a_whole(tmp_path, task, how):
    from evokernel.core.records import Candidate, Job
    from evokernel.tasks.loader import load
    from evokernel.verify.timing import Clock, Pool
    from evokernel.verify.trial import Trial

    (tmp_path / "task.py").write_text(PRODUCT if task == "product" else ROOTS.format(what=task))
    job = Job(backend="cpp", task=load(str(tmp_path / "task.py"))[0], candidate=Candidate(backend="cpp", files={}))
    with Trial(job, make_plugin("backend", "cpp"), tmp_path) as trial:
        clock = Clock.__new__(Clock)
        clock.trial, clock.pool = trial, Pool(trial)
        assert clock.changes(clock.pool.next()).how == how
