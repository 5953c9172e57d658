"""Programs survive encoding and decoding; the decoder rejects all other data."""

import io
import os
import pickle
import subprocess
import sys

import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental import pallas as pl  # noqa: E402
from jax.experimental.pallas import tpu as pltpu  # noqa: E402

from evokernel.backends.pallas import lower, program_codec  # noqa: E402
from evokernel.backends.pallas.chips import get_chip  # noqa: E402
from evokernel.backends.pallas.trace import check_arguments, load_kernel  # noqa: E402
from evokernel.core.errors import CandidateError  # noqa: E402

V5E = get_chip("v5e")
WIDE = jax.ShapeDtypeStruct((256, 512), jnp.float32)


def rows(compute):
    def body(x_ref, o_ref):
        o_ref[...] = compute(x_ref[...])

    spec = pl.BlockSpec((64, 512), lambda i: (i, 0))
    return lambda x: pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(4,), in_specs=[spec], out_specs=spec)(x)


def matmul(x):
    def body(a_ref, b_ref, o_ref, acc_ref):
        @pl.when(pl.program_id(2) == 0)
        def _():
            acc_ref[...] = jnp.zeros_like(acc_ref)

        acc_ref[...] += jnp.dot(a_ref[...], b_ref[...], precision=jax.lax.Precision.HIGHEST)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = acc_ref[...]

    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((256, 256), jnp.float32),
        grid=(2, 2, 4),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(x, x.T)


def copy_through_vmem(x):
    def body(x_hbm, o_hbm, buffer, semaphore):
        copy = pltpu.make_async_copy(x_hbm, buffer, semaphore)
        copy.start()
        copy.wait()
        back = pltpu.make_async_copy(buffer, o_hbm, semaphore)
        back.start()
        back.wait()

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    scratch = [pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA]
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, in_specs=[anywhere], out_specs=anywhere, scratch_shapes=scratch)(x)


def inner_pipeline(x):
    def inner(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    def body(x_hbm, o_hbm):
        spec = pl.BlockSpec((64, 512), lambda i: (i, 0))
        pltpu.emit_pipeline(inner, grid=(4,), in_specs=[spec], out_specs=[spec])(x_hbm, o_hbm)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(body, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[anywhere], out_specs=anywhere)(x)


KERNELS = {
    "softmax": rows(lambda x: jax.nn.softmax(x, axis=-1)),
    "relu": rows(jax.nn.relu),
    "silu": rows(jax.nn.silu),
    "gelu": rows(lambda x: jax.nn.gelu(x, approximate=True)),
    "loop": rows(lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * 0.5 + i, x)),
    "where": rows(lambda x: jnp.where(jax.lax.broadcasted_iota(jnp.int32, x.shape, 1) < 100, x, -jnp.inf)),
    "matmul": matmul,
    "copy_through_vmem": copy_through_vmem,
    "inner_pipeline": inner_pipeline,
    "padded": lambda x: rows(jnp.exp)(jnp.pad(x[:200], ((0, 56), (0, 0))))[:200],
    "jitted": jax.jit(rows(jnp.tanh)),
    "placed": lambda x: rows(jnp.exp)(jnp.zeros_like(x).at[:200].set(x[:200])),
}


def trace_for_v5e(function, shape=WIDE):
    with lower.target_chip(V5E):
        return jax.make_jaxpr(function)(shape)


@pytest.mark.parametrize("name", KERNELS)
def test_decoded_program_equals_the_original(name):
    closed = trace_for_v5e(KERNELS[name])
    with lower.target_chip(V5E):
        result = program_codec.decode(program_codec.encode(closed))
        assert str(program_codec.decode(program_codec.encode(result))) == str(result)
    assert [str(aval) for aval in result.in_avals + result.out_avals] == [str(aval) for aval in closed.in_avals + closed.out_avals]
    assert lower.lower_program(result, V5E)


def test_another_process_decodes_the_program(tmp_path):
    (tmp_path / "program").write_bytes(program_codec.encode(trace_for_v5e(KERNELS["matmul"])))
    code = (
        "import sys; from pathlib import Path; from evokernel.backends.pallas import chips, lower, program_codec\n"
        "chip = chips.get_chip('v5e')\n"
        "with lower.target_chip(chip): closed = program_codec.decode(Path(sys.argv[1]).read_bytes())\n"
        "sys.stdout.write(str(len(lower.lower_program(closed, chip))))"
    )
    result = subprocess.run([sys.executable, "-c", code, tmp_path / "program"], capture_output=True, text=True, check=True)
    assert int(result.stdout) > 1000


def test_custom_derivatives_are_inlined():
    with lower.target_chip(V5E):
        text = str(program_codec.decode(program_codec.encode(trace_for_v5e(KERNELS["relu"]))))
    assert "custom_jvp" not in text
    assert "max" in text


