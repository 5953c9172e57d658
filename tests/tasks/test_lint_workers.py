"""Linting many tasks in worker processes that may hang, run out of memory or crash."""

from __future__ import annotations

import time

import pytest
from time_limits import HANG_S

from evokernel.suites import lint_workers as module
from evokernel.suites.lint_workers import LintRequest, lint_file, lint_tasks
from evokernel.suites.loader import find_task_files

pytestmark = pytest.mark.toolchain

HEAD = "import os, time\nimport torch\nN = 64\nclass Model(torch.nn.Module):\n"
TAIL = "def get_inputs(): return [torch.randn(N, 32)]\n"
TEXTS = {
    "dies": HEAD + "    def forward(self, x): os._exit(3)\n" + TAIL,
    "hangs": HEAD + "    def forward(self, x): time.sleep(600)\n" + TAIL,
    "huge": HEAD + "    def forward(self, x): return x + torch.zeros(1 << 33, 1 << 10, device='cpu').sum()\n" + TAIL,
    "raises": HEAD + "    def forward(self, x): raise ValueError('planted')\n" + TAIL,
    "sound": HEAD + "    def forward(self, x): return torch.sin(x)\n" + TAIL,
    "vacuous": HEAD + "    def forward(self, x): return x * 0\n" + TAIL,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    for name, text in TEXTS.items():
        (tmp_path / "odd").mkdir(exist_ok=True)
        (tmp_path / "odd" / f"{name}.py").write_text(text)
    return tmp_path / "odd"


@pytest.mark.slow(one_in=5)
def test_every_task_gets_a_report(folder):
    (folder / "hangs.py").unlink()
    found = lint_tasks(find_task_files(str(folder)), is_full=True, workers=2, timeout_s=HANG_S)
    reports = {report.id.removeprefix("odd/"): report for report in found}
    assert set(reports) == {*TEXTS} - {"hangs"}
    assert "exited with code 3" in reports["dies"].error
    assert "planted" in reports["raises"].error
    assert "out of memory" in reports["huge"].error
    assert reports["sound"].task is not None
    assert reports["sound"].issues == ()
    assert {(issue.kind, issue.message) for issue in reports["vacuous"].issues_for("paper")} == {("vacuous", "zeros")}
    assert {issue.size for issue in reports["vacuous"].issues} == {"bench", "small", "held_out"}


def test_hanging_task_is_reported(folder):
    (report,) = lint_tasks(find_task_files(f"{folder}/hangs.py"), is_full=True, workers=2, timeout_s=1)
    assert "took longer than 1 s" in report.error


@pytest.mark.slow(one_in=5)
def test_caller_that_stops_does_not_wait_for_a_hanging_task(folder):
    reports = lint_tasks(find_task_files(f"{folder}/hangs.py,{folder}/sound.py"), is_full=False, workers=2, timeout_s=900)
    assert next(reports).id == "odd/sound"
    start_s = time.monotonic()
    reports.close()
    assert time.monotonic() - start_s < HANG_S


def test_task_is_loaded_even_if_its_lint_fails(folder, monkeypatch):
    def failing_lint(task):
        yield module.LintIssue(kind="random", message="first")
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes.")

    monkeypatch.setattr(module, "find_issues", failing_lint)
    report = lint_file(LintRequest(find_task_files(f"{folder}/sound.py")[0], is_full=True))
    assert report.task is not None
    assert [issue.kind for issue in report.issues] == ["random", "unchecked"]
    assert "--workers 1" in report.issues[1].message
