"""Launches in parts: dry executions against real ones, parts against complete runs, and tensors that do not fit into memory."""

from pathlib import Path

import pytest
from part_runs import build_parts, call_in_child

from evokernel.backends import ascendc
from evokernel.backends.ascendc.parts import cut_ranges, list_gaps, merge_ranges
from evokernel.backends.native.toolchain import missing_compiler_message
from evokernel.core.records import ScalarArgument, Signature, Tensor

HERE = Path(__file__).parent
SAMPLES, EXAMPLES = (Path(ascendc.__file__).parent / name for name in ("samples", "examples"))
MATMUL = HERE.parents[2] / "benchmarks" / "ascendc_costs" / "matmul.asc"
ROWS, COLUMNS = 29, 173
BLOCKS = 5
pytestmark = pytest.mark.skipif(missing_compiler_message("") is not None, reason="no C++ compiler")


def sample_signature(rows=ROWS, columns=COLUMNS):
    """The task of the samples."""
    return Signature(
        inputs=(Tensor(name="x", dtype="float32", shape=(rows, columns)),),
        params=(Tensor(name="scale", dtype="float32", shape=(columns,)), Tensor(name="shift", dtype="float32", shape=(columns,))),
        scalars=(ScalarArgument(name="columns", kind="int", value=columns), ScalarArgument(name="slope", kind="float", value=0.25)),
        outputs=(Tensor(name="out", dtype="float32", shape=(rows, columns)),),
    )


def rows_signature(rows, columns, blocks=BLOCKS, output=None):
    """The tensors of the kernels in `part_kernels`."""
    return Signature(
        inputs=(Tensor(name="x", dtype="float32", shape=(rows, columns)),),
        params=(),
        scalars=(ScalarArgument(name="blocks", kind="int", value=blocks),),
        outputs=(Tensor(name="out", dtype="float32", shape=output or (rows, columns)),),
    )


def sample_files(name):
    folder = SAMPLES / name
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def built_rows(tmp_path_factory):
    """Build a kernel of `part_kernels` once."""
    folders = {}

    def build_once(name):
        if name not in folders:
            text = (HERE / "part_kernels" / f"{name}.asc").read_text()
            is_quick = name not in ("relu", "every-element")
            folders[name] = build_parts({"kernel.asc": text}, rows_signature(16, 64), tmp_path_factory.mktemp(name), is_quick)
        return folders[name]

    return build_once


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize(
    "name",
    [
        "good",
        "good-compare",
        "good-double-buffer",
        "good-flags",
        "good-folders",
        "good-repeats",
        "good-scalar",
        "good-six-parts",
        "good-tiling-keys",
    ],
)
def test_parts_of_a_sample_equal_the_complete_run(name, tmp_path):
    is_fixed_size = name in ("good-folders", "good-six-parts")
    signature = sample_signature(192, 512) if is_fixed_size else sample_signature()
    found = call_in_child(build_parts(sample_files(name), signature, tmp_path), "compare_parts", signature)
    assert found["count"] > 1
    assert found["is_dry_valid"]
    assert found["is_covered"]
    assert not found["unequal"]
    assert not found["outside"]
    assert found["dry"]["cycles"] == found["whole"]["cycles"]
    assert found["dry"]["blocks_dry"] == found["dry"]["blocks"] == found["whole"]["blocks_run"]
    assert all(part["is_part"] and part["matches_dry"] and part["blocks_run"] == 1 for part in found["parts"])


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("much", [{"meeting_macs": 0}, {"meeting_bytes": 4096}], ids=["multiplies", "copies"])
def test_blocks_run_alone_after_their_last_meeting(much, tmp_path):
    signature = sample_signature()
    folder = build_parts(sample_files("good-sync-all"), signature, tmp_path)
    assert call_in_child(folder, "compare_parts", signature)["count"] == 1, "a complete execution takes little time"
    found = call_in_child(folder, "compare_parts", signature, **much)
    assert found["count"] == ROWS
    assert found["is_covered"]
    assert not found["unequal"]
    assert not found["outside"]
    assert found["dry"]["cycles"] == found["whole"]["cycles"]
    assert all(part["is_part"] and part["matches_dry"] for part in found["parts"])


