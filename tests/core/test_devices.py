"""One measurement at a time on a device, across processes, users' folders and deaths."""

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from evokernel.core import devices

HOLD = (
    "import sys, time; from evokernel.core.devices import alone\n"
    "with alone(sys.argv[1]):\n"
    "  print('in', flush=True); time.sleep(float(sys.argv[2]))"
)
NOTE = (
    "import sys, time; from evokernel.core.devices import alone\n"
    "for _ in range(20):\n"
    "  with alone(sys.argv[1]):\n"
    "    begun = time.monotonic(); time.sleep(0.005); print(begun, time.monotonic())"
)


@pytest.fixture
def name():
    found = f"test-{os.getpid()}"
    yield found
    for path in devices.PLACE.glob(f"evokernel-{found}*"):
        path.unlink()


def begin(code, *words, **environment):
    return subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})


def test_no_two_processes_measure_at_once(name, tmp_path):
    others = [begin(NOTE, name), begin(NOTE, name, TMPDIR=str(tmp_path))]
    spans = sorted(tuple(map(float, line.split())) for other in others for line in other.communicate(timeout=60)[0].splitlines())
    assert len(spans) == 40
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(spans))


def test_a_killed_process_lets_go(name):
    held = begin(HOLD, name, "60")
    assert held.stdout.readline().strip() == "in"
    waiting = begin(HOLD, name, "0")
    time.sleep(0.3)
    assert waiting.poll() is None, "the lock holds"
    held.send_signal(signal.SIGKILL)
    assert waiting.communicate(timeout=60)[0].strip() == "in"
    held.communicate()


def test_devices_do_not_wait_for_each_other(name):
    held = begin(HOLD, f"{name}-0", "60")
    assert held.stdout.readline().strip() == "in"
    with devices.hold_device(f"{name}-1"):
        pass
    held.kill()
    held.communicate()


def test_a_lock_that_may_not_be_written_can_be_held(name):
    path = devices.PLACE / f"evokernel-{name}.lock"
    path.touch(mode=0o444)
    with devices.hold_device(name):
        pass


def test_a_device_is_known_by_what_the_machine_calls_it(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert devices.physical_device(1, "CUDA_VISIBLE_DEVICES") == "1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-1f")
    assert [devices.physical_device(n, "CUDA_VISIBLE_DEVICES") for n in (0, 1, 2)] == ["3", "GPU-1f", "2"]
