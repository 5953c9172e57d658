"""Encodes a traced program as bytes and decodes it, so that only the program of a candidate reaches the verifying processes.

The bytes are a pickle of data: jaxprs, their equations, and the jax records that programs consist of. `program_codec.toml` lists these
records and the operations. The decoder reads nothing else, and the encoder writes no functions.
"""

from __future__ import annotations

import io
import os
import pickle
import re
import stat
import struct
import sys
import tomllib
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax._src import core, linear_util, literals, mesh, named_sharding, source_info_util, tree_util
from jax._src.lib import pytree
from jax._src.pallas import primitives as primitives_of_pallas
from jax.experimental import pallas as _pallas  # noqa: F401  (registers its primitives and records)
from jax.experimental.pallas import tpu as _tpu  # noqa: F401

from evokernel.backends.pallas.rule_lists import load_rules
from evokernel.backends.pallas.unpickle import StrictUnpickler
from evokernel.backends.pallas.validate_jaxpr import validate_program
from evokernel.core.errors import CandidateError

MAX_BYTES = 32 << 20
CUSTOM_DERIVATIVE_CALLS = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")
SHARDING_PRIMITIVES = ("reshard", "sharding_constraint", "mesh_cast")
"""Primitives that place arrays on several devices; they have no effect on one device."""
SOURCE_LINE = re.compile(r"[\w\-]+\.py:\d+")
SHARED_OBJECTS = {
    "none type": type(None),
    "unspecified": named_sharding.UNSPECIFIED,
    "no sharding": None,
    "no mesh": mesh.empty_concrete_mesh,
    "semaphore effect": primitives_of_pallas.sem_effect,
}
BUILTINS: dict[str, Callable[..., Any]] = {
    "NoneType": type(None),
    "dict": dict,
    "tuple": tuple,
    "list": list,
    "set": set,
    "frozenset": frozenset,
    "slice": slice,
}


def encode(closed: Any) -> bytes:
    """The program as bytes. Raises CandidateError for content that cannot be encoded, such as a callback."""
    buffer = io.BytesIO()
    try:
        ProgramPickler(buffer).dump(inline_closed_jaxpr(closed))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise CandidateError("forbidden", f"the traced program contains an object that is not plain data: {error}") from error
    return buffer.getvalue()


def read_program(path: Path) -> Any:
    """Decodes the program in a file. Raises CandidateError unless it is a regular file of limited size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # O_NONBLOCK: do not wait for the writer of a pipe
    except OSError as error:
        raise CandidateError(
            "forbidden", "the candidate left no traced program: `kernel` must be a Python function that jax can trace"
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CandidateError("forbidden", "the candidate replaced its traced program by something that is not a regular file")
    with open(descriptor, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    return decode(data)


def decode(data: bytes) -> Any:
    """Decodes and validates a program; `data` is untrusted."""
    if len(data) > MAX_BYTES:
        raise CandidateError("forbidden", f"the traced program takes more than {MAX_BYTES >> 20} MiB: remove large constants")
    try:
        closed = ProgramUnpickler(io.BytesIO(data)).load()
        validate_program(closed)
    except (pickle.UnpicklingError, struct.error, core.JaxprTypeError, AssertionError) as error:
        raise CandidateError("forbidden", f"the traced program is malformed: {str(error)[:300]}") from error
    except (ValueError, TypeError, LookupError, AttributeError, EOFError, ImportError, RuntimeError, ArithmeticError, MemoryError) as error:
        raise CandidateError("forbidden", f"the traced program cannot be decoded: {type(error).__name__}") from error
    return closed


class ProgramPickler(pickle.Pickler):
    """Writes the pickles that `ProgramUnpickler` reads."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)

    def reducer_override(self, item: Any) -> Any:
        if item is type(None):
            return rebuild_shared_object, ("none type",)
        if isinstance(item, Enum):  # without this, Python 3.11.2 writes a call of `getattr`
            return type(item), (item.value,)
        for kind, reduce in REDUCERS:
            if isinstance(item, kind):
                return reduce(item)
        return NotImplemented


