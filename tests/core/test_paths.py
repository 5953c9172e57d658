"""Cache folders, and atomic writes."""

from pathlib import Path

import pytest

from evokernel.core import paths


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


def test_failed_write_leaves_existing_files(tmp_path):
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(OSError):
        paths.write_bytes(path, b"one")
    assert list(tmp_path.iterdir()) == [path]
