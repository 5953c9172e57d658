"""Shared by all tests: makes helper modules importable and redirects caches, except for tools that are slow to download."""

import os
import sys
from pathlib import Path

import pytest

from evokernel.core import paths

os.environ["EVOKERNEL_TOOLS"] = str(paths.tools_folder())
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run in parallel: more threads than processors would slow them down
HERE = Path(__file__).parent
for folder in ("engine", "servers"):
    sys.path.insert(0, str(HERE / folder))


SHARED_CACHES = ("headers", "ascendc")
"""Parts of the cache that are compiled once per machine and shared by all test workers."""


@pytest.fixture(scope="session")
def postgres():
    """One server for all tests of this process."""
    import postgres_server

    if problem := postgres_server.unavailable_reason():
        pytest.skip(problem)
    server = postgres_server.Postgres()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def private_cache(monkeypatch, tmp_path_factory):
    cache = tmp_path_factory.getbasetemp() / "cache"
    if "PYTEST_XDIST_WORKER" in os.environ and not cache.exists():
        cache.mkdir()
        for name in SHARED_CACHES:
            common = cache.parent.parent / name
            common.mkdir(exist_ok=True)
            (cache / name).symlink_to(common)
    monkeypatch.setenv("EVOKERNEL_CACHE", str(cache))
