"""Emits elementwise steps as CUDA: one device function per tree of steps, and the helper functions that a kernel calls."""

from __future__ import annotations

import re
from collections.abc import Mapping

from evokernel.generators.template_search.dialects import c_text
from evokernel.generators.template_search.dialects.c_text import is_condition
from evokernel.generators.template_search.dialects.steps import StepSyntax, emit_steps, format_step, needs_condition
from evokernel.generators.template_search.graph import Node, Num, UnsupportedPattern, walk

TYPES = {**c_text.TYPES, "float16": "__half", "bfloat16": "__nv_bfloat16"}
CALLS = {
    "exp": "expf", "log": "logf", "tanh": "tanhf", "erf": "erff", "sqrt": "sqrtf", "abs": "fabsf", "floor": "floorf", "round": "rintf",
    "sin": "sinf", "cos": "cosf", "pow": "powf", "max": "Max::join", "min": "Min::join", "exponent": "exponent", "power2": "power2",
}  # fmt: skip
FAST_CALLS = {**CALLS, "exp": "__expf", "log": "__logf", "sin": "__sinf", "cos": "__cosf", "pow": "__powf"}
"""Intrinsics that are faster and less exact."""
MAX_FLOAT = 3.4028235e38
HEADERS = {"__half": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h"}
HELPERS = {
    "Pack": """// V neighbouring elements, which one instruction loads or stores.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
    T at[V];
};""",
    "load": """template <int V, class T>
__device__ __forceinline__ Pack<T, V> load(const T* from) { return *reinterpret_cast<const Pack<T, V>*>(from); }""",
    "store": """template <class T, int V>
__device__ __forceinline__ void store(T* to, const Pack<T, V>& values) { *reinterpret_cast<Pack<T, V>*>(to) = values; }""",
    "Sum": """struct Sum {
    static __device__ float start() { return 0.0f; }
    static __device__ float join(float a, float b) { return a + b; }
};""",
    "Product": """struct Product {
    static __device__ float start() { return 1.0f; }
    static __device__ float join(float a, float b) { return a * b; }
};""",
    "Max": """struct Max {
    static __device__ float start() { return -INFINITY; }
    static __device__ float join(float a, float b) { return a > b || a != a ? a : b; }
};""",
    "Min": """struct Min {
    static __device__ float start() { return INFINITY; }
    static __device__ float join(float a, float b) { return a < b || a != a ? a : b; }
};""",
    "filled": """template <int V>
__device__ __forceinline__ Pack<float, V> filled(float value) {
    Pack<float, V> pack;
#pragma unroll
    for (int v = 0; v < V; ++v) pack.at[v] = value;
    return pack;
}""",
    "divide": """__device__ __forceinline__ float divide(float a, float b) { return a / b; }
template <int V>
__device__ __forceinline__ Pack<float, V> divide(Pack<float, V> a, float b) {
#pragma unroll
    for (int v = 0; v < V; ++v) a.at[v] /= b;
    return a;
}""",
    "reduce_row": """// Over the TEAM neighbouring threads of a row; all of them get the result.
template <class Op, int TEAM>
__device__ __forceinline__ float reduce_row(float value, float* parts) {
#pragma unroll
    for (int m = (TEAM < 32 ? TEAM : 32) / 2; m > 0; m /= 2) value = Op::join(value, __shfl_xor_sync(0xffffffffu, value, m));
    if (TEAM > 32) {
        __syncthreads();
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
        __syncthreads();
        const int first = threadIdx.x / TEAM * (TEAM / 32);
        value = parts[first];
#pragma unroll
        for (int w = 1; w < TEAM / 32; ++w) value = Op::join(value, parts[first + w]);
    }
    return value;
}
template <class Op, int TEAM, int V>
__device__ __forceinline__ float reduce_row(const Pack<float, V>& values, float* parts) {
    float value = values.at[0];
#pragma unroll
    for (int v = 1; v < V; ++v) value = Op::join(value, values.at[v]);
    return reduce_row<Op, TEAM>(value, parts);
}""",
    "reduce_columns": """// Over the TEAM threads that have the same rows, WIDTH threads apart; all of them get the result.
template <class Op, int TEAM, int WIDTH, int V>
__device__ __forceinline__ Pack<float, V> reduce_columns(Pack<float, V> values, Pack<float, V>* parts) {
    if (TEAM > 1) {
        __syncthreads();
        parts[threadIdx.x] = values;
        __syncthreads();
        values = parts[threadIdx.x % WIDTH];
        for (int y = 1; y < TEAM; ++y)
#pragma unroll
            for (int v = 0; v < V; ++v) values.at[v] = Op::join(values.at[v], parts[threadIdx.x % WIDTH + y * WIDTH].at[v]);
    }
    return values;
}""",
    "exponent": """__device__ __forceinline__ float exponent(float x) {
    int e;
    frexpf(x, &e);
    return (float)e;
}""",
    "power2": "__device__ __forceinline__ float power2(float x) { return ldexpf(1.0f, (int)x); }",
    "processors": """static int processors() {
    int count = 1;
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0);
    return count;
}""",
    "scratch": """template <class T>
static T* scratch(int64_t count, cudaStream_t stream) {
    T* memory = nullptr;
    cudaMallocAsync((void**)&memory, sizeof(T) * count, stream);
    return memory;
}""",
}  # fmt: skip
"""Functions and types by name, each after those that it uses."""


def format_literal(value: float) -> str:
    """A literal in device code."""
    if value != value:
        return "NAN"
    if abs(value) > MAX_FLOAT:
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"{float(value)!r}f" if value >= 0 else f"({float(value)!r}f)"


def emit_function(name: str, tree: Node, arguments: Mapping[Node, str], numbers: Mapping[Num, str], math: str = "") -> str:
    """`name(a, b, ..., s0, ...)` that computes `tree`; `arguments` names the subtrees that are passed in."""
    calls = FAST_CALLS if math == "fast" else CALLS
    syntax = StepSyntax("!{0}", "{0} ? {1} : {2}", format_cast, lambda node, args: f"{calls[node.op]}({', '.join(args)})")

    def format_constant(value: Num) -> str:
        return numbers[value] if value in numbers else format_literal(value.value)

    def format_statement(node: Node, args: list[str], target: str) -> str:
        operands = [as_condition(a, t) if needs_condition(node, i) else as_number(a, t) for i, (a, t) in enumerate(zip(node.args, args))]
        return f"    const {'bool' if is_condition(node) else 'float'} {target} = {format_step(node, operands, syntax)};"

    lines, result = emit_steps(tree, arguments, format_constant, format_statement)
    result = result if tree in arguments else as_number(tree, result)
    parameters = ", ".join(f"float {name}" for name in (*arguments.values(), *numbers.values()))
    return "\n".join([f"__device__ __forceinline__ float {name}({parameters}) {{", *lines, f"    return {result};", "}"])


def as_condition(node: Node, text: str) -> str:
    """A value as a condition: a mask from memory is a number, which is compared with zero."""
    return text if is_condition(node) else f"({text} != 0.0f)"


def as_number(node: Node, text: str) -> str:
    """A value as a number: 1 where a condition holds, 0 elsewhere."""
    return f"({text} ? 1.0f : 0.0f)" if is_condition(node) else text


def format_cast(node: Node, arg: str) -> str:
    """A conversion: kernels compute in float and convert when they write."""
    if node.name == "bool":
        return f"{arg} != 0.0f ? 1.0f : 0.0f"
    if "int" in node.name:
        return arg if "int" in node.args[0].dtype or node.args[0].dtype == "bool" else f"truncf({arg})"
    return f"(float)({TYPES[node.name]})({arg})" if node.name in ("float16", "bfloat16") else arg


def has_fast_form(*roots: Node) -> bool:
    """Whether there is an intrinsic for one of the steps."""
    return any(node.op in CALLS and FAST_CALLS[node.op] != CALLS[node.op] for node in walk(*roots))


def list_helpers(text: str) -> list[str]:
    """The helper functions and types that a kernel's text uses, and those that these use."""
    wanted = ""
    for name, source in reversed(HELPERS.items()):
        if re.search(rf"\b{name}\b", text + wanted):
            wanted += source
    return [source for source in HELPERS.values() if source in wanted]


def list_headers(text: str) -> list[str]:
    """The headers that a kernel's text needs besides those that come before it."""
    return ["cmath", *(header for kind, header in HEADERS.items() if kind in text)]


def require_float32(*roots: Node) -> None:
    """Raises UnsupportedPattern for steps with float64 tensors, which are computed in float here."""
    if any(n.dtype not in TYPES or n.dtype == "float64" for n in walk(*roots)):
        raise UnsupportedPattern("float64 tensors")
