"""The functions of `libdevice` for Triton's interpreter, which has none of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime.interpreter import TensorHandle, _get_np_dtype

MODULES = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")
NUMPY_NAMES = {
    "abs": "abs",
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "cbrt": "cbrt",
    "ceil": "ceil",
    "copysign": "copysign",
    "cos": "cos",
    "cosh": "cosh",
    "div_rn": "divide",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "fast_cosf": "cos",
    "fast_dividef": "divide",
    "fast_expf": "exp",
    "fast_log10f": "log10",
    "fast_log2f": "log2",
    "fast_logf": "log",
    "fast_powf": "power",
    "fast_sinf": "sin",
    "fast_tanf": "tan",
    "fast_tanhf": "tanh",
    "floor": "floor",
    "fmod": "fmod",
    "hypot": "hypot",
    "isinf": "isinf",
    "isnan": "isnan",
    "log": "log",
    "log10": "log10",
    "log1p": "log1p",
    "log2": "log2",
    "nearbyint": "rint",
    "pow": "power",
    "rint": "rint",
    "signbit": "signbit",
    "sin": "sin",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "sqrt_rn": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
    "trunc": "trunc",
}
TORCH_NAMES = ("erf", "erfc", "erfinv", "lgamma")
OTHERS: dict[str, Callable[..., np.ndarray]] = {
    "exp10": lambda x: np.power(10.0, x),
    "finitef": np.isfinite,
    "fma": lambda x, y, z: x * y + z,
    "isfinited": np.isfinite,
    "normcdf": lambda x: call_torch("ndtr", x),
    "rcp_rn": lambda x: 1 / x,
    "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rsqrt_rn": lambda x: 1 / np.sqrt(x),
}
FUNCTIONS = (
    {name: getattr(np, numpy_name) for name, numpy_name in NUMPY_NAMES.items()}
    | {name: lambda x, name=name: call_torch({"lgamma": "gammaln"}.get(name, name), x) for name in TORCH_NAMES}
    | OTHERS
)


def call_torch(name: str, data: np.ndarray) -> np.ndarray:
    return np.asarray(getattr(torch.special, name)(torch.from_numpy(np.array(data))).numpy())


def patch_libdevice() -> None:
    """Replaces the functions of `libdevice` in this process's Triton; those without a counterpart say so when they are called."""
    for path in MODULES:
        module = importlib.import_module(path)
        for name in [one for one in vars(module) if callable(getattr(module, one)) and not one.startswith("_")]:
            setattr(module, name, make_function(name))


def make_function(name: str) -> Callable[..., Any]:
    def call(*operands: Any, **_: object) -> Any:
        if name not in FUNCTIONS:
            raise NotImplementedError(f"libdevice.{name}")
        shaped = next(one for one in operands if isinstance(one, tl.tensor))
        kind = shaped.dtype.scalar
        result = np.asarray(
            FUNCTIONS[name](*(one.handle.data if isinstance(one, tl.tensor) else kind_of(kind).type(one) for one in operands))
        )
        kind = tl.int32 if result.dtype == np.bool_ else kind
        shape = tl.block_type(kind, list(result.shape)) if shaped.type.is_block() else kind
        return tl.tensor(TensorHandle(result.astype(kind_of(kind)), kind), shape)

    return call


def kind_of(kind: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = _get_np_dtype(kind)
    return dtype
