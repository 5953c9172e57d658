"""The verifier and the C entry point agree on every type of argument and output."""

import pytest

from evokernel.core.plugins import make_plugin

pytestmark = pytest.mark.skipif(make_plugin("backend", "cpp").unavailable_reason() is not None, reason="no C++ compiler")

HEAD = "import torch\nfrom torch import nn\nN = 96\nM = 64\n"

HALF = (
    HEAD
    + """
class Model(nn.Module):
    def forward(self, x):
        return x + x
def get_inputs():
    return [torch.randn(N, M).to(torch.bfloat16)]
"""
)
HALF_KERNEL = """
extern "C" void kernel(const uint16_t* x, const int64_t* x_shape, uint16_t* out, const int64_t* out_shape) {
    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) {
        uint32_t bits = (uint32_t)x[i] << 16;
        float value;
        std::memcpy(&value, &bits, 4);
        value += value;
        std::memcpy(&bits, &value, 4);
        out[i] = (uint16_t)(bits >> 16);
    }
}
"""

SEVERAL = (
    HEAD
    + """
class Model(nn.Module):
    def forward(self, x, step: int):
        best = x.max(dim=1)
        return best.values, best.indices, x > 0, x.sum()
def get_inputs():
    return [torch.randn(N, M), 3]
"""
)
SEVERAL_KERNEL = """
extern "C" void kernel(const float* x, const int64_t* x_shape, int64_t step, float* out0, const int64_t*, int64_t* out1, const int64_t*,
                       bool* out2, const int64_t*, float* out3, const int64_t*) {
    double total = 0;
    for (int64_t i = 0; i < x_shape[0]; ++i) {
        int64_t best = 0;
        for (int64_t j = 0; j < x_shape[1]; ++j) {
            float value = x[i * x_shape[1] + j];
            total += value;
            out2[i * x_shape[1] + j] = value > 0;
            if (value > x[i * x_shape[1] + best]) best = j;
        }
        out0[i] = x[i * x_shape[1] + best];
        out1[i] = best;
    }
    out3[0] = (float)total;
}
"""

DOUBLE = (
    HEAD
    + """
class Model(nn.Module):
    def __init__(self, power, negate):
        super().__init__()
        self.power, self.negate = power, negate
        self.register_buffer("offset", torch.arange(M, dtype=torch.int32))
    def forward(self, x):
        y = (x + self.offset) * self.power
        return -y if self.negate else y
def get_init_inputs():
    return [2.5, True]
def get_inputs():
    return [torch.randn(N, M, dtype=torch.float64)]
"""
)
DOUBLE_KERNEL = """
extern "C" void kernel(const double* x, const int64_t* x_shape, const int32_t* offset, const int64_t* offset_shape, double power,
                       bool negate, double* out, const int64_t* out_shape) {
    for (int64_t i = 0; i < x_shape[0] * x_shape[1]; ++i) {
        double y = (x[i] + offset[i % offset_shape[0]]) * power;
        out[i] = negate ? -y : y;
    }
}
"""


@pytest.mark.parametrize(
    ("task", "code"),
    [(HALF, HALF_KERNEL), (SEVERAL, SEVERAL_KERNEL), (DOUBLE, DOUBLE_KERNEL)],
    ids=["bfloat16", "several outputs", "buffers and scalars"],
)
def test_kernel_with_every_argument_type_passes(compiled, task, code):
    outcome = compiled(task, code)
    assert outcome.feasible, outcome.failure


def test_wrong_output_among_several_is_named(compiled):
    outcome = compiled(SEVERAL, SEVERAL_KERNEL.replace("out1[i] = best", "out1[i] = best + 1"))
    assert outcome.failure.reason == "mismatch"
    assert "`out1`" in outcome.failure.detail


def test_unwritten_bool_output_is_reported(compiled):
    outcome = compiled(SEVERAL, SEVERAL_KERNEL.replace("out2[i * x_shape[1] + j] = value > 0;", ""))
    assert outcome.failure.reason == "unwritten"
    assert "`out2`" in outcome.failure.detail
