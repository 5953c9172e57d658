"""The candidate process decides nothing, cannot affect the verifier, and leaves nothing behind."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from time_limits import HANG_S, wait_until
from verifier_helpers import HONEST, is_alive

from evokernel.core.errors import InfraError

DISABLED_LAYERS = "landlock,seccomp"
"""Without these layers a candidate can write outside its folder."""
WRONG = "a.outputs[0].data[...] = a.inputs[0].data"


def get_reason(outcome):
    return outcome.failure.reason if outcome.failure else "passed"


def make_kernel(*lines):
    return "import sys, time, signal, ctypes, threading\ndef kernel(a):\n" + "".join(f"    {line}\n" for line in lines)


def test_honest_candidate_passes_every_gate(hostile):
    outcome = hostile(HONEST)
    assert [gate.gate for gate in outcome.gates] == ["screen", "build", "check", "time"]
    assert outcome.feasible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (make_kernel("print('ready\\ndone\\ndone', flush=True)", "os.write(2, b'done\\n')", WRONG), {"mismatch"}),
        (make_kernel("[os.write(fd, b'done 0\\n') for fd in range(3, 256) if answers(fd)]", WRONG), {"forbidden"}),
        (make_kernel("[os.write(fd, b'x' * 65536) for fd in range(3, 256) if answers(fd)]"), {"forbidden"}),
        (make_kernel("frame = sys._getframe()", "while 'nonce' not in frame.f_locals: frame = frame.f_back",
                "frame.f_locals['channel'].send('done', frame.f_locals['nonce'])", "time.sleep(0.05)"), {"unwritten", "forbidden"}),
        (make_kernel("os.closerange(3, 4096)"), {"exit", "forbidden"}),
        (make_kernel("os._exit(0)"), {"exit"}),
        (make_kernel("raise SystemExit(0)"), {"exit"}),
        (make_kernel("raise ValueError('no such luck')"), {"raised"}),
        (make_kernel("os.abort()"), {"crash"}),
        (make_kernel("ctypes.memset(a.inputs[0].data.ctypes.data, 0, 4)", WRONG), {"crash"}),
        (make_kernel("held.append(bytearray(1 << 33))"), {"memory"}),
        (make_kernel("while True: pass"), {"timeout"}),
        (make_kernel("threading.Thread(target=later, args=(a,)).start()"), {"unwritten", "raised"}),
        ("raise ImportError('while loading')", {"raised"}),
        ("import os\nos._exit(3)", {"exit"}),
    ],
)  # fmt: skip
def test_attack_on_the_protocol_fails_the_candidate(hostile, text, expected):
    helpers = (
        "import fcntl\nheld = []\n"
        "def answers(fd):\n"
        "    try:\n        return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY\n    except OSError:\n        return False\n"
        "def later(a):\n    import time\n    time.sleep(10)\n    a.outputs[0].data[...] = 2 * a.inputs[0].data\n"
    )
    outcome = hostile(helpers + text, timeout_s=2.0 if expected == {"timeout"} else HANG_S)
    assert get_reason(outcome) in expected, outcome.failure
    assert outcome.failure.detail


def test_changed_inputs_do_not_change_the_expected_outputs(hostile):
    text = make_kernel(
        "import mmap",
        "for fd in range(3, 256):",
        "    try: memory = mmap.mmap(fd, a.inputs[0].data.nbytes + 4096)",
        "    except (OSError, ValueError): continue",
        "    memory[:] = bytes(len(memory))",
        "a.outputs[0].data[...] = 2 * a.inputs[0].data",
    )
    assert get_reason(hostile(text)) in ("mismatch", "out_of_bounds")


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are chosen by the system")
def test_candidate_processes_load_at_equal_addresses(hostile):
    text = "import ctypes\nraise ValueError(ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value)\n"
    libc = ctypes.CDLL(None)
    before = libc.personality(0xFFFFFFFF) & ~0x40000
    if libc.personality(before | 0x40000) == -1:
        pytest.skip("this container refuses to choose")
    libc.personality(before)
    details = {hostile(text).failure.detail for _ in range(3)}
    assert len(details) == 1
    assert re.fullmatch(r"ValueError: \d+", details.pop())


def test_candidate_process_is_light_and_inherits_no_secrets(hostile, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    text = (
        "import sys\n"
        "bad = [m for m in ('pydantic', 'torch', 'asyncio', 'importlib.metadata') if m in sys.modules]\n"
        "assert not bad, bad\n"
        "assert 'SOME_API_KEY' not in os.environ\n"
        "def is_open(fd):\n    try:\n        os.fstat(fd)\n        return True\n    except OSError:\n        return False\n"
        "assert sum(map(is_open, range(3, 1024))) == 4, 'replies, inputs, outputs, and the copy of stdin'\n"
    )
    outcome = hostile(text + HONEST)
    assert outcome.feasible, outcome.failure


def test_forked_process_does_not_survive(hostile, tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_SANDBOX_DISABLE", DISABLED_LAYERS)
    text = make_kernel(
        "pid = os.fork()",
        "if pid == 0: time.sleep(120)",
        "open(where + '/pid', 'w').write(str(pid))",
        "a.outputs[0].data[...] = 2 * a.inputs[0].data",
    )
    outcome = hostile(text)
    if get_reason(outcome) == "raised":
        assert "Resource" in outcome.failure.detail  # not root: forking is refused at once
        return
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_candidate_process_killed_once_is_retried(hostile, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_SANDBOX_DISABLE", DISABLED_LAYERS)
    once = "if not os.path.exists(where + '/killed'):\n        open(where + '/killed', 'w').close(); os.kill(os.getpid(), 9)"
    text = make_kernel(once, "a.outputs[0].data[...] = 2 * a.inputs[0].data")
    first = hostile(text)
    assert first.feasible
    assert hostile(text) == first


def test_candidate_process_killed_every_time_fails_the_candidate(hostile, tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_SANDBOX_DISABLE", DISABLED_LAYERS)
    outcome = hostile(make_kernel("open(where + '/tries', 'a').write('x')", "os.kill(os.getpid(), 9)"))
    assert get_reason(outcome) == "killed"
    assert (tmp_path / "tries").read_text() == "xxx"


def test_candidate_process_that_does_not_start_is_an_infra_error(hostile, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(InfraError, match="did not start"):
        hostile(HONEST)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(InfraError, match="cannot be started"):
        hostile(HONEST)


def test_missing_temporary_folder_is_an_infra_error(hostile, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(InfraError, match="temporary folder"):
        hostile(HONEST)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_killed_verifier_leaves_no_candidate_process(doubling, tmp_path):
    script = (
        "import sys; from evokernel.core.records import Job, Candidate, Task; from evokernel.verifier import verify\n"
        "task = Task.model_validate_json(sys.stdin.read())\n"
        "text = \"import time\\ndef kernel(a):\\n    open(where + '/pid.new', 'w').write(str(os.getpid()))\\n"
        "    os.rename(where + '/pid.new', where + '/pid')\\n    time.sleep(900)\\n\"\n"
        "candidate = Candidate(backend='hostile_backend:Hostile', files={'kernel.py': text})\n"
        f"verify(Job(backend=candidate.backend, settings={{'where': {str(tmp_path)!r}}}, task=task, candidate=candidate))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "EVOKERNEL_SANDBOX_DISABLE": DISABLED_LAYERS}
    verifier_process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, env=environment)
    verifier_process.stdin.write(doubling.model_dump_json().encode())
    verifier_process.stdin.close()
    while not (tmp_path / "pid").exists():
        assert verifier_process.poll() is None
        time.sleep(0.02)
    candidate_pid = int((tmp_path / "pid").read_text())
    assert is_alive(candidate_pid)
    verifier_process.send_signal(signal.SIGKILL)
    verifier_process.wait()
    wait_until(lambda: not is_alive(candidate_pid))
    assert not is_alive(candidate_pid)


def test_busy_helper_thread_is_detected_by_the_clock(hostile):
    text = "import threading\ndef burn():\n    while True: sum(range(1000))\nthreading.Thread(target=burn, daemon=True).start()\n"
    assert get_reason(hostile(text + HONEST, clock="auto")) in ("forbidden", "raised")


def test_crash_message_names_signal_and_size(hostile):
    outcome = hostile(make_kernel("if a.inputs[0].data.size % 2: os.abort()", "a.outputs[0].data[...] = 2 * a.inputs[0].data"))
    assert get_reason(outcome) == "crash"
    assert "SIGABRT" in outcome.failure.detail
    assert "a hidden size" in outcome.failure.detail


@pytest.mark.parametrize(("sizes", "hint"), [("% 2", "the small size was correct"), ("> 4000", "smaller sizes were correct")])
def test_hint_names_the_sizes_that_were_correct(hostile, sizes, hint):
    outcome = hostile(make_kernel(f"a.outputs[0].data[...] = 3 if a.inputs[0].data.size {sizes} else 2 * a.inputs[0].data"))
    assert get_reason(outcome) == "mismatch"
    assert hint in outcome.failure.detail


@pytest.mark.parametrize("figure", ["writing_us", "moving_us"])
def test_latency_below_the_lower_bound_is_impossible(hostile, monkeypatch, figure):
    import hostile_backend

    from evokernel.core.records import Profile

    floor = Profile(bottleneck="memory", summary="", figures={figure: 1e9})
    monkeypatch.setattr(hostile_backend.Hostile, "profile", lambda self, task, outcome: floor)
    assert get_reason(hostile(HONEST, clock="auto")) == "impossible"


def test_folders_of_killed_verifiers_are_removed(tmp_path, monkeypatch):
    from evokernel.verifier import verifier

    ended_process = subprocess.Popen([sys.executable, "-c", ""])
    ended_process.wait()
    old, new, mine = (tmp_path / f"{verifier.FOLDER_PREFIX}{pid}-x" for pid in (ended_process.pid, f"{ended_process.pid}-y", os.getpid()))
    for folder in (old, new, mine):
        folder.mkdir()
    for folder in (old, mine):
        os.utime(folder, (0, 0))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    verifier.remove_stale_folders.cache_clear()
    verifier.remove_stale_folders()
    assert (old.exists(), new.exists(), mine.exists()) == (False, True, True)
