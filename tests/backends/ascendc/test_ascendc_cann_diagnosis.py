"""The JSON description for msopgen, and the diagnosis of a profile."""

import json

import pytest
from cann_toolkit import ADDING, DESCRIPTION, FAKE

from evokernel.backends.ascendc.cann.backend import subsample_medians
from evokernel.backends.ascendc.cann.description import operator_json
from evokernel.backends.ascendc.cann.diagnosis import profile_measurement
from evokernel.backends.ascendc.cann.profiler import Measurement
from evokernel.backends.ascendc.cann.tensor_server import move_to_npu, time_calls
from evokernel.backends.ascendc.chips import find_chip
from evokernel.backends.ascendc.project_parser import parse_project
from evokernel.core.records import Task, Work

TEXT = (FAKE.parent / "cann_add.asc").read_text()
CHIP = find_chip("910B2")
TASK = Task(id="t", family="elementwise", level=1, source="", signature=ADDING, work=Work(flops=4096, bytes=24576), sizes={"bench": {}})


def test_json_describes_the_operator():
    assert json.loads(operator_json(parse_project({"kernel.asc": TEXT}, ADDING), ADDING)) == [DESCRIPTION]


def test_types_of_the_op_def_take_precedence():
    text = TEXT.replace(
        'Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT})', 'Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_BF16})'
    )
    [description] = json.loads(operator_json(parse_project({"kernel.asc": text}, ADDING), ADDING))
    assert description["input_desc"][0]["type"] == ["float16", "bfloat16"]
    assert description["input_desc"][0]["format"] == ["ND", "ND"]
    assert description["input_desc"][1]["type"] == ["float"]


@pytest.mark.parametrize(
    ("blocks", "figures", "bottleneck", "words"),
    [
        (48, {"aiv_vec_ratio": 0.9, "aiv_mte2_ratio": 0.2}, "vector", "The vector unit is busy 90%"),
        (48, {"aiv_mte2_ratio": 0.8}, "memory", "read less"),
        (48, {"aiv_mte3_ratio": 0.7}, "store", "write less"),
        (2, {"aiv_scalar_ratio": 0.8}, "scalar", "larger tiles"),
        (4, {"aiv_vec_ratio": 0.9}, "latency", "4 blocks use 8% of 48 cores"),
        (24, {"aic_cube_ratio": 0.9, "aiv_vec_ratio": 0.1}, "cube", "L0"),
        (48, {"aiv_vec_ratio": 0.3, "aiv_mte2_ratio": 0.4, "aiv_mte3_ratio": 0.3}, "latency", "alternate"),
        (48, {"aiv_vec_ratio": 0.1}, "latency", "No pipe is busy"),
        (None, {"aiv_vec_ratio": 0.9}, "vector", "vector unit"),
        (48, {}, "latency", "does not report"),
        (48, {"aiv_mte2_ratio": 0.9, "GM_to_UB_datas(KB)": 64.0, "UB_to_GM_datas(KB)": 1.0}, "memory", "needed"),
        (48, {"vector_cycles": 17000.0}, "vector", "busy 94%"),
    ],
)
def test_bottleneck_follows_from_the_profile(blocks, figures, bottleneck, words):
    found = profile_measurement(TASK, Measurement((10.0,), blocks, figures, 1850.0), CHIP)
    assert found.bottleneck == bottleneck
    assert words in found.summary
    assert figures.items() <= found.figures.items()
    assert found.figures["Task Duration(us)"] == 10
    assert found.figures["writing_us"] > 0
    assert ("Block Dim" in found.figures) == (blocks is not None)


def test_baseline_has_as_many_samples_as_the_kernel():
    assert subsample_medians([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2) == (3.0, 4.0)
    assert len(subsample_medians([1.0] * 100, 4)) == 4


class Event:
    now = 0.0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = Event.now

    def elapsed_time(self, other):
        return other.at - self.at


class Npu:
    Event = Event
    waits = 0

    @classmethod
    def synchronize(cls):
        cls.waits += 1


def test_torch_is_timed_with_events():
    def call():
        Event.now += 0.25

    assert time_calls(call, Npu) == [250.0] * 100
    assert Npu.waits == 101


def test_nested_tensors_move_to_the_npu():
    class Tensor:
        def npu(self):
            return "there"

    assert move_to_npu([Tensor(), (1, {"x": Tensor()})]) == ["there", (1, {"x": "there"})]
