"""Runs small launches in Triton's interpreter as the verifier does; prints a line per launch: its name, a reason or `ok`, and details."""

# ruff: noqa: E402, SIM108

from pathlib import Path

from evokernel.backends.triton.interpreting_copy import use_interpreting_copy

use_interpreting_copy()

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from evokernel.backends.triton.interpret import explain_errors, patch_interpreter
from evokernel.core.errors import CandidateError

N = 16


@triton.jit
def own_elements(x, out, scratch, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) + 1.0)
    tl.store(out + i, tl.load(out + i) + 1.0)


@triton.jit
def same_value(x, out, scratch, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.zeros((N,), tl.float32))


@triton.jit
def other_value(x, out, scratch, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.zeros((N,), tl.float32) + tl.program_id(0))


@triton.jit
def reads_written(x, out, scratch, N: tl.constexpr):
    tl.store(out + tl.program_id(0), tl.load(out + tl.program_id(0) - 1, mask=tl.program_id(0) > 0, other=1.0))


@triton.jit
def writes_read(x, out, scratch, N: tl.constexpr):
    tl.store(out + tl.program_id(0), tl.load(out + tl.program_id(0) + 1) + 1.0)


@triton.jit
def zeroes_sum(x, out, scratch, N: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(out, 0.0)
    tl.atomic_add(out, 1.0)


@triton.jit
def reads_sum(x, out, scratch, N: tl.constexpr):
    tl.atomic_add(out, 1.0)
    tl.store(out + 1 + tl.program_id(0), tl.load(out))


@triton.jit
def counts(x, out, scratch, N: tl.constexpr):
    tl.atomic_add(out, 1.0)


@triton.jit
def last_reads(x, out, scratch, N: tl.constexpr):
    tl.store(out + tl.program_id(0), 2.0)
    tl.atomic_add(out + 8, 1.0)
    if tl.atomic_add(scratch, 1) == tl.num_programs(0) - 1:
        tl.store(out + 9, tl.load(out) + tl.load(out + 1) + tl.load(out + 8))


@triton.jit
def last_reads_relaxed(x, out, scratch, N: tl.constexpr):
    tl.store(out + tl.program_id(0), 2.0)
    if tl.atomic_add(scratch, 1, sem="relaxed") == tl.num_programs(0) - 1:
        tl.store(out + 9, tl.load(out) + tl.load(out + 1))


@triton.jit
def lanes_collide(x, out, scratch, N: tl.constexpr):
    tl.store(out + tl.arange(0, N) // 2 + tl.program_id(0) * N, tl.arange(0, N).to(tl.float32))


@triton.jit
def past_the_end(x, out, scratch, N: tl.constexpr):
    i = tl.program_id(0) * N + 1 + tl.arange(0, N)
    tl.store(out + i - 1, tl.load(x + i))


@triton.jit
def before_the_start(x, out, scratch, N: tl.constexpr):
    tl.store(out + tl.program_id(0) * N + tl.arange(0, N) - 3, 1.0)


@triton.jit
def masked_past_the_end(x, out, scratch, N: tl.constexpr):
    i = tl.program_id(0) * N + 1 + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i, mask=i < 2 * N), mask=i < 2 * N)


@triton.jit
def add_or_keep(a, b):
    if a > 0:
        result = a + b
    else:
        result = b
    return result


@triton.jit
def branching_reduction(x, out, scratch, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + tl.program_id(0), tl.reduce(tl.load(x + i), 0, add_or_keep))


@triton.jit
def extern_functions(x, out, scratch, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, libdevice.tanh(tl.load(x + i)) + libdevice.pow(2.0 + tl.load(x + i) * 0.0, 3.0))


@triton.jit
def extern_unknown(x, out, scratch, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, libdevice.j0(tl.load(x + i)))


@triton.jit
def product_default(x, out, scratch, N: tl.constexpr):
    i = tl.arange(0, N)[:, None]
    a = tl.load(x + i + 0 * tl.arange(0, N)[None, :])
    tl.store(out + tl.arange(0, N)[None, :] + 0 * i, tl.dot(a * 0.0 + 1.0001, tl.where(i == tl.arange(0, N)[None, :], 1.0, 0.0)))


@triton.jit
def fails(x, out, scratch, N: tl.constexpr):
    tl.store(out, tl.reshape(tl.arange(0, N), (3,)))


KERNELS = [value for value in list(globals().values()) if hasattr(value, "fn") and value not in (add_or_keep,)]


def main() -> None:
    checks = patch_interpreter()
    for kernel in KERNELS:
        x, out, scratch = torch.linspace(-1.0, 1.0, 2 * N), torch.zeros(2 * N), torch.zeros(1, dtype=torch.int32)
        checks.start_call(str(Path(__file__)), {"x": x, "out": out}, input_count=1)
        try:
            with explain_errors(str(Path(__file__))):
                kernel[(2,)](x, out, scratch, N)
        except CandidateError as error:
            print(kernel.__name__, error.reason, error.detail.replace("\n", " "))
        else:
            print(kernel.__name__, "ok", " ".join(f"{value:.5f}" for value in out.tolist()))


main()
