"""Shared by all tests: helper modules are importable, caches stay out of the home folder, but for tools that are slow to fetch."""

import os
import sys
from pathlib import Path

import pytest

from evokernel.core import paths

os.environ["EVOKERNEL_TOOLS"] = str(paths.tools_folder())
os.environ.setdefault("OMP_NUM_THREADS", "1")  # several tests run at a time: more threads than processors only get in each other's way
HERE = Path(__file__).parent
for folder in ("engine", "servers"):
    sys.path.insert(0, str(HERE / folder))


SHARED = ("headers", "ascendc")
"""What is compiled once per machine, in the cache: of no test's making, so that all workers have one."""


@pytest.fixture(scope="session")
def postgres():
    """A server for all tests of this process."""
    import postgres_server

    if why := postgres_server.missing():
        pytest.skip(why)
    server = postgres_server.Postgres()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def a_cache_of_our_own(monkeypatch, tmp_path_factory):
    cache = tmp_path_factory.getbasetemp() / "cache"
    if "PYTEST_XDIST_WORKER" in os.environ and not cache.exists():
        cache.mkdir()
        for name in SHARED:
            common = cache.parent.parent / name
            common.mkdir(exist_ok=True)
            (cache / name).symlink_to(common)
    monkeypatch.setenv("EVOKERNEL_CACHE", str(cache))
