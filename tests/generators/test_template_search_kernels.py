"""C++ kernels of template_search, compiled and verified: safe decisions pass, and unsafe ones fail for the expected reason."""

from random import Random

import pytest
from sampling import one_in

from evokernel.core.plugins import make_plugin
from evokernel.core.records import Candidate, Context, Job, Stage
from evokernel.core.state import State
from evokernel.generators.template_search import TemplateSearch
from evokernel.generators.template_search.option_model import OptionModel
from evokernel.generators.template_search.search import DecisionSearch
from evokernel.generators.template_search.search_space import build_search_space
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

pytestmark = pytest.mark.skipif(bool(make_plugin("backend", "cpp").unavailable_reason()), reason="no C++ compiler")

SAFE = {"alias": "__restrict", "tail": "scalar", "math": "poly6", "border": "clip", "window": "switch", "scratch": "heap", "lanes": "4"}
FAST = {
    **SAFE, "simd": "vec", "unroll": "4", "order": "rows", "gemm": "block", "mr": "4", "nr": "2", "pack": "ab", "ktile": "64",
    "rows": "8", "tail": "masked", "fusion": "32", "reuse": "store", "divide": "reciprocal",
}  # fmt: skip
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nA = 48\nB = 80\n"
TAIL = "\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return [{made}]\n"
FORWARD = "class Model(nn.Module):\n    def forward(self, {names}):\n        return {body}\n"
MATRIX, TWO, CUBE = "torch.randn(A, B)", "torch.randn(A, B), torch.randn(A, B)", "torch.randn(3, A, B)"
IMAGES, WIDTH = "torch.randn(2, 4, A, 21)", ", width"


def verify_decisions(task, decisions, seed=0, fuse="all"):
    """The outcome of a kernel with these decisions; otherwise the safe ones are used, and decisions that are still open are sampled."""
    space = build_search_space(task, "cpp")

    def source(group):
        possible = [(d.name, decisions.get(d.name, ""), d.options) for d in group.decisions]
        return {**SAFE, "fuse": fuse, "memory": "malloc", **{name: option for name, option, options in possible if option in options}}

    code = space.render_kernel(DecisionSearch(space, OptionModel([]), Random(seed), 1.0).complete(source))
    candidate = Candidate(backend="cpp", files={"kernel.cpp": code})
    return verify(Job(backend="cpp", settings={"flags": "-O1"}, task=task, candidate=candidate, clock="synthetic"))


def list_families(task, fuse="all"):
    space = build_search_space(task, "cpp")
    return [stage.pattern.family for stage in (space.plans.get(fuse) or next(iter(space.plans.values()))).stages]


def write_task(tmp_path, text):
    path = tmp_path / "task.py"
    path.write_text(text)
    return load_tasks(str(path))[0]


def forward(names, body, inputs):
    return HEAD + FORWARD.format(names=names, body=body) + TAIL.format(inputs=inputs, made="")


def layer(made, body, inputs, arguments="", values=""):
    head = f"class Model(nn.Module):\n    def __init__(self{arguments}):\n        super().__init__()\n        {made}\n\n"
    return HEAD + head + f"    def forward(self, x):\n        return {body}\n" + TAIL.format(inputs=inputs, made=values)


@pytest.mark.parametrize("task", one_in(8, load_tasks("starter"), lambda task: task.id))
def test_safe_decisions_pass_on_every_starter_task(task):
    outcome = verify_decisions(task, FAST)
    assert outcome.feasible, outcome.failure


@pytest.mark.parametrize(
    ("name", "algorithm"),
    one_in(24, [(name, option) for name, options in {
        "argmax": ("serial", "twopass", "blocks", "lanes"), "softmax": ("passes", "online"),
        "layernorm": ("passes", "welford"), "rmsnorm": ("passes", "naive"),
        "cumsum": ("serial", "rows", "shift", "blocks"), "conv2d": ("direct", "shift", "im2col", "block"),
        "max_pool": ("direct", "separable", "padded"), "attention_head": ("full", "rows", "online"), "cross_entropy": ("passes", "online"),
    }.items() for option in options]),
)  # fmt: skip
def test_every_algorithm_is_correct_with_safe_tails(name, algorithm):
    task = load_tasks(f"starter/{name}")[0]
    assert verify_decisions(task, {**FAST, "tail": "steps", "order": "rows", "algorithm": algorithm}).feasible


UNSAFE = [
    ("gelu", {"alias": "restrict"}, {"compile_error"}),
    ("gelu", {"simd": "vec", "lanes": "12"}, {"compile_error"}),
    ("gelu", {"math": "poly2"}, {"mismatch"}),
    ("gelu", {"simd": "vec", "unroll": "4", "tail": "assume"}, {"unwritten"}),
    ("layernorm", {"order": "rows", "algorithm": "naive"}, {"mismatch", "nan"}),
    ("sum_rows", {"order": "rows", "simd": "vec", "tail": "assume"}, {"mismatch"}),
    ("matmul", {"gemm": "block", "mr": "8", "nr": "2", "tail": "assume"}, {"unwritten"}),
    ("conv2d", {"algorithm": "block", "mr": "4", "nr": "2", "border": "assume"}, {"mismatch"}),
]


@pytest.mark.parametrize(("name", "decisions", "reasons"), UNSAFE)
def test_unsafe_decisions_fail_for_the_expected_reason(name, decisions, reasons):
    outcome = verify_decisions(load_tasks(f"starter/{name}")[0], {**SAFE, **decisions})
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


