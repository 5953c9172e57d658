"""A traced program as bytes, so that nothing of the candidate but the program itself reaches the processes that judge it.

The bytes are a pickle of data: jaxprs, their equations, and those records of jax that programs are made of, which `program.toml` lists like
the operations. Nothing else can be read, and no function be written.
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
from jax.experimental import pallas as _pallas  # noqa: F401  (its primitives and records must be known)
from jax.experimental.pallas import tpu as _tpu  # noqa: F401

from evokernel.backends.pallas.rule_lists import rules
from evokernel.backends.pallas.unpickle import Strict
from evokernel.backends.pallas.validate_jaxpr import check
from evokernel.core.errors import CandidateError

LIMIT_BYTES = 32 << 20
CALLS = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")
PLACEMENTS = ("reshard", "sharding_constraint", "mesh_cast")
"""Say where among several devices something lies, which means nothing on one."""
PLACE = re.compile(r"[\w\-]+\.py:\d+")
FIXED = {
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
    """Raises CandidateError for what a program cannot hold, such as a callback."""
    buffer = io.BytesIO()
    try:
        Writer(buffer).dump(plain(closed))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise CandidateError("forbidden", f"the traced program holds something that is no data: {error}") from error
    return buffer.getvalue()


def read(path: Path) -> Any:
    """The program in a file: an ordinary one of bearable size, not what somebody put in its place."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe without a writer is not waited for
    except OSError as error:
        raise CandidateError("forbidden", "the candidate left no program: it must be an ordinary function that jax can trace") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CandidateError("forbidden", "the candidate left something else in place of its program")
    with open(descriptor, "rb") as file:
        data = file.read(LIMIT_BYTES + 1)
    return decode(data)


def decode(data: bytes) -> Any:
    """The program in `data`, which may have been written by anybody."""
    if len(data) > LIMIT_BYTES:
        raise CandidateError("forbidden", f"the traced program takes more than {LIMIT_BYTES >> 20} MiB: no large constants")
    try:
        closed = Reader(io.BytesIO(data)).load()
        check(closed)
    except (pickle.UnpicklingError, struct.error, core.JaxprTypeError, AssertionError) as error:
        raise CandidateError("forbidden", f"the traced program is not well formed: {str(error)[:300]}") from error
    except (ValueError, TypeError, LookupError, AttributeError, EOFError, ImportError, RuntimeError, ArithmeticError, MemoryError) as error:
        raise CandidateError("forbidden", f"the traced program cannot be read: {type(error).__name__}") from error
    return closed


class Writer(pickle.Pickler):
    """Writes what `Reader` takes."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)

    def reducer_override(self, item: Any) -> Any:
        if item is type(None):
            return rebuild_fixed, ("none type",)
        if isinstance(item, Enum):  # Python 3.11.2 would write `getattr`
            return type(item), (item.value,)
        for kind, reduce in REDUCED:
            if isinstance(item, kind):
                return reduce(item)
        return NotImplemented


class Reader(Strict):
    """Reads data; a name is looked up among what jax has defined already, and nothing is imported for it."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, (*REBUILT.values(), *BUILTINS.values()))

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name in REBUILT:
            return REBUILT[name]
        if module == "builtins" and name in BUILTINS:
            return BUILTINS[name]
        if name in table()["classes"].get(module, "").split() and module in sys.modules:
            return getattr(sys.modules[module], name)
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a program")


@lru_cache
def table() -> dict[str, Any]:
    """The lists of `program.toml`."""
    return tomllib.loads((Path(__file__).parent / "program.toml").read_text())


def rebuild_primitive(name: str) -> Any:
    return primitives()[name]


def rebuild_fixed(name: str) -> Any:
    return FIXED[name]


def rebuild_equation(invars: Any, outvars: Any, primitive: Any, params: Any, effects: Any, line: str) -> Any:
    if not isinstance(primitive, core.Primitive) or type(params) is not dict:
        raise pickle.UnpicklingError("no operation")
    stack = source_info_util.new_name_stack()
    is_place = isinstance(line, str) and PLACE.fullmatch(line)
    info = source_info_util.new_source_info().replace(name_stack=stack.extend(line) if is_place else stack)
    return core.new_jaxpr_eqn(invars, outvars, primitive, params, effects, info)


def rebuild_array(dtype: str, shape: tuple[int, ...], data: bytes) -> Any:
    return np.frombuffer(data, rebuild_dtype(dtype)).reshape(shape)


def rebuild_element(array: Any) -> Any:
    return array[()]


def rebuild_number(value: float, dtype: Any) -> Any:
    kind = literals.TypedInt if isinstance(value, int) else literals.TypedFloat
    if jnp.issubdtype(dtype, jnp.integer) != isinstance(value, int):
        raise pickle.UnpicklingError(f"{value!r:.80} is no {dtype}")
    return kind(value, dtype)


def rebuild_typed(array: Any, aval: Any) -> Any:
    if (array.shape, array.dtype) != (aval.shape, aval.dtype):
        raise pickle.UnpicklingError("an array of another type")
    return literals.TypedNdArray(array, aval)


def rebuild_dtype(name: str) -> Any:
    if name not in table()["numbers"]["names"].split():
        raise pickle.UnpicklingError(f"{name!r:.80} is no type of numbers")
    return np.dtype(getattr(ml_dtypes, name, name))


def rebuild_shaped(shape: Any, dtype: Any, weak_type: bool, memory_space: Any) -> Any:
    return core.ShapedArray(tuple(shape), dtype, bool(weak_type), memory_space=memory_space)


def rebuild_tree(data: Any, children: Any) -> Any:
    registry = tree_util.tracing_registry  # the one that knows the references of kernels, too
    return registry.flatten(0)[1] if data is None else pytree.PyTreeDef.from_node_data_and_children(registry, data, children)