def change_sync_all(*changes):
    """The sample whose blocks meet once, with these pieces of text replaced."""
    text = sample_files("good-sync-all")["kernel.asc"]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return {"kernel.asc": text}


MEETING = "    SyncAll();"
FIRST_LOOP = "    for (uint32_t row = me; row < rows"
WAIT_FOR_NEIGHBOUR = """    {
      TBuf<QuePosition::VECCALC> flags;
      pipe.InitBuffer(flags, 32);
      GlobalTensor<int32_t> marks;
      marks.SetGlobalBuffer((__gm__ int32_t*)between.GetPhyAddr() + rows * columns, cores * 8);
      LocalTensor<int32_t> flag = flags.Get<int32_t>();
      IBSet(marks, flag, me, 0);
      IBWait(marks, flag, next, 0);
    }
"""
ROOM_FOR_MARKS = ("rows * columns * sizeof(float);\n  return", "rows * columns * sizeof(float) + 48 * 32;\n  return")


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize(("place", "is_split"), [(FIRST_LOOP, True), ("    for (uint32_t row = next;", False)], ids=["before", "after"])
def test_blocks_may_wait_otherwise_before_their_last_meeting(place, is_split, tmp_path):
    signature = sample_signature()
    folder = build_parts(change_sync_all((place, WAIT_FOR_NEIGHBOUR + place), ROOM_FOR_MARKS), signature, tmp_path)
    found = call_in_child(folder, "compare_parts", signature, meeting_macs=0)
    assert found["count"] == (ROWS if is_split else 1)
    assert found["is_covered"]
    assert not found["unequal"]
    assert not found["outside"]


@pytest.mark.slow(one_in=5)
def test_blocks_that_were_not_chosen_are_checked_less(tmp_path):
    signature = sample_signature()
    folder = build_parts(
        change_sync_all(("Mul(y, a, b, columns);", "Mul(y, a, GetBlockIdx() == 7 ? y : b, columns);")), signature, tmp_path
    )
    errors = [
        call_in_child(folder, "locate_parts", signature, positions=[group / (ROWS - 1)], meeting_macs=0)["error"][1] for group in (3, 7)
    ]
    assert errors[0] == ""
    assert "E-UNINIT" in errors[1]


@pytest.mark.slow(one_in=5)
def test_block_that_is_left_out_after_the_meeting_refuses_no_kernel(tmp_path):
    """It gets zeros for data from there on, so it may do what it never does otherwise."""
    remember = (FIRST_LOOP, "    float before = xGm.GetValue(0);\n" + FIRST_LOOP)
    signature = sample_signature()
    files = change_sync_all(remember, (MEETING, MEETING + "\n    if (xGm.GetValue(0) != before) Trap();"))
    found = call_in_child(build_parts(files, signature, tmp_path), "compare_parts", signature, meeting_macs=0)
    assert found["dry"]["guesses"] > 0
    assert found["count"] == ROWS
    assert found["is_covered"]
    assert not found["unequal"]
    assert all(part["matches_dry"] for part in found["parts"])


@pytest.mark.slow(one_in=5)
def test_work_of_other_blocks_before_the_meeting_is_compared_with_the_dry_execution(tmp_path):
    """A block that does everything, and nothing without data, would make the estimate too small, whichever parts are chosen."""
    lonely = (
        "    for (uint32_t row = me; row < rows; row += cores) Step<true>",
        "    bool real = xGm.GetValue(0) != 0;\n    for (uint32_t row = 0; real && me == 7 && row < rows; row++) Step<true>",
    )
    signature = sample_signature()
    found = call_in_child(build_parts(change_sync_all(lonely), signature, tmp_path), "compare_parts", signature, meeting_macs=0)
    assert found["count"] == ROWS
    assert not found["unequal"]
    assert found["dry"]["cycles"] < found["whole"]["cycles"] / 2
    assert not any(part["matches_dry"] for part in found["parts"])
    assert all(part["cycles"] == found["whole"]["cycles"] for part in found["parts"]), "the latency then comes from these"


