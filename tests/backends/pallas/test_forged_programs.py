"""The decoder either rejects the output of a hostile tracer or reads it as a valid program; decoding has no side effects."""

import dataclasses
import importlib
import os
import pickle
import random
import sys
from functools import lru_cache

import jax
import jax.numpy as jnp
import pytest
from interpret_kernels import shape, trace_for_tpu
from jax._src import core
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas import lower, program_codec, program_rules
from evokernel.backends.pallas.chips import get_chip
from evokernel.core.errors import CandidateError

WIDE = shape(256, 128)
MUTATIONS = 400
AUDITED_EVENTS = ("exec", "compile", "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "pickle.find_class", "code.__new__", "import")
recorded_events: list[str] = []
is_recording: list[bool] = []


def record_event(event, arguments):
    if is_recording and event.startswith(AUDITED_EVENTS):
        recorded_events.append(f"{event} {arguments!r:.100}")


sys.addaudithook(record_event)


def simple(x):
    def body(table, x, out, total):
        total[...] = jnp.maximum(x[...], 0.0) * 2.0
        out[...] = total[...] + jnp.float32(table[0])

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(4,),
        in_specs=[pl.BlockSpec((64, 128), lambda i, table: (i, 0))],
        out_specs=pl.BlockSpec((64, 128), lambda i, table: (i, 0)),
        scratch_shapes=[pltpu.VMEM((64, 128), jnp.float32)],
    )
    return pl.pallas_call(body, out_shape=WIDE, grid_spec=spec)(jnp.arange(4, dtype=jnp.int32), x)


def loop_with_copies(x):
    def body(x, out, buffer, arrived):
        @pl.loop(0, 4)
        def _(step):
            copy = pltpu.make_async_copy(x.at[pl.ds(step * 64, 64)], buffer, arrived)
            copy.start()
            copy.wait()
            out[pl.ds(step * 64, 64), :] = jax.lax.cond(step == 0, jnp.tanh, lambda y: y.astype(jnp.bfloat16).astype(y.dtype), buffer[...])

    scratch = [pltpu.VMEM((64, 128), jnp.float32), pltpu.SemaphoreType.DMA]
    return pl.pallas_call(body, out_shape=WIDE, in_specs=[pl.BlockSpec(memory_space=pl.ANY)], scratch_shapes=scratch)(x)


@lru_cache
def trace_cached(function):
    return trace_for_tpu(function, WIDE)


def decode(data):
    with lower.target_chip(get_chip("v5e")):
        return program_codec.decode(data)


def mutate(data: bytes, other: bytes, generator: random.Random) -> bytes:
    """Damages a program: changes bits, opcodes or names, deletes or copies bytes, inserts parts of another program."""
    damaged = bytearray(data)
    for _ in range(generator.choice((1, 1, 2, 5, 40))):
        at, how = generator.randrange(len(damaged)), generator.randrange(6)
        if how == 0:
            damaged[at] ^= 1 << generator.randrange(8)
        elif how == 1:
            damaged[at] = generator.choice(b"cRbo0123.(tl}us\x81\x92\x93\x94\x85\x86\x87h\x8cKMN")
        elif how == 2:
            del damaged[at : at + generator.randrange(1, 30)]
        elif how == 3:
            start = generator.randrange(len(other))
            damaged[at:at] = other[start : start + generator.randrange(1, 60)]
        elif how == 4:
            start = generator.randrange(len(damaged))
            damaged[at : at + 8] = damaged[start : start + 8]
        else:
            old, new = generator.choice(NAMES), generator.choice(NAMES)
            damaged = bytearray(bytes(damaged).replace(text(old), text(new), 1))
    return bytes(damaged)


def text(word: str) -> bytes:
    """A short string in pickle encoding."""
    return b"\x8c" + bytes([len(word)]) + word.encode()


NAMES = [
    *("mul", "max", "add", "pure_callback", "get", "swap", "pallas_call", "ffi_call", "float32", "bfloat16", "int32", "object"),
    *("Var", "Literal", "Jaxpr", "Blocked", "AbstractRef", "BlockMapping", "NDIndexer", "rebuild_dtype", "rebuild_array", "rebuild_tree"),
    *("rebuild_equation", "eval", "system", "jax._src.core", "os", "builtins", "jaxpr", "grid_mapping", "block_shape", "array_aval"),
]


