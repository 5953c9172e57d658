"""The real compiler: what it takes, what it refuses in its own words, and what happens when its process dies."""

import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evokernel.backends.pallas import chips, compiler, driver, emulator, libtpu
from evokernel.core.errors import InfraError

needs_compiler = pytest.mark.skipif(compiler.missing() is not None, reason=compiler.missing() or "")
needs_jax = pytest.mark.skipif("jax" in (compiler.missing() or ""), reason="needs jax")
V5E = chips.chip("v5e")


@pytest.fixture(scope="module")
def kernels():
    """Two programs for v5e: one in order, and one whose scratch memory no chip has."""
    pytest.importorskip("jax")
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    from evokernel.backends.pallas.lower import lower, target

    def lowered(body, scratch=()):
        blocks = pl.BlockSpec((128, 256), lambda i: (i, 0))
        shape = jax.ShapeDtypeStruct((512, 256), jnp.float32)
        call = pl.pallas_call(body, grid=(4,), in_specs=[blocks], out_specs=blocks, out_shape=shape, scratch_shapes=scratch)
        with target(V5E):
            closed = jax.make_jaxpr(call)(shape)
        return lower(closed, V5E)

    def double(x_ref, out_ref):
        out_ref[...] = x_ref[...] * 2.0

    def through_scratch(x_ref, out_ref, scratch_ref):
        scratch_ref[:128, :256] = x_ref[...]
        out_ref[...] = scratch_ref[:128, :256]

    return {"good": lowered(double), "large": lowered(through_scratch, [pltpu.VMEM((8192, 8192), jnp.float32)])}


@pytest.fixture(scope="module", autouse=True)
def leave_no_process():
    yield
    compiler.close()


def compiled(program, into, topology=V5E.topology, **more):
    compiler.compile_program(program, topology, into, **more)
    return sorted(path.name for path in into.iterdir())


@needs_compiler
def test_the_final_schedule_is_dumped(kernels, tmp_path, capfd):
    names = compiled(kernels["good"], tmp_path / "v5e")
    (kernel,) = [name for name in names if re.fullmatch(r"\d+-\w+(\.\d+)?-\d\d-final_bundles.txt", name) and "TLP" not in name]
    text = (tmp_path / "v5e" / kernel).read_text()
    assert re.search(r"vmul\.f32|vadd\.f32", text)
    assert any(name.endswith("TLP-hlo.txt") for name in names)
    assert not [name for name in names if "original" in name], "only what is read is dumped"
    assert capfd.readouterr() == ("", ""), "the compiler is quiet"


@needs_compiler
def test_one_process_serves_all_chips_and_flags(kernels, tmp_path):
    compiled(kernels["good"], tmp_path / "v5e")
    process = compiler._warm.driver.process.pid
    flags = ["--xla_max_cross_program_prefetches=0"]
    names = compiled(kernels["good"], tmp_path / "v6e", chips.chip("v6e").topology, flags=flags)
    assert compiler._warm.driver.process.pid == process
    assert len({name.split("-")[0] for name in names}) <= 2, "dumps of one program only"


@needs_compiler
def test_a_refusal_is_the_compilers_own(kernels, tmp_path):
    with pytest.raises(compiler.Refused, match=r"RESOURCE_EXHAUSTED: .*would exceed memory") as refusal:
        compiled(kernels["large"], tmp_path)
    assert not isinstance(refusal.value, compiler.TooSlow)
    with pytest.raises(compiler.Refused, match=r"^INVALID_ARGUMENT: .*xla_no_such"):
        compiled(kernels["good"], tmp_path, flags=["--xla_no_such=1"])
    with pytest.raises(compiler.Refused, match=r"Invalid TPU external name|INVALID_ARGUMENT"):
        compiled(kernels["good"], tmp_path, "v99:1x1")
    with pytest.raises(compiler.Refused, match=r"StableHLO|bytecode"):
        compiled(b"ML\xefR no program at all", tmp_path)
    assert list(tmp_path.iterdir()) == []


@needs_compiler
def test_a_process_that_grew_is_replaced(monkeypatch):
    first = compiler._warm.started()
    monkeypatch.setattr(compiler, "MEMORY_BYTES", 1)
    assert compiler._warm.started() is not first
    assert first.process.returncode == 0


@needs_compiler
def test_a_process_that_was_killed_is_replaced(kernels, tmp_path):
    first = compiler._warm.started()
    os.kill(first.process.pid, signal.SIGKILL)
    assert compiled(kernels["good"], tmp_path)
    assert compiler._warm.driver is not first
    assert not first.folder.exists()


SCRIPT = """
import os, sys, pathlib
from evokernel.backends.pallas import compiler
program, into = map(pathlib.Path, sys.argv[1:])
compiler.compile_program(program.read_bytes(), "v5e:1x1", into)
assert "jax" not in sys.modules, "a judge is light"
running = compiler._warm.driver
child = os.fork()
if child == 0:
    os._exit(0 if compiler._warm.driver is None and running.process.stdin.closed else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a child leaves its parent's compiler alone"
print(running.process.pid, running.folder, flush=True)
sys.stdin.read()
"""


