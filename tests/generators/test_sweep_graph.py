"""What the sweep makes of a traced program: numbers as expressions, stages, and how far they are fused."""

import pytest

from evokernel.generators.sweep.nodes import NoSketch, Num, arithmetic, leaf, permute, reduce, reshape, walk
from evokernel.generators.sweep.plan import FUSE, plan
from evokernel.generators.sweep.read import read
from evokernel.generators.sweep.settle import segments, settled
from evokernel.generators.sweep.sizes import Sizes
from evokernel.reference.program import Argument, Program, Varied
from evokernel.tasks.loader import load

FAMILIES = {
    "argmax": ["argreduce"], "attention_head": ["attention"], "batched_matmul": ["matmul"], "conv2d": ["conv"],
    "cross_entropy": ["crossentropy"], "cumsum": ["scan"], "embedding": ["gather"], "gelu": ["map"], "layernorm": ["row"],
    "linear_gelu": ["matmul"], "matmul": ["matmul"], "max_pool": ["pool"], "rmsnorm": ["row"], "scale_shift": ["map"],
    "softmax": ["row"], "sum_rows": ["reduce"],
}  # fmt: skip


def planned(task, fuse):
    return plan(read(task), tuple(o.name for o in task.signature.outputs), fuse, lambda form: None)


def families(task, fuse):
    return [stage.form.family for stage in planned(task, fuse).stages]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_starter_operator_is_understood(name):
    assert families(load(f"starter/{name}")[0], "all") == FAMILIES[name]


def test_the_name_of_a_task_is_not_looked_at():
    task = load("starter/softmax")[0]
    assert families(task.model_copy(update={"id": "x/matmul", "family": "convolution"}), "all") == ["row"]


def test_fusion_goes_as_far_as_it_is_wanted():
    task = load("level2/conv2d_groupnorm_scale_maxpool_clamp")[0]
    found = {fuse: families(task, fuse) for fuse in FUSE}
    assert found["none"] == ["conv", "row", "map", "pool", "map"]
    assert found["all"] == ["conv", "row", "pool"]
    assert len(found["all"]) < len(found["before"]) <= len(found["none"])
    assert len(found["after"]) < len(found["none"])


@pytest.mark.parametrize("name", ["linear_sigmoid_linear_logsumexp", "linear_bias_hardtanh_mish_groupnorm"])
def test_stages_read_only_what_was_written_before(name):
    task = load(f"level2/{name}")[0]
    there = {f"in_{t.name}" for t in (*task.signature.inputs, *task.signature.params)}
    for stage in planned(task, "none").stages:
        assert {n.name for n in walk(stage.form.root) if n.op == "leaf"} <= there
        there.add(stage.out.name)
    assert {o.name for o in task.signature.outputs} <= there


def sizes_of(**extents):
    arguments = tuple(Argument(name=name, shape=tuple(Varied(at=at) for at in shape), dtype="float32") for name, shape in extents.items())
    return Sizes(Program(arguments=arguments, sizes=len(next(iter(extents.values()))[0])))


ROWS, COLUMNS = (24.0, 6.0, 12.0, 6.0), (40.0, 10.0, 10.0, 20.0)


@pytest.mark.parametrize(
    ("at", "op"),
    [
        (ROWS, "extent"), (tuple(r * c for r, c in zip(ROWS, COLUMNS)), "mul"), (tuple((r - 2) // 2 + 1 for r in ROWS), "floordiv"),
        (tuple(2 * r + 3 for r in ROWS), "add"), (tuple(c**-0.5 for c in COLUMNS), "rsqrt"), (tuple(1 / c for c in COLUMNS), "reciprocal"),
    ],
)  # fmt: skip
def test_numbers_become_expressions_over_extents(at, op):
    found = sizes_of(x=(ROWS, COLUMNS)).number(Varied(at=at))
    assert found.op == op
    assert found.values == at


def test_a_number_nobody_understands_is_said():
    with pytest.raises(NoSketch, match="not understood"):
        sizes_of(x=(ROWS, COLUMNS)).number(Varied(at=(1.0, 7.0, 3.0, 11.0)))


def test_arithmetic_keeps_literals_and_units_short():
    n = Num((24.0, 6.0), "extent", name="x")
    assert arithmetic("mul", Num.of(1), n) is n
    assert arithmetic("floordiv", n, Num.of(1)) is n
    assert arithmetic("mul", Num.of(3), Num.of(4)) == Num.of(12)


def test_reshapes_are_moved_behind_what_follows():
    n, c = Num((24.0, 6.0), "extent", name="x"), Num((8.0, 8.0), "extent", name="x", axis=1)
    half = arithmetic("floordiv", c, Num.of(2))
    x = permute(leaf("in_x", (c, n)), (1, 0))
    split = reshape(x, (n, Num.of(2), half))
    summed = reduce("sum", split, (1, 2), True)
    (root,), _ = settled((summed,))
    assert [root.op, root.args[0].op] == ["reshape", "reduce"]
    assert root.args[0].args[0] == x


def test_axes_that_hold_the_same_elements_are_found():
    a, b = Num((4.0, 6.0), "extent", name="x"), Num((6.0, 10.0), "extent", name="x", axis=1)
    ab = arithmetic("mul", a, b)
    assert segments((a, b, Num.of(1)), (ab,)) == [([0, 1], [0]), ([2], [])]
    assert segments((Num.of(1), a), (a, Num.of(1))) == [([0, 1], [0]), ([], [1])]
    assert segments((a, b), (b, a)) == [([0, 1], [0, 1])]
    with pytest.raises(NoSketch):
        segments((a, b), (a, a))
