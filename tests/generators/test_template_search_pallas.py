"""The Pallas templates under the verifier's checks: safe decisions are correct, and unsafe ones fail for the expected reason."""

from pathlib import Path
from random import Random

import pytest

from evokernel.core.errors import CandidateError
from evokernel.core.records import Context, Stage
from evokernel.core.state import State
from evokernel.generators.template_search import TemplateSearch
from evokernel.generators.template_search.option_model import OptionModel
from evokernel.generators.template_search.search import DecisionSearch
from evokernel.generators.template_search.search_space import build_search_space
from evokernel.suites.loader import describe_task, find_task_files, load_tasks

pytestmark = pytest.mark.toolchain

USER_OPERATORS = Path(__file__).parents[1] / "tasks" / "user_operators"
STARTER = {task.id.split("/")[1]: task for task in load_tasks("starter")}
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nA = 24\nB = 40\n"
TAIL = "\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
FORWARD = "class Model(nn.Module):\n    def forward(self, {names}):\n        return {body}\n"

# A correct kernel per starter task; together they cover nearly every template and algorithm.
CORRECT = {
    "argmax": "algorithm=native turn=yes rows=128",
    "attention_head": "algorithm=turned rows=128 divide=after precision=highest mixing=split",
    "batched_matmul": "right=nk batch=8 rows=all loop=together precision=split",
    "conv2d": "algorithm=shifts hold=scratch span=256 precision=split",
    "cross_entropy": "turn=yes rows=128 edge=mask sums=inside semantics=arbitrary",
    "cumsum": "algorithm=triangle rows=64 precision=highest",
    "embedding": "source=held rows=256 lanes=all buffers=1 store=tile unroll=4 limit=64",
    "gelu": "view=flat width=512 pipeline=manual rows=32 buffers=3 strip=8",
    "layernorm": "algorithm=chunks rows=64 chunk=128 mask=iota divide=exact",
    "linear_gelu": "left=mk right=nk rows=32 cols=128 chunk=128 fill=mask acc=scratch precision=highest",
    "matmul": "left=mk right=kn rows=64 cols=128 chunk=all precision=split",
    "max_pool": "algorithm=stacked border=low width=128 rows=8 stack=together",
    "rmsnorm": "algorithm=lanes pipeline=emit rows=64 edge=pad strip=none divide=reciprocal",
    "scale_shift": "pipeline=grid rows=64 cols=256 edge=clip strip=32",
    "softmax": "algorithm=whole pipeline=grid turn=no rows=64 strip=none divide=exact",
    "sum_rows": "algorithm=whole turn=no out=lanes rows=128",
}
UNSAFE = [
    ("gelu", "view=rows pipeline=grid rows=12 cols=all edge=clip", "block_shape"),
    ("matmul", "left=mk right=kn rows=64 cols=64 chunk=all precision=highest", "block_shape"),
    ("matmul", "left=mk right=kn rows=64 cols=128 chunk=all precision=default", "mismatch"),
    ("scale_shift", "pipeline=grid rows=64 cols=all edge=floor strip=none", "nan"),
    ("softmax", "algorithm=chunks rows=64 chunk=128 mask=none divide=exact", "nan"),
    ("cross_entropy", "turn=no rows=64 edge=mask sums=inside semantics=parallel", "race"),
]
VARIANTS = {
    "largest of all": ("x", "x.max()", "torch.randn(A, B)"),
    "argmin over the first axis": ("x", "x.argmin(0)", "torch.randn(A, B)"),
    "channel bias": ("x, y", "torch.tanh(x + y.view(1, -1, 1, 1))", "torch.randn(2, 5, A, 9), torch.randn(5)"),
    "transposed left factor": ("x, y", "x.T @ y", "torch.randn(B, A), torch.randn(B, A)"),
    "strided and dilated convolution": (
        "x, w", "F.relu(F.conv2d(x, w, stride=2, padding=2, dilation=2))", "torch.randn(2, 4, A, 21), torch.randn(6, 4, 3, 3)"),
    "cross entropy with weights and an ignored class": (
        "x, y, w", "F.cross_entropy(x, y, w, ignore_index=1, label_smoothing=0.2)",
        "torch.randn(2, 7, A), torch.randint(0, 7, (2, A)), torch.rand(7) + 0.5"),
    "one hot": ("x", "F.one_hot(x, 9).float() * 2", "torch.randint(0, 9, (A, B))"),
    "even and odd elements": ("x", "torch.stack((x[:, ::2] * 2, x[:, 1::2] + 1), dim=-1)", "torch.randn(A, B)"),
    "sums over a short last axis": ("x, y", "(x * y).sum(-1)", "torch.randn(5, 150, 4), torch.randn(5, 150, 4)"),
    "mean pooling": ("x", "F.avg_pool2d(x, 3, 2)", "torch.randn(2, 3, A, B)"),
}  # fmt: skip
SAFE = {
    "mask": "iota", "edge": "pad", "fill": "pad", "precision": "highest", "divide": "exact", "border": "low", "semantics": "arbitrary",
    "rows": "64", "cols": "128", "lanes": "128", "span": "256",
}  # fmt: skip


