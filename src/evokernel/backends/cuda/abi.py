"""The C declaration of the launch function, derived from a task's signature: device tensors with host shapes, scalars, the stream."""

from __future__ import annotations

from evokernel.backends.native.abi import Abi, ArgumentDeclaration, include_lines
from evokernel.core.records import Signature

HEADERS = ("cstdint", "cstddef", "cuda_runtime.h")
"""Headers that are included before the candidate's first line."""
HALVES = {"float16": "cuda_fp16.h", "bfloat16": "cuda_bf16.h"}
"""Headers for half types, included only if needed, because parsing them takes longer than compiling a kernel."""
STREAM = ArgumentDeclaration("cudaStream_t stream", "launch every kernel on this stream")
ABI = Abi({"float16": "__half", "bfloat16": "__nv_bfloat16"}, last_arguments=(STREAM,))


def c_prototype(signature: Signature) -> str:
    """Returns the prototype in one line, as the harness header declares it."""
    return ABI.c_prototype(signature)


def annotated_prototype(signature: Signature) -> str:
    """Returns the prototype for a prompt: one argument per line, with a comment where one helps."""
    return f"// tensors are in device memory, row-major; shapes are on the host\n{ABI.annotated_prototype(signature)}"


def harness_header(signature: Signature) -> str:
    """Returns the header that is included before the candidate's first line."""
    dtypes = {tensor.dtype for tensor in (*signature.inputs, *signature.params, *signature.outputs)}
    halves = tuple(HALVES[dtype] for dtype in sorted(dtypes & HALVES.keys()))
    return ABI.harness_header(signature, include_lines((*HEADERS, *halves)))
