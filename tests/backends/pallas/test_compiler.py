"""The real compiler: programs it accepts, error messages for programs it rejects, and recovery when its process dies."""

import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from time_limits import wait_until

from evokernel.backends.pallas import chips, compiler, compiler_process, emulator, libtpu
from evokernel.core.errors import InfraError

needs_compiler = pytest.mark.skipif(compiler.unavailable_reason() is not None, reason=compiler.unavailable_reason() or "")
needs_jax = pytest.mark.skipif("jax" in (compiler.unavailable_reason() or ""), reason="needs jax")
V5E = chips.get_chip("v5e")


@pytest.fixture(scope="module")
def kernels():
    """Two programs for v5e: a valid one, and one whose scratch memory exceeds every chip."""
    pytest.importorskip("jax")
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    from evokernel.backends.pallas.lower import lower_program, target_chip

    def lower_kernel(body, scratch=()):
        blocks = pl.BlockSpec((128, 256), lambda i: (i, 0))
        shape = jax.ShapeDtypeStruct((512, 256), jnp.float32)
        call = pl.pallas_call(body, grid=(4,), in_specs=[blocks], out_specs=blocks, out_shape=shape, scratch_shapes=scratch)
        with target_chip(V5E):
            closed = jax.make_jaxpr(call)(shape)
        return lower_program(closed, V5E)

    def double(x_ref, out_ref):
        out_ref[...] = x_ref[...] * 2.0

    def through_scratch(x_ref, out_ref, scratch_ref):
        scratch_ref[:128, :256] = x_ref[...]
        out_ref[...] = scratch_ref[:128, :256]

    return {"good": lower_kernel(double), "large": lower_kernel(through_scratch, [pltpu.VMEM((8192, 8192), jnp.float32)])}


@pytest.fixture(scope="module", autouse=True)
def end_compiler_process():
    yield
    compiler.shut_down()


def compile_and_list(program, into, topology=V5E.topology, **more):
    compiler.compile_program(program, topology, into, **more)
    return sorted(path.name for path in into.iterdir())


@needs_compiler
def test_final_schedule_is_dumped(kernels, tmp_path, capfd):
    names = compile_and_list(kernels["good"], tmp_path / "v5e")
    (kernel,) = [name for name in names if re.fullmatch(r"\d+-\w+(\.\d+)?-\d\d-final_bundles.txt", name) and "TLP" not in name]
    text = (tmp_path / "v5e" / kernel).read_text()
    assert re.search(r"vmul\.f32|vadd\.f32", text)
    assert any(name.endswith("TLP-hlo.txt") for name in names)
    assert not [name for name in names if "original" in name], "the compiler dumps only the files we read"
    assert capfd.readouterr() == ("", ""), "the compiler prints nothing"


@needs_compiler
def test_one_process_serves_all_chips_and_flags(kernels, tmp_path):
    compile_and_list(kernels["good"], tmp_path / "v5e")
    process = compiler._shared_compiler.current.process.pid
    flags = ["--xla_max_cross_program_prefetches=0"]
    names = compile_and_list(kernels["good"], tmp_path / "v6e", chips.get_chip("v6e").topology, flags=flags)
    assert compiler._shared_compiler.current.process.pid == process
    assert len({name.split("-")[0] for name in names}) <= 2, "dumps of one program only"