INDICES, CLASSES = "torch.randn(A, B), torch.randint(0, A, (33,))", "torch.randn(A, B), torch.randint(0, B, (A,))"
IMAGE = "torch.randn(2, 3, 12, 14)"
COMPOSED = {
    "padded": forward("x", "F.pad(x, (2, 1, 0, 3), value=0.5)", MATRIX),
    "padded by reflection": forward("x", "F.pad(x, (2, 3, 1, 2), mode='reflect')", IMAGE),
    "padded in a circle": forward("x", "F.pad(x, (2, 3), mode='circular')", CUBE),
    "windows": forward("x", "x.unfold(1, 5, 3)", CUBE),
    "patches": forward("x", "F.unfold(x, 3, padding=1, stride=2)", IMAGE),
    "pixels to channels": forward("x", "F.pixel_unshuffle(x, 2)", IMAGE),
    "one-hot classes": forward("x, i", "F.one_hot(i, 48).float() @ x", INDICES),
    "weighted cross entropy": forward("x, t", "F.cross_entropy(x, t, weight=torch.ones(x.shape[1]), ignore_index=3)", CLASSES),
    "cross entropy of pixels": forward("x, t", "F.cross_entropy(x, t)", "torch.randn(2, 5, A, B), torch.randint(0, 5, (2, A, B))"),
    "smoothed cross entropy of rows": forward("x, t", "F.cross_entropy(x, t, label_smoothing=0.1, reduction='none')", CLASSES),
    "contrastive loss": forward("x, y", "F.cross_entropy(x @ y.T, torch.arange(x.shape[0]))", TWO),
    "product of three": forward("x, y", "torch.einsum('bi,ij,bj->b', x, y, x)", "torch.randn(A, B), torch.randn(B, B)"),
    "einsum with dots": forward("x, y", "torch.einsum('...d,ed->...e', x, y)", "torch.randn(3, A, B), torch.randn(7, B)"),
    "any and all": forward("x", "torch.where((x > 1).any(-1) & (x < 3).all(-1), x.amax(-1), x.norm(p=3, dim=-1))", MATRIX),
    "grouped queries": forward(
        "q, k", "F.scaled_dot_product_attention(q, k, k, enable_gqa=True)", "torch.randn(2, 6, A, 16), torch.randn(2, 2, A, 16)"
    ),
    "boolean causal mask": forward(
        "x, y",
        "F.scaled_dot_product_attention(x, y, y, torch.ones(A, A, dtype=torch.bool).tril())",
        "torch.randn(3, A, 8), torch.randn(3, A, 8)",
    ),
    "masked exponentials are zero": forward("x", "torch.softmax(x.masked_fill(x < 0, float('-inf')), -1)", MATRIX),
    "logarithm of zero": forward("x", "torch.softmax(x + torch.log((x > 0).float()), -1)", MATRIX),
    "slices read in place": forward(
        "x, y", "x[:, 3:A, 1:] * y[2:3] + x[:, :-3, :-1].softmax(-1)", "torch.randn(5, A, B), torch.randn(7, B - 1)"
    ),
    "halves of every row": forward("x", "F.silu(x[..., : B // 2]) * x[..., B // 2 : 2 * (B // 2)].mean(1, keepdim=True)", CUBE),
    "an input as output": forward("x", "(x.reshape(-1), x + 1)", MATRIX),
}


@pytest.mark.parametrize("name", one_in(8, COMPOSED))
def test_composed_operators_are_correct(tmp_path, name):
    outcome = verify_decisions(write_task(tmp_path, COMPOSED[name]), FAST)
    assert outcome.feasible, outcome.failure


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_have_the_expected_family(tmp_path, name):
    text, family = VARIANTS[name]
    assert list_families(write_task(tmp_path, text)) == [family]


@pytest.mark.parametrize("name", one_in(16, VARIANTS))
def test_variants_are_correct(tmp_path, name):
    outcome = verify_decisions(write_task(tmp_path, VARIANTS[name][0]), FAST)
    assert outcome.feasible, outcome.failure


SEQUENCES = {
    "conv2d_groupnorm_scale_maxpool_clamp": "all", "linear_bias_hardtanh_mish_groupnorm": "after",
    "conv_transpose3d_softmax_sigmoid": "none", "linear_scale_residual_clamp_logsumexp_mish": "before",
    "conv2d_min_tanh_tanh": "none", "conv3d_softmax_maxpool_maxpool": "all",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(6, SEQUENCES))
def test_operator_sequences_are_correct_in_every_fusion_mode(name):
    outcome = verify_decisions(load_tasks(f"level2/{name}")[0], SAFE, fuse=SEQUENCES[name])
    assert outcome.feasible, outcome.failure


UNSUPPORTED = {
    "a quotient rounded towards zero": forward("x", "torch.div(x, 3.0, rounding_mode='trunc')", MATRIX),
    "sort()": forward("x", "torch.sort(x, dim=1).values", MATRIX),
    "steps that depend on the size": forward("x", "sum(x[i] for i in range(x.shape[0]))", MATRIX),
    "a forward method that cannot be traced": forward("x", "x if x.sum() > 0 else -x", MATRIX),
}


@pytest.mark.parametrize("gap", UNSUPPORTED)
def test_unsupported_reference_is_described_in_one_line(tmp_path, gap):
    reply = TemplateSearch().write(State(task=write_task(tmp_path, UNSUPPORTED[gap])), Context(stage=Stage.DRAFT))
    assert reply.candidate.files == {}
    assert reply.candidate.notes.startswith(f"template_search has no template for {gap}")
    assert "\n" not in reply.candidate.notes
