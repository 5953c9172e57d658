"""Tiles of a size that is run in parts lie inside what the parts write; wrong blocks are found, and the outcome says what was run."""

from contextlib import nullcontext
from math import prod
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from evokernel.core.errors import InfraError
from evokernel.core.records import Tensor
from evokernel.verifier.parts import PARTS_TOGETHER, SKIPPED_NOTE, TILE_ELEMENTS, TiledCheck, confirm_in_parts, find_box, merge_ranges
from evokernel.verifier.tolerance import UnsuitableInputs

SHAPES = ((4096, 393216), (7,), (5, 3), (64, 3, 1, 1), (2, 3, 1000), (1, 1), (128, 64, 5, 5))


def flat_indices(shape, box):
    return np.arange(prod(shape)).reshape(shape)[tuple(slice(*pair) for pair in box)].reshape(-1)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if prod(shape) < 10**6])
def test_box_contains_its_element_and_stays_inside_the_range(shape):
    random = Random(0)
    for _ in range(200):
        start = random.randrange(prod(shape))
        stop = random.randrange(start, prod(shape)) + 1
        spot = random.randrange(start, stop)
        indices = flat_indices(shape, find_box(shape, spot, (start, stop)))
        assert spot in indices
        assert start <= indices.min() <= indices.max() < stop
        assert len(indices) <= TILE_ELEMENTS


def test_box_of_a_large_output_is_a_part_of_a_row():
    assert find_box((4096, 393216), 393216 * 5 + 1000, (0, 4096 * 393216)) == ((5, 6), (744, 1256))
    assert find_box((4096, 393216), 4096 * 393216 - 1, (0, 4096 * 393216)) == ((4095, 4096), (392959, 393215 + 1))
    assert find_box((), 0, (0, 1)) == ()


def test_box_of_short_rows_has_several_rows():
    ((low, high), columns) = find_box((1000, 3), 1500, (0, 3000))
    assert columns == (0, 3)
    assert high - low == TILE_ELEMENTS // 3


def test_merged_ranges_cover_the_same_elements():
    assert merge_ranges([(5, 9), (0, 2), (2, 3), (7, 12)]) == [(0, 3), (5, 12)]


def make_check(cases=None):
    signature = SimpleNamespace(outputs=[Tensor(name="out", dtype="float32", shape=(64, 4096))])
    task = SimpleNamespace(id="own/task", work=SimpleNamespace(flops=1.0), signature=signature)
    return TiledCheck(SimpleNamespace(seed=1, job=SimpleNamespace(task=task, timeout_s=60), cases=cases, candidate_process=None))


def test_inputs_that_cannot_be_drawn_fail_no_kernel():
    check = make_check(SimpleNamespace(get_regions=lambda kind: SimpleNamespace(unsupported_reason=f"no {kind}")))
    with pytest.raises(UnsuitableInputs):
        check.check("wide")
    with pytest.raises(InfraError, match=r"own/task cannot be checked at this size: no own\. Choose --size laptop"):
        check.check("own")


def test_confirmation_takes_the_first_kind_that_can_be_drawn():
    tried_kinds = []

    def check(kind, random_parts):
        tried_kinds.append(kind)
        if kind != "own":
            raise UnsuitableInputs(kind)

    confirm_in_parts(SimpleNamespace(parts_check=SimpleNamespace(check=check)))
    assert tried_kinds == ["wide", "normal", "own"]


def test_tiles_are_at_both_ends_of_what_the_parts_write():
    check = make_check()
    task = check.trial.job.task
    ranges = [(row * 4096 + 128, row * 4096 + 256) for row in range(8, 16)]
    tiles = check.choose_tiles(SimpleNamespace(outputs=task.signature.outputs), [ranges], inner_tiles=4)
    compared = {int(index) for tile in tiles for index in flat_indices((64, 4096), tile.box)}
    assert {ranges[0][0], ranges[0][1] - 1, ranges[-1][0], ranges[-1][1] - 1} <= compared
    assert all(any(start <= index < stop for start, stop in ranges) for index in compared)


