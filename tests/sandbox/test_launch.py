"""Compilers in their jail: they see their toolchain, write into one folder, and go with their group."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from evokernel.backends.native import toolchain
from evokernel.sandbox import exec_compiler, layers, profiles

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or bool(layers.lacking()), reason="the sandbox is incomplete here: " + "; ".join(layers.lacking())
)


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret.h").write_text("a secret that no compiler shows")
    return folder


def run(work, *words, limits=None):
    plan = profiles.compiler("/usr/bin/g++", [], str(work), (), limits or {})
    command = exec_compiler.command(plan, list(words), os.getpid())
    return subprocess.run(command, cwd=work, capture_output=True, text=True, process_group=0, timeout=30)


def test_a_compiler_compiles(work):
    (work / "a.cpp").write_text("#include <cmath>\nint main() { return std::sin(0.0) > 1; }\n")
    done = toolchain.compile(toolchain.find(""), ["a.cpp", "-o", "a"], work, 60)
    assert (done.code, done.text) == (0, "")
    assert subprocess.run([work / "a"]).returncode == 0


@pytest.mark.parametrize(
    "source",
    [
        '#include "{secret}"',
        'asm(".incbin \\"{secret}\\"");',
        '#include "/etc/shadow"',
        '#include "/proc/{judge}/environ"',
        "#include __FILE__",
    ],
)
def test_a_compiler_reads_nothing_of_the_users(work, source):
    (work / "a.cpp").write_text(source.format(secret=work.parent / "secret.h", judge=os.getpid()) + "\n")
    done = toolchain.compile(toolchain.find(""), ["-c", "a.cpp", "-o", "a.o"], work, 60)
    assert done.code != 0
    assert "secret that" not in done.text.replace("secret.h", "")
    assert "PATH=" not in done.text


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo x > ../outside", "Permission denied"),
        ("cat ../secret.h", "Permission denied"),
        ("ls ..", "Permission denied"),
        ("ln -s /etc here", "Permission denied"),
        ("mkfifo pipe", "not permitted"),
        ("setsid true", "not permitted"),
        ("kill -0 $PPID", "not permitted"),
        ("unshare -U true", "not permitted"),
        ("exec 3<>/dev/tcp/127.0.0.1/9", "not permitted"),
        ("echo x > /dev/shm/evokernel-probe", "Permission denied"),
        ("cp /bin/true here && ./here", "Permission denied"),
    ],
)
def test_what_a_compiler_may_not(work, script, says):
    done = run(work, "/bin/bash", "-c", script)
    assert says in done.stderr, done.stderr
    assert sorted(path.name for path in work.parent.iterdir()) == ["secret.h", "work"]


def test_a_compiler_is_limited(work):
    done = run(work, "/bin/sh", "-c", "head -c 100000 /dev/urandom > large", limits={"RLIMIT_FSIZE": 4096})
    assert done.returncode != 0
    assert (work / "large").stat().st_size == 4096


def test_nothing_is_inherited(work):
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    plan = profiles.compiler("/usr/bin/g++", [], str(work), (), {})
    command = exec_compiler.command(plan, ["/bin/sh", "-c", "ls /proc/self/fd"])
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, pass_fds=(writing,))
    os.close(reading)
    os.close(writing)
    assert set(done.stdout.split()) <= {"0", "1", "2", "3"}  # 3 is the folder that is listed


def test_a_compiler_that_cannot_be_started_says_so(work):
    done = run(work, str(work / "nothing"))
    assert (done.returncode, done.stderr) == (exec_compiler.CANNOT, f"cannot start {work}/nothing: No such file or directory\n")


def test_a_compiler_dies_with_the_judge(work):
    script = (
        "import os, subprocess, sys, time\nfrom evokernel.sandbox import launch, plans\n"
        f"plan = plans.compiler('/usr/bin/g++', [], {str(work)!r}, (), {{}})\n"
        "one = subprocess.Popen(launch.command(plan, ['/bin/sh', '-c', 'echo started > mark; sleep 60'], os.getpid()), process_group=0,"
        f" cwd={str(work)!r})\nprint(one.pid, flush=True)\ntime.sleep(60)\n"
    )
    judge = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pid = int(judge.stdout.readline())
    while not (work / "mark").exists():
        time.sleep(0.01)
    judge.send_signal(signal.SIGKILL)
    judge.wait()
    judge.stdout.close()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and ") Z" not in Path(f"/proc/{pid}/stat").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    gone = not Path(f"/proc/{pid}").exists() or ") Z" in Path(f"/proc/{pid}/stat").read_text()
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    assert gone
