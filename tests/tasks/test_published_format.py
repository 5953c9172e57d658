"""Published files with a reference and a solution: only the reference becomes the task."""

import pytest

from evokernel.core.errors import UserError
from evokernel.suites.loader import load_tasks
from evokernel.suites.published_format import extract_reference

BOTH = '''"""A problem with a solution."""
import math
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

N = 8
SHAPE = {"rows": N}
SIZES = {"small": {"N": 4}}
# the kernel
SOURCE = """__global__ void k() {}"""
extension = load_inline(name="extension", cpp_sources="", cuda_sources=SOURCE)


def helper(x):
    return x + math.pi


class Model(nn.Module):
    """The reference."""

    def forward(self, x):
        return helper(x)


def only_for_the_kernel():
    return extension


@torch.no_grad()
def also():
    return only_for_the_kernel()


class ModelNew(nn.Module):
    def forward(self, x):
        return also()


def get_inputs():
    return [torch.rand(SHAPE["rows"], 4)]


if __name__ == "__main__":
    print(ModelNew())
'''


def test_only_the_reference_becomes_the_task(tmp_path):
    path = tmp_path / "both.py"
    path.write_text(BOTH)
    (task,) = load_tasks(str(path))
    for removed in ("ModelNew", "load_inline", "__global__", "only_for_the_kernel", "also", "no_grad", "__main__"):
        assert removed not in task.source
    for needed in ("N = 8", "SHAPE", "def helper", "The reference.", "import math", "def get_inputs"):
        assert needed in task.source
    assert task.signature.inputs[0].shape == (8, 4)
    assert task.sizes["small"] == {"N": 4}


def test_reference_without_solution_is_unchanged():
    text = "# ModelNew is what others write\nclass Model: pass\n"
    assert extract_reference(text, "x.py") == text
    assert extract_reference("class ModelNew(:\n", "x.py") == "class ModelNew(:\n", "the caller reports the syntax error"


def test_solution_without_reference_is_refused(tmp_path):
    path = tmp_path / "solution.py"
    path.write_text("class ModelNew:\n    pass\n")
    with pytest.raises(UserError, match=r"defines a kernel.*evokernel verify .*solution\.py --task"):
        load_tasks(str(path))