def render_code(task, line, seed=0):
    """The code for these decisions, fused as far as possible; decisions that are left open are sampled."""
    space = build_search_space(task, "pallas")
    fixed = dict(pair.split("=") for pair in line.split()) if isinstance(line, str) else line
    decisions = DecisionSearch(space, OptionModel([]), Random(seed), 1.0).complete(lambda group: {"fuse": "all", **fixed})
    assert isinstance(line, dict) or any(fixed.items() <= choice.items() for _, choice in decisions.stages), "decisions that do not apply"
    return space.render_kernel(decisions)


class KernelBench:
    """Traces, lowers and interprets a kernel as the verifier does, in this process."""

    def __init__(self):
        pytest.importorskip("jax")
        from evokernel.backends.pallas import chips

        self.chip = chips.get_chip("v5e")

    def trace(self, task, code, size):
        import jax
        import numpy as np

        from evokernel.backends.pallas import lower, program_rules
        from evokernel.reference.module import Reference

        reference = Reference(task.source, "task.py", task.sizes[size])
        sample = reference.sample(0)
        arrays = [a.data.astype(np.int32) if a.data.dtype == np.int64 else a.data for a in sample.to_arrays()]
        scalars = [int(s.value) if s.kind == "int" else s.value for s in sample.scalars]
        names = {"__name__": "kernel"}
        exec(compile(code, "kernel.py", "exec"), names)
        shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in arrays]
        with lower.target_chip(self.chip):
            closed = jax.make_jaxpr(lambda *given: names["kernel"](*given, *scalars))(*shapes)
        assert program_rules.collect_findings(closed) == []
        return closed, arrays, reference.run(sample)[0].tensor.numpy()

    def find_failure(self, task, code, size="held_out"):
        """Empty if the kernel can be lowered at bench size and is correct at a size; otherwise the verifier's failure reason."""
        import numpy as np

        from evokernel.backends.pallas import errors, lower
        from evokernel.backends.pallas.interpret import InterpretedProgram

        try:
            lower.lower_program(self.trace(task, code, "bench")[0], self.chip)
        except (ValueError, NotImplementedError) as error:
            return errors.explain_message(str(error), type(error).__name__).reason
        closed, arrays, want = self.trace(task, code, size)
        try:
            (got,) = InterpretedProgram(closed).run(arrays)
        except CandidateError as error:
            return error.reason
        assert got.shape == want.shape
        rms = float(np.sqrt(np.mean(np.square(want, dtype=np.float64)))) or 1.0
        is_correct = np.allclose(got, want, rtol=task.rtol, atol=task.atol * rms)
        return "" if is_correct else "nan" if np.isnan(got).any() else "mismatch"


@pytest.fixture(scope="module")
def bench():
    return KernelBench()


@pytest.mark.parametrize("name", CORRECT)
def test_safe_decisions_are_correct_at_odd_sizes(bench, name):
    assert bench.find_failure(STARTER[name], render_code(STARTER[name], CORRECT[name])) == ""


@pytest.mark.parametrize(("name", "line", "reason"), UNSAFE)
def test_unsafe_decisions_fail_for_the_expected_reason(bench, name, line, reason):
    assert bench.find_failure(STARTER[name], render_code(STARTER[name], line)) == reason


def test_inserted_zeros_do_not_count_as_terms_of_a_sum():
    """The tolerance of a short sum needs more passes than that of a long one."""
    for name, limit in (("conv_transposed2d", "512 * math.prod((2, 2)):"), ("conv2d_square", "128:")):
        (task,) = load_tasks(f"level1/{name}")
        assert f"if x.shape[1] < {limit}" in render_code(task, "algorithm=shifts precision=split")


STRIPS = {
    "conv2d_strided": "algorithm=strips hold=scratch span=256 edge=clip precision=highest",
    "conv_transposed3d_grouped": "algorithm=strips hold=none span=256 edge=pad precision=highest",
    "max_pool3d": "algorithm=strips border=low images=8 fold=axes width=128",
    "average_pool3d": "algorithm=strips images=8 fold=taps width=128",
}