@pytest.mark.parametrize("future", ["", "from __future__ import annotations"], ids=["plain", "future"])
def test_candidate_is_loaded_as_a_separate_module(tmp_path, monkeypatch, future):
    """Dataclasses look up their module; future imports of this project do not apply to the candidate."""
    monkeypatch.setitem(sys.modules, "kernel", None)
    config = "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Config:\n    block: int = 8\n"
    (tmp_path / "kernel.py").write_text(f"{future}\n{config}\ndef kernel(x: Config):\n    return Config().block\n")
    kernel = load_kernel(tmp_path)
    assert kernel(0) == 8
    assert isinstance(kernel.__annotations__["x"], str) is bool(future)


def test_mismatched_arguments_are_named():
    with pytest.raises(
        CandidateError, match=r"called with 3 arguments \(x, weight, eps\), but its signature does not match: too many positional arguments"
    ) as caught:
        check_arguments(jax.jit(lambda x, weight: x), ["x", "weight", "eps"])
    assert caught.value.reason == "trace_error"
    check_arguments(lambda x, *others: x, ["x", "weight", "eps"])


def test_callback_cannot_be_encoded():
    def kernel(x):
        return jax.pure_callback(lambda y: np.asarray(y), jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    with pytest.raises(CandidateError) as caught:
        program_codec.encode(trace_for_v5e(kernel))
    assert caught.value.reason == "forbidden"


class Hostile:
    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


@pytest.mark.parametrize(
    "item",
    [
        Hostile(os.system, "true"),
        Hostile(eval, "1"),
        Hostile(exec, "x = 1"),
        Hostile(getattr, "x", "upper"),
        Hostile(__import__, "os"),
        Hostile(subprocess.Popen, ["true"]),
        Hostile(open, "/etc/passwd"),
        Hostile(jax.jit, len),
        Hostile(jax.pure_callback, len, None),
        Hostile(np.frombuffer, b"12345678"),
        Hostile(pickle.loads, b""),
        Hostile(type, "X", (), {}),
        "not a program",
        [1, 2, 3],
    ],
    ids=lambda item: item.call[0].__name__ if isinstance(item, Hostile) else str(item),
)
def test_other_pickles_are_rejected(item):
    with pytest.raises(CandidateError) as caught:
        program_codec.decode(pickle.dumps(item))
    assert caught.value.reason == "forbidden"


def set_attributes(*item):
    """A pickle that names an object and sets attributes on it."""
    return b"".join([b"\x80\x04", *item, b"N}\x8c\x04name\x8c\x07reshapes\x86b."])


def call_rebuilder(function, argument):
    return f"c{program_codec.__name__}\n{function}\nX".encode() + len(argument).to_bytes(4, "little") + argument.encode() + b"\x85R"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (set_attributes(call_rebuilder("rebuild_primitive", "sin")), "Primitive must not be changed"),
        (set_attributes(b"cjax._src.pallas.core\nGridMapping\n"), "type must not be changed"),
        (set_attributes(b"cjax._src.lax.lax\nPrecision\nK\x01\x85R"), "Precision must not be changed"),
        (set_attributes(call_rebuilder("rebuild_shared_object", "unspecified")), "UnspecifiedValue must not be changed"),
        (set_attributes(b"cjax._src.pallas.core\nBlocked\n)\x81}b"), "Blocked must not be changed"),
        (b"\x80\x04cjax._src.pallas.core\nBlocked\n(K\x01tR.", "must not be called"),
        (b"\x80\x04(cjax._src.pallas.core\nBlocked\nK\x01o.", "opcode that is not allowed"),
        (b"\x80\x04cjax._src.lax.lax\nPrecision\nK\x01a.", "is not a list"),
    ],
    ids=["primitive", "class", "member", "shared", "twice", "constructor", "old-constructor", "append"],
)
def test_existing_objects_are_neither_changed_nor_called(data, message):
    before = jax.lax.sin_p.name
    with pytest.raises(CandidateError, match=message):
        program_codec.decode(data)
    assert jax.lax.sin_p.name == before


def test_object_has_only_its_fields():
    """With other attributes, two readers of a record could see different values."""
    from jax._src.pallas.core import Blocked

    data = b"\x80\x04cjax._src.pallas.core\nBlocked\n)\x81}(\x8c\x0ablock_sizeK\x08\x8c\x08__hash__K\x01\x8c\x05otherK\x01ub."
    result = program_codec.ProgramUnpickler(io.BytesIO(data)).load()
    assert result == Blocked(8)
    assert vars(result) == {"block_size": 8}


@pytest.mark.parametrize("data", [b"", b"\x80", os.urandom(200), pickle.dumps(1)[:-1], b"\x80\x05c" + b"os\nsystem\n."])
def test_invalid_pickles_are_rejected(data):
    with pytest.raises(CandidateError):
        program_codec.decode(data)


def test_too_large_program_is_rejected_before_decoding():
    with pytest.raises(CandidateError, match="remove large constants"):
        program_codec.decode(bytes(program_codec.MAX_BYTES + 1))


def test_program_with_a_missing_equation_is_rejected():
    closed = trace_for_v5e(KERNELS["matmul"])
    broken = closed.replace(jaxpr=closed.jaxpr.replace(eqns=closed.jaxpr.eqns[1:]))
    with lower.target_chip(V5E), pytest.raises(CandidateError, match="malformed"):
        program_codec.decode(program_codec.encode(broken))