@needs_compiler
def test_rejection_contains_the_compilers_message(kernels, tmp_path):
    with pytest.raises(compiler.CompileError, match=r"RESOURCE_EXHAUSTED: .*would exceed memory") as refusal:
        compile_and_list(kernels["large"], tmp_path)
    assert not isinstance(refusal.value, compiler.CompileTimeout)
    with pytest.raises(compiler.CompileError, match=r"^INVALID_ARGUMENT: .*xla_no_such"):
        compile_and_list(kernels["good"], tmp_path, flags=["--xla_no_such=1"])
    with pytest.raises(compiler.CompileError, match=r"Invalid TPU external name|INVALID_ARGUMENT"):
        compile_and_list(kernels["good"], tmp_path, "v99:1x1")
    with pytest.raises(compiler.CompileError, match=r"StableHLO|bytecode"):
        compile_and_list(b"ML\xefR not a program", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(one_in=5)
@needs_compiler
def test_process_with_too_much_memory_is_replaced(monkeypatch):
    first = compiler._shared_compiler.get_process()
    monkeypatch.setattr(compiler, "MEMORY_BYTES", 1)
    assert compiler._shared_compiler.get_process() is not first
    assert first.process.returncode == 0


@needs_compiler
def test_killed_process_is_replaced(kernels, tmp_path):
    first = compiler._shared_compiler.get_process()
    os.kill(first.process.pid, signal.SIGKILL)
    assert compile_and_list(kernels["good"], tmp_path)
    assert compiler._shared_compiler.current is not first
    assert not first.folder.exists()


SCRIPT = """
import os, sys, pathlib
from evokernel.backends.pallas import compiler
program, into = map(pathlib.Path, sys.argv[1:])
compiler.compile_program(program.read_bytes(), "v5e:1x1", into)
assert "jax" not in sys.modules, "a worker process must not import jax"
running = compiler._shared_compiler.current
pid = os.fork()
if pid == 0:
    os._exit(0 if compiler._shared_compiler.current is None and running.process.stdin.closed else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "a forked process does not touch its parent's compiler"
print(running.process.pid, running.folder, flush=True)
sys.stdin.read()
"""


@needs_compiler
def test_killing_one_of_two_workers_ends_only_its_compiler(kernels, tmp_path):
    (tmp_path / "program").write_bytes(kernels["good"])
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "program"), str(tmp_path / "theirs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        ours = compile_and_list(kernels["good"], tmp_path / "ours")
        process, folder = worker.stdout.readline().split()
        assert len(list((tmp_path / "theirs").iterdir())) == len(ours)
        compiler_process.remove_stale_folders()
        assert Path(folder).exists(), "the folder is in use"
        worker.kill()
        worker.wait()
    wait_until(lambda: not is_running(int(process)), "the compiler outlives its worker")
    compiler_process.remove_stale_folders()
    assert not Path(folder).exists()
    assert compile_and_list(kernels["good"], tmp_path / "ours"), "the other worker continues"


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@needs_compiler
def test_timeout_is_reported_and_ends_the_process(kernels, tmp_path):
    slow = compiler._shared_compiler.get_process()
    with pytest.raises(compiler.CompileTimeout, match=r"did not finish within 0.01 s"):
        compile_and_list(kernels["good"], tmp_path, timeout_s=0.01)
    assert compiler._shared_compiler.current is None
    assert not is_running(slow.process.pid)
    assert not slow.folder.exists()


@needs_compiler
def test_program_that_crashes_the_compiler_twice_is_rejected(kernels, tmp_path, monkeypatch):
    pids = []

    def crash(self, *arguments):
        pids.append(self.process.pid)
        (self.folder / "errors").write_text("Warning\nF1115 10:00:00.1   17 layout.cc:7] Check failed: rank > 0\n*** stack trace ***\n")
        os.kill(self.process.pid, signal.SIGKILL)
        return self.read_answer(10)

    monkeypatch.setattr(compiler_process.CompilerProcess, "compile", crash)
    with pytest.raises(compiler.CompileError, match=r"^the compiler crashed: SIGKILL; layout.cc:7\] Check failed: rank > 0$"):
        compile_and_list(kernels["good"], tmp_path)
    assert len(set(pids)) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@needs_jax
def test_options_equal_those_of_jax():
    from jax._src.compiler import get_compile_options

    name, value = "xla_" + "long_" * 40 + "name", "0"
    jax_options = get_compile_options(num_replicas=1, num_partitions=1, env_options_overrides={name: value})
    jax_options.executable_build_options.debug_options.xla_gpu_cuda_data_dir = ""
    assert compiler.base_options() + compiler.encode_option(f"--{name}={value}") == jax_options.SerializeAsString()


@needs_jax
def test_options_do_not_depend_on_the_environment(monkeypatch, tmp_path):
    """The options are cached for all Python environments of a user."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/nowhere")
    monkeypatch.setattr(compiler.paths, "tools_folder", lambda: tmp_path)
    options = compiler.base_options.__wrapped__()
    assert b"/nowhere" not in options
    assert sys.prefix.encode() not in options
    assert b"cuda_sdk" not in options
    assert options == compiler.base_options()


@needs_jax
def test_lowering_uses_the_chip_and_rejects_invalid_blocks():
    import jax
    import jax.numpy as jnp
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    from evokernel.backends.pallas.lower import lower_program, target_chip

    with target_chip(chips.get_chip("v6e")):
        assert "v6" in str(pltpu.get_tpu_info().chip_version).lower()
    narrow = pl.BlockSpec((60, 100), lambda i: (i, 0))
    call = pl.pallas_call(
        lambda x, o: None, grid=(4,), in_specs=[narrow], out_specs=narrow, out_shape=jax.ShapeDtypeStruct((512, 512), jnp.float32)
    )
    closed = jax.make_jaxpr(call)(jax.ShapeDtypeStruct((512, 512), jnp.float32))
    with pytest.raises(ValueError, match="divisible by 8 and 128"):
        lower_program(closed, V5E)


def test_compiler_that_cannot_start_is_an_infrastructure_error(tmp_path, monkeypatch):
    library = tmp_path / "libtpu.so"
    library.write_text("not a library")
    monkeypatch.setattr(libtpu, "find_library", lambda: library)
    monkeypatch.setattr(emulator, "find_emulator", lambda: emulator.NATIVE)
    monkeypatch.setattr(compiler_process, "build_executable", lambda: Path("/bin/false"))
    with pytest.raises(InfraError, match="did not start: exit code 1"):
        compiler_process.CompilerProcess()
    monkeypatch.setattr(compiler_process, "build_executable", lambda: tmp_path / "nothing")
    with pytest.raises(InfraError, match=r"did not start: exit code 125; cannot start .*nothing: No such file"):
        compiler_process.CompilerProcess()


@pytest.mark.parametrize(("times", "offset"), [(0, None), (1, 0x3000 + 16), (2, None)])
def test_offset_of_the_unsupported_system_call_is_found(tmp_path, times, offset):
    """An ELF file with one segment at 0x100, loaded at 0x3000."""
    code = b"\x90" * 16 + libtpu.FACCESSAT_CODE * times
    header = b"\x7fELF".ljust(32, b"\0") + struct.pack("<Q", 64) + bytes(14) + struct.pack("<HH", 56, 1)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0x100, 0x3000, 0, len(code), len(code), 0)
    path = tmp_path / "library.so"
    path.write_bytes((header.ljust(64, b"\0") + segment).ljust(0x100, b"\0") + code)
    assert libtpu.faccessat_offset(path) == offset
