"""Runs a traced program on the CPU in Pallas' TPU interpret mode: simulated memory spaces, transfers, semaphores and cores.

Only for programs without Python of the candidate. Importing this module imports JAX.
"""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as state
from jax.experimental import io_callback
from jax.experimental.pallas import tpu as pltpu
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from evokernel.backends.pallas.numerics import rounded
from evokernel.core.errors import CandidateError

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "JAX_CPU_ENABLE_ASYNC_DISPATCH": "0",
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_multi_thread_eigen=false",
    "OMP_NUM_THREADS": "1",
}
"""Settings for a process that interprets; to be made before JAX is imported."""

STEPS = 2000
"""Grid steps a program may take at a size it is checked at."""


class Interpreted:
    """A traced program, to be run many times."""

    def __init__(self, closed: ClosedJaxpr, seed: int = 0, cores: int = 2) -> None:
        calls = list(pallas_calls(closed.jaxpr))
        steps = sum(math.prod(int(size) for size in call.params["grid_mapping"].grid) for call in calls)
        if steps > STEPS:
            raise CandidateError("timeout", f"{steps} grid steps at a small size (at most {STEPS}): use larger blocks")
        self.types = [variable.aval for variable in closed.jaxpr.invars]
        shared = any(parallel(call) for call in calls)
        self.settings = pltpu.InterpretParams(
            detect_races=True,
            num_cores_or_threads=cores if shared else 1,
            vector_clock_size=16,
            random_seed=seed,
        )
        self.closed, self.raced = rounded(closed), False
        self.compiled: Any = None

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs, bfloat16 ones as uint16 like the inputs."""
        arguments = [
            array.view(kind.dtype) if array.dtype == np.uint16 and kind.dtype.name == "bfloat16" else array
            for array, kind in zip(arrays, self.types, strict=True)
        ]
        self.raced, words = False, io.StringIO()
        try:
            with contextlib.redirect_stdout(words):
                if self.compiled is None:
                    self.compiled = jax.jit(self.evaluate).lower(*self.types).compile()
                outputs = [np.asarray(output) for output in self.compiled(*arguments)]
        except jax.errors.JaxRuntimeError as error:
            failure = state._shared_memory._failure if state._shared_memory else None
            raise explained(f"{type(failure).__name__}: {failure}" if failure else str(error)) from error
        finally:
            reset: Any = state.reset_tpu_interpret_mode_state
            reset()
        if self.raced:
            raise CandidateError("race", "two accesses of the same memory without an order between them\n" + races(words.getvalue()))
        return [output.view(np.uint16) if output.dtype.name == "bfloat16" else output for output in outputs]

    def evaluate(self, *arguments: Any) -> list[Any]:
        return self._evaluate(self.closed.jaxpr, self.closed.consts, arguments)

    def _evaluate(self, jaxpr: Jaxpr, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

        def get(variable: Any) -> Any:
            return variable.val if isinstance(variable, Literal) else values[variable]

        for equation in jaxpr.eqns:
            operands = [get(variable) for variable in equation.invars]
            bind: Any = equation.primitive.bind
            parameters: Any = equation.primitive.get_bind_params
            inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
            if equation.primitive.name == "pallas_call":
                outputs = bind(*operands, **{**equation.params, "interpret": self.settings})
                io_callback(self._note_races, None, ordered=True)
            elif isinstance(inner, ClosedJaxpr):
                outputs = self._evaluate(inner.jaxpr, inner.consts, operands)
            else:
                outputs = bind(*operands, **parameters(equation.params))
            values.update(zip(equation.outvars, outputs if equation.primitive.multiple_results else [outputs], strict=True))
        return [get(variable) for variable in jaxpr.outvars]

    def _note_races(self) -> None:
        """Between two kernels, because each begins with a new record."""
        self.raced = self.raced or (state.races is not None and state.races.races_found)


def pallas_calls(jaxpr: Jaxpr) -> Iterator[Any]:
    """The kernels of a program, nested calls included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "pallas_call":
            yield equation
        else:
            for value in equation.params.values():
                if isinstance(value, ClosedJaxpr):
                    yield from pallas_calls(value.jaxpr)


def parallel(call: Any) -> bool:
    """Whether the grid of a kernel may be split between cores."""
    semantics = getattr(call.params["compiler_params"], "dimension_semantics", None) or ()
    return any("parallel" in str(kind).lower() for kind in semantics)


def explained(message: str) -> CandidateError:
    """An exception of interpret mode, as a reason."""
    if message.startswith("AssertionError"):  # a write that lies partly outside of its buffer
        return CandidateError("out_of_bounds", "out-of-bounds write of a buffer: the slice written does not lie inside it")
    if re.search(r"[Oo]ut-of-bounds", message):
        return CandidateError("out_of_bounds", message)
    if "Revisited block" in message:
        return CandidateError(
            "race", message + "\nThe steps that write one block must follow each other: move that dimension to the end of the grid."
        )
    return CandidateError("crash", message)


def races(text: str) -> str:
    """The first race found, without the clocks."""
    lines = [line for line in text.splitlines() if line.startswith("  ") and not line.startswith("  clock")]
    return "\n".join(lines[:2])
