"""Skipped iterations of a steady loop leave the same figures as executed ones; linear words stop where a decision would change."""

import random
import time

import pytest
from test_schedule import estimate_dump  # noqa: F401
from test_schedule_parts import V5E, program

from evokernel.backends.pallas.schedule import simulate
from evokernel.backends.pallas.schedule.linear_words import IterationLimit, LinearWord, NotSteadyError
from evokernel.backends.pallas.schedule.simulate import OUT_OF_TIME, Execution, execute_program, extrapolate_copy, translate_program

READ = "%1 = dma.hbm_to_vmem /*hbm=*/0, /*size_in_granules=*/{size}, /*vmem=*/0, /*dst_syncflagno=*/{flag}"
WAIT = "%2 = dma.done.wait {flag}, {size}"
CLEAR = "%3 = vsyncadd {flag}, -{size}"


def make_loop(count, *body, before=""):
    """A loop with a counter in register 1, which ends when the counter reaches the count."""
    return program(
        f"%s1_s1 = smov 0 ;; {before}".removesuffix(" ;; "),
        "%s1_s1 = sadd.s32 %s1_s1, 1 @1",
        *body,
        f"%p1_p1 = scmp.lt.s32.totalorder %s1_s1, {count}",
        "%9 = sbr.rel (%p1_p1) target = $region1",
        *[""] * 4,
        "",
    )


def execute(source, monkeypatch, skips):
    """Execute a program; return the result and how many blocks were skipped."""
    skipped = []
    skip = simulate.skip_steady_iterations

    def skip_or_not(runner):
        skipped.append(skip(runner) if skips else 0)
        return skipped[-1]

    with monkeypatch.context() as patch:
        patch.setattr(simulate, "skip_steady_iterations", skip_or_not)
        return execute_program(translate_program(source, V5E), V5E, time.thread_time() + 60), sum(skipped)


def check_equal(source, monkeypatch):
    """Execute a program with and without skipping, and compare all figures; return how many blocks were skipped."""
    (exact, _), (quick, skipped) = execute(source, monkeypatch, False), execute(source, monkeypatch, True)
    assert quick.cycles == pytest.approx(exact.cycles, rel=1e-9)
    assert quick.wait_cycles == pytest.approx(exact.wait_cycles, rel=1e-9)
    assert quick._replace(cycles=0, wait_cycles=0) == exact._replace(cycles=0, wait_cycles=0)
    return skipped


@pytest.mark.parametrize("count", [300, 5000, 5001])
def test_counting_loop_is_skipped_to_its_end(count, monkeypatch):
    assert check_equal(make_loop(count, "", ""), monkeypatch) > 0.9 * (count - 300)


def test_transfers_of_two_buffers_are_counted_as_if_executed(monkeypatch):
    body = (
        "%s2_s2 = sand.u32 %s1_s1, 1",
        READ.format(size=100, flag="%s2_s2"),
        WAIT.format(size=100, flag="%s2_s2"),
        CLEAR.format(size=100, flag="%s2_s2"),
    )
    assert check_equal(make_loop(4000, *body), monkeypatch) > 3000


def test_rare_event_inside_a_loop_is_executed(monkeypatch):
    """Every 512 iterations, and in iteration 2,222, another transfer is read."""
    body = (
        "%s2_s2 = sand.u32 %s1_s1, 511",
        "%p2_p2 = scmp.eq.s32.totalorder %s2_s2, 0",
        "%p3_p3 = scmp.eq.s32.totalorder %s1_s1, 2222",
        "%p4_p4 = por %p2_p2, %p3_p3",
        READ.replace("vmem ", "vmem (%p4_p4) ", 1).format(size=7, flag="5"),
    )
    (exact, _) = execute(make_loop(5000, *body), monkeypatch, False)
    assert exact.transfers == 10
    assert check_equal(make_loop(5000, *body), monkeypatch) > 1000


def test_loop_over_an_array_in_scalar_memory_is_skipped(monkeypatch):
    """Each iteration reads the next index and transfers the row that it names."""
    body = (
        "%s2_s2 = sadd.s32 %s1_s1, 4096",
        "%s3_s3 = sld [smem:[%s2_s2]]",
        "%s4_s4 = sshll.u32 %s3_s3, 7",
        "%5 = dma.hbm_to_vmem /*hbm=*/%s4_s4, /*size_in_granules=*/9, /*vmem=*/0, /*dst_syncflagno=*/3",
        "%6 = dma.done.wait 3, 9",
        "%7 = vsyncadd 3, -9",
    )
    transfer = "%8 = dma.hbm_to_smem /*hbm=*/0, /*size_in_granules=*/1024, /*smem=*/4096, /*dst_syncflagno=*/9"
    assert check_equal(make_loop(6000, *body, before=transfer), monkeypatch) > 5000


