"""Files with a solution beside the reference: the reference is the task, and nobody is shown the rest."""

import pytest

from evokernel.core.errors import UserError
from evokernel.tasks.loader import load
from evokernel.tasks.published_format import reference_part

BOTH = '''"""A problem, and what somebody made of it."""
import math
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

N = 8
SHAPE = {"rows": N}
SIZES = {"small": {"N": 4}}
# the kernel
SOURCE = """__global__ void k() {}"""
made = load_inline(name="made", cpp_sources="", cuda_sources=SOURCE)


def helper(x):
    return x + math.pi


class Model(nn.Module):
    """The reference."""

    def forward(self, x):
        return helper(x)


def only_for_the_kernel():
    return made


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


def test_only_the_reference_is_the_task(tmp_path):
    path = tmp_path / "both.py"
    path.write_text(BOTH)
    (task,) = load(str(path))
    for gone in ("ModelNew", "load_inline", "__global__", "only_for_the_kernel", "also", "no_grad", "__main__"):
        assert gone not in task.source
    for kept in ("N = 8", "SHAPE", "def helper", "The reference.", "import math", "def get_inputs"):
        assert kept in task.source
    assert task.signature.inputs[0].shape == (8, 4)
    assert task.sizes["small"] == {"N": 4}


def test_a_reference_alone_stays_as_it_is():
    text = "# ModelNew is what others write\nclass Model: pass\n"
    assert reference_part(text, "x.py") == text
    assert reference_part("class ModelNew(:\n", "x.py") == "class ModelNew(:\n", "whoever reads it says what is wrong"


def test_a_solution_alone_is_no_task(tmp_path):
    path = tmp_path / "solution.py"
    path.write_text("class ModelNew:\n    pass\n")
    with pytest.raises(UserError, match=r"is a kernel.*evokernel verify .*solution\.py --task"):
        load(str(path))
