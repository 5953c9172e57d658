"""What a model returns is scratch that it allocated: its kernels write the output itself where that is the same."""

import pytest

from evokernel.backends.gpu.program import Copy, Fill, Launch, Pointer, Program
from evokernel.backends.triton.build import use_outputs_as_scratch
from evokernel.backends.triton.screen import find_violations, is_model

MODEL = """
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def forward(self, x):
        return torch.cuda.current_device()
"""


def launch(*tensors: int) -> Launch:
    pointers = tuple(Pointer(8 * place, tensor, 0) for place, tensor in enumerate(tensors))
    return Launch("kernel0.image", "k", (1, 1, 1), (32, 1, 1), 0, b"\0" * 8 * len(tensors), pointers, None, False)


def tensors_of(program: Program) -> list[list[int]]:
    return [[pointer.tensor for pointer in step.pointers] for step in program.steps if isinstance(step, Launch)]


def test_returned_scratch_becomes_the_output() -> None:
    """Tensors 0 and 1 are an input and the output, 2 is other scratch, 3 is returned, 4 is other scratch."""
    program = Program((64, 64), 1, (16, 64, 32), (Fill(3, 0, 0, 64), launch(0, 2), launch(2, 3), launch(3, 4), Copy(1, 0, 3, 0, 64)))
    changed = use_outputs_as_scratch(program)
    assert changed.scratch == (16, 32)
    assert tensors_of(changed) == [[0, 2], [2, 1], [1, 3]]
    assert changed.steps[0] == Fill(1, 0, 0, 64)
    assert not any(isinstance(step, Copy) for step in changed.steps)


def test_two_results_become_two_outputs() -> None:
    program = Program((64, 64, 32), 2, (64, 32), (launch(0, 3, 4), Copy(1, 0, 3, 0, 64), Copy(2, 0, 4, 0, 32)))
    changed = use_outputs_as_scratch(program)
    assert (changed.scratch, tensors_of(changed), len(changed.steps)) == ((), [[0, 1, 2]], 1)


@pytest.mark.parametrize(
    "copies",
    [
        (Copy(1, 0, 0, 0, 64),),  # an input is returned
        (Copy(1, 0, 2, 0, 32), Copy(1, 32, 2, 0, 32)),  # in two parts
        (Copy(1, 0, 3, 0, 64),),  # a part of larger scratch
        (Copy(1, 0, 2, 0, 64), launch(0, 2)),  # the scratch changes afterwards
    ],
)
def test_other_copies_are_made(copies: tuple) -> None:
    program = Program((64, 64), 1, (64, 128), (launch(0, 2, 3), *copies))
    assert use_outputs_as_scratch(program) == program


def test_a_model_may_ask_about_the_device_and_a_launch_function_may_not() -> None:
    assert is_model(MODEL)
    assert list(find_violations({"kernel.py": MODEL, "reference.json": '{"source": "eval"}'})) == []
    launch_function = MODEL + "\ndef kernel(x, out):\n    torch.cuda.synchronize()\n"
    assert not is_model(launch_function)
    assert any("torch.cuda" in text for text in find_violations({"kernel.py": launch_function}))
