"""Runs a traced program on the CPU in Pallas' TPU interpret mode: simulated memory spaces, transfers, semaphores and cores.

The program must not contain Python code of the candidate. Importing this module imports JAX.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as mode
from jax.experimental import pallas
from jax.experimental.pallas import tpu
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from evokernel.backends.pallas.interpret_errors import FailureReporter
from evokernel.backends.pallas.interpret_patches import patched_interpret_mode, source_line
from evokernel.backends.pallas.tpu_rounding import add_tpu_rounding
from evokernel.core.errors import CandidateError

MAX_GRID_STEPS = 2000
"""Maximum grid steps of a program at one size: interpret mode takes 2 to 5 ms for each."""

XLA_OPTIONS: dict[str, Any] = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_multi_thread_eigen": False,
}
"""A program runs only a few times, so these options minimise the time to compile it."""

CALL_PRIMITIVES = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "remat2", "checkpoint")


class InterpretedProgram:
    """A traced program that can run many times. `seed` determines the order of parallel grid steps.

    Without `detect_races` it runs up to five times faster. Transfers complete as late as allowed, so a missing wait still shows in the
    values, but a copy that starts too early does not.
    """

    def __init__(self, closed: ClosedJaxpr, seed: int = 0, cores: int = 2, detect_races: bool = True) -> None:
        calls = list(find_pallas_calls(closed.jaxpr))
        steps = sum(math.prod(size for size in call.params["grid_mapping"].grid if isinstance(size, int)) for call in calls)
        if steps > MAX_GRID_STEPS:
            raise CandidateError(
                "timeout", f"{steps} grid steps exceed the limit of {MAX_GRID_STEPS} for interpret mode: use larger blocks"
            )
        for call in calls:
            check_parallel_prefix(call)
        self.reporter = FailureReporter(calls)
        self.input_types = [variable.aval for variable in closed.jaxpr.invars]
        self.closed, self.seed, self.cores, self.detect_races = add_tpu_rounding(closed), seed, cores, detect_races
        self.compiled: Any = None

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs the program and returns its outputs. bfloat16 inputs may also have dtype uint16; bfloat16 outputs have dtype uint16."""
        arguments = [
            array.view(kind.dtype) if array.dtype == np.uint16 and kind.dtype.name == "bfloat16" else array
            for array, kind in zip(arrays, self.input_types, strict=True)
        ]
        with patched_interpret_mode() as record:
            try:
                if self.compiled is None:
                    shapes = [jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in self.input_types]
                    self.compiled = jax.jit(self.evaluate).trace(*shapes).lower(lowering_platforms=("cpu",)).compile(XLA_OPTIONS)
                outputs = [np.asarray(output) for output in self.compiled(*arguments)]
            except (jax.errors.JaxRuntimeError, AssertionError, AttributeError, NotImplementedError, TypeError, ValueError) as error:
                raise self.reporter.to_candidate_error(record.failure or error, record) from error
        if record.races:
            raise CandidateError("race", self.reporter.describe_race(*record.races[0]))
        return [output.view(np.uint16) if output.dtype.name == "bfloat16" else output for output in outputs]

    def evaluate(self, *arguments: Any) -> list[Any]:
        return self._evaluate(self.closed.jaxpr, self.closed.consts, arguments)

    def _evaluate(self, jaxpr: Jaxpr, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

        def get(variable: Any) -> Any:
            return variable.val if isinstance(variable, Literal) else values[variable]

        for equation in jaxpr.eqns:
            operands, primitive = [get(variable) for variable in equation.invars], equation.primitive
            inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
            if primitive.name == "pallas_call":
                outputs = self._run_kernel(operands, equation.params)
            elif primitive.name in CALL_PRIMITIVES and isinstance(inner, ClosedJaxpr | Jaxpr):
                closed = inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())
                outputs = self._evaluate(closed.jaxpr, closed.consts, operands)
            else:
                bind: Any = primitive.bind
                get_bind_params: Any = primitive.get_bind_params
                result = bind(*operands, **get_bind_params(equation.params))
                outputs = result if primitive.multiple_results else [result]
            values.update(zip(equation.outvars, outputs, strict=True))
        return [get(variable) for variable in jaxpr.outvars]

    def _run_kernel(self, operands: list[Any], params: dict[str, Any]) -> Any:
        if params["mesh"] is not None:
            raise NotImplementedError("a kernel with a `mesh` is not supported: use a grid with parallel dimensions")
        settings = make_settings(self.detect_races, self.cores if has_parallel_dimension(params) else 1, self.seed)
        arguments = {name: value for name, value in params.items() if name != "interpret"}
        if params["grid_mapping"].vmapped_dims:
            arguments["compiler_params"] = dataclasses.replace(
                params["compiler_params"] or tpu.CompilerParams(), dimension_semantics=dimension_semantics(params)
            )
        interpret: Any = mode.interpret_pallas_call
        outputs = interpret(*operands, **arguments, interpret_params=settings)
        # An output that aliases an input has the padded shape of that input, which ends with a complete block.
        return [output[tuple(map(slice, aval.shape))] for output, aval in zip(outputs, params["out_avals"], strict=True)]


