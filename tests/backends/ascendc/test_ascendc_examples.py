"""The worked examples of ascendc solve their tasks, and the cards show them as they are."""

from __future__ import annotations

import ascendc_cards as cards
import pytest
from sampling import one_in
from time_limits import HANG_S

from evokernel.backends.native.toolchain import missing_compiler_message
from evokernel.core.plugins import plugin_folder
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

FOLDER = plugin_folder("backend", "ascendc") / "examples"
TASKS = {
    "product-by-hand": "starter/matmul",
    "product-with-epilogue": "starter/linear_gelu",
    "matmul-with-epilogue": "starter/linear_gelu",
    "convolution-with-epilogue": "level2/conv2d_relu_hardswish",
    "sum-over-cores": "level1/mean_squared_error",
    "scan-in-segments": "level1/cumsum_first",
    "rows-by-index": "starter/embedding",
    "rows-added-by-index": "starter/embedding:backward",
    "attention-in-steps": "attention/causal",
}
FASTER_THAN_THE_BASELINE = {"product-by-hand", "convolution-with-epilogue", "attention-in-steps"}


def code_of(example: str) -> str:
    return (FOLDER / f"{example}.asc").read_text()


@pytest.mark.toolchain
@pytest.mark.slow(one_in=5)
@pytest.mark.skipif(bool(missing_compiler_message("")), reason="no C++ compiler")
@pytest.mark.parametrize("example", one_in(len(TASKS), list(TASKS)))
def test_example_solves_its_task(example: str) -> None:
    (task,) = load_tasks(TASKS[example])
    candidate = Candidate(backend="ascendc", files={"kernel.asc": code_of(example)})
    outcome = verify(Job(backend="ascendc", task=task, candidate=candidate, timeout_s=HANG_S))
    assert outcome.feasible, outcome.failure
    assert (outcome.speedup > 1) >= (example in FASTER_THAN_THE_BASELINE)


def test_every_example_has_a_task_and_a_card() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == TASKS.keys()
    assert TASKS.keys() <= cards.FRAGMENTS.keys()


@pytest.mark.parametrize("example", sorted(TASKS))
def test_card_shows_lines_of_its_example_in_order(example: str) -> None:
    lines = iter(" ".join(line.split()) for line in code_of(example).splitlines())
    shown = [" ".join(line.split()) for line in cards.FRAGMENTS[example].splitlines()]
    missing = [line for line in shown if line and not line.startswith("// …") and line not in lines]
    assert not missing
    assert TASKS[example] in cards.CARDS[example].source