@pytest.mark.slow(one_in=5)
def test_launch_whose_meetings_depend_on_data_is_one_part(tmp_path):
    signature = sample_signature()
    files = change_sync_all((MEETING, MEETING + "\n    if (xGm.GetValue(0) != 0) SyncAll();"))
    found = call_in_child(build_parts(files, signature, tmp_path), "compare_parts", signature, meeting_macs=0)
    assert found["count"] == ROWS, "the survey met once"
    assert not found["unequal"]
    assert [part["blocks_run"] for part in found["parts"]] == [ROWS] * ROWS


@pytest.mark.slow(one_in=5)
def test_launch_that_writes_outputs_before_a_meeting_is_one_part(tmp_path):
    right = sample_files("good-sync-all")["kernel.asc"]
    text = right.replace("shiftGm);\n  }", "shiftGm);\n    SyncAll();\n  }")
    assert text != right
    signature = sample_signature()
    found = call_in_child(build_parts({"kernel.asc": text}, signature, tmp_path), "compare_parts", signature, meeting_macs=0)
    assert found["count"] == 1
    assert found["is_covered"]
    assert not found["unequal"]
    assert found["dry"]["cycles"] == found["whole"]["cycles"]


@pytest.mark.slow(one_in=5)
def test_wrong_block_is_found_where_it_runs(tmp_path):
    right = sample_files("good")["kernel.asc"]
    text = right.replace("    slope = t.slope;", "    slope = GetBlockIdx() == 7 && t.rows > 100 ? t.slope + 1 : t.slope;")
    assert text != right
    signature = sample_signature(192, 64)
    for kernel, folder in (("right", right), ("wrong", text)):
        (tmp_path / kernel).mkdir()
        build_parts({"kernel.asc": folder}, signature, tmp_path / kernel)
    positions = {group: group / 47 for group in (0, 6, 7, 8, 47)}
    values = {
        (kernel, group): call_in_child(tmp_path / kernel, "hash_part", signature, position=position)
        for kernel in ("right", "wrong")
        for group, position in positions.items()
    }
    assert [group for group in positions if values["right", group] != values["wrong", group]] == [7]


@pytest.mark.parametrize("name", ["unwritten-tail", "unwritten-last-block"])
def test_elements_that_no_block_writes_are_refused(name, tmp_path):
    signature = sample_signature()
    found = call_in_child(build_parts(sample_files(name), signature, tmp_path), "locate_parts", signature, positions=[0.0])
    assert found["error"][0] == "unwritten"
    assert "`out`" in found["error"][1]


def test_rule_that_only_the_last_block_violates_is_found_dry(tmp_path):
    signature = sample_signature()
    folder = build_parts(sample_files("out_of_bounds-last-core"), signature, tmp_path)
    found = call_in_child(folder, "locate_parts", signature, positions=[0.0])
    assert "E-GM-OOB" in found["error"][1]


def test_number_that_is_only_an_operand_leaves_the_dry_execution_valid(built_rows):
    found = call_in_child(built_rows("uses-a-number"), "compare_parts", rows_signature(16, 64))
    assert found["dry"]["guesses"] == 16
    assert found["is_dry_valid"]
    assert found["dry"]["cycles"] == found["whole"]["cycles"]
    assert not found["unequal"]
    assert all(part["matches_dry"] for part in found["parts"])


def test_branch_on_data_refutes_the_dry_execution(built_rows):
    found = call_in_child(built_rows("branches"), "compare_parts", rows_signature(16, 64))
    assert found["dry"]["guesses"] > 0
    assert not found["unequal"]
    assert found["dry"]["cycles"] < found["whole"]["cycles"]
    assert not all(part["matches_dry"] for part in found["parts"])
    assert max(part["cycles"] for part in found["parts"]) == found["whole"]["cycles"]  # extrapolated from the slowest block


