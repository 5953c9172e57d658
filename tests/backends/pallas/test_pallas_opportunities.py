"""Opportunities: replays of recorded schedules obey laws, known faults are named, and lines come from the compiler."""

from dataclasses import replace

import pytest
from test_schedule import dump, unpack

from evokernel.backends.pallas.chips import get_chip
from evokernel.backends.pallas.compiler import unavailable_reason
from evokernel.backends.pallas.opportunities import UNITS, core_rows, find_opportunities, product_rows, traffic_rows
from evokernel.backends.pallas.schedule import analyse_schedule
from evokernel.backends.pallas.schedule.replay import ModuleReplay
from evokernel.backends.pallas.schedule.slots import parse_slots
from evokernel.backends.pallas.schedule.trace import Costs, record_trace, replay_trace
from evokernel.core.causes import CAUSES
from evokernel.core.plugins import plugin_folder
from evokernel.core.records import Candidate, Job, Signature, Task, Tensor, Work
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

V5E = get_chip("v5e")
RECORDED = ("add", "add_tiny", "matmul", "manual", "between_hbm", "scaled", "gather", "branching", "xla_gelu")
BYTES = 512 * 1024 * 4


def make_task(nbytes, flops=1.0, dtype="float32"):
    tensor = Tensor(name="x", dtype=dtype, shape=(512, 1024))
    signature = Signature(inputs=(tensor,), outputs=(tensor,))
    return Task(id="t/t", family="", source="", signature=signature, work=Work(flops=flops, bytes=nbytes), sizes={"bench": {}})


@pytest.fixture(scope="module")
def analyses(tmp_path_factory):
    return {name: analyse_schedule(unpack(dump(name), tmp_path_factory.mktemp(name)), V5E) for name in RECORDED}


def programs(analyses):
    return [(run.prepared, run.execution) for analysis in analyses.values() for run in analysis.programs]


def test_replay_with_nothing_free_takes_the_same_time(analyses):
    for prepared, execution in programs(analyses):
        trace = record_trace(prepared, V5E)
        assert trace.cycles == pytest.approx(execution.cycles)
        ones = [1.0] * len(prepared.program.bundles)
        for costs in (Costs(), Costs(bundle_factors=ones)):
            assert replay_trace(trace, prepared, V5E, costs) == pytest.approx(execution.cycles)


def test_replay_with_something_free_is_never_slower(analyses):
    for prepared, execution in programs(analyses):
        trace = record_trace(prepared, V5E)
        size = len(prepared.program.bundles)
        some = [0.0 if at % 3 else 1.0 for at in range(size)]
        for costs in (Costs(byte_factor=0.5), Costs(latency_factor=0.0), Costs([0.0] * size), Costs(some), Costs(some, 0.5, 0.0)):
            assert replay_trace(trace, prepared, V5E, costs) <= execution.cycles + 1e-6


def test_freeing_more_never_gains_less(analyses):
    for name in ("add_tiny", "matmul", "gather"):
        replay = ModuleReplay(analyses[name], V5E)
        one = replay.gain_without(lambda slot: slot.unit == "vpu")
        both = replay.gain_without(lambda slot: slot.unit in ("vpu", "load"))
        assert 0 <= one <= both <= replay.gain_without_work() + 1e-9
        assert replay.gain_without(lambda slot: False) == 0


def test_region_never_takes_less_than_its_bound(analyses):
    """The bound of a region is at most the time that the compiler's schedule takes for it."""
    for name in ("add_tiny", "matmul", "manual"):
        (kernel,) = ModuleReplay(analyses[name], V5E).kernels
        stalls = kernel.run.prepared.stalls
        for region, bound in zip(kernel.regions, kernel.bounds.full):
            assert bound <= region.end - region.begin + sum(stalls[region.begin : region.end]) + 1e-9


@pytest.mark.parametrize(
    ("name", "task", "cause", "most_us"),
    [
        ("add_tiny", make_task(3 * BYTES), "small_copies", 10.0),
        ("between_hbm", make_task(BYTES / 4), "excess_traffic", 2.0),
    ],
)
def test_known_fault_has_the_largest_gain(analyses, name, task, cause, most_us):
    """`most_us`: what the kernel may take without the fault: blocks of 4 KiB, eight times the bytes of the task."""
    rows = find_opportunities(task, analyses[name], V5E)
    assert rows[0].cause == cause
    assert analyses[name].estimate.latency_us - rows[0].gain_us <= most_us
    assert [row.gain_us for row in rows] == sorted((row.gain_us for row in rows), reverse=True)


