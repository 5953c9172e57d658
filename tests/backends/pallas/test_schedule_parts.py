"""Parts of the estimate: bundles, scalar code, branches with delay slots, queues, the HLO module, the diagnosis, the profile."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.backends.pallas.chips import get_chip, load_chips
from evokernel.backends.pallas.profile import make_profile
from evokernel.backends.pallas.schedule import Estimate, ScheduleError, diagnose, hlo
from evokernel.backends.pallas.schedule.bundles import Program, parse_scalar, parse_schedule
from evokernel.backends.pallas.schedule.diagnosis import ADVICE
from evokernel.backends.pallas.schedule.scalar_translator import ScalarTranslator
from evokernel.backends.pallas.schedule.simulate import execute_program, translate_program
from evokernel.core.records import Signature, Task, Tensor, Work

V5E = get_chip("v5e")


def program(*bodies):
    """Bundles from their text; `@n` at the end of one starts region n."""
    lines = []
    for at, body in enumerate(bodies):
        body, _, region = body.partition("@")
        lines.append(f"  {at:#x}   :  {{ {body} }}" + (f" /* Start region {region} */" if region else ""))
    bundles, regions = parse_schedule("\n".join(lines))
    return Program("test", bundles, regions, None)


def run(*bodies, limit_s=5.0, chip=V5E):
    return execute_program(translate_program(program(*bodies), chip), chip, time.thread_time() + limit_s)


def execute_operation(operation, *operands):
    """The result of one scalar operation, measured as the cycles of a delay by it."""
    result = run(f"%s1_s1 = {operation} {', '.join(operands)}", "%2 = vdelay %s1_s1")
    return result.cycles - 2


class TestChips:
    def test_unknown_name_lists_the_available_chips(self):
        with pytest.raises(ValueError, match="v4, v5e, v5p, v6e, v7x"):
            get_chip("v9")

    @pytest.mark.parametrize("name", list(load_chips()))
    def test_peak_matches_clock_and_mxu_size(self, name):
        per_cycle = get_chip(name).peak_flops / get_chip(name).clock_hz
        assert per_cycle == pytest.approx(524288 if name in ("v6e", "v7x") else 131072, rel=0.01)


class TestBundles:
    def test_comments_with_names_divisions_and_regions_are_parsed(self):
        bundles, regions = parse_schedule(
            "  0   :  { %1 = sdivrem.u32 %s2_s1, 6 /* kDivAndRem */ ;; %3 = dma.x /*size=*/%s4_s4 /* a */ } /* Start region 7 :: x */"
        )
        first, second = bundles[0].scalar_ops
        assert first.operands == ("%s2_s1", "6", "kDivAndRem")
        assert second.keywords == {"size": "%s4_s4"}
        assert regions == {7: 0}

    def test_comment_inside_a_bundle_starts_no_region(self):
        _, regions = parse_schedule("  0   :  { %1 = sfence /* Start region 9 */ }")
        assert regions == {}

    def test_addresses_must_be_consecutive(self):
        with pytest.raises(ScheduleError, match="address"):
            parse_schedule("  0   :  { }\n  0x2   :  { }")

    @pytest.mark.parametrize("text", ["", "nothing here", "  0   :  { %1 = sfence"])
    def test_text_without_bundles_is_rejected(self, text):
        with pytest.raises(ScheduleError):
            parse_schedule(text)


class TestScalarCode:
    @pytest.mark.parametrize(
        ("operation", "operands", "result"),
        [
            ("smov.u32", ["7"], 7),
            ("sadd.s32", ["4294967295", "6"], 5),
            ("ssub.s32", ["9", "4"], 5),
            ("smul.u32", ["6", "7"], 42),
            ("smulhi.u32", ["3123612579", "112"], 81),
            ("sshll.u32", ["3", "4"], 48),
            ("sshrl.u32", ["0x80", "3"], 16),
            ("sand.u32", ["12", "10"], 8),
            ("sor.u32", ["12", "10"], 14),
            ("sxor.u32", ["12", "10"], 6),
            ("smin.s32", ["4294967295", "3"], 1048576),  # -1, and a delay is an unsigned count with a limit
            ("smax.s32", ["4294967295", "3"], 3),
            ("smin.u32", ["4294967295", "3"], 3),
            ("scalar_lea.vmem", ["5", "2 [#allocation6]"], 7),
            ("scalar_select", ["true", "4", "9"], 4),
            ("scalar_select", ["false", "4", "9"], 9),
        ],
    )
    def test_scalar_operations_give_their_results(self, operation, operands, result):
        assert execute_operation(operation, *operands) == result

    @pytest.mark.parametrize(
        ("relation", "left", "right", "holds"),
        [
            ("lt.s32", "4294967295", "0", True),
            ("lt.u32", "4294967295", "0", False),
            ("ge.s32", "4", "4", True),
            ("ne.s32", "4", "4", False),
            ("lt.f32", "-2.5", "1.0", True),
            ("gt.f32", "0.25", "0.5", False),
        ],
    )
    def test_comparisons_guard_predicated_operations(self, relation, left, right, holds):
        comparison = f"%p1_p1 = scmp.{relation}.totalorder {left}, {right}"
        assert run(comparison, "%2 = vdelay (%p1_p1), 10").cycles == (12 if holds else 2)
        assert run(comparison, "%2 = vdelay (!%p1_p1), 10").cycles == (2 if holds else 12)

    def test_registers_are_read_before_any_is_written(self):
        swapped = ["%s1_s1 = smov.u32 5 ;; %s2_s2 = smov.u32 9", "%s3_s1 = smov.u32 %s2_s2 ;; %s4_s2 = smov.u32 %s1_s1"]
        assert run(*swapped, "%5 = vdelay %s3_s1").cycles == 3 + 9
        assert run(*swapped, "%5 = vdelay %s4_s2").cycles == 3 + 5

    def test_scalar_memory_returns_stored_values(self):
        stored = ["%s1_s1 = smov.u32 21", "%2 = sst [smem:[#spill + $0x1]] %s1_s1", "%s3_s2 = sld [smem:[#spill + $0x1]]"]
        assert run(*stored, "%4 = vdelay %s3_s2").cycles == 4 + 21

    def test_division_results_are_popped_in_order(self):
        divided = ["%1 = sdivrem.u32 17, 5 /* kDivAndRem */", "%s2_s2 = spop.drf %1", "%s3_s3 = spop.drf %1"]
        assert run(*divided, "%4 = vdelay %s2_s2").cycles == 4 + 3
        assert run(*divided, "%4 = vdelay %s3_s3").cycles == 4 + 2

    @pytest.mark.parametrize("operation", ["spop.v2sf %1", "sld [smem:[#never]]", "mystery.u32 5", "sadd.s32 1, what", "spop.drf %1"])
    def test_unknown_value_is_a_doubt_only_if_it_decides(self, operation):
        unknown = [f"%s1_s1 = {operation}", "%s2_s2 = sadd.s32 1, %s1_s1 ;; %p3_p3 = scmp.lt.s32.totalorder %s1_s1, 4"]
        assert not run(*unknown).doubts
        assert run(*unknown, "%4 = vdelay (%p3_p3), 10").doubts
        assert run(*unknown, "%4 = vdelay %s2_s2").doubts

    @pytest.mark.parametrize(
        ("operations", "has_doubt"),
        [
            ("%p5_p5 = scmp.ne.s32.totalorder %s3_s3, %s4_s4", False),
            ("%p5_p5 = scmp.lt.s32.totalorder %s3_s3, %s4_s4", True),
            ("%p5_p5 = scmp.ne.s32.totalorder %s3_s3, 0", True),
            ("%s6_s6 = ssub.s32 %s3_s3, %s4_s4 | %s8_s8 = sor.u32 3, %s6_s6 | %p5_p5 = scmp.eq.s32.totalorder %s8_s8, 0", False),
            ("%s6_s6 = ssub.s32 %s3_s3, %s4_s4 | %p5_p5 = scmp.eq.s32.totalorder %s6_s6, 5", True),
            ("%s6_s6 = sadd.s32 %s3_s3, %s4_s4 | %p5_p5 = scmp.eq.s32.totalorder %s6_s6, 0", True),
            (
                "%p6_p6 = scmp.ne.s32.totalorder %s3_s3, %s4_s4 | %p7_p7 = scmp.lt.s32.totalorder %s3_s3, 4 | %p5_p5 = por %p6_p6, %p7_p7",
                True,
            ),
        ],
    )
    def test_only_index_differences_may_decide(self, operations, has_doubt):
        prologue = [
            "%s1_s1 = smov.u32 4096",
            "%2 = dma.hbm_to_smem /*hbm=*/0, /*size_in_granules=*/4, /*smem=*/%s1_s1, /*dst_syncflagno=*/[#flag]",
            "%3 = dma.done.wait [#flag], 4 ;; %s3_s3 = sld [smem:[%s1_s1 + $0x1]] ;; %s4_s4 = sld [smem:[%s1_s1 + $0x2]]",
        ]
        result = run(*prologue, *operations.split("|"), "%9 = vdelay (%p5_p5), 10")
        assert bool(result.doubts) == has_doubt
        assert bool(result.remarks) != has_doubt

    @pytest.mark.parametrize(
        "selection",
        [
            "%s6_s6 = smov.u32 (%p3_p3), 5",
            "%s6_s6 = scalar_select %p3_p3, 5, 7",
            "%5 = sst [smem:[#x]] (!%p3_p3), 5 | %s6_s6 = sld [smem:[#x]]",
        ],
    )
    def test_value_selected_by_data_is_unknown(self, selection):
        unknown = ["%s1_s1 = sld [smem:[#y]]", "%p3_p3 = scmp.lt.s32.totalorder %s1_s1, 4", *selection.split("|")]
        assert not run(*unknown).doubts
        assert run(*unknown, "%7 = vdelay %s6_s6").doubts

    def test_slowest_core_determines_the_latency(self):
        own_share = [
            "%s1_s1 = sld [smem:[#allocation0]] /* megacore core id :: core id */",
            "%s2_s2 = smul.u32 10, %s1_s1",
            "%3 = vdelay %s2_s2",
        ]
        assert run(*own_share).cycles == 3
        result = run(*own_share, chip=get_chip("v5p"))
        assert result.cycles == 13
        assert not result.doubts

    def test_slowest_guess_determines_the_latency(self):
        for relation in ("lt", "ge"):
            result = run("%s1_s1 = sld [smem:[#x]]", f"%p3_p3 = scmp.{relation}.s32.totalorder %s1_s1, 4", "%4 = vdelay (%p3_p3), 10")
            assert result.cycles == 13

    @given(st.text(alphabet="%sp_0123456789[]()#+$!,.:=abcx'\"\\ \n", max_size=40))
    def test_dump_text_never_reaches_the_generated_source(self, text):
        """The source contains only numbers, registers and the names of generated code."""
        import re

        source = ScalarTranslator().operand_expression(text)
        assert re.fullmatch(r"(?:m\.make_unknown\(\)|[rp]\[\d+\]|\d+|[()+-])+", source), source


class TestBranches:
    LOOP = ("%s1_s1 = smov.u32 0", "%s2_s1 = sadd.s32 1, %s1_s1 @1", "%p3_p1 = scmp.lt.s32.totalorder %s2_s1, 5")

    def test_four_delay_slots_execute_after_a_branch(self):
        result = run(*self.LOOP, "%4 = sbr.rel (%p3_p1) target = $region1", "", "", "", "", "")
        assert result.bundle_counts == [1, 5, 5, 5, 5, 5, 5, 5, 1]
        assert result.cycles == sum(result.bundle_counts)

    @pytest.mark.parametrize(("name", "slots"), [("v4", 1), ("v5e", 4), ("v7x", 6)])
    def test_number_of_delay_slots_depends_on_the_chip(self, name, slots):
        result = run("%1 = sbr.rel target = $region1", *[""] * 8, "@1", chip=get_chip(name))
        assert result.bundle_counts == [1] * (1 + slots) + [0] * (8 - slots) + [1]

    def test_taken_branch_prevents_a_second_one_in_its_delay_slots(self):
        with_taken_branch = run(
            "%p1_p1 = pmov true", "%2 = sbr.rel (%p1_p1) target = $region1", "%3 = sbr.rel target = $region2", *[""] * 4, "@1", "@2"
        )
        assert with_taken_branch.bundle_counts == [1, 1, 1, 1, 1, 1, 0, 1, 1]
        without_taken_branch = run(
            "%p1_p1 = pmov false", "%2 = sbr.rel (%p1_p1) target = $region1", "%3 = sbr.rel target = $region2", *[""] * 4, "@1", "@2"
        )
        assert without_taken_branch.bundle_counts == [1, 1, 1, 1, 1, 1, 1, 0, 1]

    def test_branch_condition_is_read_before_the_bundle_writes(self):
        result = run("%p1_p1 = pmov true", "%2 = sbr.rel (%p1_p1) target = $region1 ;; %p3_p1 = pmov false", *[""] * 5, "@1")
        assert result.bundle_counts == [1] * 6 + [0, 1]

    def test_endless_loop_is_stopped(self):
        result = run("@1", "%1 = sbr.rel target = $region1", *[""] * 5, limit_s=0.05)
        assert "time limit" in result.doubts[0]


class TestTransfers:
    READ = "%1 = dma.hbm_to_vmem /*hbm=*/0, /*size_in_granules=*/{size}, /*vmem=*/0, /*dst_syncflagno=*/[#flag]"
    WAIT = "%2 = dma.done.wait [#flag], {size}"

    def test_read_takes_channel_time_and_latency(self):
        result = run(self.READ.format(size=1000), self.WAIT.format(size=1000))
        assert result.cycles == pytest.approx(1 + 32000 / V5E.hbm_bytes_per_cycle + V5E.read_latency)
        assert result.wait_cycles == pytest.approx(result.cycles - 2)

    def test_two_reads_share_the_channel_but_not_the_latency(self):
        result = run(*[self.READ.format(size=1000)] * 2, self.WAIT.format(size=2000))
        assert result.cycles == pytest.approx(1 + 64000 / V5E.hbm_bytes_per_cycle + V5E.read_latency, abs=2)

    def test_work_during_a_transfer_is_free(self):
        assert run(self.READ.format(size=1000), *[""] * 500, self.WAIT.format(size=1000)).cycles == pytest.approx(
            run(self.READ.format(size=1000), self.WAIT.format(size=1000)).cycles
        )

    def test_wait_without_a_transfer_is_a_doubt(self):
        assert "without a matching" in run(self.WAIT.format(size=5)).doubts[0]

    def test_too_many_transfers_stop_the_simulation(self):
        result = run(self.READ.format(size=1) + "@1", "%1 = sbr.rel target = $region1", *[self.READ.format(size=1)] * 4)
        assert "too many transfers" in result.doubts[0]
        assert result.unwaited_transfers == 0


class TestQueues:
    def test_products_on_one_unit_are_serialised(self):
        one = run(*["%1 = vmatmul.f32.gmra.mxu0 %v2_v2"] * 3)
        two = run("%1 = vmatmul.f32.gmra.mxu0 %v2_v2", "%1 = vmatmul.f32.gmra.mxu1 %v2_v2", "%1 = vmatmul.f32.gmra.mxu2 %v2_v2")
        assert (one.cycles, two.cycles) == (2 * V5E.matmul + 1, 3)
        assert run(*["%1 = vmatmul.bf16.gmra.mxu0 %v2_v2"] * 2).cycles == V5E.matmul_packed + 1

    def test_result_is_ready_after_its_latency(self):
        assert run("%1 = vmatmul.f32.gmra.mxu0 %v2_v2", "%v3_v3 = vpop.f32.mrf.mxu0").cycles == V5E.matmul_latency + 1
        assert run("%7 = vadd.xlane.f32.xlu0 %v2_v2", "%v3_v3 = vpop.xlane.xlu0 %7").cycles == V5E.xlu_latency + 1


class TestModule:
    TEXT = """%cond (p: s32[]) -> pred[] {
  %limit = s32[]{:T(128)} constant(12)
  ROOT %less = pred[] compare(%p, %limit), direction=LT
}
ENTRY %main (x: f32[8]) -> f32[8] {
  %loop = (s32[]{:T(128)}, f32[8]{0}) while(%init), condition=%cond, body=%step, metadata={op_name="body=%evil, {"}
  ROOT %copy-start = (f32[8,128]{1,0:T(8,128)S(1)}, f32[16,128]{1,0}, u32[]{:S(2)}) copy-start(%x)
}"""

    def test_instructions_have_order_attributes_and_sizes(self):
        module = hlo.parse_module(self.TEXT)
        loop, copy = module.computations[module.entry]
        assert (loop.opcode, loop.called_computations("body"), loop.called_computations("condition")) == ("while", ["step"], ["cond"])
        assert (copy.bytes, copy.operands) == (8 * 128 * 4, ["x"])
        assert hlo.trip_count(loop, module) == 12

    def test_trip_count_of_the_compiler_takes_precedence(self):
        known = ', backend_config={"known_trip_count":{"n":"5"}}'
        module = hlo.parse_module(self.TEXT.replace("body=%step,", f"body=%step{known},"))
        assert hlo.trip_count(module.computations[module.entry][0], module) == 5
        quoted = self.TEXT.replace('op_name="body=%evil, {"', r'op_name="backend_config={\"known_trip_count\":{\"n\":\"1\"}}"')
        assert hlo.trip_count(hlo.parse_module(quoted).computations["main"][0], hlo.parse_module(quoted)) == 12

    def test_equal_operations_map_to_the_name_of_the_first(self):
        text = "key:f.1\nordinal:1\nequivalent_hlos[size=2]:\n  f.1\n  %f.2\nkey:<x>\n"
        assert hlo.parse_duplicates(text) == {"f.1": "f.1", "f.2": "f.1"}


PLAIN = Estimate(
    latency_us=100.0,
    cycles=150_000,
    hbm_bytes=8e6,
    hbm_share=0.1,
    dma_wait_share=0.05,
    unit_shares={},
    spills=0,
    fills=0,
    spill_share=0.0,
    transfers=20,
    mean_transfer_bytes=4e5,
    steps=4,
    vmem_bytes=1 << 20,
    unwaited_transfers=0,
    operations=(),
    notes=(),
    is_certified=True,
)


class TestDiagnosis:
    @pytest.mark.parametrize(
        ("changes", "bottleneck", "text"),
        [
            ({"hbm_share": 0.98, "dma_wait_share": 0.9}, "hbm", "HBM is busy 98% of 100.0 µs with 8.0 MB"),
            (
                {"hbm_share": 0.06, "dma_wait_share": 0.85, "mean_transfer_bytes": 4096},
                "dma_latency",
                "The kernel waits 85% of the time for transfers of 4 KiB",
            ),
            ({"hbm_share": 0.71, "dma_wait_share": 0.53, "mean_transfer_bytes": 1e5}, "dma_latency", "of 97.7 KiB while HBM is busy 71%"),
            ({"hbm_share": 0.73, "dma_wait_share": 0.2, "unit_shares": {"mxu": 0.62}}, "hbm", "HBM is busy 73%"),
            ({"hbm_share": 0.8, "unit_shares": {"mxu": 0.9}}, "mxu", "The MXU is busy 90%"),
            ({"unit_shares": {"vpu": 0.8, "eup": 0.3}}, "vpu", "elementwise"),
            ({"unit_shares": {"xlu": 0.7}}, "xlu", "lanes"),
            ({"unit_shares": {"eup": 0.7}}, "eup", "transcendental"),
            ({"unit_shares": {"store": 0.9}}, "load_store", "store unit is busy 90%"),
            ({"unit_shares": {"store": 0.9}, "spill_share": 0.7, "spills": 9}, "spills", "70% of vector loads and stores"),
            ({"unit_shares": {"vpu": 0.4, "spill": 0.35}, "spill_share": 0.7}, "spills", "register spills"),
            ({"unit_shares": {"scalar": 0.7}}, "scalar", "scalar core"),
            ({"unit_shares": {"scalar": 0.7}, "steps": 400}, "step_overhead", "400 steps of 375 cycles"),
            ({"unit_shares": {"mxu": 0.2}, "steps": 400}, "step_overhead", "the MXU is busiest with 20%"),
            ({"unit_shares": {"mxu": 0.2}}, "schedule", "No unit is busy for long"),
            ({"dma_wait_share": 0.35, "unit_shares": {"mxu": 0.2}, "mean_transfer_bytes": None}, "dma_latency", "The kernel waits 35%"),
        ],
    )
    def test_bottleneck_is_named_with_its_figures(self, changes, bottleneck, text):
        result = diagnose(replace(PLAIN, **changes))
        assert result.bottleneck == bottleneck
        assert text in result.summary
        assert ADVICE[bottleneck] in result.summary

    @pytest.mark.parametrize(("steps", "advice"), [(1, "more blocks"), (40, "start transfers earlier")])
    def test_late_large_transfers_should_overlap(self, steps, advice):
        summary = diagnose(replace(PLAIN, dma_wait_share=0.8, hbm_share=0.6, mean_transfer_bytes=2e6, steps=steps)).summary
        assert advice in summary
        assert "of 1953 KiB" in summary

    def test_minimum_traffic_leaves_little_to_gain(self):
        estimate = replace(PLAIN, hbm_share=0.98)
        assert "little can be gained" in diagnose(estimate, needed_bytes=8e6).summary
        assert "little can be gained" not in diagnose(estimate, needed_bytes=6e6).summary


class TestProfile:
    TASK = Task(
        id="t/t",
        family="matmul",
        source="",
        signature=Signature(
            inputs=(Tensor(name="x", dtype="float32", shape=(1000, 1000)),),
            outputs=(Tensor(name="y", dtype="float32", shape=(1000, 1000)),),
        ),
        work=Work(flops=1e9, bytes=8e6),
        sizes={"bench": {}},
    )

    def test_figures_include_the_roofline_of_the_task(self):
        result = make_profile(self.TASK, replace(PLAIN, unit_shares={"mxu": 0.25}), V5E)
        assert result.bottleneck == "schedule"
        assert result.figures["roofline_us"] == pytest.approx(8e6 / 819e9 * 1e6, abs=1e-3)
        assert result.figures["writing_us"] == pytest.approx(4e6 / 819e9 * 1e6, abs=1e-3)
        assert result.figures["moving_us"] == pytest.approx(8e6 / 819e9 * 1e6, abs=1e-3)
        assert result.figures["share_of_roofline"] == pytest.approx(0.0977, abs=1e-3)
        assert (result.figures["mxu_percent"], result.figures["vmem_kib"], result.figures["transfer_kib"]) == (25, 1024, 390.625)
        assert "9.8 of 100.0 µs" in result.summary

    def test_roofline_of_heavy_arithmetic_uses_the_peak(self):
        heavy = self.TASK.model_copy(update={"work": Work(flops=197e12 / 1000, bytes=8e6)})
        assert make_profile(heavy, replace(PLAIN, latency_us=2000.0), V5E).figures["roofline_us"] == pytest.approx(1000)

    def test_a_kernel_with_less_work_than_the_reference_has_no_roofline(self):
        heavy = self.TASK.model_copy(update={"work": Work(flops=197e12 / 1000, bytes=8e6)})
        result = make_profile(heavy, PLAIN, V5E)
        assert not {"roofline_us", "share_of_roofline"} & set(result.figures)
        assert "The reference's operations and bytes take 1000.0 µs at peak rates; this kernel needs fewer (100.0 µs)." in result.summary

    def test_unknown_figures_are_omitted(self):
        result = make_profile(self.TASK, replace(PLAIN, vmem_bytes=None, mean_transfer_bytes=None), V5E)
        assert not {"vmem_kib", "transfer_kib"} & set(result.figures)


def test_operations_that_never_execute_are_dropped():
    assert parse_scalar("dma.done.wait (0), [#allocation4], 8192") is None
    always = parse_scalar("dma.done.wait (1), [#allocation4], 8192")
    assert always == parse_scalar("dma.done.wait [#allocation4], 8192")
    assert always.predicate is None


def test_scalar_argument_is_data():
    """An array of one element in scalar memory is passed by value in a register; larger arrays are passed by address."""
    argument = "%s1_s1 = inlined_call_operand.{} [shape: s32[1], index: 0, kind: input]"
    decision = ("%p2_p0 = scmp.le.s32.totalorder %s1_s1, 0", "%3 = sbr.rel (%p2_p0) target = $region5", *[""] * 9, "%4 = sfence @5")
    assert any("decided by data" in doubt for doubt in run(argument.format("<no memory space>"), *decision).doubts)
    assert not run(argument.format("hbm"), *decision).doubts
