"""The cpp backend's cards and rules: they parse, compile, may be submitted, compute what they say, and are as exact as they claim."""

from __future__ import annotations

import ctypes
import math
import re
import subprocess
from collections import Counter
from pathlib import Path

import card_kernels
import numpy as np
import pytest
import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evokernel.backends.cpp.abi import harness_header
from evokernel.backends.cpp.build import FLAGS
from evokernel.backends.native.toolchain import find_compiler
from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.records import Candidate, ScalarArgument, Signature, Task, Tensor, Work
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.verifier.reasons import REASONS

HERE = plugin_folder("backend", "cpp")
CARDS = {item.id.removeprefix("cpp/"): item for item in load_seed_cards("cpp")}
BLOCKS = {name: re.findall(r"^```cpp\n(.*?)^```", item.text, re.DOTALL | re.MULTILINE) for name, item in CARDS.items()}
KERNELS = sorted(name for name, blocks in BLOCKS.items() if any('extern "C" void kernel' in block for block in blocks))
MAP = "static void {0}_all(const float* x, float* y, int64_t n) {{ for (int64_t i = 0; i < n; ++i) y[i] = {1}; }}"
MAPS = {
    "exp": "fast_exp::fast_exp(x[i])",
    "exp_short": "fast_tanh::fast_exp(x[i])",
    "tanh": "fast_tanh::fast_tanh(x[i])",
    "tanh_near_zero": "fast_tanh::tanh_near_zero(x[i])",
    "sigmoid": "fast_tanh::sigmoid(x[i])",
    "erf": "fast_erf::fast_erf(x[i])",
    "gelu": "fast_erf::gelu(x[i])",
    "mish": "activation_identities::mish_of(x[i], std::exp(std::min(x[i], 20.0f)))",
    "gelu_tanh": "activation_identities::gelu_tanh_of(x[i], std::exp(activation_identities::gelu_tanh_argument(x[i])))",
    "softplus": "activation_identities::softplus(x[i])",
    "elu": "activation_identities::elu_of(x[i], std::exp(activation_identities::negative(x[i])), 1.0f)",
    "bf16": "half_precision::bf16_to_float(half_precision::float_to_bf16(x[i]))",
    "fp16": "half_precision::fp16_to_float(half_precision::float_to_fp16(x[i]))",
}
PROBES = [
    "void probe_softsign(const float* x, float* y, int64_t n) { ragged_tails::softsign(x, y, n); }",
    "void probe_leaky(const float* x, float* y, int64_t n) { vectoriser_blockers::leaky_relu(x, y, n, 0.1f); }",
    "void probe_clamp(const float* x, float* y, int64_t n) { vectoriser_blockers::clamp_all(x, y, n, -1.5f, 2.0f); }",
    "void probe_scan_dot(const float* x, float* y, int64_t n) { *y = several_accumulators::dot(x, x, n); }",
    "void probe_sum(const float* x, float* y, int64_t n) { *y = (float)float_sums::sum_blocked(x, n); }",
    "void probe_sum_fixed(const float* x, float* y, int64_t n) { *y = omp_reduction::sum_in_fixed_order(x, n); }",
    "void probe_moments(const float* x, float* y, int64_t n) { auto m = welford_blocks::moments(x, n); *y = (float)(m.m2 / m.count); }",
    "void probe_halves(float* y) { for (int64_t i = 0; i < 65536; ++i) y[i] = half_precision::fp16_to_float((uint16_t)i); }",
    "int64_t probe_floor_div(int64_t a, int64_t b) { return dtypes::floor_div(a, b) * 1000 + dtypes::floor_mod(a, b); }",
    "void probe_ikj(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) "
    "{ loop_order::matmul_ikj(a, b, c, m, n, k); }",
    "int64_t probe_block(const float* a, const float* b, float* c, int64_t k) { namespace r = register_blocking; "
    "r::block(k, a, k, b, r::NR, c, r::NR); return r::NR; }",
    "void probe_columns(const float* x, float* y, int64_t c, int64_t h, int64_t w, int64_t q, int64_t count) "
    "{ im2col::columns_of(x, y, c, h, w, 3, 3, q, 2, 1, 0, count); }",
]


