"""Fixtures that run Python text in a sandboxed process, as the verifier does, and return its result."""

import json
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from time_limits import HANG_S

from evokernel.core.errors import CandidateError
from evokernel.core.records import Candidate, Job
from evokernel.sandbox import isolated_python, profiles
from evokernel.suites.loader import load_tasks
from evokernel.verifier.candidate_process import CandidateProcess
from evokernel.verifier.shared_buffers import Arena

BACKENDS = Path(__file__).parents[1] / "verify"


@pytest.fixture(scope="session")
def doubling():
    return load_tasks(str(BACKENDS / "doubling.py"))[0]


@pytest.fixture
def start_candidate_process(doubling, tmp_path):
    """Start a sandboxed candidate process with a candidate's text in its folder."""

    def start(name, backend, text, file_bytes=1 << 20):
        work = tmp_path / "work"
        work.mkdir(exist_ok=True)
        (work / "kernel.py").write_text(text)
        candidate = Candidate(backend=name, files={"kernel.py": text})
        job = Job(backend=name, settings={"where": str(tmp_path)}, task=doubling, candidate=candidate, timeout_s=HANG_S)
        process = CandidateProcess(job, backend, work, Arena(4096, 4096, 0), 1, 1 << 30, file_bytes)
        process.wait_ready()
        return process

    return start


@pytest.fixture(scope="session")
def probe_process():
    """A process that runs each text in a sandboxed fork."""
    command = isolated_python.isolated_command("probe_server", "main")
    environment = {"PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def run_probe(probe_process, tmp_path):
    """Run a text in the sandbox of a kernel, or of a process with device files; return the exit code and the exception."""

    def run_text(text, late=False, device_files=()):
        cwd = tmp_path / "scratch"
        cwd.mkdir(exist_ok=True)
        if device_files:
            plan = profiles.plan_device_kernel(None, [], str(cwd), device_files, {"RLIMIT_FSIZE": 1 << 20})
        else:
            plan = profiles.plan_kernel(None, [], 1, {"RLIMIT_FSIZE": 1 << 20, "RLIMIT_NPROC": 0})
            if "limits" in plan:
                plan["extra_memory_bytes"] = 1 << 30
        probe_process.stdin.write(json.dumps({"plan": plan, "text": text, "late": late, "where": str(tmp_path), "cwd": str(cwd)}) + "\n")
        probe_process.stdin.flush()
        code, message = json.loads(probe_process.stdout.readline())
        shutil.rmtree(cwd)
        return code, message

    return run_text


@pytest.fixture
def load_candidate(start_candidate_process, tmp_path):
    """Load a candidate in a real candidate process; return reason and detail of the failure, or empty texts."""

    def run_text(text):
        from hostile_backend import Hostile

        with closing(start_candidate_process("hostile_backend:Hostile", Hostile(str(tmp_path)), text)) as process:
            try:
                process.load()
            except CandidateError as error:
                return error.reason, error.detail
            return "", ""

    return run_text


@pytest.fixture
def trace_candidate(start_candidate_process, tmp_path):
    """Trace a candidate in a real candidate process; return reason and detail of the failure, or empty texts."""

    def run_text(text):
        from traced_backend import Traced

        backend = Traced(str(tmp_path))
        with closing(start_candidate_process("traced_backend:Traced", backend, text, 4 << 20)) as process:
            try:
                process.prepare("trace", process.workdir, {}, process.workdir / "programs")
            except CandidateError as error:
                return error.reason, error.detail
            return "", ""

    return run_text
