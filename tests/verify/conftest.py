"""A small task, and fixtures that verify a candidate's text."""

from pathlib import Path

import pytest
from time_limits import HANG_S

from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def doubling(tmp_path_factory):
    return load_tasks(str(HERE / "doubling.py"))[0]


@pytest.fixture
def hostile(doubling, tmp_path):
    """Verify Python text, alternately with another kernel if `incumbent` has its text; `clock` is synthetic unless timing matters."""

    def verify_text(text, clock="synthetic", timeout_s=HANG_S, incumbent=""):
        candidate, other = (Candidate(backend="hostile_backend:Hostile", files={"kernel.py": code}) for code in (text, incumbent))
        job = Job(
            backend=candidate.backend,
            settings={"where": str(tmp_path)},
            task=doubling,
            candidate=candidate,
            incumbent=other if incumbent else None,
            clock=clock,
            timeout_s=timeout_s,
        )
        return verify(job)

    return verify_text


@pytest.fixture
def compiled(tmp_path):
    """Verify C++ text for a task in Python text, alternately with another kernel if `incumbent` has its text."""

    def verify_text(task, code, incumbent="", **job):
        path = tmp_path / "task.py"
        path.write_text(task)
        candidate, other = (Candidate(backend="cpp", files={"kernel.cpp": text}) for text in (code, incumbent))
        return verify(Job(backend="cpp", task=load_tasks(str(path))[0], candidate=candidate, incumbent=other if incumbent else None, **job))

    return verify_text