def identifier(card: str) -> str:
    return card.replace("-", "_")


def all_blocks_as_one_file() -> str:
    """Every block in a namespace of its own, every kernel under a name of its own, so that one compilation serves all."""
    includes: set[str] = set()
    parts = []
    for card, blocks in BLOCKS.items():
        text = "\n".join(blocks)
        includes |= set(re.findall(r"^#include .*$", text, re.MULTILINE))
        text = re.sub(r"^#include .*$", "", text, flags=re.MULTILINE)
        parts.append(f"#define kernel kernel_{identifier(card)}\nnamespace {identifier(card)} {{\n{text}\n}}\n#undef kernel\n")
    maps = [
        MAP.format(name, call) + f" void map_{name}(const float* x, float* y, int64_t n) {{ {name}_all(x, y, n); }}"
        for name, call in MAPS.items()
    ]
    header = harness_header(Signature(inputs=(), outputs=())).partition('extern "C"')[0]
    return "\n".join([header, *sorted(includes), *parts, 'extern "C" {', *PROBES, *maps, "}"])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = find_compiler("")
    if compiler is None:
        pytest.skip("no C++ compiler")
    place = tmp_path_factory.mktemp("cards")
    (place / "cards.cpp").write_text(all_blocks_as_one_file())
    flags = ["-std=c++17", "-O2", "-march=native", "-fopenmp", "-fPIC", "-shared", "-w"]
    done = subprocess.run([compiler, *flags, "cards.cpp", "-o", "cards.so", "-lm"], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    return ctypes.CDLL(str(place / "cards.so"))


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def apply_function(library: ctypes.CDLL, name: str, x: np.ndarray) -> np.ndarray:
    x = np.ascontiguousarray(x, dtype=np.float32)
    y = np.full_like(x, np.nan)
    getattr(library, name)(pointer(x), pointer(y), ctypes.c_int64(x.size))
    return y


def make_task() -> Task:
    tensor = Tensor(name="x", dtype="float32", shape=(4, 8))
    signature = Signature(
        inputs=(tensor,),
        params=(tensor.model_copy(update={"name": "weight"}),),
        scalars=(ScalarArgument(name="eps", kind="float", value=1e-5),),
        outputs=(tensor.model_copy(update={"name": "out"}),),
    )
    return Task(id="t/t", family="elementwise", source="", signature=signature, work=Work(flops=1, bytes=1), sizes={"bench": {}})


def test_there_are_enough_api_and_practice_cards() -> None:
    kinds = Counter(item.kind for item in CARDS.values())
    assert kinds["api"] >= 12
    assert kinds["practice"] >= 15
    assert kinds.total() >= 30
    assert set(kinds) == {"api", "practice"}


def test_every_bottleneck_has_a_practice_card() -> None:
    answered = Counter(item.bottleneck for item in CARDS.values() if item.kind == "practice")
    assert set(answered) <= {"memory", "compute", "latency", "overhead", ""}
    assert min(answered[name] for name in ("memory", "compute", "latency", "overhead")) >= 2


@pytest.mark.parametrize("card", sorted(name for name, blocks in BLOCKS.items() if blocks))
def test_card_code_passes_the_screen(card: str) -> None:
    candidate = Candidate(backend="cpp", files={"kernel.cpp": BLOCKS[card][0]})
    assert list(make_plugin("backend", "cpp").screen(make_task(), candidate, Path())) == []


def test_every_complete_kernel_of_a_card_is_checked() -> None:
    assert sorted(card_kernels.CASES) == KERNELS


@pytest.mark.parametrize("size", card_kernels.SIZES, ids=str)
@pytest.mark.parametrize("card", KERNELS)
def test_card_kernel_computes_its_operator(library: ctypes.CDLL, card: str, size: tuple[int, int, int]) -> None:
    torch.manual_seed(sum(size))
    inputs, scalars, expected = card_kernels.CASES[card](*size)
    outputs = [np.full(tuple(e.shape), -77, dtype=e.numpy().dtype) for e in expected]
    arguments: list[object] = []
    keep = [tensor.contiguous().numpy() for tensor in inputs]
    for array in keep:
        arguments += [pointer(array), (ctypes.c_int64 * max(1, array.ndim))(*array.shape)]
    kinds = {bool: ctypes.c_bool, int: ctypes.c_int64, float: ctypes.c_double}
    arguments += [kinds[type(value)](value) for value in scalars]
    for array in outputs:
        arguments += [pointer(array), (ctypes.c_int64 * max(1, array.ndim))(*array.shape)]
    getattr(library, f"kernel_{identifier(card)}")(*arguments)
    for got, want in zip(outputs, expected, strict=True):
        if want.dtype.is_floating_point:
            reference = want.double().numpy()
            allowed = 1e-4 * np.sqrt(np.mean(reference**2)) + 1e-4 * np.abs(reference)
            assert np.all(np.abs(got - reference) <= allowed)
        else:
            assert np.array_equal(got, want.numpy())


@pytest.mark.parametrize("name", ["map_exp", "map_exp_short"])
def test_fast_exp_meets_its_claimed_error(library: ctypes.CDLL, name: str) -> None:
    x = np.linspace(-87, 87, 400_001).astype(np.float32)
    want = np.exp(x.astype(np.float64))
    assert np.max(np.abs(apply_function(library, name, x) - want) / want) < 3e-7
    edges = apply_function(library, name, np.array([-np.inf, -1e30, 1e30, np.inf, np.nan]))
    assert np.all(edges[:2] < 2e-38)
    assert np.all(edges[2:4] > 6e37)
    assert np.isnan(edges[4])


def test_tanh_and_erf_meet_their_claimed_error(library: ctypes.CDLL) -> None:
    x = np.linspace(-12, 12, 200_001).astype(np.float32)
    wide = x.astype(np.float64)
    erf = np.array([math.erf(value) for value in wide])
    assert np.max(np.abs(apply_function(library, "map_tanh", x) - np.tanh(wide))) < 5e-7
    assert np.max(np.abs(apply_function(library, "map_sigmoid", x) - 1 / (1 + np.exp(-wide)))) < 5e-7
    assert np.max(np.abs(apply_function(library, "map_erf", x) - erf)) < 1e-6
    gelu = np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in wide])
    assert np.max(np.abs(apply_function(library, "map_gelu", x) - gelu)) < 1e-5
    small = x[np.abs(x) < 0.5]
    assert np.max(np.abs(apply_function(library, "map_tanh_near_zero", small) - np.tanh(small.astype(np.float64)))) < 1e-6