@pytest.mark.parametrize("function", [simple, loop_with_copies])
def test_damaged_programs_are_rejected_or_valid(function):
    generator, primitives = random.Random(4), program_codec.allowed_primitives()
    data, other = (
        program_codec.encode(trace_cached(one))
        for one in ((simple, loop_with_copies) if function is simple else (loop_with_copies, simple))
    )
    decode(data)  # jax initialises itself on the first call
    b"x".decode("raw-unicode-escape")  # so does Python for an old string encoding
    recorded_events.clear()
    reasons = []
    for _ in range(MUTATIONS):
        damaged = mutate(data, other, generator)
        is_recording.append(True)
        try:
            result = decode(damaged)
        except CandidateError as error:
            reasons.append(error.reason)
        else:
            assert isinstance(result, core.ClosedJaxpr)
            assert all(primitives[step.primitive.name] is step.primitive for step in program_rules.all_equations(result.jaxpr))
        finally:
            is_recording.clear()
    assert set(reasons) == {"forbidden"}
    assert MUTATIONS // 2 < len(reasons) < MUTATIONS  # some changes have no effect
    assert recorded_events == []


def test_audit_hook_records_pickle_events():
    is_recording.append(True)
    pickle.loads(pickle.dumps(os.getcwd))
    is_recording.clear()
    assert any("getcwd" in text for text in recorded_events)


def test_allowed_names_exist_in_jax():
    for module, names in program_codec.load_allowed_names()["classes"].items():
        for name in names.split():
            assert isinstance(getattr(importlib.import_module(module), name), type)
    for name in program_codec.load_allowed_names()["numbers"]["names"].split():
        assert program_codec.rebuild_dtype(name).name == name
    assert set(program_codec.load_allowed_names()["operations"]["others"].split()) <= set(program_codec.allowed_primitives())
    assert not set(program_codec.allowed_primitives()) & set(program_rules.load_rules().refused_inside) - {"pallas_call"}


@pytest.mark.parametrize(
    "name",
    [
        *("jax._src.callback._FlatCallback", "jax._src.ffi.FfiEffect", "jax._src.random.prng.PRNGImpl", "jax._src.core.AbstractToken"),
        *(
            "jax._src.pallas.core.CostEstimate",
            "jax._src.pallas.mosaic.interpret.params.InterpretParams",
            "jax._src.export._export.Exported",
        ),
        *("jax._src.tree_util.Partial", "jax._src.stages.ArgInfo", "jax._src.pallas.core.GridSpec", "jax._src.core.Tracer"),
    ],
)
def test_other_classes_of_jax_are_rejected(name):
    module, _, word = name.rpartition(".")
    with pytest.raises(CandidateError, match="is not allowed in a program"):
        decode(f"c{module}\n{word}\n)\x81.".encode("latin1"))


def test_disallowed_operations_can_be_neither_encoded_nor_decoded():
    for name in ("pure_callback", "ffi_call", "xla_call_module", "random_bits", "custom_partitioning", "infeed"):
        assert name not in program_codec.allowed_primitives()
        with pytest.raises(CandidateError, match="cannot be decoded: KeyError"):
            decode(f"c{program_codec.__name__}\nrebuild_primitive\nV{name}\n\x85R.".encode("latin1"))
    with pytest.raises(CandidateError, match="'everything', which is not allowed in a program"):
        program_codec.encode(trace_for_tpu(lambda x: everything.bind(x), WIDE))


everything = core.Primitive("everything")
everything.def_abstract_eval(lambda aval: aval)


def forge(change):
    """The bytes of a program with a changed kernel."""
    original = trace_cached(simple)
    steps = [change(step) if step.primitive.name == "pallas_call" else step for step in original.jaxpr.eqns]
    return program_codec.encode(original.replace(jaxpr=original.jaxpr.replace(eqns=steps)))


def change_grid(**changes):
    return lambda call: call.replace(params=call.params | {"grid_mapping": dataclasses.replace(call.params["grid_mapping"], **changes)})


def change_block(index, **changes):
    def change(call):
        blocks = list(call.params["grid_mapping"].block_mappings)
        blocks[index] = dataclasses.replace(blocks[index], allow_captured_consts=True, **changes)
        return change_grid(block_mappings=tuple(blocks))(call)

    return change


def change_body(change):
    return lambda call: call.replace(params=call.params | {"jaxpr": change(call.params["jaxpr"])})