class ProgramUnpickler(StrictUnpickler):
    """Reads data only. It looks names up in modules that are already imported, and imports nothing."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, (*REBUILDERS.values(), *BUILTINS.values()))

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name in REBUILDERS:
            return REBUILDERS[name]
        if module == "builtins" and name in BUILTINS:
            return BUILTINS[name]
        if name in load_allowed_names()["classes"].get(module, "").split() and module in sys.modules:
            return getattr(sys.modules[module], name)
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a program")


@lru_cache
def load_allowed_names() -> dict[str, Any]:
    """The lists of allowed names in `program_codec.toml`."""
    return tomllib.loads((Path(__file__).parent / "program_codec.toml").read_text())


def rebuild_primitive(name: str) -> Any:
    return allowed_primitives()[name]


def rebuild_shared_object(name: str) -> Any:
    return SHARED_OBJECTS[name]


def rebuild_equation(invars: Any, outvars: Any, primitive: Any, params: Any, effects: Any, line: str) -> Any:
    if not isinstance(primitive, core.Primitive) or type(params) is not dict:
        raise pickle.UnpicklingError("an equation without a primitive or parameters")
    if "cost_estimate" in params:  # the latency comes from the compiled schedule, whatever the candidate says
        params = params | {"cost_estimate": None}
    stack = source_info_util.new_name_stack()
    is_source_line = isinstance(line, str) and SOURCE_LINE.fullmatch(line)
    info = source_info_util.new_source_info().replace(name_stack=stack.extend(line) if is_source_line else stack)
    return core.new_jaxpr_eqn(invars, outvars, primitive, params, effects, info)


def rebuild_array(dtype: str, shape: tuple[int, ...], data: bytes) -> Any:
    return np.frombuffer(data, rebuild_dtype(dtype)).reshape(shape)


def rebuild_numpy_scalar(array: Any) -> Any:
    return array[()]


def rebuild_typed_number(value: float, dtype: Any) -> Any:
    kind = literals.TypedInt if isinstance(value, int) else literals.TypedFloat
    if jnp.issubdtype(dtype, jnp.integer) != isinstance(value, int):
        raise pickle.UnpicklingError(f"{value!r:.80} is not of type {dtype}")
    return kind(value, dtype)


def rebuild_typed_array(array: Any, aval: Any) -> Any:
    if (array.shape, array.dtype) != (aval.shape, aval.dtype):
        raise pickle.UnpicklingError("an array whose shape or dtype differs from its declared type")
    return literals.TypedNdArray(array, aval)


def rebuild_dtype(name: str) -> Any:
    if name not in load_allowed_names()["numbers"]["names"].split():
        raise pickle.UnpicklingError(f"{name!r:.80} is not an allowed dtype")
    return np.dtype(getattr(ml_dtypes, name, name))


def rebuild_shaped_array(shape: Any, dtype: Any, weak_type: bool, memory_space: Any) -> Any:
    return core.ShapedArray(tuple(shape), dtype, bool(weak_type), memory_space=memory_space)


def rebuild_tree(data: Any, children: Any) -> Any:
    registry = tree_util.tracing_registry  # the registry that also contains the Refs of kernels
    return registry.flatten(0)[1] if data is None else pytree.PyTreeDef.from_node_data_and_children(registry, data, children)


def rebuild_debug_info(traced_for: str, where: str, names: Any, paths: Any) -> Any:
    return linear_util.DebugInfo(str(traced_for), str(where), names, paths)


REBUILDERS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(rebuild_primitive, rebuild_shared_object, rebuild_equation, rebuild_array),
        *(
            rebuild_numpy_scalar,
            rebuild_typed_number,
            rebuild_typed_array,
            rebuild_dtype,
            rebuild_shaped_array,
            rebuild_tree,
            rebuild_debug_info,
        ),
    )
}


def reduce_equation(equation: Any) -> Any:
    frame = source_info_util.user_frame(equation.source_info.traceback)
    line = f"{frame.file_name.rpartition('/')[2]}:{frame.start_line}" if frame else ""
    params = equation.params | ({"cost_estimate": None} if "cost_estimate" in equation.params else {})
    parts = (equation.invars, equation.outvars, equation.primitive, params, equation.effects, line)
    return rebuild_equation, parts


def reduce_array(array: Any) -> Any:
    data = np.asarray(array)
    if data.dtype.hasobject:
        raise pickle.PicklingError("an array of Python objects")
    return rebuild_array, (data.dtype.name, data.shape, data.tobytes())


def reduce_debug_info(info: Any) -> Any:
    where = " ".join(part.rpartition("/")[2] for part in info.func_src_info.split(" "))
    paths = info.result_paths if isinstance(info.result_paths, tuple) else None
    return rebuild_debug_info, (info.traced_for, where, info.arg_names, paths)


REDUCERS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (core.Primitive, lambda item: (rebuild_primitive, (primitive_name(item),))),
    (core.JaxprEqn, reduce_equation),
    (linear_util.DebugInfo, reduce_debug_info),
    (named_sharding.UnspecifiedValue, lambda item: (rebuild_shared_object, ("unspecified",))),
    (jax.sharding.Sharding, lambda item: (rebuild_shared_object, ("no sharding",))),
    (mesh.Mesh, lambda item: (rebuild_shared_object, ("no mesh",))),
    (primitives_of_pallas.SemaphoreEffect, lambda item: (rebuild_shared_object, ("semaphore effect",))),
    (literals.TypedInt, lambda item: (rebuild_typed_number, (int(item), item.dtype))),
    (literals.TypedFloat, lambda item: (rebuild_typed_number, (float(item), item.dtype))),
    (literals.TypedNdArray, lambda item: (rebuild_typed_array, (np.asarray(item), item.aval))),
    (np.ndarray, reduce_array),
    (np.generic, lambda item: (rebuild_numpy_scalar, (np.asarray(item),))),
    (jax.Array, reduce_array),
    (np.dtype, lambda item: (rebuild_dtype, (item.name,))),
    (type(jnp.bfloat16), lambda item: (rebuild_dtype, (np.dtype(item).name,))),
    (core.ShapedArray, lambda item: (rebuild_shaped_array, (item.shape, item.dtype, item.weak_type, item.memory_space))),
    (pytree.PyTreeDef, lambda item: (rebuild_tree, (item.node_data(), item.children()))),
)


@lru_cache
def allowed_primitives() -> dict[str, Any]:
    """The primitives that a program may contain, by name."""
    names = load_rules().known_operations | frozenset(load_allowed_names()["operations"]["others"].split())
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("jax._src")]
    primitives = [item for module in modules for item in list(vars(module).values()) if isinstance(item, core.Primitive)]
    return {item.name: item for item in primitives if item.name in names}


def primitive_name(primitive: Any) -> str:
    name = str(primitive.name)
    if allowed_primitives().get(name) is not primitive:
        raise pickle.PicklingError(f"the operation '{name}', which is not allowed in a program")
    return name


def inline_closed_jaxpr(closed: Any) -> Any:
    """The program with the bodies of custom-derivative calls inlined, because these calls contain Python functions."""
    return core.ClosedJaxpr(inline_custom_derivatives(closed.jaxpr), closed.consts)


def inline_custom_derivatives(jaxpr: Any) -> Any:
    """Inlines custom-derivative calls and removes sharding primitives."""
    substitutes: dict[Any, Any] = {}
    equations: list[Any] = []

    def resolve(atom: Any) -> Any:
        return atom if isinstance(atom, core.Literal) else substitutes.get(atom, atom)

    def append_equation(equation: Any) -> None:
        params = {name: inline_nested(value) for name, value in equation.params.items()}
        invars = [resolve(atom) for atom in equation.invars]
        if equation.primitive.name in SHARDING_PRIMITIVES:
            substitutes.update(zip(equation.outvars, invars))
            return
        if equation.primitive.name not in CUSTOM_DERIVATIVE_CALLS:
            equations.append(equation.replace(invars=invars, params=params))
            return
        inner = params["call_jaxpr"]
        variables = dict(zip(inner.jaxpr.invars, invars)) | dict(zip(inner.jaxpr.constvars, map(to_literal, inner.consts)))
        for step in inner.jaxpr.eqns:
            fresh = [core.Var(var.aval) if not isinstance(var, core.DropVar) else var for var in step.outvars]
            operands = [atom if isinstance(atom, core.Literal) else variables[atom] for atom in step.invars]
            variables.update(zip(step.outvars, fresh))
            equations.append(step.replace(invars=operands, outvars=fresh))
        for outvar, atom in zip(equation.outvars, inner.jaxpr.outvars):
            substitutes[outvar] = atom if isinstance(atom, core.Literal) else variables[atom]

    for equation in jaxpr.eqns:
        append_equation(equation)
    return jaxpr.replace(eqns=equations, outvars=[resolve(atom) for atom in jaxpr.outvars])


def to_literal(value: Any) -> Any:
    array = np.asarray(value)
    return core.Literal(array, core.ShapedArray(array.shape, array.dtype))


def inline_nested(value: Any) -> Any:
    """Inlines custom-derivative calls in programs among an equation's parameters."""
    if isinstance(value, core.ClosedJaxpr):
        return inline_closed_jaxpr(value)
    if isinstance(value, core.Jaxpr):
        return inline_custom_derivatives(value)
    if type(value) in (tuple, list):
        return type(value)(inline_nested(part) for part in value)
    return value
