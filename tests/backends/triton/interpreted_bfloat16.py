"""Computes in bfloat16 with Triton's interpreter as the judge runs it; prints how far each is from PyTorch's, rounded the same way."""

import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl

from evokernel.backends.triton.bfloat16 import patch_interpreter

N = 16


@triton.jit
def both(a, b, c, N: tl.constexpr, NAME: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(a + i), tl.load(b + i)
    if NAME == "add":
        r = x + y
    elif NAME == "mul":
        r = x * y
    elif NAME == "sub":
        r = x - y
    elif NAME == "negative":
        r = -x
    elif NAME == "scalar":
        r = x * 2.5
    elif NAME == "maximum":
        r = tl.maximum(x, y)
    elif NAME == "where":
        r = tl.where(x > y, x, y)
    elif NAME == "abs":
        r = tl.abs(x)
    elif NAME == "less":
        r = (x < y).to(tl.bfloat16)
    elif NAME == "rounded":
        r = (x.to(tl.float32) * 1.2345678).to(tl.bfloat16)
    elif NAME == "sum":
        r = (tl.zeros((N,), tl.float32) + tl.sum(x, axis=0)).to(tl.bfloat16)
    tl.store(c + i, r)


@triton.jit
def product(a, b, c, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(c + i * N + j, tl.dot(tl.load(a + i * N + j), tl.load(b + i * N + j)))


def main() -> None:
    patch_interpreter()
    patch_interpreter()  # a second time changes nothing
    torch.manual_seed(0)
    a, b = torch.randn(N).bfloat16(), torch.randn(N).bfloat16()
    wanted = {
        "add": a + b,
        "mul": a * b,
        "sub": a - b,
        "negative": -a,
        "scalar": a * 2.5,
        "maximum": torch.maximum(a, b),
        "where": torch.maximum(a, b),
        "abs": a.abs(),
        "less": (a < b).bfloat16(),
        "rounded": (a.float() * 1.2345678).bfloat16(),
        "sum": a.float().sum().bfloat16().expand(N),
    }
    for name, right in wanted.items():
        c = torch.zeros(N, dtype=torch.bfloat16)
        both[(1,)](a, b, c, N, name)
        print(name, (c.float() - right.float()).abs().max().item())
    a, b, c = torch.randn(N, N).bfloat16(), torch.randn(N, N).bfloat16(), torch.zeros(N, N)
    product[(1,)](a, b, c, N)
    print("dot", ((c - a.float() @ b.float()).abs() > 1e-5).sum().item())


main()
