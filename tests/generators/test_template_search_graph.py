"""Graphs of traced programs: numbers as expressions, stages, and fusion modes."""

import pytest

from evokernel.generators.template_search.graph import (
    Num,
    UnsupportedPattern,
    apply,
    calculate,
    make_leaf,
    permute,
    reduce,
    replace_nodes,
    reshape,
    walk,
)
from evokernel.generators.template_search.graph_reader import build_graph, read_task_graph
from evokernel.generators.template_search.sink_reshapes import matching_segments, sink_reshapes
from evokernel.generators.template_search.sizes import SizeExpressions
from evokernel.generators.template_search.stage_planner import FUSION_MODES, plan_stages
from evokernel.reference.program import Argument, Program, SizeDependent, Step, ValueRef
from evokernel.suites.loader import load_tasks

FAMILIES = {
    "argmax": ["argreduce"], "attention_head": ["attention"], "batched_matmul": ["matmul"], "conv2d": ["conv"],
    "cross_entropy": ["crossentropy"], "cumsum": ["scan"], "embedding": ["gather"], "gelu": ["map"], "layernorm": ["row"],
    "linear_gelu": ["matmul"], "matmul": ["matmul"], "max_pool": ["pool"], "rmsnorm": ["row"], "scale_shift": ["map"],
    "softmax": ["row"], "sum_rows": ["reduce"],
}  # fmt: skip


def plan_task(task, fuse):
    return plan_stages(read_task_graph(task), tuple(o.name for o in task.signature.outputs), fuse, lambda pattern: None)


def list_families(task, fuse):
    return [stage.pattern.family for stage in plan_task(task, fuse).stages]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_starter_task_has_the_expected_families(name):
    assert list_families(load_tasks(f"starter/{name}")[0], "all") == FAMILIES[name]


def test_task_name_and_family_have_no_effect():
    task = load_tasks("starter/softmax")[0]
    assert list_families(task.model_copy(update={"id": "x/matmul", "family": "convolution"}), "all") == ["row"]


def test_fusion_modes_give_different_stages():
    task = load_tasks("level2/conv2d_groupnorm_scale_maxpool_clamp")[0]
    families = {fuse: list_families(task, fuse) for fuse in FUSION_MODES}
    assert families["none"] == ["conv", "row", "map", "pool", "map"]
    assert families["all"] == ["conv", "row", "pool"]
    assert len(families["all"]) < len(families["before"]) <= len(families["none"])
    assert len(families["after"]) < len(families["none"])
    assert len(families["whole"]) <= len(families["all"])


@pytest.mark.parametrize("name", ["linear_sigmoid_linear_logsumexp", "linear_bias_hardtanh_mish_groupnorm"])
def test_stages_read_only_buffers_of_earlier_stages(name):
    task = load_tasks(f"level2/{name}")[0]
    available = {f"in_{t.name}" for t in (*task.signature.inputs, *task.signature.params)}
    for stage in plan_task(task, "none").stages:
        assert {n.name for n in walk(stage.pattern.root) if n.op == "leaf"} <= available
        available.add(stage.out.name)
    assert {o.name for o in task.signature.outputs} <= available


def make_expressions(**extents):
    arguments = tuple(
        Argument(name=name, shape=tuple(SizeDependent(values=at) for at in shape), dtype="float32") for name, shape in extents.items()
    )
    return SizeExpressions(Program(arguments=arguments, sizes=len(next(iter(extents.values()))[0])))


ROWS, COLUMNS = (24.0, 6.0, 12.0, 6.0), (40.0, 10.0, 10.0, 20.0)