def test_loop_whose_work_grows_is_not_skipped(monkeypatch):
    assert check_equal(make_loop(2000, "%2 = vdelay %s1_s1"), monkeypatch) == 0


@pytest.mark.parametrize("name", ["add_tiny", "add", "matmul", "manual", "scaled", "gather", "xla_softmax"])
def test_estimates_of_recorded_schedules_do_not_change(estimate_dump, name, monkeypatch):  # noqa: F811
    quick = estimate_dump(name)
    monkeypatch.setattr(simulate, "skip_steady_iterations", lambda runner: 0)
    exact = estimate_dump(name)
    assert quick.latency_us == pytest.approx(exact.latency_us, rel=1e-9)
    assert (quick.transfers, quick.steps, quick.hbm_bytes, quick.notes) == (exact.transfers, exact.steps, exact.hbm_bytes, exact.notes)


OPERATIONS = (
    lambda x, c: (x + c) & 0xFFFFFFFF,
    lambda x, c: (c - x) & 0xFFFFFFFF,
    lambda x, c: (x * c) & 0xFFFFFFFF,
    lambda x, c: ((x & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000,
    lambda x, c: (x & 0xFFFFFFFF) >> (c & 31),
    lambda x, c: (((x & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000) >> (c & 31),
    lambda x, c: (x << (c & 7)) & 0xFFFFFFFF,
    lambda x, c: x & 63,
    lambda x, c: x & 0xFFFFFFF8,
    lambda x, c: x & 0x3FF0,
    lambda x, c: x & 0,
    lambda x, c: min(x, c),
    lambda x, c: max(x, c),
    lambda x, c: divmod(x & 0xFFFFFFFF, c + 1)[1],
    lambda x, c: divmod(x & 0xFFFFFFFF, c + 1)[0],
    lambda x, c: x if x < c else 0,
    lambda x, c: x if x >= c else 1,
    lambda x, c: x if x == c else 2,
    lambda x, c: x if x != c else 3,
    lambda x, c: x if x <= c else x + 1,
    lambda x, c: x if x > c else x - 1,
)


def test_linear_words_equal_numbers_up_to_the_limit():
    """Random chains of operations: up to the limit, the linear result has the value that the number gives."""
    chance, checked = random.Random(1), 0
    for _ in range(3000):
        value, step = chance.choice([0, 5, 100, 2**31 - 3, 2**32 - 9]), chance.choice([1, -1, 2, 8, 64, -7, 1000])
        chain = [(chance.choice(OPERATIONS), chance.choice([0, 1, 2, 7, 100, 4096])) for _ in range(chance.randrange(1, 4))]

        def apply(word, chain=chain):
            for operation, number in chain:
                word = operation(word, number)
            return word

        limit = IterationLimit()
        try:
            result = apply(LinearWord(value, step, limit))
        except NotSteadyError:
            continue
        for k in {0, 1, 2, 3, 50, 1000, 10**6}:
            if k <= limit.iterations:
                now = result.value + k * result.step if isinstance(result, LinearWord) else result
                assert now == apply(value + k * step), (value, step, k, [OPERATIONS.index(one) for one, _ in chain])
                checked += k > 0
    assert checked > 3000


def test_copy_that_takes_too_long_continues_at_its_rate():
    other = "waits without a matching transfer: 1"
    half = Execution(1000.0, 400.0, 2048, 1024, 0, 10, [1, 5], 0.0, 0, (OUT_OF_TIME, f"control flow is {simulate.DECIDED_BY_DATA}", other))
    whole = extrapolate_copy(half, 4096)
    assert (whole.cycles, whole.wait_cycles, whole.bytes_read, whole.bytes_written, whole.transfers) == (4000.0, 1600.0, 8192, 4096, 40)
    assert whole.bundle_counts == [4, 20]
    assert whole.doubts == (other,)
    assert whole.remarks == ("extrapolated from 0.25 of its bytes",)
    assert extrapolate_copy(half._replace(bytes_written=0), 4096).doubts == half.doubts, "nothing to extrapolate from"
    ended = half._replace(doubts=(other,))
    assert extrapolate_copy(ended, 4096) is ended


@pytest.mark.parametrize("count", range(2, 80))
def test_loop_may_end_while_its_iterations_are_compared(count, monkeypatch):
    check_equal(make_loop(count, "", ""), monkeypatch)
