"""The check at the timed size by a backend that has the tensors on its device."""

import time
from pathlib import Path

import pytest

from evokernel.core.backend import Backend, Capabilities, DeviceCaseResult, DeviceCheckResult, OptionalTool
from evokernel.core.errors import CandidateError
from evokernel.core.output_difference import OutputDifference, WrongElement
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier.device_check import SKIPPED_NOTE, check_on_device
from evokernel.verifier.evaluators import open_trial
from evokernel.verifier.incumbent import build_incumbent, store_build
from evokernel.verifier.sanitize import sanitize_candidate, start_external_sanitizer

WRONG = OutputDifference(
    "out", (4, 8), 1, 0, 0, ((3, 3), (5, 5)), WrongElement((3, 5), "1", "2"), (WrongElement((3, 5), "1", "2"),), False, ""
)


class DeviceBackend(Backend):
    """Answers with prepared results, and remembers the cases it was asked for."""

    def __init__(self, *answers: DeviceCheckResult) -> None:
        self.answers, self.asked = list(answers), []

    @property
    def capabilities(self):
        return Capabilities(timing="device", checks_on_device=True, sanitizer="external")

    def entry_point(self, task): ...
    def screen(self, task, candidate, workdir): ...
    def build(self, task, candidate, workdir): ...
    def load(self, workdir): ...

    def sanitizer(self):
        return OptionalTool("sanitizer", True, "")

    def run_sanitizer(self, candidate, workdir, folder, calls):
        time.sleep(0.3)
        raise CandidateError("race", "found late")

    def check_on_device(self, job, workdir, cases):
        self.asked.append(list(cases))
        return self.answers.pop(0)


@pytest.fixture
def run(tmp_path: Path):
    def check(backend, kinds=("own", "near", "wide", "shifted", "tiny")):
        job = Job(backend="cpp", task=load_tasks("starter/softmax")[0], candidate=Candidate(backend="cpp", files={"kernel.cpp": ""}))
        with open_trial(job, backend, tmp_path) as trial:
            check_on_device(trial, kinds, repeats=2)
            return trial

    return check


def passed(*statuses):
    return DeviceCheckResult(tuple(DeviceCaseResult(status) for status in statuses))


def test_cases_have_secret_seeds_and_the_first_runs_twice(run):
    backends = [DeviceBackend(passed(*["passed"] * 5)) for _ in range(2)]
    for backend in backends:
        assert run(backend).compared_runs == 5
    (first,), (second,) = (backend.asked for backend in backends)
    assert [case.kind for case in first] == ["own", "near", "wide", "shifted", "tiny"]
    assert first[0].seed == first[1].seed, "an almost equal input follows"
    assert len({case.seed for case in (*first, *second)}) == 8
    assert [case.repeats for case in first] == [2, 1, 1, 1, 1]


def test_kinds_that_do_not_suit_are_replaced_by_further_cases(run):
    backend = DeviceBackend(passed("passed", "passed", "unsuitable", "unsuitable", "unsuitable"), passed("passed"))
    assert run(backend).compared_runs == 3
    assert [case.kind for case in backend.asked[1]] == ["own"]
    assert backend.asked[1][0].seed != backend.asked[0][0].seed


def test_skipped_cases_are_said(run):
    trial = run(DeviceBackend(passed("passed", "passed", "passed", "skipped", "skipped")._replace(note="no float64")))
    assert trial.skipped_checks == ["no float64", SKIPPED_NOTE]


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([DeviceCaseResult("failed", "mismatch", "", WRONG)], "smaller sizes"),
        ([DeviceCaseResult("passed"), DeviceCaseResult("failed", "mismatch", "", WRONG, is_stale=True)], "keep nothing between calls"),
        ([DeviceCaseResult("passed")] * 2 + [DeviceCaseResult("failed", "mismatch", "", WRONG)], "wider range"),
    ],
    ids=["first", "stale", "wide"],
)
def test_a_failure_is_explained_like_any_other(run, results, message):
    with pytest.raises(CandidateError, match=message) as failure:
        run(DeviceBackend(DeviceCheckResult(tuple(results))))
    assert failure.value.reason == "mismatch"
    assert "[3, 5] expected 1, got 2" in failure.value.detail
    assert "1 of 32 elements" in failure.value.detail


def test_the_best_kernel_so_far_is_not_built_again(tmp_path):
    """Its recorded programs are written into a folder next to the candidate's; this backend could not build them."""
    best, other = (Candidate(backend="cpp", files={"kernel.cpp": text}) for text in ("best", "other"))
    job = Job(backend="cpp", task=load_tasks("starter/softmax")[0], candidate=best)
    (tmp_path / "best" / "programs").mkdir(parents=True)
    (tmp_path / "best" / "programs" / "programs.json").write_text("recorded")
    with open_trial(job, DeviceBackend(), tmp_path / "best") as trial:
        store_build(trial, "programs")
    (tmp_path / "other").mkdir()
    with open_trial(job.model_copy(update={"candidate": other, "incumbent": best}), DeviceBackend(), tmp_path / "other") as trial:
        with build_incumbent(trial) as folder:
            assert folder is not None
            assert (folder / "programs" / "programs.json").read_text() == "recorded"
        assert not folder.exists()


@pytest.mark.parametrize("starts_early", [True, False])
def test_a_kernel_that_only_the_sanitizer_refuses_is_refused(tmp_path, starts_early):
    """Also if the sanitizer still runs when the check has passed."""
    job = Job(backend="cpp", task=load_tasks("starter/softmax")[0], candidate=Candidate(backend="cpp", files={"kernel.cpp": ""}))
    with open_trial(job, DeviceBackend(), tmp_path) as trial:
        if starts_early:
            start_external_sanitizer(trial)
            assert not trial.sanitizer_run.done()
        with pytest.raises(CandidateError, match="found late"):
            sanitize_candidate(trial)