def make_settings(detect_races: bool, cores: int, seed: int = 0) -> tpu.InterpretParams:
    """The settings of interpret mode for one kernel."""
    return tpu.InterpretParams(
        detect_races=detect_races,
        out_of_bounds_reads="raise",
        uninitialized_memory="nan",
        num_cores_or_threads=cores,
        vector_clock_size=64,
        random_seed=seed,
    )


def check_parallel_prefix(call: Any) -> None:
    """Raises CandidateError if a parallel grid dimension follows an arbitrary one."""
    parallel = [is_parallel(kind) for kind in dimension_semantics(call.params)]
    if parallel != sorted(parallel, reverse=True):
        fix = "put the parallel dimensions first, or declare all of them arbitrary, which costs nothing on a chip with one core"
        raise CandidateError("block_shape", f"a parallel grid dimension follows an arbitrary one{source_line(call.source_info)}: {fix}")


def find_pallas_calls(jaxpr: Jaxpr) -> Iterator[Any]:
    """All `pallas_call` equations of a program, including those in nested programs."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "pallas_call":
            yield equation
        else:
            for value in equation.params.values():
                if isinstance(value, ClosedJaxpr | Jaxpr):
                    yield from find_pallas_calls(value.jaxpr if isinstance(value, ClosedJaxpr) else value)


def has_parallel_dimension(params: dict[str, Any]) -> bool:
    """Whether the grid steps of a kernel may be split between cores."""
    return any(is_parallel(kind) for kind in dimension_semantics(params))


def is_parallel(kind: Any) -> bool:
    return str(getattr(kind, "name", kind)).lower() == "parallel"


def dimension_semantics(params: dict[str, Any]) -> tuple[Any, ...]:
    """The semantics of every grid dimension. Dimensions that `jax.vmap` added are parallel, as in the compiler."""
    mapping = params["grid_mapping"]
    semantics = iter(getattr(params["compiler_params"], "dimension_semantics", None) or ())
    return tuple("parallel" if index in mapping.vmapped_dims else next(semantics, "arbitrary") for index in range(len(mapping.grid)))


def trace_warm_up_program() -> None:
    """Traces a small program, so that processes forked from this one start faster. Starts no thread and no device."""
    kind = jax.ShapeDtypeStruct((16, 128), jnp.float32)

    def body(x: Any, o: Any, total: Any) -> None:
        @pallas.when(pallas.program_id(0) == 0)  # type: ignore[untyped-decorator]
        def _() -> None:
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(x[...], x[...].T)
        o[...] = jax.nn.softmax(x[...], axis=1) + total[0, 0]

    spec, scratch = pallas.BlockSpec((8, 128), lambda i: (i, 0)), [tpu.VMEM((8, 8), jnp.float32)]
    call = pallas.pallas_call(body, out_shape=kind, grid=(2,), in_specs=[spec], out_specs=spec, scratch_shapes=scratch)
    program = InterpretedProgram(jax.make_jaxpr(call)(kind))
    with patched_interpret_mode():
        jax.jit(program.evaluate).trace(kind)
