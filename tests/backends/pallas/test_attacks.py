"""Whatever a hostile tracer leaves, it is read as a program that jax could have made, or it is refused; reading it does nothing else."""

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
from interpret_kernels import shape, traced
from jax._src import core
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas import lower, program, program_rules
from evokernel.backends.pallas.chips import chip
from evokernel.core.errors import CandidateError

WIDE = shape(256, 128)
MUTATIONS = 400
WATCHED = ("exec", "compile", "os.", "subprocess.", "socket.", "ctypes.", "shutil.", "pickle.find_class", "code.__new__", "import")
happened: list[str] = []
watching: list[bool] = []


def watch(event, arguments):
    if watching and event.startswith(WATCHED):
        happened.append(f"{event} {arguments!r:.100}")


sys.addaudithook(watch)


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


def looped(x):
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
def closed(function):
    return traced(function, WIDE)


def decoded(data):
    with lower.target(chip("v5e")):
        return program.decode(data)


def mutated(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """One of several ways to spoil a program: bits, lengths, whole runs, opcodes, and parts of another program."""
    spoiled = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 40))):
        at, how = chance.randrange(len(spoiled)), chance.randrange(6)
        if how == 0:
            spoiled[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            spoiled[at] = chance.choice(b"cRbo0123.(tl}us\x81\x92\x93\x94\x85\x86\x87h\x8cKMN")
        elif how == 2:
            del spoiled[at : at + chance.randrange(1, 30)]
        elif how == 3:
            start = chance.randrange(len(other))
            spoiled[at:at] = other[start : start + chance.randrange(1, 60)]
        elif how == 4:
            start = chance.randrange(len(spoiled))
            spoiled[at : at + 8] = spoiled[start : start + 8]
        else:
            old, new = chance.choice(NAMES), chance.choice(NAMES)
            spoiled = bytearray(bytes(spoiled).replace(text(old), text(new), 1))
    return bytes(spoiled)


def text(word: str) -> bytes:
    """A short string, as a pickle holds it."""
    return b"\x8c" + bytes([len(word)]) + word.encode()


NAMES = [
    *("mul", "max", "add", "pure_callback", "get", "swap", "pallas_call", "ffi_call", "float32", "bfloat16", "int32", "object"),
    *("Var", "Literal", "Jaxpr", "Blocked", "AbstractRef", "BlockMapping", "NDIndexer", "rebuild_dtype", "rebuild_array", "rebuild_tree"),
    *("rebuild_equation", "eval", "system", "jax._src.core", "os", "builtins", "jaxpr", "grid_mapping", "block_shape", "array_aval"),
]


@pytest.mark.parametrize("function", [simple, looped])
def test_spoiled_programs_are_refused_or_are_programs(function):
    chance, known = random.Random(4), program.primitives()
    data, other = (program.encode(closed(one)) for one in ((simple, looped) if function is simple else (looped, simple)))
    decoded(data)  # whatever jax does the first time, it has done
    b"".decode("raw-unicode-escape")  # so has Python for an old way of writing strings
    happened.clear()
    reasons = []
    for _ in range(MUTATIONS):
        spoiled = mutated(data, other, chance)
        watching.append(True)
        try:
            found = decoded(spoiled)
        except CandidateError as error:
            reasons.append(error.reason)
        else:
            assert isinstance(found, core.ClosedJaxpr)
            assert all(known[step.primitive.name] is step.primitive for step in program_rules.equations(found.jaxpr))
        finally:
            watching.clear()
    assert set(reasons) == {"forbidden"}
    assert MUTATIONS // 2 < len(reasons) < MUTATIONS  # some change nothing that matters
    assert happened == []


def test_what_is_watched_for_would_be_seen():
    watching.append(True)
    pickle.loads(pickle.dumps(os.getcwd))
    watching.clear()
    assert any("getcwd" in text for text in happened)


def test_the_lists_name_what_jax_has():
    for module, names in program.table()["classes"].items():
        for name in names.split():
            assert isinstance(getattr(importlib.import_module(module), name), type)
    for name in program.table()["numbers"]["names"].split():
        assert program.rebuild_dtype(name).name == name
    assert set(program.table()["operations"]["others"].split()) <= set(program.primitives())
    assert not set(program.primitives()) & set(program_rules.rules().refused_inside) - {"pallas_call"}


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
def test_other_classes_of_jax_cannot_be_named(name):
    module, _, word = name.rpartition(".")
    with pytest.raises(CandidateError, match="is no part of a program"):
        decoded(f"c{module}\n{word}\n)\x81.".encode("latin1"))


def test_operations_that_are_not_for_kernels_can_be_neither_written_nor_read():
    for name in ("pure_callback", "ffi_call", "xla_call_module", "random_bits", "custom_partitioning", "infeed"):
        assert name not in program.primitives()
        with pytest.raises(CandidateError, match="cannot be read: KeyError"):
            decoded(f"c{program.__name__}\nrebuild_primitive\nV{name}\n\x85R.".encode("latin1"))
    with pytest.raises(CandidateError, match="'everything', which is not for kernels"):
        program.encode(traced(lambda x: everything.bind(x), WIDE))


everything = core.Primitive("everything")
everything.def_abstract_eval(lambda aval: aval)


def forged(change):
    """The bytes of a program whose kernel was changed."""
    whole = closed(simple)
    steps = [change(step) if step.primitive.name == "pallas_call" else step for step in whole.jaxpr.eqns]
    return program.encode(whole.replace(jaxpr=whole.jaxpr.replace(eqns=steps)))


def in_grid(**changes):
    return lambda call: call.replace(params=call.params | {"grid_mapping": dataclasses.replace(call.params["grid_mapping"], **changes)})


def in_block(index, **changes):
    def change(call):
        blocks = list(call.params["grid_mapping"].block_mappings)
        blocks[index] = dataclasses.replace(blocks[index], allow_captured_consts=True, **changes)
        return in_grid(block_mappings=tuple(blocks))(call)

    return change


def in_body(change):
    return lambda call: call.replace(params=call.params | {"jaxpr": change(call.params["jaxpr"])})


def retyped(body):
    """The first result of the body is said to be half as wide."""
    step = body.eqns[0]
    narrow = core.Var(step.outvars[0].aval.update(shape=(64, 64)))
    return body.replace(eqns=[step.replace(outvars=[narrow])])


def elsewhere(body):
    """The block that is written is said to lie in another memory."""
    old = body.invars[2].aval
    moved = [*body.invars[:2], core.Var(type(old)(old.inner_aval, pltpu.SMEM)), body.invars[3]]
    return body.replace(invars=moved, eqns=[], effects=set(), outvars=[])


SMALL = core.ShapedArray((64, 64), jnp.float32)
FORGED = {
    "a block of another shape": in_block(0, block_shape=(pl.Blocked(8), pl.Blocked(128))),
    "a block of another array": in_block(1, array_aval=SMALL),
    "a block of another rank": in_block(0, block_shape=(pl.Blocked(64), pl.Blocked(128), pl.squeezed)),
    "a map of another grid": in_block(0, index_map_jaxpr=traced(lambda i: (i, i), jax.ShapeDtypeStruct((), jnp.int32))),
    "blocks of nothing": in_grid(num_outputs=3),
    "operands without a place": in_grid(num_inputs=2),
    "": in_grid(grid=(4.0,)),
    "a count that is none": in_grid(grid=(-4,)),
    "other scalars": in_grid(grid=()),
    "a kernel that is given other memory": in_grid(scratch_avals=()),
    "a kernel that is given other memory ": in_body(elsewhere),
    "inconsistently typed": in_body(retyped),
    "inconsistently typed ": lambda call: call.replace(params=call.params | {"out_avals": (SMALL,)}),
    "a kernel with constants": in_body(lambda body: body.replace(constvars=[core.Var(SMALL)])),
}


@pytest.mark.parametrize("words", FORGED)
def test_kernels_whose_parts_contradict_each_other_are_refused(words):
    with pytest.raises(CandidateError, match=r"not well formed|cannot be read") as caught:
        decoded(forged(FORGED[words]))
    assert words.strip() in caught.value.detail
    assert decoded(forged(lambda call: call))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("rebuild_dtype\nVobject\n\x85R", "is no type of numbers"),
        ("rebuild_dtype\nVi4,O\n\x85R", "is no type of numbers"),
        ("rebuild_number\nK\x01c{0}\nrebuild_dtype\nVfloat32\n\x85R\x86R", "1 is no float32"),
        ("rebuild_number\nG?\xf0\0\0\0\0\0\0c{0}\nrebuild_dtype\nVint32\n\x85R\x86R", "1.0 is no int32"),
    ],
)
def test_numbers_are_of_the_type_they_say(call, words):
    with pytest.raises(CandidateError, match=words):
        decoded(f"c{program.__name__}\n{call.replace('{0}', program.__name__)}.".encode("latin1"))


