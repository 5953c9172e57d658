"""A way to put Python text into a jailed process, as the judge does it, and hear what became of it."""

import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from evokernel.core import isolated_python
from evokernel.core.errors import CandidateError
from evokernel.core.records import Candidate, Job
from evokernel.sandbox import profiles
from evokernel.tasks.loader import load
from evokernel.verify.candidate_process import CandidateProcess
from evokernel.verify.shared_buffers import Arena

BACKENDS = Path(__file__).parents[1] / "verify"


@pytest.fixture(autouse=True)
def backends_are_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(BACKENDS))


@pytest.fixture(scope="session")
def doubling():
    return load(str(BACKENDS / "doubling.py"))[0]


@pytest.fixture
def started(doubling, tmp_path):
    """A jailed child, ready, with a candidate's text in its folder."""

    def start(name, backend, text, file_bytes=1 << 20):
        work = tmp_path / "work"
        work.mkdir(exist_ok=True)
        (work / "kernel.py").write_text(text)
        candidate = Candidate(backend=name, files={"kernel.py": text})
        job = Job(backend=name, settings={"where": str(tmp_path)}, task=doubling, candidate=candidate, timeout_s=20)
        child = CandidateProcess(job, backend, work, Arena(4096, 4096, 0), 1, 1 << 30, file_bytes)
        child.wait_ready()
        return child

    return start


@pytest.fixture(scope="session")
def prober():
    """A process that tries texts in jails, each in a copy of its own."""
    sys.path.insert(0, str(Path(__file__).parent))
    command = isolated_python.isolated_command("prober", "main")
    sys.path.pop(0)
    bare = {"PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=bare) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def tried(prober, tmp_path):
    """What became of a text in the jail of a process that runs kernels, or that has a card's device files: how it ended, what it raised."""

    def attempt(text, late=False, on_card=()):
        cwd = tmp_path / "scratch"
        cwd.mkdir(exist_ok=True)
        if on_card:
            plan = profiles.card(None, [], str(cwd), on_card, {"RLIMIT_FSIZE": 1 << 20})
        else:
            plan = profiles.kernel(None, [], 1, {"RLIMIT_FSIZE": 1 << 20, "RLIMIT_NPROC": 0})
            if "limits" in plan:
                plan["more_memory"] = 1 << 30
        prober.stdin.write(json.dumps({"plan": plan, "text": text, "late": late, "where": str(tmp_path), "cwd": str(cwd)}) + "\n")
        prober.stdin.flush()
        code, said = json.loads(prober.stdout.readline())
        shutil.rmtree(cwd)
        return code, said

    return attempt


@pytest.fixture
def loaded(started, tmp_path):
    """Why loading a candidate failed in a real child, as reason and detail; nothing when it did not."""

    def found(text):
        from hostile_backend import Hostile

        with closing(started("hostile_backend:Hostile", Hostile(str(tmp_path)), text)) as child:
            try:
                child.load()
            except CandidateError as error:
                return error.reason, error.detail
            return "", ""

    return found


@pytest.fixture
def traced(started, tmp_path):
    """The same for tracing."""

    def found(text):
        from traced_backend import Traced

        backend = Traced(str(tmp_path))
        with closing(started("traced_backend:Traced", backend, text, 4 << 20)) as child:
            try:
                child.prepare("trace", child.workdir, {}, child.workdir / "programs")
            except CandidateError as error:
                return error.reason, error.detail
            return "", ""

    return found
