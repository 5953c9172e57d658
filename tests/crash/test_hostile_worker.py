"""One persistent worker verifies hostile and honest candidates in turn: honest outcomes and the worker itself do not change."""

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from hostile_environment import ACTS_FOR_ONE_WORKER, HostileEnvironment, Listener, collect_stray_processes
from time_limits import HANG_S

from evokernel.core import paths
from evokernel.core.records import Candidate, Job, Outcome
from evokernel.executors.local import LocalExecutor
from evokernel.sandbox.layers import describe_missing_layers
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verifier
from evokernel.verifier.shared_buffers import Arena

HERE = Path(__file__).parent
MEMORY_BYTES = 24 << 20
HONEST = {
    "hostile_mixed_backend:MixedBackend": "def kernel(arguments):\n    arguments.outputs[0].data[...] = 2 * arguments.inputs[0].data\n",
    "hostile_traced_backend:HostileTracedBackend": "factor = 2\n",
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inspects the worker in /proc")


class ProcessSize(NamedTuple):
    """The resources of a process."""

    descriptors: int
    threads: int
    processes: int
    """Descendants at any depth."""
    memory_bytes: int


def measure_process(pid: int) -> ProcessSize:
    home = Path(f"/proc/{pid}")
    memory_bytes = int((home / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return ProcessSize(len(os.listdir(home / "fd")), len(os.listdir(home / "task")), len(list_descendants(pid)), memory_bytes)


def list_descendants(pid: int) -> list[int]:
    """Return all descendants of a process."""
    try:
        pids = [int(word) for path in Path(f"/proc/{pid}/task").iterdir() for word in (path / "children").read_text().split()]
    except OSError:
        return []
    return [pid for child in pids for pid in (child, *list_descendants(child))]


class PersistentWorker:
    """A worker process that is started once."""

    def __init__(self, scene: HostileEnvironment, backend: str, port: int) -> None:
        self.task, self.backend = load_tasks(str(HERE / "hostile_task.py"))[0], backend
        self.scene, self.settings = scene, scene.backend_settings(port)
        self.local = LocalExecutor(workers=1)

    def verify(self, text: str, clock: str = "synthetic", timeout_s: float = 2) -> Outcome:
        candidate = Candidate(backend=self.backend, files={"kernel.py": text})
        job = Job(backend=self.backend, settings=self.settings, task=self.task, candidate=candidate, clock=clock, timeout_s=timeout_s)
        return self.local.submit(job).result()

    def verify_honest(self, clock: str = "synthetic") -> Outcome:
        outcome = self.verify(HONEST[self.backend], clock, timeout_s=HANG_S)
        assert outcome.feasible, outcome.failure
        assert list(self.scene.tmp.iterdir()) == []
        return outcome

    @property
    def pid(self) -> int:
        assert self.local.workers[0].process
        return self.local.workers[0].process.pid


@pytest.fixture
def start_worker(tmp_path, monkeypatch):
    """Start a worker in a hostile environment; afterwards nothing may be left of it."""
    if missing := describe_missing_layers():
        pytest.skip(f"the attacks would harm this machine without a complete sandbox: {', '.join(missing)}")
    scene, listener, worker = HostileEnvironment(tmp_path, paths.cache_folder()), Listener(), list[PersistentWorker]()
    for name, value in scene.environment(HERE).items():
        monkeypatch.setenv(name, value)

    def make(backend: str) -> PersistentWorker:
        worker.append(PersistentWorker(scene, backend, listener.port))
        return worker[0]

    with collect_stray_processes() as processes:
        yield make
        worker[0].local.close()
    calls = listener.close()
    scene.release()
    assert scene.find_problems() + processes + calls == []


def read_act(name: str) -> str:
    return (HERE / "hostile_acts" / f"{name}.py").read_text()


def assert_refused(name: str, outcome: Outcome) -> None:
    assert not outcome.feasible, name
    assert "HARM" not in outcome.failure.detail, (name, outcome.failure)


def find_growth(before: ProcessSize, after: ProcessSize) -> list[str]:
    """Return the resources that have grown."""
    pairs = zip(ProcessSize._fields[:3], before, after, strict=False)
    growth = [f"{name}: {old} before, {new} after" for name, old, new in pairs if new > old]
    if after.memory_bytes > before.memory_bytes + MEMORY_BYTES:
        growth.append(f"memory: {before.memory_bytes >> 20} MiB before, {after.memory_bytes >> 20} MiB after")
    return growth


@pytest.mark.slow
def test_worker_is_unchanged_after_hostile_candidates(start_worker):
    worker = start_worker("hostile_mixed_backend:MixedBackend")
    first = [worker.verify_honest("auto") for _ in range(4)]
    before, pid = measure_process(worker.pid), worker.pid
    later = []
    for number, name in enumerate(ACTS_FOR_ONE_WORKER):
        text = read_act(name)
        assert_refused(name, worker.verify(f"# at {('call', 'load')[number % 2]}\n{text}"))
        later.append(worker.verify_honest("auto" if number % 4 == 3 else "synthetic"))
    assert worker.pid == pid, "the worker was restarted"
    assert find_growth(before, measure_process(worker.pid)) == []
    gate_results = {tuple((gate.gate, gate.passed) for gate in outcome.gates) for outcome in (*first, *later)}
    assert len(gate_results) == 1
    timed_outcomes = [outcome for outcome in later if outcome.clock != "synthetic"]
    speedups = [statistics.median(outcome.speedup or 0.0 for outcome in outcomes) for outcomes in (first, timed_outcomes)]
    assert 0.5 < speedups[0] / speedups[1] < 2


@pytest.mark.slow
def test_worker_is_unchanged_after_hostile_traced_candidates(start_worker):
    worker = start_worker("hostile_traced_backend:HostileTracedBackend")
    for _ in range(2):
        worker.verify_honest()
    before, pid = measure_process(worker.pid), worker.pid
    for path in sorted((HERE / "hostile_acts").glob("*.py"))[::3]:
        assert_refused(path.stem, worker.verify(path.read_text()))
    worker.verify_honest()
    assert worker.pid == pid, "the worker was restarted"
    assert find_growth(before, measure_process(worker.pid)) == []


def test_shared_memory_cannot_be_resized():
    arena = Arena(1 << 16, 1 << 16, seed=0)
    for descriptor in (arena.inputs.descriptor, arena.outputs.descriptor):
        for length in (0, 1 << 20):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, length)
    arena.close()


@pytest.mark.parametrize("owner", ["a verifier killed long ago", "our own"])
def test_folders_of_any_depth_are_removed(owner, tmp_path, monkeypatch):
    dead_process = subprocess.Popen([sys.executable, "-c", ""])
    dead_process.wait()
    folder = tmp_path / f"{verifier.FOLDER_PREFIX}{os.getpid() if owner == 'our own' else dead_process.pid}-x"
    (folder / "scratch-y").mkdir(parents=True)
    monkeypatch.chdir(folder / "scratch-y")
    for _ in range(1200):
        os.mkdir("deeper")
        os.chdir("deeper")
    os.chdir(tmp_path)
    os.utime(folder, (0, 0))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    verifier.remove_stale_folders.cache_clear()
    verifier.remove_own_folders() if owner == "our own" else verifier.remove_stale_folders()
    assert list(tmp_path.iterdir()) == []
