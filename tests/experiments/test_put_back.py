"""Kernels in place of a model's operators, in processes of their own: right ones, wrong ones, and ones that do not fit."""

from pathlib import Path

import pytest
from model_parts import GELU, MODEL, a_run

from evokernel.core.errors import UserError
from evokernel.experiments.kernel_substitution import put_back
from evokernel.experiments.task_extraction import extract, new_folder, worth
from evokernel.reference.extract.profiles import profile
from evokernel.reference.module import Reference


@pytest.fixture(scope="module")
def small():
    return Reference(MODEL, "small.py")


@pytest.fixture(scope="module")
def found(small):
    return profile(small, 0)


@pytest.fixture(scope="module")
def tasks(found, tmp_path_factory):
    """The task of the GELU."""
    folder = tmp_path_factory.mktemp("operators")
    made = list(extract(worth(found, 0.0, 10), "small", folder))
    assert [one.reason for one in made] == [""] * 4
    (path,) = [one.path for one in made if "gelu" in one.operator.call.name]
    return str(path)


def test_a_right_kernel_leaves_the_model_right(small, found, tasks, tmp_path):
    done = put_back(small, MODEL, found, a_run(tmp_path / "run", tasks, GELU), 0)
    assert done.right
    (told,) = done.told
    assert (told.replaced, told.left, told.reason) == (1, 0, "")
    assert 0 < told.worst < 1e-5
    assert [one.seed for one in done.checked] == [0, 1, 2]
    assert 0 < max(one.worst for one in done.checked) < 1
    assert done.seconds == pytest.approx(found.seconds - (told.operator.seconds - 5e-6))


def test_a_wrong_kernel_is_found_out(small, found, tasks, tmp_path):
    done = put_back(small, MODEL, found, a_run(tmp_path / "run", tasks, GELU.replace("1.0f +", "1.01f +")), 0)
    assert not done.right
    assert not any(one.right for one in done.checked)
    assert done.told[0].worst > 1e-3
    assert done.checked[0].worst > 1


def test_a_kernel_that_crashes_is_told_and_torch_goes_on(small, found, tasks, tmp_path):
    crash = GELU.replace("for (", "*(volatile int*)8 = 1; for (")
    done = put_back(small, MODEL, found, a_run(tmp_path / "run", tasks, crash), 0)
    assert not done.right
    assert all(one.right for one in done.checked)
    assert "crash" in done.told[0].reason
    assert done.seconds is None


def test_a_kernel_that_is_not_built_is_told(small, found, tasks, tmp_path):
    done = put_back(small, MODEL, found, a_run(tmp_path / "run", tasks, "not a kernel"), 0)
    assert not done.right
    assert "cannot be started" in done.told[0].reason


def test_times_of_another_device_are_not_added_up(small, found, tasks, tmp_path):
    done = put_back(small, MODEL, found, a_run(tmp_path / "run", tasks, GELU, clock="estimate (schedule)"), 0)
    assert done.right
    assert done.seconds is None
    assert "not comparable" in done.why


def test_a_run_on_something_else_is_refused(small, found, tmp_path):
    with pytest.raises(UserError, match="none of the 1 tasks"):
        put_back(small, MODEL, found, a_run(tmp_path / "run", "starter/gelu", GELU), 0)


def test_a_kernel_writes_where_torch_would_have_written(tmp_path):
    text = MODEL.replace("self.act(self.up(x))", "inplace(self.up(x))").replace(
        "class Model", "def inplace(y):\n    z = y.t()\n    torch.relu_(y)\n    return z.t() * 2\n\n\nclass Model"
    )
    reference = Reference(text, "inplace.py")
    found = profile(reference, 0)
    (relu,) = [one for one in extract(found.operators, "inplace", tmp_path) if one.operator.call.name.endswith(".relu")]
    kernel = GELU.replace("0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678f))", "x[i] > 0 ? x[i] : 0.0f")
    done = put_back(reference, text, found, a_run(tmp_path / "run", str(relu.path), kernel), 0)
    assert done.right
    assert (done.told[0].replaced, done.told[0].worst) == (1, 0.0)


def test_a_folder_with_tasks_is_not_added_to(tasks, tmp_path):
    new_folder(tmp_path / "new")
    with pytest.raises(UserError, match="already holds"):
        new_folder(Path(tasks).parent)


def test_infinities_are_matched_where_they_belong(tmp_path):
    text = MODEL.replace("self.act(self.up(x))", "self.up(x).masked_fill(x[:, :1] > 0, float('-inf')).relu()")
    reference = Reference(text, "masked.py")
    found = profile(reference, 0)
    (fill,) = [one for one in extract(found.operators, "masked", tmp_path) if one.operator.call.name.endswith("masked_fill")]
    kernel = GELU.replace("float* out", "const bool* mask, const int64_t* mask_shape, float* out").replace(
        "0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678f))", "mask[i / x_shape[1]] ? -INFINITY : x[i]"
    )
    done = put_back(reference, text, found, a_run(tmp_path / "run", str(fill.path), kernel), 0)
    assert done.right
    assert (done.told[0].replaced, done.told[0].worst) == (1, 0.0)
