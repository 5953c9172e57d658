"""References evaluated on boxes of their outputs agree with references that are run whole, within bounded memory."""

import subprocess
import sys
import textwrap
from random import Random

import numpy as np
import pytest
import torch
from sampling import one_in

from evokernel.core.errors import UserError
from evokernel.reference.float64_reference import run_in_float64
from evokernel.reference.module import Reference
from evokernel.reference.region_boxes import make_full_box, measure_box, to_slices
from evokernel.reference.region_draws import draw_floats
from evokernel.reference.region_graph import RegionError
from evokernel.reference.region_inputs import MAX_PARAMETER_BYTES
from evokernel.reference.regions import RegionReference
from evokernel.suites.loader import describe_task, find_task_files

MODEL = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\nclass Model(nn.Module):\n    def forward(self, *args):\n"
OWN_TOLERANCES = {torch.float32: 1e-3, torch.bfloat16: 4e-2, torch.float16: 5e-3}
SMALL_LIMIT = 1 << 16
"""A memory limit that forces chunks at small sizes."""


def make_reference(formula, *inputs):
    names = ", ".join("xyzw"[: len(inputs)])
    body = f"        {names}, = args\n        return {formula}\ndef get_inputs():\n    return [{', '.join(inputs)}]\n"
    return Reference(MODEL + body, "formula.py")


def choose_boxes(shape, random, count):
    """Corners first, then random boxes."""
    yield tuple((0, min(size, random.choice([1, 3, 7]))) for size in shape)
    yield tuple((max(0, size - random.choice([1, 3, 7])), size) for size in shape)
    for _ in range(count):
        starts = [random.randrange(size) for size in shape]
        yield tuple((start, min(size, start + random.choice([1, 2, 5, 17]))) for start, size in zip(starts, shape))


def fill_sample(regions, arguments):
    """A sample of the reference with these values for its arguments."""
    sample = regions.reference.sample(regions.seed)
    with torch.no_grad():
        for (_, tensor), value in zip((*sample.inputs, *sample.params), arguments, strict=True):
            tensor.data = value.clone()
    return sample


def draw_all(regions):
    """All arguments; boxes that are read later are drawn anew."""
    values = [regions.read_argument(index, make_full_box(one.shape)).own for index, one in enumerate(regions.arguments)]
    regions.drawn.clear()
    return values


def check_boxes(regions, count=3):
    """Compare boxes with the whole reference, in its own precision and in float64."""
    sample = fill_sample(regions, draw_all(regions))
    outputs = regions.reference.run(sample)
    wide_outputs = run_in_float64(regions.reference, sample, outputs)
    assert [(one.name, one.shape) for one in regions.outputs] == [(name, tuple(tensor.shape)) for name, tensor in outputs]
    for number, (_, output) in enumerate(outputs):
        for box in choose_boxes(output.shape, Random(regions.reference.name), count):
            own, wide = regions.compute(number, box)
            assert own.dtype == output.dtype
            assert own.shape == measure_box(box)
            compare(own, output[to_slices(box)], OWN_TOLERANCES.get(output.dtype, 1e-9), output)
            if wide_outputs is not None:
                expected = wide_outputs.outputs[number].tensor
                compare(wide, expected[to_slices(box)], 1e-9, expected)


