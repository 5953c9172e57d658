"""What the sweep makes of a traced program: numbers as expressions, stages, and how far they are fused."""

import pytest

from evokernel.generators.template_search.graph import NoSketch, Num, apply, arithmetic, leaf, permute, rebuilt, reduce, reshape, walk
from evokernel.generators.template_search.graph_reader import graph_of, read
from evokernel.generators.template_search.sink_reshapes import segments, settled
from evokernel.generators.template_search.sizes import Sizes
from evokernel.generators.template_search.stage_planner import FUSE, plan
from evokernel.reference.program import Argument, Program, Ref, Step, Varied
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


def graph(*steps, dtype="float32", shape=(6, 8), outputs=None):
    """Of a program over two arguments x and y; a step is an operation, its arguments, and the type and shape of its result."""
    arguments = tuple(Argument(name=name, shape=shape, dtype=dtype) for name in "xy")
    listed = [
        Step(name=f"v{i}", op=f"aten.{op}.default", args=args, shapes=(made,), dtypes=(kind,))
        for i, (op, args, kind, made) in enumerate(steps)
    ]
    outputs = outputs or (Ref(name=listed[-1].name),)
    return graph_of(Program(arguments=arguments, steps=tuple(listed), outputs=outputs, sizes=1))


X, Y = Ref(name="x"), Ref(name="y")


def test_numbers_that_hash_alike_are_told_apart():
    x = leaf("in_x", (Num.of(8),))
    doubled = apply("mul", x, 2.0)
    clipped = apply("min", apply("max", doubled, -2.0), -1.0)
    found = rebuilt(clipped, {doubled: leaf("t0", x.shape)})
    assert [found.args[1].nums[0].value, found.args[0].args[1].nums[0].value] == [-1.0, -2.0]


def test_a_change_in_place_counts_under_its_new_name_alone():
    (root,) = graph(("mul", (X, 3.0), "float32", (6, 8)), ("add_", (Ref(name="v0"), Y), "float32", (6, 8))).outputs
    assert [root.op, root.args[0].op] == ["add", "mul"]
    first = ("mul", (X, 3.0), "float32", (6, 8))
    column = ("select", (Ref(name="v0"), 1, 0), "float32", (6,))
    with pytest.raises(NoSketch, match="in place"):
        graph(first, column, ("add_", (Ref(name="v1"), 1.0), "float32", (6,)), outputs=(Ref(name="v0"),))


def test_windows_over_a_single_image_are_windows_over_a_batch_of_one():
    (root,) = graph(("max_pool1d", (X, (3,), (2,), (1,)), "float32", (6, 4))).outputs
    assert [root.op, root.args[0].op, len(root.args[0].shape)] == ["reshape", "pool", 3]


@pytest.mark.parametrize(("by", "before"), [(3, "add"), (-3, "leaf"), (Y, "leaf")])
def test_whole_numbers_are_rounded_down_whatever_divides_them(by, before):
    (root,) = graph(("floor_divide", (X, by), "int64", (6, 8)), dtype="int64").outputs
    assert root.op == "cast"
    assert root.args[0].args[0].args[0].op == before


@pytest.mark.parametrize(("threshold", "op"), [(20.0, "add"), (0.5, "select")])
def test_a_low_threshold_of_softplus_counts(threshold, op):
    assert graph(("softplus", (X, 1.0, threshold), "float32", (6, 8))).outputs[0].op == op


@pytest.mark.parametrize(
    ("step", "gap"),
    [
        (("bitwise_and", (X, Y), "int64", (6, 8)), "bits"), (("diag", (X,), "int64", (6,)), "diagonal"),
        (("cross_entropy_loss", (X, Y, None, 1, 0), "float32", ()), "does not count"),
    ],
)  # fmt: skip
def test_what_would_be_something_else_is_said(step, gap):
    with pytest.raises(NoSketch, match=gap):
        graph(step, dtype="int64")


def test_an_output_that_another_one_needs_is_computed_once():
    found = graph(
        ("exp", (X,), "float32", (6, 8)), ("mul", (Ref(name="v0"), Y), "float32", (6, 8)), outputs=(Ref(name="v1"), Ref(name="v0"))
    )
    stages = plan(found, ("product", "power"), "all", lambda form: None).stages
    assert [stage.out.name for stage in stages] == ["power", "product"]
    assert {n.name for n in walk(stages[1].form.root) if n.op == "leaf"} == {"power", "in_y"}


def test_extents_an_operator_knows_are_not_guessed_again():
    long, short = Varied(at=(224.0, 28.0, 56.0, 29.0)), Varied(at=(55.0, 6.0, 13.0, 6.0))
    arguments = (Argument(name="x", shape=(2, 3, long), dtype="float32"), Argument(name="y", shape=(4, 3, 11), dtype="float32"))
    listed = [("conv1d", (X, Y, None, (4,), (2,)), (2, 4, short)), ("reshape", (Ref(name="v0"), (8, short)), (8, short))]
    steps = tuple(
        Step(name=f"v{i}", op=f"aten.{op}.default", args=args, shapes=(made,), dtypes=("float32",))
        for i, (op, args, made) in enumerate(listed)
    )
    (root,) = graph_of(Program(arguments=arguments, steps=steps, outputs=(Ref(name="v1"),), sizes=4)).outputs
    assert root.shape[1] is root.args[0].shape[2]