def test_count_from_data_falls_back_to_sampled_blocks(built_rows):
    found = call_in_child(built_rows("counts"), "compare_parts", rows_signature(16, 64))
    assert not found["is_dry_valid"]
    assert found["dry"]["blocks_dry"] == 0
    assert 0 < found["dry"]["blocks_run"] <= BLOCKS
    assert found["count"] == BLOCKS
    assert found["is_covered"]
    assert not found["unequal"]


def test_blocks_that_add_to_the_same_elements_run_together(built_rows):
    found = call_in_child(built_rows("adds-rows"), "compare_parts", rows_signature(16, 64, output=(64,)))
    assert found["count"] == BLOCKS
    assert not found["unequal"]
    assert found["is_covered"]
    assert [part["blocks_run"] for part in found["parts"]] == [BLOCKS] * BLOCKS


def test_zeros_that_no_block_writes_belong_to_the_last_part(built_rows):
    found = call_in_child(built_rows("lower-half"), "compare_parts", rows_signature(16, 64))
    assert found["is_covered"]
    assert not found["unequal"]


@pytest.mark.slow(one_in=5)
def test_products_of_the_library_run_in_groups_of_cores(tmp_path):
    numbers = {"blocks": 6, "m": 128, "n": 96, "k": 64, "singleM": 64, "singleN": 32, "baseM": 32, "baseN": 32, "baseK": 32, "bulk": 0}
    numbers |= dict.fromkeys(("turned", "stepA", "stepB", "depth", "pair"), 0)
    signature = Signature(
        inputs=(Tensor(name="a", dtype="float16", shape=(128, 64)), Tensor(name="b", dtype="float16", shape=(96, 64))),
        params=(),
        scalars=tuple(ScalarArgument(name=name, kind="int", value=value) for name, value in numbers.items()),
        outputs=(Tensor(name="out", dtype="float16", shape=(128, 96)),),
    )
    found = call_in_child(build_parts({"kernel.asc": MATMUL.read_text()}, signature, tmp_path), "compare_parts", signature)
    assert found["count"] == 6
    assert found["is_covered"]
    assert not found["unequal"]
    assert not found["outside"]
    assert found["dry"]["cycles"] == found["whole"]["cycles"]
    assert [part["blocks_run"] for part in found["parts"]] == [2] * 6


@pytest.mark.slow(one_in=5)
def test_independent_groups_of_cube_and_vector_cores_are_sampled_if_all_take_long(tmp_path):
    m, n, k = 128, 192, 512
    signature = Signature(
        inputs=(Tensor(name="x", dtype="float32", shape=(m, k)),),
        params=(Tensor(name="linear_weight", dtype="float32", shape=(n, k)), Tensor(name="linear_bias", dtype="float32", shape=(n,))),
        scalars=(ScalarArgument(name="in_features", kind="int", value=k), ScalarArgument(name="out_features", kind="int", value=n)),
        outputs=(Tensor(name="out", dtype="float32", shape=(m, n)),),
    )
    folder = build_parts({"kernel.asc": (EXAMPLES / "product-with-epilogue.asc").read_text()}, signature, tmp_path)
    found = call_in_child(folder, "compare_parts", signature)
    assert found["count"] == 6
    assert found["dry"]["blocks_run"] == found["dry"]["blocks"] == 18
    assert found["dry"]["cycles"] == found["whole"]["cycles"]
    sampled = call_in_child(folder, "compare_parts", signature, groups=[0, 2, 5], run_s=1e-3)
    assert sampled["count"] == 6
    assert sampled["dry"]["blocks_run"] == 9
    assert sampled["dry"]["cycles"] == pytest.approx(found["whole"]["cycles"], rel=0.05)
    assert not sampled["unequal"]
    assert not sampled["outside"]
    assert all(part["matches_dry"] for part in (*found["parts"], *sampled["parts"]))


def test_survey_locates_every_part(built_rows):
    positions = [0.0, 0.3, 0.5, 1.0]
    assert call_in_child(built_rows("relu"), "count_executions", rows_signature(160, 64), positions=positions) == 1