def rebuild_debug(traced_for: str, where: str, names: Any, paths: Any) -> Any:
    return linear_util.DebugInfo(str(traced_for), str(where), names, paths)


REBUILT: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(rebuild_primitive, rebuild_fixed, rebuild_equation, rebuild_array),
        *(rebuild_element, rebuild_number, rebuild_typed, rebuild_dtype, rebuild_shaped, rebuild_tree, rebuild_debug),
    )
}


def reduced_equation(equation: Any) -> Any:
    frame = source_info_util.user_frame(equation.source_info.traceback)
    line = f"{frame.file_name.rpartition('/')[2]}:{frame.start_line}" if frame else ""
    parts = (equation.invars, equation.outvars, equation.primitive, equation.params, equation.effects, line)
    return rebuild_equation, parts


def reduced_array(array: Any) -> Any:
    own = np.asarray(array)
    if own.dtype.hasobject:
        raise pickle.PicklingError("an array of Python objects")
    return rebuild_array, (own.dtype.name, own.shape, own.tobytes())


def reduced_debug(info: Any) -> Any:
    where = " ".join(part.rpartition("/")[2] for part in info.func_src_info.split(" "))
    paths = info.result_paths if isinstance(info.result_paths, tuple) else None
    return rebuild_debug, (info.traced_for, where, info.arg_names, paths)


REDUCED: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (core.Primitive, lambda item: (rebuild_primitive, (name_of(item),))),
    (core.JaxprEqn, reduced_equation),
    (linear_util.DebugInfo, reduced_debug),
    (named_sharding.UnspecifiedValue, lambda item: (rebuild_fixed, ("unspecified",))),
    (jax.sharding.Sharding, lambda item: (rebuild_fixed, ("no sharding",))),
    (mesh.Mesh, lambda item: (rebuild_fixed, ("no mesh",))),
    (primitives_of_pallas.SemaphoreEffect, lambda item: (rebuild_fixed, ("semaphore effect",))),
    (literals.TypedInt, lambda item: (rebuild_number, (int(item), item.dtype))),
    (literals.TypedFloat, lambda item: (rebuild_number, (float(item), item.dtype))),
    (literals.TypedNdArray, lambda item: (rebuild_typed, (np.asarray(item), item.aval))),
    (np.ndarray, reduced_array),
    (np.generic, lambda item: (rebuild_element, (np.asarray(item),))),
    (jax.Array, reduced_array),
    (np.dtype, lambda item: (rebuild_dtype, (item.name,))),
    (type(jnp.bfloat16), lambda item: (rebuild_dtype, (np.dtype(item).name,))),
    (core.ShapedArray, lambda item: (rebuild_shaped, (item.shape, item.dtype, item.weak_type, item.memory_space))),
    (pytree.PyTreeDef, lambda item: (rebuild_tree, (item.node_data(), item.children()))),
)


@lru_cache
def primitives() -> dict[str, Any]:
    """The operations a program may be made of, by name."""
    known = rules().known | frozenset(table()["operations"]["others"].split())
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("jax._src")]
    found = [item for module in modules for item in list(vars(module).values()) if isinstance(item, core.Primitive)]
    return {item.name: item for item in found if item.name in known}


def name_of(primitive: Any) -> str:
    name = str(primitive.name)
    if primitives().get(name) is not primitive:
        raise pickle.PicklingError(f"the operation '{name}', which is not for kernels")
    return name


def plain(closed: Any) -> Any:
    """The program with calls that carry functions replaced by what they compute."""
    return core.ClosedJaxpr(inlined(closed.jaxpr), closed.consts)


def inlined(jaxpr: Any) -> Any:
    """Without custom derivatives, whose rules are Python functions."""
    renamed: dict[Any, Any] = {}
    equations: list[Any] = []

    def now(atom: Any) -> Any:
        return atom if isinstance(atom, core.Literal) else renamed.get(atom, atom)

    def take(equation: Any) -> None:
        params = {name: nested(value) for name, value in equation.params.items()}
        invars = [now(atom) for atom in equation.invars]
        if equation.primitive.name in PLACEMENTS:
            renamed.update(zip(equation.outvars, invars))
            return
        if equation.primitive.name not in CALLS:
            equations.append(equation.replace(invars=invars, params=params))
            return
        inner = params["call_jaxpr"]
        own = dict(zip(inner.jaxpr.invars, invars)) | dict(zip(inner.jaxpr.constvars, map(literal, inner.consts)))
        for step in inner.jaxpr.eqns:
            fresh = [core.Var(var.aval) if not isinstance(var, core.DropVar) else var for var in step.outvars]
            taken = [atom if isinstance(atom, core.Literal) else own[atom] for atom in step.invars]
            own.update(zip(step.outvars, fresh))
            equations.append(step.replace(invars=taken, outvars=fresh))
        for outvar, atom in zip(equation.outvars, inner.jaxpr.outvars):
            renamed[outvar] = atom if isinstance(atom, core.Literal) else own[atom]

    for equation in jaxpr.eqns:
        take(equation)
    return jaxpr.replace(eqns=equations, outvars=[now(atom) for atom in jaxpr.outvars])


def literal(value: Any) -> Any:
    array = np.asarray(value)
    return core.Literal(array, core.ShapedArray(array.shape, array.dtype))


def nested(value: Any) -> Any:
    """The same for programs among an equation's parameters."""
    if isinstance(value, core.ClosedJaxpr):
        return plain(value)
    if isinstance(value, core.Jaxpr):
        return inlined(value)
    if type(value) in (tuple, list):
        return type(value)(nested(part) for part in value)
    return value