@needs_compiler
def test_two_judges_at_once_and_one_is_killed(kernels, tmp_path):
    (tmp_path / "program").write_bytes(kernels["good"])
    words = [sys.executable, "-c", SCRIPT, str(tmp_path / "program"), str(tmp_path / "theirs")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as judge:
        ours = compiled(kernels["good"], tmp_path / "ours")
        process, folder = judge.stdout.readline().split()
        assert len(list((tmp_path / "theirs").iterdir())) == len(ours)
        driver.remove_leftovers()
        assert Path(folder).exists(), "it is in use"
        judge.kill()
        judge.wait()
    wait_for(lambda: not is_running(int(process)), "the compiler outlives its judge")
    driver.remove_leftovers()
    assert not Path(folder).exists()
    assert compiled(kernels["good"], tmp_path / "ours"), "the other one goes on"


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition, complaint):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.05)


@needs_compiler
def test_too_slow_is_said_and_the_process_is_gone(kernels, tmp_path):
    slow = compiler._warm.started()
    with pytest.raises(compiler.TooSlow, match=r"did not finish within 0.01 s"):
        compiled(kernels["good"], tmp_path, timeout_s=0.01)
    assert compiler._warm.driver is None
    assert not is_running(slow.process.pid)
    assert not slow.folder.exists()


@needs_compiler
def test_a_program_that_kills_the_compiler_twice_is_at_fault(kernels, tmp_path, monkeypatch):
    started = []

    def crash(self, *arguments):
        started.append(self.process.pid)
        (self.folder / "errors").write_text("Warning\nF1115 10:00:00.1   17 layout.cc:7] Check failed: rank > 0\n*** stack trace ***\n")
        os.kill(self.process.pid, signal.SIGKILL)
        return self.answer(10)

    monkeypatch.setattr(driver.Driver, "compile", crash)
    with pytest.raises(compiler.Refused, match=r"^the compiler crashed: SIGKILL; layout.cc:7\] Check failed: rank > 0$"):
        compiled(kernels["good"], tmp_path)
    assert len(set(started)) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)


@needs_jax
def test_options_are_those_of_jax():
    from jax._src.compiler import get_compile_options

    name, value = "xla_" + "long_" * 40 + "name", "0"
    theirs = get_compile_options(num_replicas=1, num_partitions=1, env_options_overrides={name: value})
    theirs.executable_build_options.debug_options.xla_gpu_cuda_data_dir = ""
    assert compiler.base_options() + compiler.option(f"--{name}={value}") == theirs.SerializeAsString()


@needs_jax
def test_options_are_the_same_whatever_is_installed_and_set(monkeypatch, tmp_path):
    """They are kept for every environment of a user, so nothing of one environment may be in them."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/nowhere")
    monkeypatch.setattr(compiler.folders, "tools", lambda: tmp_path)
    options = compiler.base_options.__wrapped__()
    assert b"/nowhere" not in options
    assert sys.prefix.encode() not in options
    assert b"cuda_sdk" not in options
    assert options == compiler.base_options()


@needs_jax
def test_lowering_knows_the_chip_and_says_what_it_cannot_do():
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    from evokernel.backends.pallas.lower import lower, target

    with target(chips.chip("v6e")):
        assert "v6" in str(pltpu.get_tpu_info().chip_version).lower()
    narrow = pl.BlockSpec((60, 100), lambda i: (i, 0))
    call = pl.pallas_call(
        lambda x, o: None, grid=(4,), in_specs=[narrow], out_specs=narrow, out_shape=jax.ShapeDtypeStruct((512, 512), jnp.float32)
    )
    closed = jax.make_jaxpr(call)(jax.ShapeDtypeStruct((512, 512), jnp.float32))
    with pytest.raises(ValueError, match="divisible by 8 and 128"):
        lower(closed, V5E)


def test_a_compiler_that_cannot_start_is_no_candidates_fault(tmp_path, monkeypatch):
    library = tmp_path / "libtpu.so"
    library.write_text("no library")
    monkeypatch.setattr(libtpu, "find", lambda: library)
    monkeypatch.setattr(emulator, "find", lambda: emulator.NATIVE)
    monkeypatch.setattr(driver, "build", lambda: Path("/bin/false"))
    with pytest.raises(InfraError, match="does not start: exit code 1"):
        driver.Driver()
    monkeypatch.setattr(driver, "build", lambda: tmp_path / "nothing")
    with pytest.raises(InfraError, match=r"does not start: exit code 125; cannot start .*nothing: No such file"):
        driver.Driver()


@pytest.mark.parametrize(("times", "found"), [(0, None), (1, 0x3000 + 16), (2, None)])
def test_the_place_an_old_emulator_stumbles_over(tmp_path, times, found):
    """An ELF file with one segment at 0x100, loaded at 0x3000."""
    code = b"\x90" * 16 + libtpu.ACCESS * times
    header = b"\x7fELF".ljust(32, b"\0") + struct.pack("<Q", 64) + bytes(14) + struct.pack("<HH", 56, 1)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0x100, 0x3000, 0, len(code), len(code), 0)
    path = tmp_path / "library.so"
    path.write_bytes((header.ljust(64, b"\0") + segment).ljust(0x100, b"\0") + code)
    assert libtpu.access_address(path) == found