def test_activation_identities_hold(library: ctypes.CDLL) -> None:
    x = torch.linspace(-30, 60, 20_001)
    for name, want in [
        ("map_mish", torch.nn.functional.mish(x)),
        ("map_gelu_tanh", torch.nn.functional.gelu(x, approximate="tanh")),
        ("map_softplus", torch.nn.functional.softplus(x)),
        ("map_elu", torch.nn.functional.elu(x)),
    ]:
        assert np.allclose(apply_function(library, name, x.numpy()), want.numpy(), rtol=1e-5, atol=1e-6), name


def test_half_precision_conversions_round_as_pytorch_does(library: ctypes.CDLL) -> None:
    patterns = torch.arange(65536, dtype=torch.int32).to(torch.uint16)
    decoded = np.empty(65536, np.float32)
    library.probe_halves(pointer(decoded))
    assert np.array_equal(decoded, patterns.view(torch.float16).float().numpy(), equal_nan=True)
    bits = torch.randint(-(2**31), 2**31 - 1, (300_000,), generator=torch.Generator().manual_seed(1), dtype=torch.int64).to(torch.int32)
    near = torch.cat([patterns.view(t).float() * (1 + s) for t in (torch.float16, torch.bfloat16) for s in (0, 2.0**-11, -(2.0**-9))])
    x = torch.cat([bits.view(torch.float32), near])
    assert np.array_equal(apply_function(library, "map_bf16", x.numpy()), x.bfloat16().float().numpy(), equal_nan=True)
    assert np.array_equal(apply_function(library, "map_fp16", x.numpy()), x.half().float().numpy(), equal_nan=True)


