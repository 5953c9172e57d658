"""Shared by all tests: helper modules are importable, caches stay out of the home folder."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in ("engine", "servers"):
    sys.path.insert(0, str(HERE / folder))


@pytest.fixture(autouse=True)
def a_cache_of_our_own(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
