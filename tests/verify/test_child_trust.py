"""The child's answers decide nothing, and nothing it does reaches the judge or survives it."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from judge_parts import HONEST, is_alive

from evokernel.core.errors import InfraError

OPEN = "landlock,seccomp"
"""Without these a candidate can leave notes outside of its folder."""
WRONG = "a.outputs[0].data[...] = a.inputs[0].data"


def reason(outcome):
    return outcome.failure.reason if outcome.failure else "passed"


def kernel(*lines):
    return "import sys, time, signal, ctypes, threading\ndef kernel(a):\n" + "".join(f"    {line}\n" for line in lines)


def test_an_honest_candidate_passes_every_gate(hostile):
    outcome = hostile(HONEST)
    assert [gate.gate for gate in outcome.gates] == ["screen", "build", "check", "time"]
    assert outcome.feasible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (kernel("print('ready\\ndone\\ndone', flush=True)", "os.write(2, b'done\\n')", WRONG), {"mismatch"}),
        (kernel("[os.write(fd, b'done 0\\n') for fd in range(3, 256) if answers(fd)]", WRONG), {"forbidden"}),
        (kernel("[os.write(fd, b'x' * 65536) for fd in range(3, 256) if answers(fd)]"), {"forbidden"}),
        (kernel("frame = sys._getframe()", "while 'nonce' not in frame.f_locals: frame = frame.f_back",
                "frame.f_locals['answers'].say('done', frame.f_locals['nonce'])", "time.sleep(0.05)"), {"unwritten", "forbidden"}),
        (kernel("os.closerange(3, 4096)"), {"exit", "forbidden"}),
        (kernel("os._exit(0)"), {"exit"}),
        (kernel("raise SystemExit(0)"), {"exit"}),
        (kernel("raise ValueError('no such luck')"), {"raised"}),
        (kernel("os.abort()"), {"crash"}),
        (kernel("ctypes.memset(a.inputs[0].data.ctypes.data, 0, 4)", WRONG), {"crash"}),
        (kernel("held.append(bytearray(1 << 33))"), {"memory"}),
        (kernel("time.sleep(60)"), {"timeout"}),
        (kernel("threading.Thread(target=later, args=(a,)).start()"), {"unwritten", "raised"}),
        ("raise ImportError('while loading')", {"raised"}),
        ("import os\nos._exit(3)", {"exit"}),
    ],
)  # fmt: skip
def test_forging_ends_in_a_verdict(hostile, text, expected):
    helpers = (
        "import fcntl\nheld = []\n"
        "def answers(fd):\n"
        "    try:\n        return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY\n    except OSError:\n        return False\n"
        "def later(a):\n    import time\n    time.sleep(0.2)\n    a.outputs[0].data[...] = 2 * a.inputs[0].data\n"
    )
    outcome = hostile(helpers + text, timeout_s=2.0)
    assert reason(outcome) in expected, outcome.failure
    assert outcome.failure.detail


def test_inputs_that_were_changed_do_not_change_what_is_expected(hostile):
    text = kernel(
        "import mmap",
        "for fd in range(3, 256):",
        "    try: memory = mmap.mmap(fd, a.inputs[0].data.nbytes + 4096)",
        "    except (OSError, ValueError): continue",
        "    memory[:] = bytes(len(memory))",
        "a.outputs[0].data[...] = 2 * a.inputs[0].data",
    )
    assert reason(hostile(text)) in ("mismatch", "out_of_bounds")


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are chosen by the system")
def test_every_child_is_loaded_at_the_same_addresses(hostile):
    text = "import ctypes\nraise ValueError(ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value)\n"
    libc = ctypes.CDLL(None)
    before = libc.personality(0xFFFFFFFF) & ~0x40000
    if libc.personality(before | 0x40000) == -1:
        pytest.skip("this container refuses to choose")
    libc.personality(before)
    said = {hostile(text).failure.detail for _ in range(3)}
    assert len(said) == 1
    assert re.fullmatch(r"ValueError: \d+", said.pop())


def test_the_child_is_light_and_its_environment_bare(hostile, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    text = (
        "import sys\n"
        "bad = [m for m in ('pydantic', 'torch', 'asyncio', 'importlib.metadata') if m in sys.modules]\n"
        "assert not bad, bad\n"
        "assert 'SOME_API_KEY' not in os.environ\n"
        "def is_open(fd):\n    try:\n        os.fstat(fd)\n        return True\n    except OSError:\n        return False\n"
        "assert sum(map(is_open, range(3, 1024))) == 4, 'answers, inputs, outputs, and the copy of stdin'\n"
    )
    outcome = hostile(text + HONEST)
    assert outcome.feasible, outcome.failure


def test_a_forked_process_does_not_survive(hostile, tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_WITHOUT", OPEN)
    text = kernel(
        "pid = os.fork()",
        "if pid == 0: time.sleep(120)",
        "open(where + '/pid', 'w').write(str(pid))",
        "a.outputs[0].data[...] = 2 * a.inputs[0].data",
    )
    outcome = hostile(text)
    if reason(outcome) == "raised":
        assert "Resource" in outcome.failure.detail  # not root: forking is refused at once
        return
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_child_killed_once_changes_nothing(hostile, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_WITHOUT", OPEN)
    once = "if not os.path.exists(where + '/killed'):\n        open(where + '/killed', 'w').close(); os.kill(os.getpid(), 9)"
    text = kernel(once, "a.outputs[0].data[...] = 2 * a.inputs[0].data")
    first = hostile(text)
    assert first.feasible
    assert hostile(text) == first


def test_a_child_killed_every_time_is_the_candidates_fault(hostile, tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_WITHOUT", OPEN)
    outcome = hostile(kernel("open(where + '/tries', 'a').write('x')", "os.kill(os.getpid(), 9)"))
    assert reason(outcome) == "killed"
    assert (tmp_path / "tries").read_text() == "xxx"


def test_a_child_that_does_not_start_is_nobodys_fault(hostile, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(InfraError, match="did not start"):
        hostile(HONEST)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(InfraError, match="cannot be started"):
        hostile(HONEST)


def test_no_room_for_scratch_is_nobodys_fault(hostile, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(InfraError, match="temporary folder"):
        hostile(HONEST)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_killed_judge_leaves_no_child(doubling, tmp_path):
    script = (
        "import sys; from evokernel.core.records import Job, Candidate, Task; from evokernel.verify import verify\n"
        "task = Task.model_validate_json(sys.stdin.read())\n"
        "text = \"import time\\ndef kernel(a):\\n    open(where + '/pid.new', 'w').write(str(os.getpid()))\\n"
        "    os.rename(where + '/pid.new', where + '/pid')\\n    time.sleep(120)\\n\"\n"
        "candidate = Candidate(backend='hostile_backend:Hostile', files={'kernel.py': text})\n"
        f"verify(Job(backend=candidate.backend, settings={{'where': {str(tmp_path)!r}}}, task=task, candidate=candidate))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "EVOKERNEL_WITHOUT": OPEN}
    judge = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, env=environment)
    judge.stdin.write(doubling.model_dump_json().encode())
    judge.stdin.close()
    while not (tmp_path / "pid").exists():
        assert judge.poll() is None
        time.sleep(0.02)
    child = int((tmp_path / "pid").read_text())
    assert is_alive(child)
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    deadline = time.monotonic() + 20
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(child)


def test_a_busy_helper_is_found_out_by_the_clock(hostile):
    text = "import threading\ndef burn():\n    while True: sum(range(1000))\nthreading.Thread(target=burn, daemon=True).start()\n"
    assert reason(hostile(text + HONEST, clock="auto")) in ("forbidden", "raised")


def test_a_crash_is_told_with_its_signal_and_size(hostile):
    outcome = hostile(kernel("if a.inputs[0].data.size % 2: os.abort()", "a.outputs[0].data[...] = 2 * a.inputs[0].data"))
    assert reason(outcome) == "crash"
    assert "SIGABRT" in outcome.failure.detail
    assert "a size that is not shown" in outcome.failure.detail


@pytest.mark.parametrize(("sizes", "says"), [("% 2", "the small size came out right"), ("> 4000", "smaller sizes came out right")])
def test_what_was_right_so_far_is_told(hostile, sizes, says):
    outcome = hostile(kernel(f"a.outputs[0].data[...] = 3 if a.inputs[0].data.size {sizes} else 2 * a.inputs[0].data"))
    assert reason(outcome) == "mismatch"
    assert says in outcome.failure.detail


@pytest.mark.parametrize("figure", ["writing_us", "moving_us"])
def test_a_time_below_the_floor_is_impossible(hostile, monkeypatch, figure):
    import hostile_backend

    from evokernel.core.records import Profile

    floor = Profile(bottleneck="memory", summary="", figures={figure: 1e9})
    monkeypatch.setattr(hostile_backend.Hostile, "profile", lambda self, task, outcome: floor)
    assert reason(hostile(HONEST, clock="auto")) == "impossible"


def test_folders_of_killed_judges_are_removed(tmp_path, monkeypatch):
    from evokernel.verify import verifier

    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    old, new, mine = (tmp_path / f"{verifier.PREFIX}{pid}-x" for pid in (gone.pid, f"{gone.pid}-y", os.getpid()))
    for folder in (old, new, mine):
        folder.mkdir()
    for folder in (old, mine):
        os.utime(folder, (0, 0))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    verifier.remove_leftovers.cache_clear()
    verifier.remove_leftovers()
    assert (old.exists(), new.exists(), mine.exists()) == (False, True, True)
