"""Time limits in CPU time: other work on the machine does not use them up, and a process that only waits is charged."""

import os
import subprocess
import sys
import time

import pytest

from evokernel.core.cpu_time import ProcessClock, charge_time

BUSY, IDLE = "while True: pass", "import time; time.sleep(1000)"


def start(code, core):
    """Start a Python process that may use one core only."""
    return subprocess.Popen([sys.executable, "-S", "-c", f"import os; os.sched_setaffinity(0, [{core}])\n{code}"])


def test_charged_time():
    assert charge_time(8.0, None) == 8, "wall time where the system reports no CPU time"
    assert charge_time(8.0, 6.0) == 6
    assert charge_time(8.0, 1.0) == 2, "a quarter of the time, if the process waits by itself"
    assert charge_time(6.0, 1.0, queued_s=4.0) == 1, "what it waits for a core does not count"
    assert charge_time(420.0, 1.0, queued_s=420.0) == 70, "but a limit remains"
    assert charge_time(1.0, 3.0) == 1, "several threads"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_waits_for_a_core_is_not_charged():
    core = min(os.sched_getaffinity(0))
    processes = [start(BUSY, core) for _ in range(12)]
    try:
        time.sleep(0.5)
        clock = ProcessClock(processes[0].pid)
        first = clock.read()
        time.sleep(4)
        last = clock.read()
        waited_s, used_s = last.queued_s - first.queued_s, last.cpu_s - first.cpu_s
        assert waited_s > 2, "twelve processes share a core"
        assert clock.charge_since(first) < max(used_s, 0.4) + 0.3, "without the waiting it would be at least one second"
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_sleeps_is_charged():
    process = start(IDLE, min(os.sched_getaffinity(0)))
    try:
        time.sleep(0.3)
        clock = ProcessClock(process.pid)
        first = clock.read()
        time.sleep(2)
        assert clock.charge_since(first) >= 0.4
    finally:
        process.kill()
        process.wait()
