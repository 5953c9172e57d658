"""Kernels of the sweep generator, really compiled and judged: careful decisions pass, careless ones fail for the reason they should."""

from random import Random

import pytest
from sampling import one_in

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Context, Job, Stage, State
from evokernel.generators.template_search import Sweep
from evokernel.generators.template_search.operator import operator
from evokernel.generators.template_search.option_model import Belief
from evokernel.generators.template_search.search import Writer
from evokernel.tasks.loader import load
from evokernel.verify import verify

pytestmark = pytest.mark.skipif(bool(make_plugin("backend", "cpp").missing()), reason="no C++ compiler")

CAREFUL = {"alias": "__restrict", "tail": "scalar", "math": "poly6", "border": "clip", "window": "switch", "scratch": "heap", "lanes": "4"}
FAST = {
    **CAREFUL, "simd": "vec", "unroll": "4", "order": "rows", "gemm": "block", "mr": "4", "nr": "2", "pack": "ab", "ktile": "64",
    "rows": "8", "tail": "masked", "fusion": "32", "reuse": "store", "divide": "reciprocal",
}  # fmt: skip
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nA = 48\nB = 80\n"
TAIL = "\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return [{made}]\n"
FORWARD = "class Model(nn.Module):\n    def forward(self, {names}):\n        return {body}\n"
MATRIX, TWO, CUBE = "torch.randn(A, B)", "torch.randn(A, B), torch.randn(A, B)", "torch.randn(3, A, B)"
IMAGES, WIDTH = "torch.randn(2, 4, A, 21)", ", width"


def judged(task, taken, seed=0, fuse="all"):
    """The outcome of the sketches with these decisions; where they do not apply the careful ones, and what is open then is drawn."""
    found = operator(task, "cpp")

    def source(part):
        asked = [(d.name, taken.get(d.name, ""), d.options) for d in part.decisions]
        return {**CAREFUL, "fuse": fuse, "memory": "malloc", **{name: option for name, option, options in asked if option in options}}

    code = found.render(Writer(found, Belief([]), Random(seed), 1.0).complete(source))
    candidate = Candidate(backend="cpp", files={"kernel.cpp": code})
    return verify(Job(backend="cpp", settings={"flags": "-O1"}, task=task, candidate=candidate, clock="synthetic"))


def families(task, fuse="all"):
    found = operator(task, "cpp")
    return [stage.form.family for stage in (found.plans.get(fuse) or next(iter(found.plans.values()))).stages]


def task_of(tmp_path, text):
    path = tmp_path / "task.py"
    path.write_text(text)
    return load(str(path))[0]


def forward(names, body, inputs):
    return HEAD + FORWARD.format(names=names, body=body) + TAIL.format(inputs=inputs, made="")


def layer(made, body, inputs, arguments="", values=""):
    head = f"class Model(nn.Module):\n    def __init__(self{arguments}):\n        super().__init__()\n        {made}\n\n"
    return HEAD + head + f"    def forward(self, x):\n        return {body}\n" + TAIL.format(inputs=inputs, made=values)


@pytest.mark.parametrize("task", one_in(6, load("starter"), lambda task: task.id))
def test_careful_decisions_pass_on_every_starter_operator(task):
    outcome = judged(task, FAST)
    assert outcome.feasible, outcome.failure


@pytest.mark.parametrize(
    ("name", "algorithm"),
    one_in(16, [(name, option) for name, options in {
        "argmax": ("serial", "twopass", "blocks", "lanes"), "softmax": ("passes", "online"),
        "layernorm": ("passes", "welford"), "rmsnorm": ("passes", "naive"),
        "cumsum": ("serial", "rows", "shift", "blocks"), "conv2d": ("direct", "shift", "im2col", "block"),
        "max_pool": ("direct", "separable", "padded"), "attention_head": ("full", "rows", "online"), "cross_entropy": ("passes", "online"),
    }.items() for option in options]),
)  # fmt: skip
def test_every_algorithm_is_right_when_its_edges_are(name, algorithm):
    task = load(f"starter/{name}")[0]
    assert judged(task, {**FAST, "tail": "steps", "order": "rows", "algorithm": algorithm}).feasible


CARELESS = [
    ("gelu", {"alias": "restrict"}, {"compile_error"}),
    ("gelu", {"simd": "vec", "lanes": "12"}, {"compile_error"}),
    ("gelu", {"math": "poly2"}, {"mismatch"}),
    ("gelu", {"simd": "vec", "unroll": "4", "tail": "assume"}, {"unwritten"}),
    ("layernorm", {"order": "rows", "algorithm": "naive"}, {"mismatch", "nan"}),
    ("sum_rows", {"order": "rows", "simd": "vec", "tail": "assume"}, {"mismatch"}),
    ("matmul", {"gemm": "block", "mr": "8", "nr": "2", "tail": "assume"}, {"unwritten"}),
    ("conv2d", {"algorithm": "block", "mr": "4", "nr": "2", "border": "assume"}, {"mismatch"}),
]


@pytest.mark.parametrize(("name", "taken", "reasons"), CARELESS)
def test_careless_decisions_fail_for_their_reason(name, taken, reasons):
    outcome = judged(load(f"starter/{name}")[0], {**CAREFUL, **taken})
    assert not outcome.feasible
    assert outcome.failure.reason in reasons


