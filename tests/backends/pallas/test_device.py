"""The way to a real TPU, walked on a CPU: found by what the system shows, timed in turn."""

import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402

from evokernel.backends.pallas import backend, compiler, device, lower, program  # noqa: E402
from evokernel.backends.pallas.chips import chip  # noqa: E402
from evokernel.core.errors import CandidateError, InfraError  # noqa: E402
from evokernel.tasks.loader import load  # noqa: E402

V5E = chip("v5e")


@pytest.fixture
def machine(tmp_path):
    def made(nodes, vendors):
        for node in nodes:
            (tmp_path / "dev" / node).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "dev" / node).touch()
        for number, vendor in enumerate(vendors):
            (tmp_path / "bus" / str(number)).mkdir(parents=True)
            (tmp_path / "bus" / str(number) / "vendor").write_text(vendor + "\n")
        return tmp_path / "dev", tmp_path / "bus"

    return made


@pytest.mark.parametrize(
    ("nodes", "vendors", "found"),
    [
        (["accel0"], ["0x1ae0"], True),
        (["vfio/0"], ["0x8086", "0x1ae0"], True),
        (["vfio/0"], ["0x8086"], False),
        (["vfio/vfio"], ["0x1ae0"], False),
        ([], ["0x1ae0"], False),
        ([], [], False),
    ],
)
def test_a_tpu_is_told_by_its_node_and_vendor(machine, nodes, vendors, found):
    assert device.present(*machine(nodes, vendors)) is found


def order(tmp_path, factor):
    task = load("starter/gelu")[0]
    with lower.target(V5E):
        closed = jax.make_jaxpr(lambda x: jnp.tanh(x) * factor)(jax.ShapeDtypeStruct((64, 64), jnp.float32))
    path = tmp_path / "bench.program"
    path.write_bytes(program.encode(closed))
    source = task.source.replace("torch.randn(", "torch.randn(64, 64) if True else torch.randn(")
    return path, {"source": source, "bench": {}}


def test_both_sides_are_timed_in_turn(tmp_path):
    path, told = order(tmp_path, 2)
    found = device.measure(path, told, V5E, platform="cpu")
    assert len(found.samples_us) == len(found.baseline_us) == device.WINDOWS
    assert min(found.samples_us + found.baseline_us) > 0


def test_a_machine_without_one_is_nobodys_fault(tmp_path):
    path, told = order(tmp_path, 2)
    with pytest.raises(InfraError, match="TPU could not be used"):
        device.measure(path, told, V5E)


@pytest.mark.slow
def test_a_program_the_device_refuses_is_the_candidates_fault(tmp_path):
    path, told = order(tmp_path, 2)
    with lower.target(V5E):
        shape = jax.ShapeDtypeStruct((64, 64), jnp.float32)
        closed = jax.make_jaxpr(pl.pallas_call(lambda x_ref, o_ref: None, out_shape=shape))(shape)  # a CPU cannot run it
    path.write_bytes(program.encode(closed))
    with pytest.raises(CandidateError, match="does not run on the TPU"):
        device.measure(path, told, V5E, platform="cpu")


def test_who_insists_on_a_tpu_is_told_that_there_is_none(monkeypatch):
    monkeypatch.setattr(backend, "present", lambda: False)
    assert "no TPU" in backend.PallasBackend(device="always").unavailable_reason()
    assert backend.PallasBackend().unavailable_reason() == compiler.missing()
