"""A device lock allows one measurement at a time, across processes, folders and killed processes."""

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from evokernel.core import devices

HOLD = (
    "import sys, time; from evokernel.core.devices import hold_device\n"
    "with hold_device(sys.argv[1]):\n"
    "  print('in', flush=True); time.sleep(float(sys.argv[2]))"
)
RECORD_SPANS = (
    "import sys, time; from evokernel.core.devices import hold_device\n"
    "for _ in range(20):\n"
    "  with hold_device(sys.argv[1]):\n"
    "    started = time.monotonic(); time.sleep(0.005); print(started, time.monotonic())"
)


@pytest.fixture
def name():
    device_name = f"test-{os.getpid()}"
    yield device_name
    for path in devices.LOCK_FOLDER.glob(f"evokernel-{device_name}*"):
        path.unlink()


def start_process(code, *arguments, **environment):
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})


def test_only_one_process_holds_a_device(name, tmp_path):
    others = [start_process(RECORD_SPANS, name), start_process(RECORD_SPANS, name, TMPDIR=str(tmp_path))]
    spans = sorted(tuple(map(float, line.split())) for other in others for line in other.communicate(timeout=60)[0].splitlines())
    assert len(spans) == 40
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(spans))


def test_killed_process_releases_the_device(name):
    holder = start_process(HOLD, name, "60")
    assert holder.stdout.readline().strip() == "in"
    waiting = start_process(HOLD, name, "0")
    time.sleep(0.3)
    assert waiting.poll() is None, "the lock holds"
    holder.send_signal(signal.SIGKILL)
    assert waiting.communicate(timeout=60)[0].strip() == "in"
    holder.communicate()


def test_different_devices_have_separate_locks(name):
    holder = start_process(HOLD, f"{name}-0", "60")
    assert holder.stdout.readline().strip() == "in"
    with devices.hold_device(f"{name}-1"):
        pass
    holder.kill()
    holder.communicate()


def test_read_only_lock_file_can_be_locked(name):
    path = devices.LOCK_FOLDER / f"evokernel-{name}.lock"
    path.touch(mode=0o444)
    with devices.hold_device(name):
        pass


def test_physical_device_follows_visible_devices(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert devices.physical_device(1, "CUDA_VISIBLE_DEVICES") == "1"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-1f")
    assert [devices.physical_device(n, "CUDA_VISIBLE_DEVICES") for n in (0, 1, 2)] == ["3", "GPU-1f", "2"]
