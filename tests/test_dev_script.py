"""The script `dev` with stand-ins for the interpreter and the programs of the environment: what it installs, and when."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STUB = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >>calls.log
case "$*" in *"pip config list"*) for _ in $(seq 2000); do echo "${PIP_FIND_LINKS:+:env:.find-links=$PIP_FIND_LINKS}"; done ;; esac
case "$*" in *"pip install"*) [ ! -e pip-fails ] || { echo "no matching distribution"; exit 1; } ;; esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script, its inputs and an environment whose programs only record how they are called."""
    for name in ("dev", "pyproject.toml", "constraints.txt", "src/evokernel/backends/zig/requirements.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    folder = tmp_path / ".venv" / "bin"
    folder.mkdir(parents=True)
    for name in ("python", "evokernel", "ruff", "mypy", "mkdocs"):
        (folder / name).write_text(STUB)
        (folder / name).chmod(0o755)
    return tmp_path


def call_dev(checkout: Path, *words: str, find_links: str = "/nowhere") -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the script; return its result and the calls that it made."""
    (checkout / "calls.log").write_text("")
    environment = {**os.environ, "PIP_FIND_LINKS": find_links, "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin:/bin"}
    result = subprocess.run(["bash", "dev", *words], cwd=checkout, capture_output=True, text=True, env=environment, timeout=60)
    return result, (checkout / "calls.log").read_text().splitlines()


def installed_extras(calls: list[str]) -> set[str]:
    """The extras that pip was asked for."""
    (line,) = [call for call in calls if "pip install" in call]
    return set(line.partition("-e .[")[2].partition("]")[0].split(","))


@pytest.mark.toolchain
def test_run_installs_only_what_it_needs_and_tests_add_the_rest(checkout):
    result, calls = call_dev(checkout, "run", "--budget", "2")
    assert result.returncode == 0, result.stderr
    assert installed_extras(calls) == {"torch", "pallas", "web"}
    assert not any("requirements.txt" in call for call in calls)
    assert calls[-1] == "evokernel run --budget 2"
    assert call_dev(checkout, "run")[1] == ["evokernel run"]
    result, calls = call_dev(checkout, "test")
    assert result.returncode == 0, result.stderr
    assert installed_extras(calls) >= {"torch", "pallas", "web", "dev", "ray", "postgres", "cuda", "triton"}
    assert any("-r src/evokernel/backends/zig/requirements.txt" in call for call in calls)
    assert call_dev(checkout, "exec", "evokernel", "doctor")[1] == ["evokernel doctor"]
    assert call_dev(checkout, "docs")[1] == ["mkdocs build --strict"]
    assert call_dev(checkout, "docs", "--serve")[1] == ["mkdocs serve"]


@pytest.mark.toolchain
def test_complete_setup_serves_run_and_changed_requirements_renew_it(checkout):
    assert "ray" in installed_extras(call_dev(checkout, "setup")[1])
    assert call_dev(checkout, "run")[1] == ["evokernel run"]
    (checkout / "constraints.txt").write_text("click==8.5.1\n")
    assert any("pip install" in call for call in call_dev(checkout, "run")[1])


@pytest.mark.toolchain
def test_failed_setup_shows_the_log_and_is_tried_again(checkout):
    (checkout / "pip-fails").touch()
    result, calls = call_dev(checkout, "run")
    assert result.returncode == 1
    assert "no matching distribution" in result.stderr
    assert "the complete log is in .venv/setup.log" in result.stderr
    assert "evokernel run" not in calls
    (checkout / "pip-fails").unlink()
    assert "evokernel run" in call_dev(checkout, "run")[1]


@pytest.mark.toolchain
@pytest.mark.skipif(bool(sys.platform != "linux" or shutil.which("nvidia-smi")), reason="for Linux without an NVIDIA GPU")
def test_torch_comes_without_cuda_unless_pip_has_an_index_of_its_own(checkout):
    assert not any("--extra-index-url" in call for call in call_dev(checkout, "run")[1])
    (checkout / "constraints.txt").write_text("click==8.5.1\n")
    assert any("--extra-index-url https://download.pytorch.org/whl/cpu" in call for call in call_dev(checkout, "run", find_links="")[1])