@pytest.mark.parametrize("name", STRIPS)
def test_images_in_strips_are_correct_at_odd_sizes(bench, name):
    (task,) = load_tasks(f"level1/{name}")
    assert bench.find_failure(task, render_code(task, STRIPS[name])) == ""


@pytest.mark.parametrize("name", ["conv_transposed3d_grouped", "conv1d", "max_pool3d"])
def test_first_drafts_read_images_that_do_not_fit_into_vmem_in_strips(bench, name):
    """Patches of the first image would take 29 GB, more than HBM; two of the second one exceed VMEM."""
    jax = pytest.importorskip("jax")
    from evokernel.backends.pallas import lower

    (file,) = find_task_files(f"level1/{name}")
    task = describe_task(file, "full")
    code = TemplateSearch("pallas").write(State(task=task), Context(stage=Stage.DRAFT)).candidate.code
    assert "algorithm=strips" in code
    names, tensors = {"__name__": "kernel"}, (*task.signature.inputs, *task.signature.params)
    exec(compile(code, "kernel.py", "exec"), names)
    scalars = [int(s.value) for s in task.signature.scalars]
    with lower.target_chip(bench.chip):
        shapes = [jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in tensors]
        closed = jax.make_jaxpr(lambda *given: names["kernel"](*given, *scalars))(*shapes)
    largest = max(4 * variable.aval.size for step in closed.eqns for variable in step.outvars)
    assert largest < 2 * max(tensor.nbytes for tensor in (*tensors, *task.signature.outputs))


FUSED = {"rope_half": 1, "label_smoothed_nll": 1, "focal_loss": 1, "swiglu_mlp": 1, "small_attention_bias": 1,
         "channel_shuffle_residual": 2, "masked_variance_clip": 1}  # fmt: skip
"""Operators that users bring, and the number of stages with which blocks of rows cover them."""


@pytest.mark.parametrize("name", FUSED)
def test_blocks_of_rows_cover_operators_of_users_at_odd_sizes(bench, name):
    (task,) = load_tasks(str(USER_OPERATORS / f"{name}.py"))
    assert len(build_search_space(task, "pallas").plans["whole"].stages) == FUSED[name]
    code = TemplateSearch("pallas").write(State(task=task), Context(stage=Stage.DRAFT)).candidate.code
    assert "fuse=whole" in code
    assert bench.find_failure(task, code) == ""


def test_rows_that_are_too_large_are_not_fused(tmp_path):
    source = """import torch
from torch import nn

N = 1024


class Model(nn.Module):
    def forward(self, x, w, v):
        return torch.relu(torch.relu(x @ w) @ v)


def get_inputs():
    return [torch.randn(64, N), torch.randn(N, 4 * N), torch.randn(4 * N, N)]


def get_init_inputs():
    return []
"""
    (tmp_path / "wide.py").write_text(source)
    space = build_search_space(load_tasks(str(tmp_path / "wide.py"))[0], "pallas")
    assert "whole" not in space.plans
    assert [stage.pattern.family for stage in space.plans["all"].stages] == ["matmul", "matmul"]


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("view", ["rows", "flat"])
def test_elementwise_kernel_is_correct_for_any_number_of_axes(view):
    """A model that copies such a kernel may have an array with more or fewer axes."""
    np, jax = pytest.importorskip("numpy"), pytest.importorskip("jax")
    pl = pytest.importorskip("jax.experimental.pallas")
    code = render_code(
        STARTER["gelu"], f"view={view} pipeline=grid rows=8 edge=pad strip=none {'width=128' if view == 'flat' else 'cols=all'}"
    )
    names = {"__name__": "kernel"}
    exec(compile(code, "kernel.py", "exec"), names)
    call = pl.pallas_call
    for shape in ((3, 5, 130), (7,), (2, 3, 4, 9)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pl, "pallas_call", lambda *given, **named: call(*given, **{**named, "interpret": True}))
            got = np.asarray(names["kernel"](x))
        want = np.asarray(jax.nn.gelu(x, approximate=False))
        assert got.shape == shape
        assert np.allclose(got, want, atol=1e-3)


STRIDED_POOLS = {
    "largest, dilated": "F.max_pool2d(x, 3, 2, dilation=2)",
    "mean of elements that are not padding": "F.avg_pool2d(x, (3, 2), (2, 1), padding=1, count_include_pad=False)",
}