@pytest.mark.slow(one_in=5)
def test_tensors_of_ten_gigabytes_use_little_memory(built_rows):
    signature = rows_signature(610352, 4096, blocks=4096)  # 2.5e9 floats: 10 GB in, 10 GB out
    found = call_in_child(built_rows("relu"), "locate_parts", signature, positions=[0.0, 0.5, 1.0])
    assert found["error"] == ["", ""]
    assert found["count"] == 4096
    assert found["ranges"][0][0] == [0, 149 * 4096]
    assert found["ranges"][0][-1][1] == 610352 * 4096
    assert found["values"] == [0.0]
    assert found["report"]["blocks_dry"] == 4096
    assert found["located_kib"] < 200 << 10
    assert found["run_kib"] < 300 << 10


@pytest.mark.slow(one_in=5)
def test_part_that_would_touch_too_much_memory_is_refused(built_rows):
    signature = rows_signature(610352, 4096, blocks=2)
    found = call_in_child(built_rows("relu"), "locate_parts", signature, positions=[0.0])
    assert found["error"][0] == "memory"
    assert "SetBlockDim" in found["error"][1]


@pytest.mark.slow(one_in=5)
def test_loop_over_all_elements_is_cut_at_the_time_limit(built_rows):
    small = call_in_child(built_rows("every-element"), "locate_parts", rows_signature(80, 4096), positions=[0.0], runs=False)
    huge = call_in_child(built_rows("every-element"), "locate_parts", rows_signature(80_000, 4096), positions=[0.0], runs=False, run_s=0.1)
    assert huge["error"][0] in ("raised", "timeout")
    assert "E-PART-TIME" in huge["error"][1]
    report = call_in_child(built_rows("every-element"), "survey_launch", rows_signature(80_000, 4096), run_s=0.5)
    assert report["blocks_run"] < BLOCKS
    assert report["cycles"] == pytest.approx(1000 * small["report"]["cycles"], rel=0.02)


def test_raw_pointers_to_tensors_are_refused(tmp_path):
    signature = sample_signature()
    folder = build_parts(sample_files("no_latency-raw-pointers"), signature, tmp_path)
    found = call_in_child(folder, "locate_parts", signature, positions=[0.0])
    assert found["error"][1].split("\t")[1] == "E-PART-RAW"


@pytest.mark.slow(one_in=5)
def test_branches_on_data_between_blocks_that_wait_are_refused(tmp_path):
    right = sample_files("good-sync-all")["kernel.asc"]
    text = right.replace("    SyncAll();", "    if (xGm.GetValue(0) == 0.0f) Trap();\n    SyncAll();")
    assert text != right
    signature = sample_signature(1 << 18, 1024)
    found = call_in_child(build_parts({"kernel.asc": text}, signature, tmp_path), "locate_parts", signature, positions=[0.0])
    assert found["error"][1].split("\t")[1] == "E-PART-SIZE"
    assert "The execution without data ended with E-" in found["error"][1]


@pytest.mark.slow(one_in=5)
def test_binding_that_copies_a_large_tensor_is_refused(tmp_path):
    right = sample_files("good-six-parts")["kernel.txt"]
    text = right.replace("empty_like(x)", "empty_like(x.clone())")
    assert text != right
    signature = sample_signature(1 << 16, 512)
    found = call_in_child(build_parts({"kernel.txt": text}, signature, tmp_path), "locate_parts", signature, positions=[0.0])
    assert found["error"][1].split("\t")[1] == "E-PART-HOST"


def test_ranges_are_merged_cut_and_complemented():
    assert merge_ranges(((0, 2), (6, 8)), ((2, 3), (7, 9))) == ((0, 3), (6, 9))
    assert list_gaps(((0, 2), (6, 8)), 10) == ((2, 6), (8, 10))
    assert list_gaps(((0, 10),), 10) == ()
    assert cut_ranges(((0, 10), (20, 30)), 3) == ((0, 3), (27, 30))
    assert cut_ranges(((0, 4),), 3) == ((0, 4),)
