"""Interpret mode as a check: right kernels pass, every kind of bug is found, and a failure leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from evokernel.backends.pallas.interpret import Interpreted
from evokernel.core.errors import CandidateError
from tests.backends.pallas import interpret_kernels as kernels
from tests.backends.pallas.interpret_kernels import data, shape, traced

BUGS = [
    (kernels.uninitialised_total, shape(512, 128), "nan"),
    (kernels.read_before_wait, shape(128, 128), "race"),
    (kernels.output_not_waited, shape(128, 128), "nan"),
    (kernels.overwritten_before_wait, shape(512, 128), "race"),
    (kernels.read_outside, shape(128, 128), "out_of_bounds"),
    (kernels.write_outside, shape(128, 128), "out_of_bounds"),
    (kernels.block_outside, shape(256, 128), "out_of_bounds"),
    (kernels.block_not_written, shape(256, 128), "good"),
    (kernels.padding_summed, shape(200, 128), "nan"),
    (kernels.total_shared, shape(512, 128), "race"),
    (kernels.block_revisited, shape(512, 128), "race"),
    (kernels.odd_block, shape(100, 130), "good"),
    (kernels.transfer_left_over, shape(128, 128), "good"),
]


def verdict(function: Callable[..., Any], *types: Any) -> str:
    try:
        outputs = Interpreted(traced(function, *types)).run(data(*types))
    except CandidateError as error:
        return error.reason
    return "nan" if any(np.isnan(output).any() for output in outputs) else "good"


@pytest.mark.parametrize(("function", "kind", "expected"), BUGS, ids=[bug[0].__name__ for bug in BUGS])
def test_bugs_are_found(function: Callable[..., Any], kind: Any, expected: str) -> None:
    assert verdict(function, kind) == expected


def test_good() -> None:
    x = shape(64, 256)
    (out,) = Interpreted(traced(kernels.softmax, x)).run(data(x))
    np.testing.assert_allclose(out, jax.nn.softmax(data(x)[0], axis=1), rtol=1e-6)