@pytest.mark.parametrize("body", STRIDED_POOLS.values(), ids=STRIDED_POOLS)
def test_strided_loads_pool_images_wider_than_a_register(bench, tmp_path, body):
    text = HEAD + FORWARD.format(names="x", body=body) + TAIL.format(inputs="torch.randn(1, 3, A, 4 * B)")
    (tmp_path / "task.py").write_text(text)
    task = load_tasks(str(tmp_path / "task.py"))[0]
    assert bench.find_failure(task, render_code(task, "algorithm=strided images=2 semantics=parallel"), "bench") == ""


@pytest.mark.parametrize(("axis", "line"), [(0, "algorithm=chunks lanes=128 chunk=64"), (1, "algorithm=chunks rows=8 chunk=128")])
def test_running_sums_come_in_chunks_of_the_grid(bench, tmp_path, axis, line):
    text = HEAD + FORWARD.format(names="x", body=f"torch.cumsum(x, {axis})") + TAIL.format(inputs="torch.randn(7 * A, 9 * B)")
    (tmp_path / "task.py").write_text(text)
    task = load_tasks(str(tmp_path / "task.py"))[0]
    assert bench.find_failure(task, render_code(task, f"{line} mask=iota semantics=parallel precision=thirds"), "bench") == ""


def test_large_tensors_choose_algorithms_that_need_only_parts_of_them():
    names = ("average_pool1d", "average_pool2d", "max_pool3d", "cumsum_first", "cumsum_reverse")
    tasks = load_tasks(",".join(f"level1/{name}" for name in names), "full")
    notes = [TemplateSearch("pallas").write(State(task=task), Context(stage=Stage.DRAFT)).candidate.notes for task in tasks]
    chosen = dict(zip(names, (note.partition("algorithm=")[2].split()[0] for note in notes), strict=True))
    assert chosen == {
        "average_pool1d": "shifts", "average_pool2d": "strided", "max_pool3d": "strips", "cumsum_first": "chunks",
        "cumsum_reverse": "chunks",
    }  # fmt: skip


@pytest.mark.parametrize(
    "line", ["turn=yes sums=inside edge=mask semantics=arbitrary", "turn=no rows=64 sums=outside edge=pad pick=product"]
)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy_ignores_negative_classes(bench, tmp_path, line, reduction):
    classes = "torch.where(torch.arange(A) % 3 == 0, -100, torch.randint(0, B, (A,)))"
    text = FORWARD.format(names="x, y", body=f"F.cross_entropy(x, y, reduction='{reduction}')")
    (tmp_path / "task.py").write_text(HEAD + text + TAIL.format(inputs=f"torch.randn(A, B), {classes}"))
    task = load_tasks(str(tmp_path / "task.py"))[0]
    assert bench.find_failure(task, render_code(task, line), "bench") == ""


@pytest.mark.parametrize("width", [256, 200])
def test_table_in_parts_of_128_lanes_is_gathered(bench, tmp_path, width):
    text = (
        HEAD
        + FORWARD.format(names="x, i", body="F.embedding(i, x)")
        + TAIL.format(inputs=f"torch.randn(A, {width}), torch.randint(0, A, (B,))")
    )
    (tmp_path / "task.py").write_text(text)
    task = load_tasks(str(tmp_path / "task.py"))[0]
    assert bench.find_failure(task, render_code(task, "source=held rows=64 lanes=apart buffers=1 semantics=parallel"), "bench") == ""


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_are_correct(bench, tmp_path, name):
    names, body, inputs = VARIANTS[name]
    (tmp_path / "task.py").write_text(HEAD + FORWARD.format(names=names, body=body) + TAIL.format(inputs=inputs))
    task = load_tasks(str(tmp_path / "task.py"))[0]
    assert bench.find_failure(task, render_code(task, SAFE)) == ""


def test_kernel_is_compiled_and_its_latency_estimated(bench, tmp_path):
    from evokernel.backends.pallas import compiler, lower
    from evokernel.backends.pallas.schedule import estimate_schedule

    if compiler.unavailable_reason():
        pytest.skip(compiler.unavailable_reason())
    task = STARTER["batched_matmul"]
    times = {}
    for right in ("kn", "nk"):
        code = render_code(task, f"right={right} batch=8 rows=all loop=together precision=split limit=64 semantics=arbitrary")
        compiler.compile_program(
            lower.lower_program(bench.trace(task, code, "bench")[0], bench.chip), bench.chip.topology, tmp_path / right
        )
        times[right] = estimate_schedule(tmp_path / right, bench.chip).latency_us
    assert times["nk"] < 0.9 * times["kn"], "the second factor is transposed in memory, and transposing it back takes a pass"