def test_an_array_is_of_the_type_it_says():
    odd = jax._src.literals.TypedNdArray(jnp.ones((2, 2)).__array__(), core.ShapedArray((4,), jnp.float32))
    whole = traced(lambda x: x + 1.0, shape(4))
    step = whole.jaxpr.eqns[0]
    step = step.replace(invars=[step.invars[0], core.Literal(odd, odd.aval)])
    with pytest.raises(CandidateError, match="an array of another type"):
        decoded(program.encode(whole.replace(jaxpr=whole.jaxpr.replace(eqns=[step]))))


def test_a_program_that_holds_itself_is_refused():
    data = program.encode(traced(jax.jit(simple), WIDE))
    whole = decoded(data)
    whole.jaxpr.eqns[-1].params["jaxpr"] = whole
    with pytest.raises(RecursionError):
        program.check(whole)


@pytest.mark.parametrize("kind", ["nothing", "link", "pipe", "folder", "large"])
def test_a_program_is_read_from_an_ordinary_file_only(tmp_path, kind):
    path = tmp_path / "bench.program"
    if kind == "link":
        (tmp_path / "other").write_bytes(program.encode(closed(simple)))
        path.symlink_to(tmp_path / "other")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(CandidateError) as caught:
        program.read(path)
    assert caught.value.reason == "forbidden"