@pytest.mark.parametrize(
    ("at", "op"),
    [
        (ROWS, "extent"), (tuple(r * c for r, c in zip(ROWS, COLUMNS)), "mul"), (tuple((r - 2) // 2 + 1 for r in ROWS), "floordiv"),
        (tuple(2 * r + 3 for r in ROWS), "add"), (tuple(c**-0.5 for c in COLUMNS), "rsqrt"), (tuple(1 / c for c in COLUMNS), "reciprocal"),
    ],
)  # fmt: skip
def test_numbers_become_expressions_over_extents(at, op):
    number = make_expressions(x=(ROWS, COLUMNS)).express(SizeDependent(values=at))
    assert number.op == op
    assert number.values == at


def test_number_with_unknown_dependence_on_sizes_is_refused():
    with pytest.raises(UnsupportedPattern, match="dependence on the sizes is unknown"):
        make_expressions(x=(ROWS, COLUMNS)).express(SizeDependent(values=(1.0, 7.0, 3.0, 11.0)))


def test_calculate_simplifies_literals_and_ones():
    n = Num((24.0, 6.0), "extent", name="x")
    assert calculate("mul", Num.of(1), n) is n
    assert calculate("floordiv", n, Num.of(1)) is n
    assert calculate("mul", Num.of(3), Num.of(4)) == Num.of(12)


def test_reshapes_sink_below_following_steps():
    n, c = Num((24.0, 6.0), "extent", name="x"), Num((8.0, 8.0), "extent", name="x", axis=1)
    half = calculate("floordiv", c, Num.of(2))
    x = permute(make_leaf("in_x", (c, n)), (1, 0))
    split = reshape(x, (n, Num.of(2), half))
    summed = reduce("sum", split, (1, 2), True)
    (root,), _ = sink_reshapes((summed,))
    assert [root.op, root.args[0].op] == ["reshape", "reduce"]
    assert root.args[0].args[0] == x


def test_matching_segments_cover_the_same_elements():
    a, b = Num((4.0, 6.0), "extent", name="x"), Num((6.0, 10.0), "extent", name="x", axis=1)
    ab = calculate("mul", a, b)
    assert matching_segments((a, b, Num.of(1)), (ab,)) == [([0, 1], [0]), ([2], [])]
    assert matching_segments((Num.of(1), a), (a, Num.of(1))) == [([0, 1], [0]), ([], [1])]
    assert matching_segments((a, b), (b, a)) == [([0, 1], [0, 1])]
    with pytest.raises(UnsupportedPattern):
        matching_segments((a, b), (a, a))


def make_graph(*steps, dtype="float32", shape=(6, 8), outputs=None):
    """The graph of a program with two arguments x and y; a step is an operator, its arguments, and the type and shape of its result."""
    arguments = tuple(Argument(name=name, shape=shape, dtype=dtype) for name in "xy")
    program_steps = [
        Step(name=f"v{i}", op=f"aten.{op}.default", args=args, shapes=(shape_out,), dtypes=(kind,))
        for i, (op, args, kind, shape_out) in enumerate(steps)
    ]
    outputs = outputs or (ValueRef(name=program_steps[-1].name),)
    return build_graph(Program(arguments=arguments, steps=tuple(program_steps), outputs=outputs, sizes=1))


X, Y = ValueRef(name="x"), ValueRef(name="y")


def test_numbers_with_equal_hash_are_distinguished():
    x = make_leaf("in_x", (Num.of(8),))
    doubled = apply("mul", x, 2.0)
    clipped = apply("min", apply("max", doubled, -2.0), -1.0)
    node = replace_nodes(clipped, {doubled: make_leaf("t0", x.shape)})
    assert [node.args[1].nums[0].value, node.args[0].args[1].nums[0].value] == [-1.0, -2.0]


def test_in_place_change_is_allowed_only_without_aliases():
    (root,) = make_graph(("mul", (X, 3.0), "float32", (6, 8)), ("add_", (ValueRef(name="v0"), Y), "float32", (6, 8))).outputs
    assert [root.op, root.args[0].op] == ["add", "mul"]
    first = ("mul", (X, 3.0), "float32", (6, 8))
    column = ("select", (ValueRef(name="v0"), 1, 0), "float32", (6,))
    with pytest.raises(UnsupportedPattern, match="in-place"):
        make_graph(first, column, ("add_", (ValueRef(name="v1"), 1.0), "float32", (6,)), outputs=(ValueRef(name="v0"),))


def test_pooling_without_batch_axis_is_a_batch_of_one():
    (root,) = make_graph(("max_pool1d", (X, (3,), (2,), (1,)), "float32", (6, 4))).outputs
    assert [root.op, root.args[0].op, len(root.args[0].shape)] == ["reshape", "pool", 3]


@pytest.mark.parametrize(("by", "before"), [(3, "add"), (-3, "leaf"), (Y, "leaf")])
def test_floor_division_of_integers_rounds_down(by, before):
    (root,) = make_graph(("floor_divide", (X, by), "int64", (6, 8)), dtype="int64").outputs
    assert root.op == "cast"
    assert root.args[0].args[0].args[0].op == before


@pytest.mark.parametrize(("threshold", "op"), [(20.0, "add"), (0.5, "select")])
def test_low_softplus_threshold_is_kept(threshold, op):
    assert make_graph(("softplus", (X, 1.0, threshold), "float32", (6, 8))).outputs[0].op == op


@pytest.mark.parametrize(
    ("step", "gap"),
    [
        (("bitwise_and", (X, Y), "int64", (6, 8)), "bitwise"), (("diagonal", (X, 0, 1, 0), "int64", (6,)), "diagonal"),
        (("poisson_nll_loss", (X, Y, True, True), "float32", ()), "Stirling"),
    ],
)  # fmt: skip
def test_unsupported_arguments_are_refused(step, gap):
    with pytest.raises(UnsupportedPattern, match=gap):
        make_graph(step, dtype="int64")


def test_output_used_by_another_output_is_computed_once():
    graph = make_graph(
        ("exp", (X,), "float32", (6, 8)),
        ("mul", (ValueRef(name="v0"), Y), "float32", (6, 8)),
        outputs=(ValueRef(name="v1"), ValueRef(name="v0")),
    )
    stages = plan_stages(graph, ("product", "power"), "all", lambda pattern: None).stages
    assert [stage.out.name for stage in stages] == ["power", "product"]
    assert {n.name for n in walk(stages[1].pattern.root) if n.op == "leaf"} == {"power", "in_y"}


def test_exact_extents_replace_guessed_ones():
    long, short = SizeDependent(values=(224.0, 28.0, 56.0, 29.0)), SizeDependent(values=(55.0, 6.0, 13.0, 6.0))
    arguments = (Argument(name="x", shape=(2, 3, long), dtype="float32"), Argument(name="y", shape=(4, 3, 11), dtype="float32"))
    operators = [("conv1d", (X, Y, None, (4,), (2,)), (2, 4, short)), ("reshape", (ValueRef(name="v0"), (8, short)), (8, short))]
    steps = tuple(
        Step(name=f"v{i}", op=f"aten.{op}.default", args=args, shapes=(shape_out,), dtypes=("float32",))
        for i, (op, args, shape_out) in enumerate(operators)
    )
    (root,) = build_graph(Program(arguments=arguments, steps=steps, outputs=(ValueRef(name="v1"),), sizes=4)).outputs
    assert root.shape[1] is root.args[0].shape[2]
