"""Executes the tutorial from its first to its last line, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tutorial.md").read_text()
BLOCKS = [(match[2], match[3], match[1]) for match in re.finditer(r"([^\n]*)\n\n```(\w*)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)]
"""Language and text of each block, with the line before it."""
FASTER = " --set clock=synthetic --workers 1"
"""Added to every run: a real clock takes most of the time, and other tests cover it."""


def test_every_block_of_the_tutorial_is_executed():
    assert len(BLOCKS) == TEXT.count("```") // 2
    assert {language for language, _, _ in BLOCKS} == {"", "python", "cpp"}


def test_extras_of_the_tutorial_exist():
    (extras,) = re.findall(r"pip install '\.\[(.*)\]'", TEXT)
    assert set(extras.split(",")) <= set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


@pytest.mark.toolchain
@pytest.mark.slow(one_in=4)
def test_tutorial(tmp_path):
    for language, text, line_before in BLOCKS:
        if name := re.search(r"Save this as `([\w.]+)`:", line_before):
            (tmp_path / name[1]).write_text(text)
        elif language == "python":
            execute(text, [sys.executable, "-c", text], tmp_path)
        else:
            assert not language
            for line in text.splitlines():
                run_line(line, tmp_path)
    assert list((tmp_path / "kernels").glob("**/kernel.cpp"))


def run_line(line: str, folder: Path) -> None:
    """Execute a command line of the tutorial; one with the comment `# fails` must end with exit code 1."""
    if not line.startswith("pip install"):
        command, _, comment = line.partition("   # ")
        command += FASTER if command.startswith("evokernel run") else ""
        execute(line, ["bash", "-c", command], folder, 1 if comment == "fails" else 0)


def execute(what: str, words: list[str], folder: Path, code: int = 0) -> None:
    """Execute a program in the environment of this interpreter."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    completed = subprocess.run(words, cwd=folder, capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert completed.returncode == code, (what, completed.stdout[-2000:], completed.stderr[-2000:])
