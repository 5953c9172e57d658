"""Interpret mode replaces the sanitizer: it checks all accesses, and detects races at every size that runs quickly."""

import json

import interpret_kernels as kernels
import jax
import numpy as np
import pytest
from interpret_kernels import data, shape, trace_for_tpu
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as mode

from evokernel.backends.pallas import program_codec
from evokernel.backends.pallas.backend import PallasBackend
from evokernel.core.backend import Arguments, Array
from evokernel.core.errors import CandidateError

SIZES = {"small": 64, "held_out": 72, "odd": 8, "laptop": 96, "bench": 128}


@pytest.fixture
def kernel(tmp_path):
    """A candidate as the candidate process loads it: one program per size."""

    def load(function, sizes):
        for folder in ("programs", "inspect"):
            (tmp_path / folder).mkdir()
        calls = {}
        for size, rows in sizes.items():
            (tmp_path / "programs" / f"{size}.program").write_bytes(program_codec.encode(trace_for_tpu(function, shape(rows, 128))))
            calls[size] = [[["x", "float32", [rows, 128]]], [], [["out", "float32", [rows, 128]]]]
        (tmp_path / "inspect" / "calls.json").write_text(json.dumps(calls))
        return PallasBackend(device="never").load(tmp_path)

    return load


def run(kernel, rows):
    (x,) = data(shape(rows, 128))
    out = np.empty_like(x)
    kernel.bind(Arguments((Array("x", "float32", x),), (), (Array("out", "float32", out),)))()
    return x, out


@pytest.mark.parametrize("same", [False, True], ids=["different sizes", "small equals bench"])
def test_races_are_detected_at_every_size_but_the_large_ones(kernel, monkeypatch, same):
    settings, real = [], mode.interpret_pallas_call

    def record_settings(*operands, interpret_params, **params):
        settings.append(interpret_params)
        return real(*operands, interpret_params=interpret_params, **params)

    monkeypatch.setattr(mode, "interpret_pallas_call", record_settings)
    sizes = dict.fromkeys(SIZES, 128) if same else SIZES
    candidate = kernel(kernels.softmax, sizes)
    for size, rows in sizes.items():
        x, out = run(candidate, rows)
        np.testing.assert_allclose(out, jax.nn.softmax(x, axis=1), rtol=1e-4)
        last = settings[-1]
        assert (last.out_of_bounds_reads, last.uninitialized_memory, last.skip_floating_point_ops) == ("raise", "nan", False)
        assert last.detect_races == (same or size not in ("laptop", "bench")), size


@pytest.mark.parametrize(
    ("function", "rows", "reason"),
    [(kernels.read_outside, 128, "out_of_bounds"), (kernels.read_before_wait, 128, "race"), (kernels.block_not_written, 256, "nan")],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_invalid_accesses_are_found_at_the_small_size(kernel, function, rows, reason):
    candidate = kernel(function, {"small": rows})
    if reason == "nan":
        assert np.isnan(run(candidate, rows)[1]).any()
    else:
        with pytest.raises(CandidateError) as caught:
            run(candidate, rows)
        assert caught.value.reason == reason


def test_every_run_is_checked_without_a_separate_sanitizer():
    assert PallasBackend(device="never").capabilities.sanitizer == "every_run"
