"""Interpret mode is the sanitizer here: whatever the kernel, its accesses are watched at every size that is quick to run."""

import json

import interpret_kernels as kernels
import jax
import numpy as np
import pytest
from interpret_kernels import data, shape, traced
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as mode

from evokernel.backends.pallas import program
from evokernel.backends.pallas.backend import PallasBackend
from evokernel.core.errors import CandidateError
from evokernel.core.protocols import Arguments, Array

SIZES = {"small": 64, "held_out": 72, "odd": 8, "bench": 128}


@pytest.fixture
def kernel(tmp_path):
    """A candidate as the child finds it: a program per size."""

    def load(function, sizes):
        for folder in ("programs", "inspect"):
            (tmp_path / folder).mkdir()
        calls = {}
        for size, rows in sizes.items():
            (tmp_path / "programs" / f"{size}.program").write_bytes(program.encode(traced(function, shape(rows, 128))))
            calls[size] = [[["x", "float32", [rows, 128]]], [], [["out", "float32", [rows, 128]]]]
        (tmp_path / "inspect" / "calls.json").write_text(json.dumps(calls))
        return PallasBackend(device="never").load(tmp_path)

    return load


def run(kernel, rows):
    (x,) = data(shape(rows, 128))
    out = np.empty_like(x)
    kernel.bind(Arguments((Array("x", "float32", x),), (), (Array("out", "float32", out),)))()
    return x, out


@pytest.mark.parametrize("same", [False, True], ids=["as usual", "where small is as large as bench"])
def test_all_is_watched_at_every_size_but_the_largest(kernel, monkeypatch, same):
    settings, real = [], mode.interpret_pallas_call

    def noted(*operands, interpret_params, **given):
        settings.append(interpret_params)
        return real(*operands, interpret_params=interpret_params, **given)

    monkeypatch.setattr(mode, "interpret_pallas_call", noted)
    sizes = dict.fromkeys(SIZES, 128) if same else SIZES
    loaded = kernel(kernels.softmax, sizes)
    for size, rows in sizes.items():
        x, out = run(loaded, rows)
        np.testing.assert_allclose(out, jax.nn.softmax(x, axis=1), rtol=1e-4)
        used = settings[-1]
        assert (used.out_of_bounds_reads, used.uninitialized_memory, used.skip_floating_point_ops) == ("raise", "nan", False)
        assert used.detect_races == (same or size != "bench"), size


@pytest.mark.parametrize(
    ("function", "rows", "reason"),
    [(kernels.read_outside, 128, "out_of_bounds"), (kernels.read_before_wait, 128, "race"), (kernels.block_not_written, 256, "nan")],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_what_is_watched_for_is_found_at_the_small_size(kernel, function, rows, reason):
    loaded = kernel(function, {"small": rows})
    if reason == "nan":
        assert np.isnan(run(loaded, rows)[1]).any()
    else:
        with pytest.raises(CandidateError) as caught:
            run(loaded, rows)
        assert caught.value.reason == reason


def test_there_is_nothing_more_to_run():
    assert PallasBackend(device="never").sanitizer() is None
