"""Records of kernels that ran on an NPU: the verdict of each, the sample, and references that are made smaller."""

import json
import sys
from collections import Counter

import pytest
from repository import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from silicon_records import (
    NOT_COMPILED,
    RIGHT,
    STOPPED,
    TOO_LARGE,
    UNDECIDED,
    WRONG,
    SiliconRecord,
    judge_attempt,
    read_records,
    sample_records,
    shrink_reference,
)

LOST_HEADER = "relu.cpp:9:21: error: use of undeclared identifier 'tiling_data'\n    GET_TILING_DATA(tiling_data, tiling);"
TEXT = 'REGISTER_TILING_DATA_CLASS(ReluCustom, Data)\nproject_json_src = """[{"op": "ReluCustom"}]"""\nOP_ADD(ReluCustom);'
NOT_IN_PACKAGE = "[FAIL] aclnnReluCustom or aclnnReluCustomGetWorkspaceSize not in libopapi.so"


@pytest.mark.parametrize(
    ("compiled", "correct", "log", "verdict"),
    [
        (True, True, "", RIGHT),
        (True, False, "[FAIL] Output mismatch", WRONG),
        (True, False, "[FAIL] Output shape mismatch: Expected torch.Size([]), got torch.Size([1])", WRONG),
        (True, False, "[FAIL] runtime error when evaluating correctness\nerror code is 507035[Error]", STOPPED),
        (True, False, "[FAIL] runtime error when evaluating correctness\n[FAIL] relu(): incompatible function arguments", STOPPED),
        (True, False, NOT_IN_PACKAGE, UNDECIDED),
        (True, False, NOT_IN_PACKAGE.replace("Relu", "Tanh"), STOPPED),
        (True, False, "the build has ended", UNDECIDED),
        (True, None, "No model_src/eval_src (smoke test only)", UNDECIDED),
        (None, None, "", UNDECIDED),
        (False, False, "op_host/relu.cpp:3:1: error: expected identifier", NOT_COMPILED),
        (False, False, "ValueError: txt bundle missing blocks: ['kernel_src']", UNDECIDED),
        (False, False, "gmake: *** No rule", UNDECIDED),
        (False, False, LOST_HEADER, UNDECIDED),
        (False, False, LOST_HEADER.replace("GET_TILING_DATA(tiling_data, tiling)", "Use(tiling_data)"), NOT_COMPILED),
    ],
)
def test_verdict_follows_from_the_log(compiled, correct, log, verdict):
    attempt = {"compiled": compiled, "correctness": correct, "correctness_info": ""}
    assert judge_attempt(attempt, TEXT, log)[0] == verdict


def write_checkout(folder, attempts):
    """Write a checkout: (text, compiled, correct) of attempts on one operator."""
    entries = {}
    for index, (text, compiled, correct) in enumerate(attempts):
        path = folder / "output" / f"attempt{index}" / "relu.txt"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.with_name("relu_repair_context.txt").write_text("x.cpp:1:1: error: no" if not compiled else "[FAIL] Output mismatch")
        entries[f"attempt{index}"] = {
            "txt_path": str(path.relative_to(folder)),
            "eval_ran": True,
            "compiled": compiled,
            "correctness": correct,
            "correctness_info": "",
        }
    (folder / "output" / "relu_attempts5_summary.json").write_text(json.dumps({"op": "relu", "attempts": entries}))


def test_equal_texts_are_one_record_and_contradictions_decide_nothing(tmp_path):
    write_checkout(
        tmp_path, [("a", True, True), ("a\n", True, True), ("b", True, True), ("b", True, False), ("c", False, False), ("d", True, False)]
    )
    assert Counter(record.verdict for record in read_records(tmp_path)) == {RIGHT: 1, UNDECIDED: 1, NOT_COMPILED: 1, WRONG: 1}


def test_sample_is_spread_over_operators_and_repeatable():
    records = [
        SiliconRecord(operator, "", f"{operator}{verdict}{index}", verdict, "")
        for operator, count in (("relu", 30), ("softmax", 2))
        for verdict in (RIGHT, NOT_COMPILED, UNDECIDED)
        for index in range(count)
    ]
    sample = sample_records(records, per_operator=4, builds_per_operator=1, seed=3)
    assert sample == sample_records(records, per_operator=4, builds_per_operator=1, seed=3)
    assert Counter((one.operator, one.verdict) for one in sample) == {
        ("relu", RIGHT): 4,
        ("softmax", RIGHT): 2,
        ("relu", NOT_COMPILED): 1,
        ("softmax", NOT_COMPILED): 1,
    }
    assert {(one.operator, one.verdict) for one in sample[:4]} == {(o, v) for o in ("relu", "softmax") for v in (RIGHT, NOT_COMPILED)}


def measure_constants(text):
    scope = {}
    exec(text, scope)
    return 4.0 * scope.get("batch_size", 1) * scope.get("M", 1) * scope.get("N", 1) + scope.get("weights", 0)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("batch_size = 64\nM = 1024", "batch_size 64 -> 4"),
        ("M = 1024 * 4\nN = 64", "M 4096 -> 64"),
        ("batch_size = 2\nM = 1024\nweights = 10**8", ""),
        ("batch_size = 2\nM = 1024\nweights = 10**9", TOO_LARGE),
        ("batch_size = 1\nM = 8", ""),
    ],
)
def test_references_shrink_by_their_batch_or_longest_axis(text, change):
    assert shrink_reference(text, 20_000, measure_constants)[1] == change
