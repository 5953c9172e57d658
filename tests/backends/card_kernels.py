"""What the complete kernels on the cpp knowledge cards must compute: card -> (inputs, scalars, expected outputs) at a given size."""

from __future__ import annotations

import torch
import torch.nn.functional as F

SIZES = [(1, 1, 1), (3, 5, 7), (6, 37, 33), (9, 300, 19)]
Case = tuple[list[torch.Tensor], list[float], list[torch.Tensor]]


def entry_point(a: int, b: int, c: int) -> Case:
    x = torch.randn(a, b)
    return [x], [], [x * x]


def shapes_strides(a: int, b: int, c: int) -> Case:
    x, bias = torch.randn(2, a, b, c), torch.randn(a)
    return [x, bias], [], [x + bias[:, None, None]]


def scalar_arguments(a: int, b: int, c: int) -> Case:
    x = torch.randn(a, b)
    return [x], [0.1, True], [F.leaky_relu(-x, 0.1)]


def several_outputs(a: int, b: int, c: int) -> Case:
    x = torch.randn(a, b)
    return [x], [], [x.amin(1), x.amax(1)]


def reduction_outputs(a: int, b: int, c: int) -> Case:
    x = torch.randn(a, b, c)
    return [x], [], [x.sum(1)]


def omp_parallel_for(a: int, b: int, c: int) -> Case:
    x = torch.randn(a, b)
    return [x], [], [x - x.mean(1, keepdim=True)]


def vector_extensions(a: int, b: int, c: int) -> Case:
    x = 2 * torch.randn(a, b)
    return [x], [], [F.hardtanh(x)]


def argmax_ties(a: int, b: int, c: int) -> Case:
    x = torch.randint(0, 4, (a, b, c)).float()  # many equal values
    return [x], [], [first_argmax(x, 1)]


def scratch_memory(a: int, b: int, c: int) -> Case:
    x = torch.randn(a, b)
    return [x], [], [x.flip(-1)]


def fuse_passes(a: int, b: int, c: int) -> Case:
    x, scale, shift = 3 * torch.randn(a, b), torch.randn(b), torch.randn(b)
    return [x, scale, shift], [], [F.hardswish(x * scale + shift)]


def cache_tiling(a: int, b: int, c: int) -> Case:
    x = torch.randn(b, c)
    return [x], [], [x.T.contiguous()]


def pack_panels(a: int, b: int, c: int) -> Case:
    x, y = torch.randn(a, b), torch.randn(b, c)
    return [x, y], [], [x @ y]


def softmax_rows(a: int, b: int, c: int) -> Case:
    x = 30 * torch.randn(a, b)
    return [x], [], [torch.softmax(x, 1)]


def online_softmax(a: int, b: int, c: int) -> Case:
    x = 30 * torch.randn(a, 9 * b)  # more than one block of 1,024 at the largest size
    return [x], [], [torch.softmax(x, 1)]


def layernorm_two_pass(a: int, b: int, c: int) -> Case:
    x, w, bias = torch.randn(a, b) + 5, torch.randn(b), torch.randn(b)
    return [x, w, bias], [1e-5], [F.layer_norm(x, (b,), w, bias)]


def direct_convolution(a: int, b: int, c: int) -> Case:
    x, w, bias = torch.randn(2, a, 4 + c % 9, 5 + b % 30), torch.randn(a + 2, a, 3, 3), torch.randn(a + 2)
    return [x, w, bias], [1], [F.conv2d(x, w, bias, padding=1)]


def pooling_rows(a: int, b: int, c: int) -> Case:
    x = torch.randn(2, a, 4 + c, 5 + b % 40)
    return [x], [3, 2, 1], [F.max_pool2d(x, 3, 2, 1)]


def scan_chains(a: int, b: int, c: int) -> Case:
    x = torch.randn(a, b)
    return [x], [], [x.cumsum(1)]


