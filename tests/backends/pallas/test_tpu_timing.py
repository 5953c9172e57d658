"""Timing on a TPU, tested on a CPU: detection of a TPU, alternating timing, and blame for failures."""

import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

from evokernel.backends.pallas import backend, compiler, lower, program_codec, tpu_timing  # noqa: E402
from evokernel.backends.pallas.chips import get_chip  # noqa: E402
from evokernel.core.errors import CandidateError, InfraError  # noqa: E402
from evokernel.suites.loader import load_tasks  # noqa: E402

V5E = get_chip("v5e")


@pytest.fixture
def machine(tmp_path):
    def create_device_files(nodes, vendors):
        for node in nodes:
            (tmp_path / "dev" / node).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "dev" / node).touch()
        for number, vendor in enumerate(vendors):
            (tmp_path / "bus" / str(number)).mkdir(parents=True)
            (tmp_path / "bus" / str(number) / "vendor").write_text(vendor + "\n")
        return tmp_path / "dev", tmp_path / "bus"

    return create_device_files


@pytest.mark.parametrize(
    ("nodes", "vendors", "has_tpu"),
    [
        (["accel0"], ["0x1ae0"], True),
        (["vfio/0"], ["0x8086", "0x1ae0"], True),
        (["vfio/0"], ["0x8086"], False),
        (["vfio/vfio"], ["0x1ae0"], False),
        ([], ["0x1ae0"], False),
        ([], [], False),
    ],
)
def test_tpu_is_detected_by_device_node_and_vendor(machine, nodes, vendors, has_tpu):
    assert tpu_timing.has_tpu(*machine(nodes, vendors)) is has_tpu


def make_request(tmp_path, factor):
    task = load_tasks("starter/gelu")[0]
    with lower.target_chip(V5E):
        closed = jax.make_jaxpr(lambda x: jnp.tanh(x) * factor)(jax.ShapeDtypeStruct((64, 64), jnp.float32))
    path = tmp_path / "bench.program"
    path.write_bytes(program_codec.encode(closed))
    source = task.source.replace("torch.randn(", "torch.randn(64, 64) if True else torch.randn(")
    return path, {"source": source, "bench": {}}


@pytest.mark.slow(one_in=5)
def test_candidate_and_baseline_are_timed_alternately(tmp_path):
    path, request = make_request(tmp_path, 2)
    times = tpu_timing.measure_on_tpu(path, request, V5E, platform="cpu")
    assert len(times.samples_us) == len(times.baseline_us) == tpu_timing.WINDOWS
    assert min(times.samples_us + times.baseline_us) > 0


@pytest.mark.slow(one_in=5)
def test_machine_without_tpu_is_an_infrastructure_error(tmp_path):
    path, request = make_request(tmp_path, 2)
    with pytest.raises(InfraError, match="timing on the TPU failed"):
        tpu_timing.measure_on_tpu(path, request, V5E)


@pytest.mark.slow
def test_program_that_fails_on_the_device_is_a_candidate_error(tmp_path):
    path, request = make_request(tmp_path, 2)
    with lower.target_chip(V5E):
        shape = jax.ShapeDtypeStruct((64, 64), jnp.float32)
        closed = jax.make_jaxpr(pl.pallas_call(lambda x_ref, o_ref: None, out_shape=shape))(shape)  # a CPU cannot run it
    path.write_bytes(program_codec.encode(closed))
    with pytest.raises(CandidateError, match="the kernel failed on the TPU"):
        tpu_timing.measure_on_tpu(path, request, V5E, platform="cpu")


def test_device_always_without_tpu_is_unavailable(monkeypatch):
    monkeypatch.setattr(backend, "has_tpu", lambda: False)
    assert "requires a TPU" in backend.PallasBackend(device="always").unavailable_reason()
    assert backend.PallasBackend().unavailable_reason() == compiler.unavailable_reason()