def test_products_count_all_passes(analyses):
    """512³ in bfloat16: one pass. A task with a sixth of the operations would have six."""
    replay = ModuleReplay(analyses["matmul"], V5E)
    assert replay.product_flops == pytest.approx(2 * 512**3, rel=0.01)
    assert replay.gain_with_product_share(1.0) == 0
    assert replay.gain_with_product_share(0.5) <= replay.gain_with_product_share(0.0)
    (row,) = product_rows(make_task(3e6, 2 * 512**3 / 6), replay)
    assert (row.cause, row.gain_us) == ("matrix_work", pytest.approx(replay.gain_with_product_share(0.5), rel=0.05))
    assert "6.0 times the operations" in row.summary
    assert not list(product_rows(make_task(3e6, 2 * 512**3), replay))


def test_minimal_traffic_is_no_opportunity(analyses):
    rows = find_opportunities(make_task(3 * BYTES), analyses["add"], V5E)
    assert "excess_traffic" not in [row.cause for row in rows]
    assert "memory_bandwidth" not in [row.cause for row in rows]


def test_idle_core_is_named_and_is_no_excess_traffic(tmp_path):
    """The recorded addition has no parallel dimension, so one core of a v5p does all the work."""
    chip = replace(V5E, cores=2)
    analysis = analyse_schedule(unpack(dump("add"), tmp_path), chip)
    replay = ModuleReplay(analysis, chip)
    replay.kernels[0].core_cycles = (replay.kernels[0].trace.cycles, 0.0)
    (row,) = core_rows(replay)
    assert (row.cause, row.gain_us) == ("few_cores", pytest.approx(analysis.estimate.latency_us / 2))
    assert not list(traffic_rows(make_task(3 * BYTES), replay))
    replay.kernels[0].core_cycles = (replay.kernels[0].trace.cycles,) * 2
    assert [row.gain_us for row in core_rows(replay)] == [0.0]


def test_module_without_a_kernel_has_no_opportunities(analyses):
    assert find_opportunities(make_task(2 * BYTES), analyses["xla_gelu"], V5E) == ()


def test_causes_and_cards_exist(analyses):
    cards = {path.stem for path in (plugin_folder("backend", "pallas") / "knowledge").glob("*.md")}
    assert {card for _, _, card in UNITS.values()} <= cards
    assert {cause for cause, _, _ in UNITS.values()} <= set(CAUSES)
    for name in RECORDED:
        for row in find_opportunities(make_task(BYTES), analyses[name], V5E):
            assert row.cause in CAUSES
            assert row.card in cards


SCHEDULE = """
     0   :  { %v1_v0 = vld [vmem:[%s9_s0] sm:$0xff] /* loc("kernel.py":7:1) */  ;;  %s2_s1 = smov.u32 0 }
   0x1   :  { %3 = vexp2.f32 %v1_v0 /* loc("kernel.py":8:1) */  ;;  %4 = vmax.xlane.f32.xlu0 %v1_v0 }
   0x2   :  { %v5_v2 = vpop.erf %3 /* loc("kernel.py":8:1) */  ;;  %6 = vst [vmem:[#allocation3_spill] sm:$0xff] /*vst_source=*/%v1_v0 }
"""


def test_slots_have_unit_line_and_operands():
    slots = parse_slots(SCHEDULE)
    assert [[(slot.unit, slot.line) for slot in bundle] for bundle in slots] == [
        [("load", 7), ("scalar", 0)],
        [("eup", 8), ("xlu", 0)],
        [("eup", 8), ("store", 0)],
    ]
    assert slots[1][0].operands == ("1",)
    assert [slot.is_spill for slot in slots[2]] == [False, True]


KERNEL = """import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def body(x, o):
    value = x[...]
    power = jnp.exp(value - jnp.max(value, axis=1, keepdims=True))
    o[...] = power / jnp.sum(power, axis=1, keepdims=True)


def kernel(x):
    spec = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(body, out_shape=shape, grid=(pl.cdiv(x.shape[0], 8),), in_specs=[spec], out_specs=spec)(x)
"""


@pytest.mark.slow(one_in=5)
@pytest.mark.skipif(unavailable_reason() is not None, reason=unavailable_reason() or "")
def test_verified_kernel_has_opportunities_at_its_lines():
    task = load_tasks("starter/softmax")[0]
    candidate = Candidate(backend="pallas", files={"kernel.py": KERNEL})
    outcome = verify(Job(task=task, candidate=candidate, backend="pallas", baselines=(), ignore_cache=True))
    rows = outcome.profile.opportunities
    assert rows[0].cause == "small_copies"
    assert {row.line for row in rows if row.cause == "cross_lane"} == {0, 8, 9}