def gather_rows(a: int, b: int, c: int) -> Case:
    table = torch.randn(b, c)
    indices = torch.randint(0, b, (a, 5))
    return [indices, table], [], [F.embedding(indices, table)]


def scatter_rows(a: int, b: int, c: int) -> Case:
    x, index, source = torch.randn(a, c), torch.randint(0, a, (b,)), torch.randn(b, c)
    return [x, index, source], [], [x.index_add(0, index, source)]


def exp_overflow(a: int, b: int, c: int) -> Case:
    x, target = 60 * torch.randn(a, b), torch.randint(0, b, (a,))
    return [x, target], [], [F.cross_entropy(x, target)]


def fused_attention(a: int, b: int, c: int) -> Case:
    q, k, v = torch.randn(a, c), torch.randn(b, c), torch.randn(b, c + 1)
    return [q, k, v], [], [torch.softmax(q @ k.T / c**0.5, 1) @ v]


def matmul_epilogue(a: int, b: int, c: int) -> Case:
    x, w, bias = torch.randn(a, b), torch.randn(c, b), torch.randn(c)
    return [x, w, bias], [], [F.relu(F.linear(x, w, bias))]


def reduce_outer_axis(a: int, b: int, c: int) -> Case:
    x = torch.randn(b, 70 * c)  # more than one strip at the larger sizes
    return [x], [], [x.sum(0)]


def argmax_in_two_steps(a: int, b: int, c: int) -> Case:
    x = torch.randint(0, 9, (a, 3 * b)).float()
    return [x], [], [first_argmax(x, 1)]


def batched_matmul(a: int, b: int, c: int) -> Case:
    x, y = torch.randn(a, b, c), torch.randn(a, c, b)
    return [x, y], [], [x @ y]


def top_k_insertion(a: int, b: int, c: int) -> Case:
    x = torch.randint(0, 4 * b, (a, b)).float()
    k = min(b, 6)
    values, order = torch.sort(x, dim=1, descending=True, stable=True)
    return [x], [k], [values[:, :k], order[:, :k]]


def resize_rows(a: int, b: int, c: int) -> Case:
    x = torch.randn(2, a, 1 + c, 1 + b % 40)
    return [x], [1 + 2 * c, 20], [F.interpolate(x, (1 + 2 * c, 20), mode="bilinear")]


def quantise_rows(a: int, b: int, c: int) -> Case:
    x = torch.randn(a + 3, b) * torch.exp2(5 * torch.randn(a + 3, 1))
    x[0], x[1], x[2] = 0.0, torch.arange(b) % 17 / 2 + 120, 127.75
    _, exponent = torch.frexp(x.abs().amax(1))
    scale = torch.ldexp(torch.ones(a + 3), exponent - 7)
    return [x], [], [torch.round(x / scale[:, None]).clamp(-127, 127).to(torch.int8), scale]


def optimiser_step(a: int, b: int, c: int) -> Case:
    weights, gradient, first = torch.randn(a, b), torch.randn(a, b), torch.randn(a, b)
    second = 0.1 + torch.rand(a, b)
    new_first, new_second = 0.9 * first + 0.1 * gradient, 0.95 * second + 0.05 * gradient**2
    update = new_first / (1 - 0.9**7) / (torch.sqrt(new_second / (1 - 0.95**7)) + 1e-8)
    numbers = [7, 0.1, 0.9, 0.95, 0.2, 1e-8]
    return [weights, gradient, first, second], numbers, [weights * (1 - 0.02) - 0.1 * update, new_first, new_second]


def first_argmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    """The index of the first of equal maxima, independent of the library."""
    order = torch.arange(x.shape[dim], 0, -1).reshape([-1 if d == dim else 1 for d in range(x.dim())])
    return ((x == x.amax(dim, keepdim=True)) * order).argmax(dim)


CASES = {
    name.replace("_", "-"): case
    for name, case in list(globals().items())
    if callable(case) and getattr(case, "__module__", "") == __name__ and name != "first_argmax"
}
