"""docs/architecture.md lists the files that an attempt passes, and they are few enough to read."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from evokernel.core.plugins import make_plugin

ROOT = Path(__file__).parents[1]
MAX_FILES = 36


def listed_files() -> list[str]:
    """Return the files in the table of docs/architecture.md."""
    return re.findall(r"^\| (?:run|worker|candidate) \| `([\w/]+\.py)` \|", (ROOT / "docs" / "architecture.md").read_text(), re.M)


def test_an_attempt_passes_few_files():
    files = listed_files()
    assert len(files) == len(set(files)) <= MAX_FILES
    assert [file for file in files if not (ROOT / "src" / "evokernel" / file).is_file()] == []


@pytest.mark.slow(one_in=5)
@pytest.mark.skipif(make_plugin("backend", "cpp").unavailable_reason() is not None, reason="no C++ compiler")
def test_listed_files_are_those_that_an_attempt_passes():
    command = [sys.executable, str(ROOT / "benchmarks" / "attempt_path.py")]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert set(re.findall(r"^\w+ +([\w/]+\.py)$", process.stdout, re.M)) == set(listed_files())
