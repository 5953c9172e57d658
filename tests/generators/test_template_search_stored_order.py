"""The Pallas templates read tensors in the order in which XLA stores their axes, so that nothing is copied before the kernel."""

import re

import pytest
from test_template_search_pallas import FORWARD, HEAD, TAIL, bench, render_code  # noqa: F401

from evokernel.generators.template_search.dialects.pallas.row_program import stored_order
from evokernel.generators.template_search.graph import Num
from evokernel.suites.loader import load_tasks

pytestmark = pytest.mark.toolchain

SHAPES = [
    (128, 4096, 4095), (4096, 96, 64, 64), (9, 4096, 4095), (2, 4096, 4095), (32768, 100), (3, 5, 7), (1000, 1, 64), (100, 12, 104),
]  # fmt: skip
BODIES = {
    "mean over the last axis": ("x.mean(2)", "16, 256, 255", "view=nest algorithm=chunks rows=8 lanes=128 chunk=64 mask=iota fold=each"),
    "mean, folded at the end": ("x.mean(2)", "16, 256, 255", "view=nest algorithm=chunks rows=8 lanes=128 chunk=64 mask=iota fold=end"),
    "sum over the middle axis": ("x.sum(1)", "16, 256, 255", "view=nest algorithm=whole rows=8"),
    "softmax over the middle axis": ("torch.softmax(x, 1)", "16, 256, 63", "view=nest algorithm=whole rows=8 divide=exact"),
    "argmin over the last axis": ("x.argmin(2)", "16, 256, 255", "rows=8 lanes=128 chunk=64"),
    "argmax over the middle axis": ("x.argmax(1)", "16, 1024, 255", "rows=8 chunk=512"),
    "first of equal elements": ("x.round().argmax(2)", "16, 256, 255", ""),
    "elementwise": ("F.leaky_relu(x, 0.1)", "256, 3, 5, 8", "view=rows pipeline=grid rows=8 cols=all edge=clip strip=none"),
    "elementwise, flat": ("F.leaky_relu(x, 0.1)", "256, 3, 5, 8", "view=flat pipeline=grid width=128 rows=8 edge=clip strip=none"),
}
"""What is computed, for which shape, and decisions."""


def make_task(folder, body, shape):
    path = folder / "task.py"
    path.write_text(HEAD + FORWARD.format(names="x", body=body) + TAIL.format(inputs=f"torch.randn({shape})"))
    return load_tasks(str(path))[0]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_order_of_axes_is_that_of_the_compiler(bench, tmp_path, shape):  # noqa: F811
    import jax

    from evokernel.backends.pallas import compiler, lower

    if compiler.unavailable_reason():
        pytest.skip(compiler.unavailable_reason())
    closed = jax.make_jaxpr(lambda x: x[(0,) * len(shape)])(jax.ShapeDtypeStruct(shape, "float32"))
    compiler.compile_program(lower.lower_program(closed, bench.chip), bench.chip.topology, tmp_path)
    (module,) = tmp_path.glob("*-TLP-hlo.txt")
    layout = re.search(r"entry_computation_layout=\{\(\w+\[[\d,]+\]\{([\d,]+)", module.read_text())[1]
    assert ",".join(map(str, reversed(stored_order([Num.of(n) for n in shape])))) == layout


@pytest.mark.parametrize(("body", "shape", "line"), BODIES.values(), ids=BODIES)
def test_blocks_in_the_stored_order_are_correct(bench, tmp_path, body, shape, line):  # noqa: F811
    task = make_task(tmp_path, body, shape)
    code = (
        render_code(task, f"{line} semantics=parallel limit=64") if line else render_code(task, {"mask": "iota", "semantics": "parallel"})
    )
    assert bench.find_failure(task, code, "bench") == ""


@pytest.mark.parametrize("name", ["mean over the last axis", "argmin over the last axis", "elementwise"])
def test_nothing_is_copied_before_the_kernel(bench, tmp_path, name):  # noqa: F811
    from evokernel.backends.pallas import compiler, lower
    from evokernel.backends.pallas.schedule import estimate_schedule

    if compiler.unavailable_reason():
        pytest.skip(compiler.unavailable_reason())
    body, shape, line = BODIES[name]
    task = make_task(tmp_path, body, shape)
    closed, *_ = bench.trace(task, render_code(task, f"{line} semantics=parallel limit=64"), "bench")
    compiler.compile_program(lower.lower_program(closed, bench.chip), bench.chip.topology, tmp_path / "dump")
    kinds = {operation.kind for operation in estimate_schedule(tmp_path / "dump", bench.chip).operations}
    assert kinds <= {"custom-call", "bitcast", "copy-start", "copy-done"}