def compare(values, expected, tolerance, output):
    scale = float(output.double().nan_to_num(0, 0, 0).abs().max())
    torch.testing.assert_close(values.double(), expected.double(), rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def check_needed(regions, other):
    """Other values outside the needed boxes do not change the box."""
    values = draw_all(regions)
    outputs = regions.reference.run(fill_sample(regions, values))
    for number, (_, output) in enumerate(outputs):
        box = list(choose_boxes(output.shape, Random(regions.reference.name), 1))[-1]
        needed = regions.find_needed(number, box)
        mixed = draw_all(other)
        for argument, boxes in needed.items():
            for one in boxes:
                mixed[argument] = mixed[argument].clone()
                mixed[argument][to_slices(one)] = values[argument][to_slices(one)]
        changed_output = regions.reference.run(fill_sample(regions, mixed))[number].tensor
        compare(changed_output[to_slices(box)], output[to_slices(box)], 1e-5, output)


def check_draws(regions):
    """Overlapping boxes have equal elements."""
    for index, argument in enumerate(regions.arguments):
        boxes = list(choose_boxes(argument.shape, Random(1), 2))
        whole = regions.draw(index, make_full_box(argument.shape))
        assert whole.shape == argument.shape
        for box in boxes:
            regions.drawn.clear()  # drawn anew, not cut out of the whole tensor
            np.testing.assert_array_equal(regions.draw(index, box), whole[to_slices(box)])


@pytest.mark.parametrize("file", one_in(16, find_task_files("starter,level1,level2,level3,attention,mhc"), lambda file: file.id))
def test_boxes_of_shipped_tasks_equal_the_whole_reference(file):
    task = describe_task(file)
    reference = Reference(task.source, task.id, task.sizes["small"])
    regions = RegionReference(reference, 7)
    assert regions.unsupported_reason == ""
    assert [one.name for one in regions.arguments] == [one.name for one in (*task.signature.inputs, *task.signature.params)]
    check_boxes(regions)
    check_draws(regions)
    check_needed(regions, RegionReference(reference, 8))
    chunked = RegionReference(reference, 7, max_bytes=1 << 22)
    if not chunked.unsupported_reason:
        check_boxes(chunked, count=1)


FORMULAS = [
    ("torch.roll(x, (3, -2), (0, 1))", "torch.randn(9, 11)"),
    ("x.flip(1)[::2, 1:]", "torch.randn(9, 11)"),
    ("F.pad(x, (2, 1, 0, 3), value=2.0)", "torch.randn(9, 11)"),
    ("x.repeat(2, 3)", "torch.randn(5, 7)"),
    ("x.unfold(1, 4, 2)", "torch.randn(5, 17)"),
    ("x.view(4, 6, 35).transpose(0, 1).reshape(24 * 5, 7)", "torch.randn(24, 35)"),
    ("x.view(6, 4, 35).flatten()", "torch.randn(24, 35)"),
    ("torch.cat([x, y, x], 1)", "torch.randn(4, 5)", "torch.randn(4, 3)"),
    ("torch.stack([x, y], 1).unbind(2)[1]", "torch.randn(4, 5)", "torch.randn(4, 5)"),
    ("torch.tril(x, 1) + torch.triu(x, -2) + torch.eye(12)", "torch.randn(12, 12)"),
    ("x.diagonal(1)", "torch.randn(12, 12)"),
    ("x[y] + x[-y - 1]", "torch.randn(40, 6)", "torch.randint(0, 40, (7, 3))"),
    ("x[y, z]", "torch.randn(12, 13)", "torch.randint(0, 12, (7, 3))", "torch.randint(0, 13, (3,))"),
    ("x.gather(1, y)", "torch.randn(12, 13)", "torch.randint(0, 13, (12, 5))"),
    ("x.scatter_add(1, y, z)", "torch.randn(12, 13)", "torch.randint(0, 13, (10, 5))", "torch.randn(10, 5)"),
    ("x.index_fill(0, torch.arange(3), 1.0)", "torch.randn(12, 13)"),
    ("x.cumsum(1).cumprod(0)", "torch.randn(12, 13)"),
    ("x.sort(1, descending=True)", "torch.randn(12, 13)"),
    ("(x.max(), x.min(1), x.argmax(), x.amax((0, 2)), x.prod(1))", "torch.randn(12, 13, 40)"),
    ("(x.norm(), x.norm(dim=1), x.norm(p=1), x.norm(p=float('inf'), dim=0), x.norm(p=3))", "torch.randn(12, 130)"),
    ("(x.mean(), x.var(0), x.std(dim=(0, 2), keepdim=True), x.logsumexp(1))", "torch.rand(12, 13, 40) + 100"),
    ("torch.softmax(x, 1) @ torch.log_softmax(y, 0)", "torch.randn(20, 3000)", "torch.randn(3000, 20)"),
    ("F.cross_entropy(x, y)", "torch.randn(200, 50)", "torch.randint(0, 50, (200,))"),
    ("F.batch_norm(x, None, None, training=True)", "torch.randn(8, 6, 20, 20)"),
    ("F.group_norm(x, 3)", "torch.randn(8, 6, 20, 20)"),
    (
        "F.conv2d(x, y, z, stride=(2, 1), padding=(3, 1), dilation=(1, 2), groups=2)",
        "torch.randn(3, 4, 17, 19)",
        "torch.randn(6, 2, 3, 3)",
        "torch.randn(6)",
    ),
    ("F.conv1d(x, y, groups=4)", "torch.randn(3, 4, 17)", "torch.randn(4, 1, 3)"),
    (
        "F.conv_transpose2d(x, y, z, stride=(3, 2), padding=1, output_padding=1, dilation=(1, 2), groups=2)",
        "torch.randn(3, 4, 7, 9)",
        "torch.randn(4, 3, 3, 2)",
        "torch.randn(6)",
    ),
    ("F.conv_transpose3d(x, y, stride=4)", "torch.randn(2, 3, 4, 5, 3)", "torch.randn(3, 2, 2, 3, 2)"),
    ("F.max_pool2d(x, 3, stride=2, padding=1, dilation=2, ceil_mode=True)", "torch.randn(2, 3, 17, 18)"),
    ("F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)", "torch.randn(2, 3, 17, 18)"),
    ("F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)", "torch.randn(2, 3, 17, 18)"),
    ("F.avg_pool3d(x, 2, divisor_override=3)", "torch.randn(2, 3, 7, 8, 6)"),
    ("F.adaptive_avg_pool2d(x, (3, 5))", "torch.randn(2, 3, 17, 18)"),
    ("F.interpolate(x, scale_factor=2, mode='bilinear')", "torch.randn(2, 3, 7, 8)"),
    ("F.scaled_dot_product_attention(x, y, z, is_causal=True)", *["torch.randn(2, 3, 40, 8)"] * 3),
    ("torch.einsum('bij,bkj,k->bik', x, y, z)", "torch.randn(3, 5, 40)", "torch.randn(3, 6, 40)", "torch.randn(6)"),
    ("x.bfloat16() @ y.bfloat16()", "torch.randn(20, 3000)", "torch.randn(3000, 20)"),
]


@pytest.mark.parametrize("case", FORMULAS, ids=lambda case: case[0])
@pytest.mark.parametrize("limit", [1 << 30, SMALL_LIMIT], ids=["plain", "chunked"])
def test_boxes_of_operators_equal_the_whole_operator(case, limit):
    reference = make_reference(*case)
    regions = RegionReference(reference, 3, max_bytes=limit)
    if limit == SMALL_LIMIT and regions.unsupported_reason:
        assert "GiB at once" in regions.unsupported_reason
        return
    assert regions.unsupported_reason == ""
    check_boxes(regions)
    check_needed(regions, RegionReference(reference, 4, max_bytes=limit))


def test_long_reductions_are_chunked():
    regions = RegionReference(make_reference("x.sum()", "torch.randn(300, 400)"), 3, max_bytes=1 << 20)
    largest = []
    read = regions.inputs.draw
    regions.inputs.draw = lambda index, box: largest.append(np.prod(measure_box(box))) or read(index, box)
    regions.compute(0, ())
    assert sum(largest) == 300 * 400
    assert max(largest) * 12 <= (1 << 20) / 16


LOGSUMEXP = "torch.logsumexp(x @ y, 1)", "torch.randn(96, 64)", "torch.randn(64, 3000) / 8"
CHUNKED_LIMIT = 1 << 20
"""A memory limit that forces chunks of rows with 3000 elements, a few of which fit into the cache."""


def compute_tiles(case, tiles, limit, in_advance):
    """Boxes of one output, and how many elements of the second argument were read in advance and in all."""
    regions = RegionReference(make_reference(*case), 3, max_bytes=limit)
    assert regions.unsupported_reason == ""
    read, sizes = regions.evaluator.read_argument, []
    regions.evaluator.read_argument = lambda index, box: sizes.append(np.prod(measure_box(box)) * (index == 1)) or read(index, box)
    if in_advance:
        regions.compute_shared([(0, tile) for tile in tiles])
    early_reads = sum(sizes)
    return [regions.compute(0, tile) for tile in tiles], early_reads, sum(sizes)


@pytest.fixture
def small_products(monkeypatch):
    monkeypatch.setattr("evokernel.reference.region_products.MIN_SECOND_ELEMENTS", 1 << 12)


@pytest.mark.usefixtures("small_products")
@pytest.mark.parametrize(
    ("case", "tiles"),
    [
        (LOGSUMEXP, [((3, 4),), ((2, 4),)]),
        (("torch.softmax(x @ y, 1).bfloat16()", *LOGSUMEXP[1:]), [((3, 4), (0, 9)), ((60, 61), (2000, 2500))]),
        ((LOGSUMEXP[0], "torch.randn(64, 64).bfloat16()", "torch.randn(64, 4000).bfloat16() / 8"), [((3, 4),), ((7, 9),)]),
        (("F.linear(x, y, z).norm(dim=1)", "torch.randn(64, 64)", "torch.randn(3000, 64)", "torch.randn(3000)"), [((3, 4),), ((7, 8),)]),
        (("(F.gelu(x @ y) @ z).amax(1)", *LOGSUMEXP[1:], "torch.randn(3000, 20)"), [((3, 4),), ((7, 9),)]),
        (("torch.bmm(x, y).amax(2)", "torch.randn(2, 9, 64)", "torch.randn(2, 64, 3000)"), [((1, 2), (0, 1)), ((1, 2), (3, 5))]),
    ],
    ids=["logsumexp", "softmax", "bfloat16", "linear", "two products", "batch"],
)
@pytest.mark.parametrize("limit", [1 << 30, CHUNKED_LIMIT], ids=["plain", "chunked"])
def test_rows_computed_together_equal_rows_computed_alone(case, tiles, limit):
    together, early_reads, all_reads = compute_tiles(case, tiles, limit, in_advance=True)
    alone, _, single_reads = compute_tiles(case, tiles, limit, in_advance=False)
    assert 0 < early_reads <= all_reads < single_reads
    for (own, wide), (single_own, single_wide) in zip(together, alone, strict=True):
        torch.testing.assert_close(own, single_own, rtol=OWN_TOLERANCES[own.dtype], atol=1e-5)
        torch.testing.assert_close(wide, single_wide, rtol=1e-12, atol=0)


@pytest.mark.usefixtures("small_products")
@pytest.mark.parametrize("limit", [1 << 30, CHUNKED_LIMIT], ids=["plain", "chunked"])
def test_second_operand_of_several_rows_is_read_once(limit):
    _, early_reads, all_reads = compute_tiles(LOGSUMEXP, [((row, row + 1),) for row in (3, 8, 5)], limit, in_advance=True)
    assert early_reads == all_reads == 64 * 3000


@pytest.mark.usefixtures("small_products")
@pytest.mark.parametrize(
    ("formula", "tiles"),
    [
        (LOGSUMEXP[0], [((3, 4),)]),
        (LOGSUMEXP[0], [((3, 4),), ((3, 4),)]),
        ("x @ y", [((3, 4), (0, 1500)), ((5, 6), (1500, 3000))]),
        ("x @ y", [((3, 4), (0, 60)), ((5, 6), (0, 60))]),
        ("torch.softmax(x @ x.T, 0) @ x @ y", [((3, 4), (0, 3000)), ((5, 6), (0, 3000))]),
    ],
    ids=["one tile", "one row", "other columns", "few columns", "slow rows"],
)
def test_nothing_is_computed_in_advance_unless_rows_share_a_large_operand(formula, tiles):
    _, early_reads, all_reads = compute_tiles((formula, *LOGSUMEXP[1:]), tiles, 1 << 30, in_advance=True)
    assert early_reads == 0 < all_reads


@pytest.mark.usefixtures("small_products")
def test_long_references_are_not_searched_for_products(monkeypatch):
    monkeypatch.setattr("evokernel.reference.region_products.MAX_NODES", 2)
    _, early_reads, all_reads = compute_tiles(LOGSUMEXP, [((row, row + 1),) for row in (3, 8)], 1 << 30, in_advance=True)
    assert early_reads == 0 < all_reads


@pytest.mark.usefixtures("small_products")
def test_rows_that_are_cached_are_not_computed_in_advance_again():
    regions = RegionReference(make_reference(*LOGSUMEXP), 3)
    tiles = [(0, ((row, row + 1),)) for row in (3, 8)]
    regions.compute_shared(tiles)
    cached = list(regions.evaluator.cache)
    regions.evaluator.read_argument = None
    regions.compute_shared(tiles)
    assert list(regions.evaluator.cache) == cached
    assert len(cached) == 2


def test_inputs_keep_their_structure():
    formula = "x.sum() + y.sum() + z.sum() + w.sum()"
    inputs = "torch.tril(torch.rand(30, 30))", "torch.softmax(torch.randn(7, 50), 1)", "torch.randint(3, 9, (40,))", "torch.rand(20) < 0.3"
    regions = RegionReference(make_reference(formula, *inputs), 3)
    triangle, probabilities, integers, mask = draw_all(regions)
    assert torch.equal(triangle, triangle.tril())
    torch.testing.assert_close(probabilities.sum(1), torch.ones(7))
    assert set(integers.tolist()) == set(range(3, 9))
    assert mask.dtype == torch.bool
    assert 0 < mask.sum() < 20
    check_draws(regions)


def test_box_inside_the_latest_draws_is_not_drawn_again(monkeypatch):
    regions = RegionReference(make_reference("x.sum(1) + y.sum(1)", "torch.randn(64, 512)", "torch.randn(64, 512)"), 1)
    draws = []
    draw = regions.inputs.draw
    monkeypatch.setattr(regions.inputs, "draw", lambda index, box: draws.append(index) or draw(index, box))
    whole = regions.draw(0, ((3, 5), (0, 512)))
    regions.draw(1, ((3, 5), (0, 512)))
    regions.compute(0, ((3, 5),))
    np.testing.assert_array_equal(regions.draw(0, ((4, 5), (7, 9))), whole[1:, 7:9])
    assert draws == [0, 1]
    monkeypatch.setattr("evokernel.reference.regions.MAX_DRAWN_BYTES", 0)
    np.testing.assert_array_equal(regions.draw(0, ((3, 6), (0, 512)))[:2], whole)
    assert not regions.drawn
    assert draws == [0, 1, 0]


def test_seeds_and_arguments_draw_other_values():
    reference = make_reference("x + y", "torch.randn(50, 60)", "torch.randn(50, 60)")
    first, second = RegionReference(reference, 1), RegionReference(reference, 2)
    box = make_full_box((50, 60))
    draws = [first.draw(0, box), first.draw(1, box), second.draw(0, box)]
    assert all(abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.1 for i, a in enumerate(draws) for b in draws[:i])
    np.testing.assert_array_equal(draws[0], RegionReference(reference, 1).draw(0, box))


@pytest.mark.parametrize(("is_normal", "moments"), [(True, (0.0, 1.0, 3.0)), (False, (0.5, 1 / 12**0.5, 1.8))])
def test_draws_have_the_moments_of_their_distribution(is_normal, moments):
    values = draw_floats((1000, 1000), make_full_box((1000, 1000)), 5, is_normal).double()
    deviations = values - values.mean()
    kurtosis = (deviations**4).mean() / values.var() ** 2
    np.testing.assert_allclose([values.mean(), values.std(), kurtosis], moments, atol=0.01)
    assert abs((deviations[:, 1:] * deviations[:, :-1]).mean()) < 0.005
    assert abs((deviations[1:] * deviations[:-1]).mean()) < 0.005


def test_indices_above_32_bits_differ():
    shape = (3, 1 << 31)
    rows = [draw_floats(shape, ((row, row + 1), (5, 1000)), 5, True) for row in range(3)]
    assert not torch.equal(rows[0], rows[2])
    edge = draw_floats((1 << 33,), (((1 << 32) - 10, (1 << 32) + 10),), 5, True)
    assert torch.equal(edge[10:], draw_floats((1 << 33,), ((1 << 32, (1 << 32) + 10),), 5, True))


@pytest.mark.parametrize(
    ("kind", "is_extreme", "ratio"), [("wide", True, 32), ("wide", False, 4), ("tiny", True, 2**-9), ("normal", True, 1)]
)
def test_kinds_change_free_inputs_only(kind, is_extreme, ratio):
    reference = make_reference("x * y", "torch.randn(100, 100) * 3", "torch.tril(torch.rand(100, 100))")
    own, other = RegionReference(reference, 1), RegionReference(reference, 1, kind, is_extreme=is_extreme)
    box = make_full_box((100, 100))
    assert other.draw(0, box).std() == pytest.approx(ratio * own.draw(0, box).std(), rel=0.05)
    assert not np.array_equal(other.draw(0, box), own.draw(0, box))
    np.testing.assert_array_equal(other.draw(1, box), own.draw(1, box))


def test_kind_without_free_inputs_is_unsupported():
    regions = RegionReference(make_reference("x", "torch.tril(torch.rand(10, 10))"), 1, "wide")
    assert regions.unsupported_reason == "no input can be drawn as 'wide'"
    unknown = RegionReference(make_reference("x", "torch.rand(10, 10)"), 1, "odd")
    assert "kinds: own, normal" in unknown.unsupported_reason


def test_inputs_of_literal_numbers_are_held_whole():
    regions = RegionReference(make_reference("x * y", "torch.randn(3)", "torch.tensor([1.0, 2.0, 5.0])"), 1)
    assert regions.unsupported_reason == ""
    assert regions.draw(1, ((1, 3),)).tolist() == [2.0, 5.0]


def test_bfloat16_is_drawn_as_bits():
    regions = RegionReference(make_reference("x", "torch.randn(3, dtype=torch.bfloat16)"), 1)
    assert regions.draw(0, ((0, 3),)).dtype == np.uint16
    assert regions.arguments[0].dtype == "bfloat16"


@pytest.mark.parametrize(
    ("formula", "shape", "reason"),
    [
        ("x.sort(1)", "4, 1 << 30", "aten.sort"),
        ("torch.linalg.qr(x)[0]", "30000, 30000", "aten.linalg_qr"),
        ("x + torch.rand_like(x)", "4, 4", "random numbers"),
    ],
)
def test_unsupported_reason_names_the_operator(formula, shape, reason):
    regions = RegionReference(make_reference(formula, f"torch.randn({shape})"), 1, max_bytes=1 << 28)
    assert reason in regions.unsupported_reason
    with pytest.raises(RegionError, match="cannot be evaluated"):
        regions.compute(0, ((0, 1), (0, 1)))


def test_unreadable_reference_is_a_user_error():
    with pytest.raises(UserError):
        Reference("def get_inputs(): return []", "task.py")


LARGE = [
    ("torch.relu(x)", "4096, 393216", "((4000, 4096), (393000, 393216))"),
    ("x @ x.T", "8192, 4096", "((0, 128), (8064, 8192))"),
    ("torch.softmax(x, 1)", "4096, 393216", "((10, 26), (1000, 1064))"),
    ("x.mean((1, 2))", "4, 8192, 8192", "((1, 2),)"),
    ("F.conv2d(x, x[:64, :, :3, :3], padding=1)", "128, 64, 512, 512", "((5, 6), (0, 64), (480, 512), (0, 64))"),
    ("F.scaled_dot_product_attention(x, x, x)", "1, 32, 8192, 128", "((0, 1), (3, 4), (8064, 8192), (0, 128))"),
]


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize(("formula", "shape", "box"), one_in(2, LARGE, lambda case: case[0]))
def test_memory_is_bounded_at_full_size(formula, shape, box):
    body = f"        x, = args\n        return {formula}\ndef get_inputs():\n    return [torch.randn({shape})]\n"
    program = f"""
        import resource
        from evokernel.reference.module import Reference
        from evokernel.reference.regions import RegionReference
        regions = RegionReference(Reference({MODEL + body!r}), 1, max_bytes=1 << 28)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        own, wide = regions.compute(0, {box})
        assert (own.double() - wide).abs().max() < 1e-3
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert int(result.stdout) < (1 << 18) * 3 // 2


@pytest.mark.parametrize("name", ["linear_min_subtract", "linear_sigmoid_sum"])
def test_parameters_of_the_largest_layers_can_be_drawn(name):
    (file,) = find_task_files(f"level2/{name}")
    size = sum(tensor.nbytes for tensor in describe_task(file, "full").signature.params)
    assert 1 << 30 < size <= MAX_PARAMETER_BYTES
