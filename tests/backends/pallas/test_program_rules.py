"""The program rules reject work outside kernels and access to the host, and accept honest programs."""

import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from evokernel.backends.pallas import program_codec, program_rules

F32 = jnp.float32
ANY = pl.BlockSpec(memory_space=pl.ANY)
SQUARE = jax.ShapeDtypeStruct((256, 256), F32)
TPU = jax.sharding.AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu")
MESH = jax.sharding.AbstractMesh((1,), ("x",), abstract_device=TPU)


def findings(function, *arguments):
    with jax.sharding.use_abstract_mesh(MESH):
        return program_rules.collect_findings(jax.make_jaxpr(function)(*arguments))


def rows(body, *arrays, block=128, out=None, **options):
    """`body` over blocks of rows."""
    spec = pl.BlockSpec((block, arrays[0].shape[1]), lambda i: (i, 0))
    shape = out or jax.ShapeDtypeStruct(arrays[0].shape, arrays[0].dtype)
    options = {"grid": (arrays[0].shape[0] // block,), "in_specs": [spec] * len(arrays), "out_specs": spec} | options
    return pl.pallas_call(body, out_shape=shape, **options)(*arrays)


def double_body(x, out):
    out[...] = x[...] * 2


def double(x, **options):
    return rows(double_body, x, **options)


def matmul(x, y):
    def body(x, y, out, total):
        @pl.when(pl.program_id(2) == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(x[...], y[...], preferred_element_type=F32)
        out[...] = total[...]

    sizes = [pl.BlockSpec((128, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))]
    return pl.pallas_call(
        body,
        out_shape=jax.ShapeDtypeStruct((x.shape[0], y.shape[1]), F32),
        grid=(x.shape[0] // 128, y.shape[1] // 128, x.shape[1] // 128),
        in_specs=sizes,
        out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((128, 128), F32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary"), vmem_limit_bytes=64 << 20),
    )(x, y)


def softmax(x):
    def body(x, out):
        shifted = jnp.exp(x[...] - jnp.max(x[...], axis=1, keepdims=True))
        out[...] = shifted / jnp.sum(shifted, axis=1, keepdims=True)

    return rows(body, x)


def copied_by_hand(x):
    def body(x, out, buffer, arrived):
        copy = pltpu.make_async_copy(x.at[pl.ds(0, 8)], buffer, arrived)
        copy.start()
        copy.wait()
        back = pltpu.make_async_copy(buffer, out.at[pl.ds(0, 8)], arrived)
        back.start()
        back.wait()

    scratch = [pltpu.VMEM((8, x.shape[1]), F32), pltpu.SemaphoreType.DMA]
    return pl.pallas_call(body, out_shape=SQUARE, in_specs=[ANY], out_specs=ANY, scratch_shapes=scratch)(x)


def inner_pipeline(x):
    def body(x, out):
        spec = pl.BlockSpec((128, 128), lambda i: (i, 0))
        pltpu.emit_pipeline(double_body, grid=(2,), in_specs=[spec], out_specs=[spec])(x, out)

    return pl.pallas_call(body, out_shape=SQUARE, in_specs=[ANY], out_specs=ANY)(x)


def pad_outside(x):
    wide = jnp.pad(x.T, ((0, 128), (0, 0))).astype(jnp.bfloat16)
    return double(wide)[:256].T.astype(F32)


def assemble_outside(x):
    frame = jnp.zeros((512, 256), F32).at[:256].set(x)
    return double(jnp.concatenate([frame[::-1], jnp.flip(frame), jnp.tile(x, (2, 1))], axis=0))[::2]


def apply_mask(x):
    """A border mask made with numpy, 256 KiB large."""
    mask = np.zeros((256, 256), np.float32)
    mask[1:-1, 1:-1] = 1
    return rows(lambda x, mask, out: out.__setitem__(..., x[...] * mask[...]), x, jnp.asarray(mask))


def mask_from_iota(x):
    grid = lax.broadcasted_iota(jnp.int32, (2048, 256), 0)
    mask = jnp.where((grid > 3) & (grid % 7 != 0), 1.0, 0.0).astype(F32)
    return rows(lambda x, mask, out: out.__setitem__(..., x[...] * mask[...]), jnp.tile(x, (8, 1)), mask)[:256]


def scaled_by_few(x):
    """Arithmetic on few elements outside a kernel."""
    weight = 1.0 / jnp.sum(x[:2]) ** 2
    partial = rows(lambda x, out: out.__setitem__(..., x[...] * 2), jnp.broadcast_to(x * 1, (256, 256))[:, :128])
    return jnp.sum(partial[:4]) * weight


def vmap_kernel(x):
    """The kernel over a batch, by `vmap`."""
    return jax.vmap(double)(x.reshape(2, 128, 256)).reshape(256, 256)


def scalars_first(x):
    def body(order, x, out):
        out[...] = x[...] * 2

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(2,),
        in_specs=[pl.BlockSpec((128, 256), lambda i, order: (order[i], 0))],
        out_specs=pl.BlockSpec((128, 256), lambda i, order: (i, 0)),
    )
    return pl.pallas_call(body, out_shape=SQUARE, grid_spec=spec)(jnp.asarray(np.array([1, 0], np.int32)), x)


def onto_zeros(x):
    """Overwriting an array that the program created is allowed."""
    out = jax.ShapeDtypeStruct((256, 256), F32)
    spec = pl.BlockSpec((128, 256), lambda i: (i, 0))
    body = lambda x, old, out: out.__setitem__(..., x[...] + old[...])  # noqa: E731
    options = {"grid": (2,), "in_specs": [spec, spec], "out_specs": spec, "input_output_aliases": {1: 0}}
    return pl.pallas_call(body, out_shape=out, **options)(x, jnp.zeros((256, 256), F32))


def stack_rows_in_loop(x):
    """A loop that only moves data; counting its steps is allowed."""
    moved = lax.fori_loop(0, 2, lambda i, y: lax.dynamic_update_slice(y, lax.dynamic_slice(x, (i, 0), (1, 256)), (i + 1, 0)), x)
    return double(moved)


HONEST = [
    double,
    stack_rows_in_loop,
    softmax,
    copied_by_hand,
    inner_pipeline,
    pad_outside,
    assemble_outside,
    apply_mask,
    mask_from_iota,
    vmap_kernel,
    scalars_first,
    onto_zeros,
]


@pytest.mark.parametrize("function", HONEST, ids=lambda function: function.__name__)
def test_honest_programs_pass(function):
    assert findings(function, SQUARE) == []


def test_matmul_with_scratch_and_unused_inputs_pass():
    assert findings(matmul, SQUARE, SQUARE) == []
    assert findings(lambda x, y: double(x), SQUARE, SQUARE) == []


def test_only_little_arithmetic_outside_kernels_passes():
    small = jax.ShapeDtypeStruct((8, 128), F32)
    assert findings(lambda x: double(x * 2 + 1, block=8) / 3, small) == []
    assert findings(lambda x: double(jnp.dot(x[:, :16], x[:, :16].T), block=8), small) == []  # 8 * 8 * 16 multiplications
    assert "`dot_general` on 8192 elements" in findings(lambda x: double(jnp.dot(x, x.T), block=8), small)[0]

    def often(x):
        for _ in range(70):
            x = x + 1
        return double(x, block=8)

    assert "process 71680 elements in total" in findings(often, small)[0]
    texts = findings(scaled_by_few, SQUARE)
    assert [text.split(" outside")[0] for text in texts] == ["`mul` on 65536 elements"]


TABLE = np.random.default_rng(0).normal(size=(1024, 512)).astype(np.float32)


def held_table(x):
    return rows(lambda x, table, out: out.__setitem__(..., table[...] + 0 * x[...]), jnp.tile(x, (4, 2)), jnp.asarray(TABLE))


def sum_in_loop(x):
    return double(lax.fori_loop(0, 4, lambda _, total: total + x[:8, :8].sum(), jnp.zeros((256, 256), F32)))


def kernel_in_loop(x):
    return lax.fori_loop(0, 4, lambda _, y: double(y), x)


def by_platform(x):
    return lax.platform_dependent(x, tpu=double, default=lambda y: double(y))


def by_platform_inside(x):
    def body(x, out):
        out[...] = lax.platform_dependent(x[...], tpu=lambda y: y, default=lambda y: y * 2)

    return rows(body, x)


def by_platform_in_index(x):
    spec = pl.BlockSpec((128, 256), lambda i: (lax.platform_dependent(i, tpu=lambda i: i, default=lambda i: 0 * i), 0))
    return rows(double_body, x, in_specs=[spec])


def ignoring(x):
    return rows(lambda x, out: out.__setitem__(..., jnp.ones((128, 256), F32)), x)


def without_inputs(x):
    return pl.pallas_call(lambda out: out.__setitem__(..., jnp.ones(out.shape, F32)), out_shape=SQUARE)()


def unused_kernel(x):
    double(x)
    return x.T


def printing(x):
    def body(x, out):
        pl.debug_print("x {}", x[0, 0])
        out[...] = x[...]

    return rows(body, x)


def calling_back_inside(x):
    def body(x, out):
        jax.debug.callback(lambda value: None, x[0, 0])
        out[...] = x[...]

    return rows(body, x)


def calling_back(x):
    return double(jax.pure_callback(np.asarray, SQUARE, x))


def calling_back_for_effect(x):
    io_callback(lambda value: None, None, x)
    return double(x)


def printing_outside(x):
    jax.debug.print("x {}", x[0, 0])
    return double(x)


def foreign(x):
    return double(jax.ffi.ffi_call("answer", SQUARE)(x))


def drawing(x):
    return double(jax.random.normal(jax.random.key(0), (256, 256)) + jnp.zeros_like(x))


def drawing_inside(x):
    def body(x, out):
        pltpu.prng_seed(0)
        out[...] = x[...] + lax.bitcast_convert_type(pltpu.prng_random_bits((128, 256)), jnp.int32).astype(F32)

    return rows(body, x)


def remote(x):
    def body(x, out, one, two):
        copy = pltpu.make_async_remote_copy(x, out, one, two, device_id=0)
        copy.start()
        copy.wait()

    return pl.pallas_call(body, out_shape=SQUARE, in_specs=[ANY], out_specs=ANY, scratch_shapes=[pltpu.SemaphoreType.DMA] * 2)(x)


def peeking_at_a_semaphore(x):
    def body(x, out, arrived):
        copy = pltpu.make_async_copy(x, out, arrived)
        copy.start()
        ready = pl.semaphore_read(arrived)
        pl.when(ready >= 0)(copy.wait)

    return pl.pallas_call(body, out_shape=SQUARE, in_specs=[ANY], out_specs=ANY, scratch_shapes=[pltpu.SemaphoreType.DMA])(x)


def data_as_grid(x):
    spec = pl.BlockSpec((128, 256), lambda i: (i, 0))
    steps = x[0, 0].astype(jnp.int32)
    return pl.pallas_call(double_body, out_shape=SQUARE, grid=(steps,), in_specs=[spec], out_specs=spec)(x)


def fine_grid(x):
    spec = pl.BlockSpec((128, 256), lambda i, j, k: (i, 0))
    return rows(double_body, x, grid=(2, 1000, 1000), in_specs=[spec], out_specs=spec)


def branch_on_data(x):
    return double(lax.cond(x[0, 0] > 0, lambda y: y * 2, lambda y: y, x))


def in_a_derivative(x):
    return jax.nn.relu(double(x))


def cumulative(x):
    return double(jnp.cumsum(x, axis=1))


def round_outside(x):
    return double(x.astype(jnp.int32)).astype(F32)


def looked_up(x):
    return double(x[x[:, 0].astype(jnp.int32)])


def looked_up_by_slices(x):
    places = x[:2, 0].astype(jnp.int32)
    return double(jnp.concatenate([lax.dynamic_slice(x, (places[row], 0), (128, 256)) for row in range(2)]))


def looked_up_in_a_loop(x):
    places = x[:, 0].astype(jnp.int32)
    return double(lax.scan(lambda kept, place: (kept, lax.dynamic_slice(x, (place, 0), (1, 256))[0]), 0, places)[1])


def placed_by_data(x):
    return double(lax.dynamic_update_slice(x, x[:1], (x[0, 0].astype(jnp.int32), 0)))


def counted_by_data(x):
    return double(lax.while_loop(lambda kept: kept[0] < x[0, 0], lambda kept: (kept[0] + 1, kept[1].T), (0, x))[1])


def chosen_by_data(x):
    return double(lax.cond(x[0, 0] > 0, lambda y: y, lambda y: y.T, x))


def carried_over(x):
    """The index depends on data only after two iterations."""

    def step(_, kept):
        one, two, moved = kept
        return two, moved[0, 0].astype(jnp.int32), lax.dynamic_slice(x, (one, 0), (256, 256))

    return double(lax.fori_loop(0, 3, step, (0, 0, x))[2])


def half_range(x):
    return rows(lambda x, out: out.__setitem__(..., pl.reciprocal(x[...], full_range=False)), x)


def convolve_outside(x):
    return double(lax.conv_general_dilated(x[None, None], x[None, None, :3, :3], (1, 1), "SAME")[0, 0])


def half_outside(x):
    return double(x), x @ x


CHEATS = [
    (lambda x: double(x @ x), ["`dot_general` on 16777216 elements outside `pl.pallas_call`: compute inside the kernel"]),
    (lambda x: double(x) * 0 + x, ["`mul` on 65536 elements", "`add` on 65536 elements"]),
    (lambda x: double(jax.nn.softmax(x)), ["`reduce_max` on 65536", "`sub` on", "`exp` on", "`reduce_sum` on", "`div` on"]),
    (lambda x: jnp.tanh(x), ["`tanh` on 65536", "the program contains no `pl.pallas_call`"]),
    (convolve_outside, ["`conv_general_dilated` must be computed inside a kernel"]),
    (lambda x: double(jnp.sort(x)), ["`sort` must be computed inside a kernel"]),
    (lambda x: double(jnp.asarray(TABLE[:256, :256])), ["output 0 depends on no input through a kernel"]),
    (lambda x: x, ["the program contains no `pl.pallas_call`"]),
    (held_table, ["array constants take 2048 KiB, the limit is 1024 KiB: compute them in the kernel"]),
    (sum_in_loop, ["`add` runs in a loop or branch outside"]),
    (kernel_in_loop, ["`pl.pallas_call` inside `scan`: make the loop a grid dimension"]),
    (by_platform, ["`platform_index` branches on the platform", "`cond` branches on the platform"]),
    (by_platform_inside, ["`platform_index` in a kernel branches on the platform", "`cond` in a kernel branches on the platform"]),
    (by_platform_in_index, ["`platform_index` in a kernel branches on the platform"]),
    (ignoring, ["output 0 depends on no input through a kernel"]),
    (without_inputs, ["output 0 depends on no input through a kernel"]),
    (unused_kernel, ["output 0 is not a result of `pl.pallas_call`"]),
    (printing, ["`debug_print` in a kernel is for debugging; remove it"]),
    (printing_outside, ["`debug_print` is for debugging"]),
    (calling_back, ["`pure_callback` calls Python on the host"]),
    (calling_back_for_effect, ["`io_callback` calls Python on the host"]),
    (calling_back_inside, ["`debug_callback` in a kernel calls Python on the host"]),
    (foreign, ["`ffi_call` calls code outside the traced program"]),
    (drawing, ["draws random numbers"]),
    (drawing_inside, ["`prng_seed` in a kernel draws random numbers", "`prng_random_bits` in a kernel draws"]),
    (remote, ["`dma_start` in a kernel communicates with other devices"]),
    (peeking_at_a_semaphore, ["`semaphore_read` in a kernel makes the result depend on timing"]),
    (data_as_grid, ["the grid depends on data"]),
    (fine_grid, ["the grid (2, 1000, 1000) has 2000000 steps, the limit is 1000000: use larger blocks"]),
    (branch_on_data, ["`mul` runs in a loop or branch outside"]),
    (in_a_derivative, ["`max` on 65536 elements outside"]),
    (cumulative, ["`cumsum` on 65536 elements outside"]),
    (round_outside, ["`convert_element_type` on 65536 elements outside"]),
    (looked_up, ["`gather` on 65536 elements outside"]),
    (looked_up_by_slices, ["`dynamic_slice` on 65536 elements outside"]),
    (looked_up_in_a_loop, ["`dynamic_slice` runs in a loop or branch outside"]),
    (placed_by_data, ["`dynamic_update_slice` on 65536 elements outside"]),
    (counted_by_data, ["the condition of `while` outside"]),
    (chosen_by_data, ["the condition of `cond` outside"]),
    (carried_over, ["`dynamic_slice` runs in a loop or branch outside"]),
    (half_outside, ["`dot_general` on 16777216 elements outside", "output 1 is not a result of `pl.pallas_call`"]),
    (lambda x: double(x, interpret=True), ["`interpret` is set on a `pl.pallas_call`: the verifier chooses the mode; remove `interpret`"]),
    (lambda x: double(x, interpret=pltpu.InterpretParams(skip_floating_point_ops=True)), ["`interpret` is set"]),
    (lambda x: double(x, debug=True), ["`debug` is set"]),
    (lambda x: double(x, metadata={"answer": "42"}), ["`metadata` is set"]),
    (lambda x: double(x, name="a\nb"), ["the `name` of a kernel may contain only letters"]),
    (lambda x: double(x, compiler_params=pltpu.CompilerParams(flags={"xla": 1})), ["`flags` in `pltpu.CompilerParams` is not allowed"]),
    (lambda x: double(x, compiler_params={"vmem_limit_bytes": 1}), ["`compiler_params` must be a `pltpu.CompilerParams`"]),
    (lambda x: double(x, input_output_aliases={0: 0}), ["`input_output_aliases` would overwrite an input of the program"]),
    (lambda x: double(x.reshape(128, 512), input_output_aliases={0: 0}), ["`input_output_aliases` would overwrite"]),
    (lambda x: jax.jit(lambda y: double(y, input_output_aliases={0: 0}))(x), ["`input_output_aliases` would overwrite"]),
    (half_range, ["`pl.reciprocal(full_range=False)` is undefined"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "expected"), CHEATS, ids=[f"{index}-{function.__name__}" for index, (function, _) in enumerate(CHEATS)]
)
def test_cheats_are_detected_and_named(function, expected):
    texts = findings(function, SQUARE)
    for message in expected:
        assert any(message in text for text in texts), texts
    assert all("\n" not in text and len(text) < 200 for text in texts)


@pytest.mark.parametrize("is_encoded", [False, True])
def test_findings_name_the_line(is_encoded):
    def kernel(x):
        return jnp.tanh(double(x))

    line = kernel.__code__.co_firstlineno + 1
    closed = jax.make_jaxpr(kernel)(SQUARE)
    assert program_rules.collect_findings(program_codec.decode(program_codec.encode(closed)) if is_encoded else closed) == [
        f"`tanh` on 65536 elements outside `pl.pallas_call`: compute inside the kernel (test_program_rules.py:{line})"
    ]


def test_constant_of_one_repeated_value_is_allowed():
    flat = np.full((1024, 512), 3.0, np.float32)
    assert (
        findings(
            lambda x: rows(lambda x, table, out: out.__setitem__(..., x[...] * table[...]), jnp.tile(x, (4, 2)), jnp.asarray(flat)), SQUARE
        )
        == []
    )


def test_many_findings_are_truncated():
    def much(x):
        for size in range(100, 130):
            x = x.at[:, :size].set(jnp.sin(x[:, :size]))
        return double(x)

    texts = findings(much, SQUARE)
    assert len(texts) == program_rules.MAX_FINDINGS + 1
    assert texts[-1] == "and 18 more"


def test_every_operation_of_the_compiler_is_listed():
    from jax._src.pallas.mosaic import lowering

    supported = {primitive.name for kind, table in lowering.lowering_rules.items() if "TC" in repr(kind) for primitive in table}
    table = tomllib.loads((Path(program_rules.__file__).parent / "program_rules.toml").read_text())
    listed = set(table["inside"]["known"].split()) | set(program_rules.load_rules().refused_inside)
    assert len(supported) > 100
    assert supported - listed == set()
    assert not set(table["inside"]["known"].split()) & set(program_rules.load_rules().refused_inside)


def test_call_with_two_programs_is_rejected():
    """A forged_call program could show one program and execute the other."""

    def copy(x, o):
        o[...] = x[...]

    def kernel(x):
        return pl.pallas_call(copy, out_shape=SQUARE)(jax.jit(jnp.sin)(x))

    closed = jax.make_jaxpr(kernel)(SQUARE)
    call = closed.jaxpr.eqns[0]
    decoy = jax.make_jaxpr(lambda x: x)(SQUARE)
    forged_call = call.replace(params={"inline": decoy, **{name: value for name, value in call.params.items() if name != "inline"}})
    texts = program_rules.collect_findings(closed.replace(jaxpr=closed.jaxpr.replace(eqns=[forged_call, *closed.jaxpr.eqns[1:]])))
    assert any("cannot be inspected" in text for text in texts)


def alias_findings(index_map, rows=8):
    def kernel(x):
        y = pl.pallas_call(lambda x, o: o.__setitem__(..., x[...]), out_shape=SQUARE)(x)
        input_spec = pl.BlockSpec((8, 256), lambda i: (i, 0))
        output_spec = pl.BlockSpec((rows, 256), index_map)
        body = lambda x, o: o.__setitem__(slice(0, 8), x[...] + 1)  # noqa: E731
        return pl.pallas_call(body, SQUARE, grid=(32,), in_specs=[input_spec], out_specs=output_spec, input_output_aliases={0: 0})(y)

    return findings(kernel, SQUARE)


def test_alias_must_use_the_same_blocks_for_input_and_output():
    """Interpret mode reads a block at the start of its step; the TPU reads it earlier."""
    assert alias_findings(lambda i: (i, 0)) == []
    assert any("different or overlapping blocks" in text for text in alias_findings(lambda i: ((i + 1) % 32, 0)))
    assert any("different or overlapping blocks" in text for text in alias_findings(lambda i: (i, 0), rows=16))


def test_a_cost_estimate_is_ignored():
    free = pl.CostEstimate(flops=0, transcendentals=0, bytes_accessed=0)
    closed = jax.make_jaxpr(lambda x: double(x, cost_estimate=free))(SQUARE)
    [equation] = [one for one in closed.eqns if one.primitive.name == "pallas_call"]
    assert equation.params["cost_estimate"] == free
    decoded = program_codec.decode(program_codec.encode(closed))
    [equation] = [one for one in decoded.eqns if one.primitive.name == "pallas_call"]
    assert equation.params["cost_estimate"] is None
    assert program_rules.collect_findings(decoded) == []