VARIANTS = {
    "mish": (forward("x", "F.mish(x)", MATRIX), "map"),
    "erf gelu, hand-written": (forward("x", "x * 0.5 * (1.0 + torch.erf(x / 1.41421))", MATRIX), "map"),
    "where": (forward("x", "torch.where(x > 0.5, x, 0.1 * x)", MATRIX), "map"),
    "largest of all": (forward("x", "x.max()", MATRIX), "reduce"),
    "values of a maximum": (forward("x", "torch.max(x, dim=1).values", MATRIX), "reduce"),
    "elu layer": (layer("self.act = nn.ELU(alpha=0.5)", "self.act(x)", MATRIX), "map"),
    "outer difference": (forward("x, y", "x[:, None] - y[None, :]", "torch.randn(A), torch.randn(B)"), "map"),
    "channel bias": (forward("x, y", "torch.tanh(x + y.view(1, -1, 1, 1))", "torch.randn(2, 5, A, 9), torch.randn(5)"), "map"),
    "mean over the first axis": (forward("x", "x.mean(dim=0)", MATRIX), "reduce"),
    "maximum over the middle axis": (forward("x", "torch.amax(x, dim=1)", "torch.randn(7, A, B)"), "reduce"),
    "root mean square of all": (forward("x", "torch.sqrt((x * x).mean())", MATRIX), "reduce"),
    "argmin over the first axis": (forward("x", "x.argmin(0)", MATRIX), "argreduce"),
    "smooth L1": (forward("x, y", "F.smooth_l1_loss(x, y)", TWO), "reduce"),
    "mean squared error layer": (
        HEAD + "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.loss = nn.MSELoss()\n"
        "    def forward(self, x, y):\n        return self.loss(x, y)\n" + TAIL.format(inputs=TWO, made=""), "reduce"),
    "log-softmax": (forward("x", "F.log_softmax(x, dim=1)", MATRIX), "row"),
    "l2 normalisation": (forward("x", "x / torch.sqrt((x ** 2).sum(dim=-1, keepdim=True))", MATRIX), "row"),
    "rms layer": (layer("self.norm = nn.RMSNorm(width, eps=1e-5)", "self.norm(x)", MATRIX, ", width", "B"), "row"),
    "layer norm over two axes": (layer("self.norm = nn.LayerNorm((a, b))", "self.norm(x)", CUBE, ", a, b", "A, B"), "row"),
    "transposed left factor": (forward("x, y", "x.T @ y", "torch.randn(B, A), torch.randn(B, A)"), "matmul"),
    "transposed right factor": (forward("x, y", "torch.matmul(x, y.transpose(0, 1))", TWO), "matmul"),
    "linear, then silu": (layer("self.fc = nn.Linear(width, 24, bias=False)", "F.silu(self.fc(x))", MATRIX, ", width", "B"), "matmul"),
    "linear in three axes": (layer("self.fc = nn.Linear(width, 24)", "torch.relu(self.fc(x))", CUBE, WIDTH, "B"), "matmul"),
    "sequence of layers": (layer("self.net = nn.Sequential(nn.Linear(width, 24), nn.Tanh())", "self.net(x)", MATRIX, WIDTH, "B"), "matmul"),
    "strided, dilated, grouped convolution": (
        layer("self.conv = nn.Conv2d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2)", "F.relu(self.conv(x))", IMAGES), "conv"),
    "mean pooling": (layer("self.pool = nn.AvgPool2d(3, stride=2)", "self.pool(x)", "torch.randn(2, 3, A, B)"), "pool"),
    "running sum over the first axis": (forward("x", "torch.cumsum(x, 0)", MATRIX), "scan"),
    "batched attention": (
        forward("q, k, v", "F.scaled_dot_product_attention(q, k, v)", "*(torch.randn(2, 3, A, 16) for _ in range(3))"), "attention"),
    "rows by index": (forward("x, i", "torch.index_select(x, 0, i)", "torch.randn(A, B), torch.randint(0, A, (33,))"), "gather"),
    "clipped, where some are not numbers": (forward("x", "torch.clamp(torch.relu(x), max=1.0)", MATRIX) + "NONFINITE = True\n", "map"),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_are_understood(tmp_path, name):
    text, family = VARIANTS[name]
    assert families(task_of(tmp_path, text)) == [family]


@pytest.mark.parametrize("name", one_in(10, VARIANTS))
def test_variants_are_right(tmp_path, name):
    outcome = judged(task_of(tmp_path, VARIANTS[name][0]), FAST)
    assert outcome.feasible, outcome.failure


SEQUENCES = {
    "conv2d_groupnorm_scale_maxpool_clamp": "all", "linear_bias_hardtanh_mish_groupnorm": "after",
    "conv_transpose3d_softmax_sigmoid": "none", "linear_scale_residual_clamp_logsumexp_mish": "before",
    "conv2d_min_tanh_tanh": "none", "conv3d_softmax_maxpool_maxpool": "all",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(6, SEQUENCES))
def test_sequences_are_right_however_far_they_are_fused(name):
    outcome = judged(load(f"level2/{name}")[0], CAREFUL, fuse=SEQUENCES[name])
    assert outcome.feasible, outcome.failure


GAPS = {
    "a quotient rounded towards zero": forward("x", "torch.div(x, 3.0, rounding_mode='trunc')", MATRIX),
    "sort()": forward("x", "torch.sort(x, dim=1).values", MATRIX),
    "steps that depend on the size": forward("x", "sum(x[i] for i in range(x.shape[0]))", MATRIX),
    "a forward that cannot be traced": forward("x", "x if x.sum() > 0 else -x", MATRIX),
}


@pytest.mark.parametrize("gap", GAPS)
def test_what_is_not_understood_is_said_in_one_line(tmp_path, gap):
    reply = Sweep().write(State(task=task_of(tmp_path, GAPS[gap])), Context(stage=Stage.DRAFT))
    assert reply.candidate.files == {}
    assert reply.candidate.notes.startswith(f"sweep has no sketch for {gap}")
    assert "\n" not in reply.candidate.notes