def make_counting_check(tile_shape, monkeypatch, do_parts_wait=False):
    """A check of one output of shape (1, 300) whose batches only record how many parts they would run."""
    outputs = [Tensor(name="out", dtype="float32", shape=(1, 300))]
    check = make_check(SimpleNamespace(get_regions=lambda kind: SimpleNamespace(unsupported_reason="", outputs=outputs)))
    monkeypatch.setattr(check, "ask_whether_parts_wait", lambda regions: do_parts_wait)
    batches = []

    def check_batch(regions, kind, positions):
        batches.append(len(positions))
        return [SimpleNamespace(output=0, shape=tile_shape)]

    monkeypatch.setattr(check, "check_batch", check_batch)
    check.check("own")
    check.check("own", random_parts=1)
    return batches


def test_no_further_parts_run_once_every_element_was_compared(monkeypatch):
    assert make_counting_check((1, 300), monkeypatch) == [3]


def test_random_parts_run_if_some_elements_were_not_compared(monkeypatch):
    assert make_counting_check((1, 299), monkeypatch) == [3, 15, 3]


def test_parts_that_wait_for_each_other_run_once(monkeypatch):
    assert make_counting_check((1, 299), monkeypatch, do_parts_wait=True) == [2 + PARTS_TOGETHER, 3]


def test_whether_parts_wait_is_known_after_one_was_located(monkeypatch):
    check, asked = make_check(), []
    process = SimpleNamespace(do_parts_wait=False)
    process.locate_parts = lambda slot, positions: (asked.append(positions), setattr(process, "do_parts_wait", True))
    check.trial.candidate_process, check.trial.translate_errors = process, nullcontext
    monkeypatch.setattr(check, "get_slot", lambda regions: None)
    assert check.ask_whether_parts_wait(None)
    check.batch_parts = 6
    assert check.ask_whether_parts_wait(None)
    assert asked == [(0.0,)], "it is known after a batch"


def test_number_of_parts_follows_from_cpu_time(monkeypatch):
    check = make_check()
    check.trial.candidate_process = SimpleNamespace(read_cpu_s=lambda: 100.0)
    assert 100 <= check.read_clock() < 10_000
    check.trial.candidate_process = SimpleNamespace(read_cpu_s=lambda: None)
    monkeypatch.setattr("evokernel.verifier.parts.time.monotonic", lambda: 77.0)
    assert check.read_clock() == 77.0


def test_elements_that_were_compared_twice_count_once():
    check = make_check()
    check.compared_elements = 64 * 4096 // 2
    assert check.compared_share == 0.5
    check.compared_elements = 2 * 64 * 4096
    assert check.compared_share == 1


@pytest.mark.parametrize("longer_s", [0, 60])
@pytest.mark.parametrize(("remaining_s", "expected"), [(60, [0.0, 1.0, 0.5]), (21, [1.0, 0.5]), (12, [0.5]), (9, [])])
def test_slow_kernel_is_confirmed_on_as_many_parts_as_its_time_allows(remaining_s, expected, longer_s):
    """What the limit is longer for the first parts, further ones do not use."""
    check = make_check()
    timeout_s = check.trial.job.timeout_s
    check.trial.candidate_process = SimpleNamespace(remaining_s=remaining_s + longer_s, timeout_s=timeout_s + longer_s, do_parts_wait=False)
    assert check.choose_affordable([0.0, 1.0, 0.5]) == [0.0, 1.0, 0.5], "nothing is known before the first parts"
    check.batch_run_s, check.batch_parts = 22.5, 3
    assert check.choose_affordable([0.0, 1.0, 0.5]) == expected
    check.trial.candidate_process.do_parts_wait = True
    assert check.choose_affordable([0.0, 1.0, 0.5]) == ([0.0, 1.0, 0.5] if remaining_s == 60 else []), "one part takes 22.5 s, too"


def test_outcome_says_that_no_time_was_left_for_further_parts(monkeypatch):
    check = make_check(SimpleNamespace(get_regions=lambda kind: SimpleNamespace(unsupported_reason="", outputs=[])))
    check.trial.skipped_checks = []
    monkeypatch.setattr(check, "choose_affordable", lambda positions: [])
    check.check("wide", random_parts=1)
    assert check.trial.skipped_checks == [SKIPPED_NOTE]
