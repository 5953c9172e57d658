"""Kernels replace a model's operators, each in its own process: correct ones, wrong ones, and ones that do not fit."""

from pathlib import Path

import pytest
from model_parts import GELU, MODEL, make_run

from evokernel.core.errors import UserError
from evokernel.reference.module import Reference
from evokernel.torch_models.kernel_substitution import substitute_kernels
from evokernel.torch_models.profiles import profile_calls
from evokernel.torch_models.task_extraction import create_task_folder, extract_tasks, select_operators

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def small():
    return Reference(MODEL, "small.py")


@pytest.fixture(scope="module")
def profile(small):
    return profile_calls(small, 0)


@pytest.fixture(scope="module")
def tasks(profile, tmp_path_factory):
    """The task of the model's GELU."""
    folder = tmp_path_factory.mktemp("operators")
    extracted_tasks = list(extract_tasks(select_operators(profile, 0.0, 10), "small", folder))
    assert [one.reason for one in extracted_tasks] == [""] * 4
    (path,) = [one.path for one in extracted_tasks if "gelu" in one.operator.call.name]
    return str(path)


def test_model_with_a_correct_kernel_is_correct(small, profile, tasks, tmp_path):
    report = substitute_kernels(small, MODEL, profile, make_run(tmp_path / "run", tasks, GELU), 0)
    assert report.is_correct
    (result,) = report.results
    assert (result.replaced_calls, result.torch_calls, result.reason) == (1, 0, "")
    assert 0 < result.max_error < 1e-5
    assert [one.seed for one in report.checks] == [0, 1, 2]
    assert 0 < max(one.max_error_share for one in report.checks) < 1
    assert report.estimated_s == pytest.approx(profile.seconds - (result.operator.seconds - 5e-6))


def test_wrong_kernel_is_detected(small, profile, tasks, tmp_path):
    report = substitute_kernels(small, MODEL, profile, make_run(tmp_path / "run", tasks, GELU.replace("1.0f +", "1.01f +")), 0)
    assert not report.is_correct
    assert not any(one.is_correct for one in report.checks)
    assert report.results[0].max_error > 1e-3
    assert report.checks[0].max_error_share > 1


def test_crashed_kernel_is_reported_and_torch_takes_over(small, profile, tasks, tmp_path):
    crash = GELU.replace("for (", "*(volatile int*)8 = 1; for (")
    report = substitute_kernels(small, MODEL, profile, make_run(tmp_path / "run", tasks, crash), 0)
    assert not report.is_correct
    assert all(one.is_correct for one in report.checks)
    assert "crash" in report.results[0].reason
    assert report.estimated_s is None


def test_kernel_that_does_not_build_is_reported(small, profile, tasks, tmp_path):
    report = substitute_kernels(small, MODEL, profile, make_run(tmp_path / "run", tasks, "not a kernel"), 0)
    assert not report.is_correct
    assert "could not be started" in report.results[0].reason


def test_estimated_latencies_are_not_combined_with_measured_ones(small, profile, tasks, tmp_path):
    report = substitute_kernels(small, MODEL, profile, make_run(tmp_path / "run", tasks, GELU, clock="estimate (schedule)"), 0)
    assert report.is_correct
    assert report.estimated_s is None
    assert "not comparable" in report.no_estimate_reason


def test_run_on_other_tasks_is_refused(small, profile, tmp_path):
    with pytest.raises(UserError, match="none of the 1 tasks"):
        substitute_kernels(small, MODEL, profile, make_run(tmp_path / "run", "starter/gelu", GELU), 0)


def test_kernel_output_replaces_an_in_place_result(tmp_path):
    text = MODEL.replace("self.act(self.up(x))", "inplace(self.up(x))").replace(
        "class Model", "def inplace(y):\n    z = y.t()\n    torch.relu_(y)\n    return z.t() * 2\n\n\nclass Model"
    )
    reference = Reference(text, "inplace.py")
    profile = profile_calls(reference, 0)
    (relu,) = [one for one in extract_tasks(profile.operators, "inplace", tmp_path) if one.operator.call.name.endswith(".relu")]
    kernel = GELU.replace("0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678f))", "x[i] > 0 ? x[i] : 0.0f")
    report = substitute_kernels(reference, text, profile, make_run(tmp_path / "run", str(relu.path), kernel), 0)
    assert report.is_correct
    assert (report.results[0].replaced_calls, report.results[0].max_error) == (1, 0.0)


def test_folder_with_tasks_is_refused(tasks, tmp_path):
    create_task_folder(tmp_path / "new")
    with pytest.raises(UserError, match="already contains"):
        create_task_folder(Path(tasks).parent)


def test_infinities_are_matched(tmp_path):
    text = MODEL.replace("self.act(self.up(x))", "self.up(x).masked_fill(x[:, :1] > 0, float('-inf')).relu()")
    reference = Reference(text, "masked.py")
    profile = profile_calls(reference, 0)
    (fill,) = [one for one in extract_tasks(profile.operators, "masked", tmp_path) if one.operator.call.name.endswith("masked_fill")]
    kernel = GELU.replace("float* out", "const bool* mask, const int64_t* mask_shape, float* out").replace(
        "0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678f))", "mask[i / x_shape[1]] ? -INFINITY : x[i]"
    )
    report = substitute_kernels(reference, text, profile, make_run(tmp_path / "run", str(fill.path), kernel), 0)
    assert report.is_correct
    assert (report.results[0].replaced_calls, report.results[0].max_error) == (1, 0.0)
