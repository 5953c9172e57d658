"""A small task, and a way to put a candidate before the judge."""

from pathlib import Path

import pytest

from evokernel.core.records import Candidate, Job
from evokernel.tasks.loader import load
from evokernel.verify import verify

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def hostile_is_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))


@pytest.fixture(scope="session")
def doubling(tmp_path_factory):
    return load(str(HERE / "doubling.py"))[0]


@pytest.fixture
def hostile(doubling, tmp_path):
    """Judges Python text; `clock` is synthetic unless timing matters."""

    def judge(text, clock="synthetic", timeout_s=20.0):
        candidate = Candidate(backend="hostile_backend:Hostile", files={"kernel.py": text})
        job = Job(
            backend=candidate.backend,
            settings={"where": str(tmp_path)},
            task=doubling,
            candidate=candidate,
            clock=clock,
            timeout_s=timeout_s,
        )
        return verify(job)

    return judge


@pytest.fixture
def compiled(tmp_path):
    """Judges C++ text against a task given as Python text."""

    def judge(task, code, **job):
        path = tmp_path / "task.py"
        path.write_text(task)
        return verify(Job(backend="cpp", task=load(str(path))[0], candidate=Candidate(backend="cpp", files={"kernel.cpp": code}), **job))

    return judge
