"""One warm judge, hostile and honest candidates in turn: the honest ones are judged as before, and the judge stays as it was."""

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from hostile_scene import IN_TURN, Listener, Scene, strays

from evokernel.core import paths
from evokernel.core.records import Candidate, Job, Outcome
from evokernel.executors.local import Local
from evokernel.sandbox.layers import lacking
from evokernel.tasks.loader import load
from evokernel.verify import verifier
from evokernel.verify.shared_buffers import Arena

HERE = Path(__file__).parent
MEMORY_BYTES = 24 << 20
HONEST = {
    "hostile_both:Both": "def kernel(arguments):\n    arguments.outputs[0].data[...] = 2 * arguments.inputs[0].data\n",
    "hostile_traced:Traced": "factor = 2\n",
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at the judge in /proc")


class Size(NamedTuple):
    """What a process has."""

    descriptors: int
    threads: int
    processes: int
    """Below it, at any depth."""
    memory_bytes: int


def size(pid: int) -> Size:
    home = Path(f"/proc/{pid}")
    held = int((home / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return Size(len(os.listdir(home / "fd")), len(os.listdir(home / "task")), len(below(pid)), held)


def below(pid: int) -> list[int]:
    """All descendants of a process."""
    try:
        found = [int(word) for path in Path(f"/proc/{pid}/task").iterdir() for word in (path / "children").read_text().split()]
    except OSError:
        return []
    return [one for child in found for one in (child, *below(child))]


class Warm:
    """A judge that was started once."""

    def __init__(self, scene: Scene, backend: str, port: int) -> None:
        self.task, self.backend = load(str(HERE / "hostile_task.py"))[0], backend
        self.scene, self.settings = scene, scene.settings(port)
        self.local = Local(workers=1)

    def judge(self, text: str, clock: str = "synthetic", timeout_s: float = 2) -> Outcome:
        candidate = Candidate(backend=self.backend, files={"kernel.py": text})
        job = Job(backend=self.backend, settings=self.settings, task=self.task, candidate=candidate, clock=clock, timeout_s=timeout_s)
        return self.local.submit(job).result()

    def honest(self, clock: str = "synthetic") -> Outcome:
        found = self.judge(HONEST[self.backend], clock, timeout_s=20)  # it is not to fail where others are at work, too
        assert found.feasible, found.failure
        assert list(self.scene.tmp.iterdir()) == []
        return found

    @property
    def pid(self) -> int:
        assert self.local.all[0].process
        return self.local.all[0].process.pid


@pytest.fixture
def warm(tmp_path, monkeypatch):
    """Makes a judge inside a scene; afterwards nothing may be left of it."""
    if missing := lacking():
        pytest.skip(f"without its walls the machine would come to harm: {', '.join(missing)}")
    scene, listener, made = Scene(tmp_path, paths.cache_folder()), Listener(), list[Warm]()
    for name, value in scene.environment(HERE).items():
        monkeypatch.setenv(name, value)

    def make(backend: str) -> Warm:
        made.append(Warm(scene, backend, listener.port))
        return made[0]

    with strays() as processes:
        yield make
        made[0].local.close()
    calls = listener.close()
    scene.release()
    assert scene.complaints() + processes + calls == []


def act(name: str) -> str:
    return (HERE / "hostile_acts" / f"{name}.py").read_text()


def refuse(name: str, found: Outcome) -> None:
    assert not found.feasible, name
    assert "HARM" not in found.failure.detail, (name, found.failure)


def grown(before: Size, after: Size) -> list[str]:
    """In what a judge has become larger."""
    pairs = zip(Size._fields[:3], before, after, strict=False)
    found = [f"{name}: {old} then, {new} now" for name, old, new in pairs if new > old]
    if after.memory_bytes > before.memory_bytes + MEMORY_BYTES:
        found.append(f"memory: {before.memory_bytes >> 20} MiB then, {after.memory_bytes >> 20} MiB now")
    return found


@pytest.mark.slow
def test_a_warm_judge_stays_as_it_was(warm):
    made = warm("hostile_both:Both")
    first = [made.honest("auto") for _ in range(4)]
    before, pid = size(made.pid), made.pid
    later = []
    for number, name in enumerate(IN_TURN):
        text = act(name)
        refuse(name, made.judge(f"# at {('call', 'load')[number % 2]}\n{text}"))
        later.append(made.honest("auto" if number % 4 == 3 else "synthetic"))
    assert made.pid == pid, "it had to be started again"
    assert grown(before, size(made.pid)) == []
    verdicts = {tuple((gate.gate, gate.passed) for gate in outcome.gates) for outcome in (*first, *later)}
    assert len(verdicts) == 1
    timed = [outcome for outcome in later if outcome.clock != "synthetic"]
    speedups = [statistics.median(outcome.speedup or 0.0 for outcome in outcomes) for outcomes in (first, timed)]
    assert 0.5 < speedups[0] / speedups[1] < 2


@pytest.mark.slow
def test_a_warm_judge_of_traced_candidates_stays_as_it_was(warm):
    made = warm("hostile_traced:Traced")
    for _ in range(2):
        made.honest()
    before, pid = size(made.pid), made.pid
    for path in sorted((HERE / "hostile_acts").glob("*.py"))[::3]:
        refuse(path.stem, made.judge(path.read_text()))
    made.honest()
    assert made.pid == pid, "it had to be started again"
    assert grown(before, size(made.pid)) == []


def test_memory_shared_with_a_candidate_keeps_its_length():
    arena = Arena(1 << 16, 1 << 16, seed=0)
    for descriptor in (arena.inputs.descriptor, arena.outputs.descriptor):
        for length in (0, 1 << 20):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, length)
    arena.close()


@pytest.mark.parametrize("whose", ["a judge that was killed long ago", "our own"])
def test_folders_of_any_depth_are_removed(whose, tmp_path, monkeypatch):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f"{verifier.PREFIX}{os.getpid() if whose == 'our own' else gone.pid}-x"
    (left / "scratch-y").mkdir(parents=True)
    monkeypatch.chdir(left / "scratch-y")
    for _ in range(1200):
        os.mkdir("deeper")
        os.chdir("deeper")
    os.chdir(tmp_path)
    os.utime(left, (0, 0))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    verifier.remove_leftovers.cache_clear()
    verifier.remove_own() if whose == "our own" else verifier.remove_leftovers()
    assert list(tmp_path.iterdir()) == []
