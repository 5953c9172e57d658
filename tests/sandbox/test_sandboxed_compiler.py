"""Sandboxed compilers read their toolchain, write to one folder, and die with their process group."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from time_limits import HANG_S, wait_until

from evokernel.backends.native import toolchain
from evokernel.sandbox import exec_compiler, layers, profiles

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or bool(layers.describe_missing_layers()),
    reason="the sandbox is incomplete on this machine: " + "; ".join(layers.describe_missing_layers()),
)


@pytest.fixture
def work_folder(tmp_path):
    folder = tmp_path / "work_folder"
    folder.mkdir()
    (tmp_path / "secret.h").write_text("a secret that no compiler shows")
    return folder


def run_sandboxed(work_folder, *command_line, limits=None):
    plan = profiles.plan_compiler("/usr/bin/g++", [], str(work_folder), (), limits or {})
    command = exec_compiler.make_sandboxed_command(plan, list(command_line), os.getpid())
    return subprocess.run(command, cwd=work_folder, capture_output=True, text=True, process_group=0, timeout=HANG_S)


def test_compiler_compiles(work_folder):
    (work_folder / "a.cpp").write_text("#include <cmath>\nint main() { return std::sin(0.0) > 1; }\n")
    result = toolchain.run_compiler(toolchain.find_compiler(""), ["a.cpp", "-o", "a"], work_folder, 60)
    assert (result.code, result.text) == (0, "")
    assert subprocess.run([work_folder / "a"]).returncode == 0


@pytest.mark.parametrize(
    "source",
    [
        '#include "{secret}"',
        'asm(".incbin \\"{secret}\\"");',
        '#include "/etc/shadow"',
        '#include "/proc/{pid}/environ"',
        "#include __FILE__",
    ],
)
def test_compiler_cannot_read_user_files(work_folder, source):
    (work_folder / "a.cpp").write_text(source.format(secret=work_folder.parent / "secret.h", pid=os.getpid()) + "\n")
    result = toolchain.run_compiler(toolchain.find_compiler(""), ["-c", "a.cpp", "-o", "a.o"], work_folder, 60)
    assert result.code != 0
    assert "secret that" not in result.text.replace("secret.h", "")
    assert "PATH=" not in result.text


@pytest.mark.parametrize(
    ("script", "message"),
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
def test_forbidden_command_fails(work_folder, script, message):
    result = run_sandboxed(work_folder, "/bin/bash", "-c", script)
    assert message in result.stderr, result.stderr
    assert sorted(path.name for path in work_folder.parent.iterdir()) == ["secret.h", "work_folder"]


def test_compiler_file_size_is_limited(work_folder):
    result = run_sandboxed(work_folder, "/bin/sh", "-c", "head -c 100000 /dev/urandom > large", limits={"RLIMIT_FSIZE": 4096})
    assert result.returncode != 0
    assert (work_folder / "large").stat().st_size == 4096


def test_no_descriptor_is_inherited(work_folder):
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    plan = profiles.plan_compiler("/usr/bin/g++", [], str(work_folder), (), {})
    command = exec_compiler.make_sandboxed_command(plan, ["/bin/sh", "-c", "ls /proc/self/fd"])
    result = subprocess.run(command, cwd=work_folder, capture_output=True, text=True, pass_fds=(writing,))
    os.close(reading)
    os.close(writing)
    assert set(result.stdout.split()) <= {"0", "1", "2", "3"}  # 3 is the listed folder


def test_missing_compiler_is_reported(work_folder):
    result = run_sandboxed(work_folder, str(work_folder / "nothing"))
    assert (result.returncode, result.stderr) == (
        exec_compiler.SANDBOX_FAILED,
        f"cannot start {work_folder}/nothing: No such file or directory\n",
    )


def test_compiler_dies_with_the_verifier(work_folder):
    script = (
        "import os, subprocess, sys, time\nfrom evokernel.sandbox import exec_compiler, profiles\n"
        f"plan = profiles.plan_compiler('/usr/bin/g++', [], {str(work_folder)!r}, (), {{}})\n"
        "command = exec_compiler.make_sandboxed_command(plan, ['/bin/sh', '-c', 'echo started > mark; sleep 900'], os.getpid())\n"
        "one = subprocess.Popen(command, process_group=0,"
        f" cwd={str(work_folder)!r})\nprint(one.pid, flush=True)\ntime.sleep(900)\n"
    )
    verifier_process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pid = int(verifier_process.stdout.readline())
    while not (work_folder / "mark").exists():
        time.sleep(0.01)
    verifier_process.send_signal(signal.SIGKILL)
    verifier_process.wait()
    verifier_process.stdout.close()
    try:
        wait_until(lambda: has_ended(pid))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def has_ended(pid):
    try:
        return ") Z" in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