@pytest.mark.parametrize("n", [1, 3, 15, 16, 17, 1025, 9001])
def test_vector_fragments_are_correct(library: ctypes.CDLL, n: int) -> None:
    x = np.random.default_rng(n).normal(1.0, 3.0, n).astype(np.float32)
    wide = x.astype(np.float64)
    assert np.allclose(apply_function(library, "probe_softsign", x), wide / (1 + np.abs(wide)), atol=1e-6)
    assert np.allclose(apply_function(library, "probe_leaky", x), np.where(wide > 0, wide, 0.1 * wide), atol=1e-6)
    assert np.allclose(apply_function(library, "probe_clamp", x), np.clip(wide, -1.5, 2.0), atol=1e-6)
    for name, want in [("scan_dot", wide @ wide), ("sum", wide.sum()), ("sum_fixed", wide.sum()), ("moments", wide.var())]:
        assert apply_function(library, f"probe_{name}", x)[0] == pytest.approx(want, rel=1e-5, abs=1e-5), name


def test_matrix_fragments_are_correct(library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 13)).astype(np.float32), rng.normal(size=(13, 70)).astype(np.float32)
    c = np.full((5, 70), np.nan, np.float32)
    library.probe_ikj(pointer(a), pointer(b), pointer(c), ctypes.c_int64(5), ctypes.c_int64(70), ctypes.c_int64(13))
    assert np.allclose(c, a @ b, atol=1e-4)
    library.probe_block.restype = ctypes.c_int64
    tile = np.zeros((4, 64), np.float32)  # as wide as the widest vectors need
    panel = rng.normal(size=13 * 64).astype(np.float32)
    width = library.probe_block(pointer(a), pointer(panel), pointer(tile), ctypes.c_int64(13))
    assert np.allclose(tile.ravel()[: 4 * width].reshape(4, width), a[:4] @ panel[: 13 * width].reshape(13, width), atol=1e-4)
    image = torch.randn(1, 2, 7, 9)
    want = torch.nn.functional.unfold(image, 3, padding=1, stride=2)[0].numpy()
    columns = np.full_like(want, np.nan)
    sizes = [ctypes.c_int64(v) for v in (2, 7, 9, 5, want.shape[1])]
    library.probe_columns(pointer(image.numpy()), pointer(columns), *sizes)
    assert np.array_equal(columns, want)


@pytest.mark.parametrize(("a", "b"), [(7, 3), (-7, 3), (7, -3), (-7, -3), (6, 3), (-6, 3), (0, 5)])
def test_integer_division_floors_as_in_python(library: ctypes.CDLL, a: int, b: int) -> None:
    library.probe_floor_div.restype = ctypes.c_int64
    assert library.probe_floor_div(ctypes.c_int64(a), ctypes.c_int64(b)) == a // b * 1000 + a % b


def rules(task: Task) -> str:
    environment = Environment(loader=FileSystemLoader(str(HERE / "prompts")), undefined=StrictUndefined)
    return " ".join(
        environment.get_template("rules.md").render(task=task, entry=make_plugin("backend", "cpp").entry_point(task)).split()
    )  # wherever lines are broken


def test_rules_describe_the_backend() -> None:
    text = rules(make_task())
    assert all(flag in text for flag in FLAGS)
    included = re.findall(r"#include (<\w+>)", harness_header(make_task().signature))
    assert included
    assert all(header in text for header in included)
    assert "kernel.cpp" in text
    assert "Scalars are passed by value" in text
    assert "{{" not in text
    assert len(text) <= 4000


def test_rules_fit_the_task() -> None:
    task = make_task()
    bare = Signature(inputs=task.signature.inputs, outputs=(*task.signature.outputs, *task.signature.outputs))
    text = rules(task.model_copy(update={"signature": bare}))
    assert "Parameters and buffers" not in text
    assert "Scalars are passed" not in text
    assert "never overlap the outputs." in text


def test_explained_failures_are_reasons_of_the_verifier() -> None:
    explained = re.findall(r"^\| `(\w+)`", CARDS["what-is-checked"].text, re.MULTILINE)
    assert len(explained) >= 8
    assert set(explained) <= set(REASONS)
