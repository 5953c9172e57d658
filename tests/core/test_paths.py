"""Cache folders, and atomic writes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evokernel.core import paths
from evokernel.core.errors import UserError


def test_cache_folder_follows_environment_variables(monkeypatch):
    monkeypatch.setenv("EVOKERNEL_CACHE", "/a")
    assert paths.cache_folder() == Path("/a")
    monkeypatch.delenv("EVOKERNEL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert paths.cache_folder() == Path("/b/evokernel")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/c")
    assert paths.cache_folder() == Path("/c/.cache/evokernel")


def test_write_replaces_the_complete_file(tmp_path):
    path = tmp_path / "new" / "file.json"
    paths.write_bytes(path, b"one")
    paths.write_bytes(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_threads_may_replace_the_same_file(tmp_path):
    path = tmp_path / "file"
    contents = [bytes([number]) * 10_000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda data: [paths.write_bytes(path, data) for _ in range(20)], contents))
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    paths.write_text(path, "old")
    writer = paths.replace_file(path)
    writer.__enter__().write(b"new")
    assert not writer.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_unwritable_report_is_an_error_of_the_user(tmp_path):
    with pytest.raises(UserError, match="Free disk space or make the folder writable"):
        paths.write_text(tmp_path / "missing" / "file", "text")


def test_failed_write_leaves_existing_files(tmp_path):
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(OSError):
        paths.write_bytes(path, b"one")
    assert list(tmp_path.iterdir()) == [path]