def narrow_first_result(body):
    """Declares the first result of the body half as wide."""
    step = body.eqns[0]
    narrow = core.Var(step.outvars[0].aval.update(shape=(64, 64)))
    return body.replace(eqns=[step.replace(outvars=[narrow])])


def move_output_block(body):
    """Declares the output block in another memory space."""
    old = body.invars[2].aval
    refs = [*body.invars[:2], core.Var(type(old)(old.inner_aval, pltpu.SMEM)), body.invars[3]]
    return body.replace(invars=refs, eqns=[], effects=set(), outvars=[])


SMALL = core.ShapedArray((64, 64), jnp.float32)
FORGED = {
    "a block Ref has another shape or dtype than its block mapping": change_block(0, block_shape=(pl.Blocked(8), pl.Blocked(128))),
    "a block mapping describes another array than the operand": change_block(1, array_aval=SMALL),
    "a block has another rank than its array": change_block(0, block_shape=(pl.Blocked(64), pl.Blocked(128), pl.squeezed)),
    "an index map takes other arguments than the grid has": change_block(
        0, index_map_jaxpr=trace_for_tpu(lambda i: (i, i), jax.ShapeDtypeStruct((), jnp.int32))
    ),
    "the number of block mappings differs from the inputs and outputs": change_grid(num_outputs=3),
    "the number of operands differs from the grid mapping": change_grid(num_inputs=2),
    "": change_grid(grid=(4.0,)),
    "a count or grid size is not a non-negative integer": change_grid(grid=(-4,)),
    "the prefetched scalars differ from the operands of the call": change_grid(grid=()),
    "the arguments of the kernel body differ from its blocks and scratch": change_grid(scratch_avals=()),
    "the arguments of the kernel body differ from its blocks and scratch ": change_body(move_output_block),
    "inconsistently typed": change_body(narrow_first_result),
    "inconsistently typed ": lambda call: call.replace(params=call.params | {"out_avals": (SMALL,)}),
    "the kernel body captures constants": change_body(lambda body: body.replace(constvars=[core.Var(SMALL)])),
}


@pytest.mark.parametrize("message", FORGED)
def test_inconsistent_kernels_are_rejected(message):
    with pytest.raises(CandidateError, match=r"is malformed|cannot be decoded") as caught:
        decode(forge(FORGED[message]))
    assert message.strip() in caught.value.detail
    assert decode(forge(lambda call: call))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("rebuild_dtype\nVobject\n\x85R", "is not an allowed dtype"),
        ("rebuild_dtype\nVi4,O\n\x85R", "is not an allowed dtype"),
        ("rebuild_typed_number\nK\x01c{0}\nrebuild_dtype\nVfloat32\n\x85R\x86R", "1 is not of type float32"),
        ("rebuild_typed_number\nG?\xf0\0\0\0\0\0\0c{0}\nrebuild_dtype\nVint32\n\x85R\x86R", "1.0 is not of type int32"),
    ],
)
def test_numbers_must_match_their_dtype(call, message):
    with pytest.raises(CandidateError, match=message):
        decode(f"c{program_codec.__name__}\n{call.replace('{0}', program_codec.__name__)}.".encode("latin1"))


def test_arrays_must_match_their_declared_type():
    odd = jax._src.literals.TypedNdArray(jnp.ones((2, 2)).__array__(), core.ShapedArray((4,), jnp.float32))
    program = trace_for_tpu(lambda x: x + 1.0, shape(4))
    step = program.jaxpr.eqns[0]
    step = step.replace(invars=[step.invars[0], core.Literal(odd, odd.aval)])
    with pytest.raises(CandidateError, match="differs from its declared type"):
        decode(program_codec.encode(program.replace(jaxpr=program.jaxpr.replace(eqns=[step]))))


def test_recursive_program_is_rejected():
    data = program_codec.encode(trace_for_tpu(jax.jit(simple), WIDE))
    program = decode(data)
    program.jaxpr.eqns[-1].params["jaxpr"] = program
    with pytest.raises(RecursionError):
        program_codec.validate_program(program)


@pytest.mark.parametrize("kind", ["nothing", "link", "pipe", "folder", "large"])
def test_program_is_read_only_from_a_regular_file(tmp_path, kind):
    path = tmp_path / "bench.program"
    if kind == "link":
        (tmp_path / "other").write_bytes(program_codec.encode(trace_cached(simple)))
        path.symlink_to(tmp_path / "other")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(CandidateError) as caught:
        program_codec.read_program(path)
    assert caught.value.reason == "forbidden"
