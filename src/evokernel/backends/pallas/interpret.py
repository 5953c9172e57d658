"""Runs a traced program on the CPU in Pallas' TPU interpret mode: simulated memory spaces, transfers, semaphores and cores.

Only for programs without Python of the candidate. Importing this module imports JAX.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as mode
from jax._src.pallas.mosaic.interpret import utils
from jax.experimental import pallas
from jax.experimental.pallas import tpu
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from evokernel.backends.pallas.interpret_patches import Access, Record, adapted, line
from evokernel.backends.pallas.numerics import rounded
from evokernel.core.errors import CandidateError

STEPS = 2000
"""Grid steps a program may take at a size it is checked at: 2 to 5 ms each."""

OPTIONS: dict[str, Any] = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_multi_thread_eigen": False,
}
"""A program is compiled for a few short runs: what counts is the time of compiling."""

CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "remat2", "checkpoint")


class Interpreted:
    """A traced program, to be run many times. `seed` draws the order of grid steps that may run in any order.

    Without `races` it is up to five times quicker. Transfers arrive as late as they may, so values still show who does not wait, but not a
    copy that a kernel starts too early.
    """

    def __init__(self, closed: ClosedJaxpr, seed: int = 0, cores: int = 2, races: bool = True) -> None:
        self.calls = list(pallas_calls(closed.jaxpr))
        steps = sum(math.prod(size for size in call.params["grid_mapping"].grid if isinstance(size, int)) for call in self.calls)
        if steps > STEPS:
            raise CandidateError("timeout", f"{steps} grid steps (at most {STEPS} are interpreted): use larger blocks")
        for call in self.calls:
            free = [is_parallel(kind) for kind in semantics(call.params)]
            if free != sorted(free, reverse=True):
                words = "put the parallel ones first, or declare all of them arbitrary, which costs nothing on a chip with one core"
                raise CandidateError(
                    "block_shape", f"a parallel dimension of the grid follows an arbitrary one{line(call.source_info)}: {words}"
                )
        self.types = [variable.aval for variable in closed.jaxpr.invars]
        self.closed, self.seed, self.cores, self.races = rounded(closed), seed, cores, races
        self.compiled: Any = None

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs; bfloat16 arrives as itself or as uint16, and leaves as uint16."""
        arguments = [
            array.view(kind.dtype) if array.dtype == np.uint16 and kind.dtype.name == "bfloat16" else array
            for array, kind in zip(arrays, self.types, strict=True)
        ]
        with adapted() as record:
            try:
                if self.compiled is None:
                    types = [jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in self.types]
                    self.compiled = jax.jit(self.evaluate).trace(*types).lower(lowering_platforms=("cpu",)).compile(OPTIONS)
                outputs = [np.asarray(output) for output in self.compiled(*arguments)]
            except (jax.errors.JaxRuntimeError, AssertionError, AttributeError, NotImplementedError, TypeError, ValueError) as error:
                raise self.explained(record.failure or error, record) from error
        if record.races:
            raise CandidateError("race", self.race(*record.races[0]))
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
                outputs = self._kernel(operands, equation.params)
            elif primitive.name in CALLS and isinstance(inner, ClosedJaxpr | Jaxpr):
                whole = inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())
                outputs = self._evaluate(whole.jaxpr, whole.consts, operands)
            else:
                bind: Any = primitive.bind
                given: Any = primitive.get_bind_params
                result = bind(*operands, **given(equation.params))
                outputs = result if primitive.multiple_results else [result]
            values.update(zip(equation.outvars, outputs, strict=True))
        return [get(variable) for variable in jaxpr.outvars]

    def _kernel(self, operands: list[Any], params: dict[str, Any]) -> Any:
        if params["mesh"] is not None:
            raise NotImplementedError("a kernel over a mesh of cores: use a grid with parallel dimensions")
        settings = tpu.InterpretParams(
            detect_races=self.races,
            out_of_bounds_reads="raise",
            uninitialized_memory="nan",
            num_cores_or_threads=self.cores if parallel(params) else 1,
            vector_clock_size=64,
            random_seed=self.seed,
        )
        given = {name: value for name, value in params.items() if name != "interpret"}
        if params["grid_mapping"].vmapped_dims:
            given["compiler_params"] = dataclasses.replace(
                params["compiler_params"] or tpu.CompilerParams(), dimension_semantics=semantics(params)
            )
        interpret: Any = mode.interpret_pallas_call
        outputs = interpret(*operands, **given, interpret_params=settings)
        # One that shares its memory with an input comes as long as the input was made for its last block to be whole.
        return [output[tuple(map(slice, aval.shape))] for output, aval in zip(outputs, params["out_avals"], strict=True)]

    def explained(self, failure: Exception, record: Record) -> CandidateError:
        """An exception out of interpret mode, as a reason and words."""
        if isinstance(failure, CandidateError):
            return failure
        text = str(failure)
        if block := re.search(
            r"Out-of-bounds block index (\(.*?\)) for (in|out)put \"(.*?)\" in iteration (\(.*?\)).* has shape (\(.*?\))", text
        ):
            index, _, name, step, shape = block.groups()
            words = f"block {index} of {name} in grid step {step} does not lie inside its shape {shape}: check its index map"
            return CandidateError("out_of_bounds", f"out of bounds: {words}")
        if "Out-of-bounds" in text or isinstance(failure, AssertionError):
            return CandidateError("out_of_bounds", f"out of bounds{self.access(record)}")
        if again := re.search(r"of output (\d+) in iteration (\(.*?\)).*iterations (\(.*?\)) through (\(.*?\))", text):
            words = (
                f"a block of output {again[1]} was left after grid step {again[4]} and is visited again in {again[2]}: what it held is lost"
            )
            return CandidateError("race", f"{words}. Steps that work on one block have to follow each other in the grid.")
        if "Transform' object" in text:
            text = "a reference that is reshaped, transposed or cast as a whole: load the value and change that"
        known = isinstance(failure, AttributeError | NotImplementedError | TypeError | ValueError)
        where = line(getattr(getattr(record.last[0], "callback_func", None), "keywords", {}).get("source_info"))
        return CandidateError("unsupported" if known else "crash", f"cannot be interpreted{where}: {type(failure).__name__}: {text}")

    def access(self, record: Record) -> str:
        """The load or store that was under way, in words."""
        callback, flat = record.last
        arguments, _ = jax.tree.unflatten(callback.in_tree, flat)
        info = getattr(callback.callback_func, "keywords", {}).get("source_info")
        if len(arguments) < 6:
            return line(info)
        part = written(utils.to_range(jax.tree.map(int, arguments[5])))
        return f"{line(info)}: {self.name(record.kernels - 1, int(arguments[4]))}[{part}] does not lie inside its shape"

    def race(self, kernel: int, buffer: tuple[Any, ...], one: Access, other: Access) -> str:
        """Two accesses without an order, and what to do."""
        did = ["written" if access.writes else "read" for access in (one, other)]
        by = ["by a transfer" if access.by_transfer else "by the kernel" if access.source else "with its block" for access in (one, other)]
        text = f"race: {self.name(kernel, buffer[1])} is {did[0]} {by[0]}{line(one.source)} and {did[1]} {by[1]}{line(other.source)}"
        if one.by_transfer or other.by_transfer:
            return f"{text}, in no order: wait for the transfer before its source is written or its target is touched"
        advice = "declare it arbitrary, or give each step a part of its own"
        return f"{text} in grid steps that differ in a dimension declared parallel, so that two cores may do so at the same time: {advice}"

    def name(self, kernel: int, buffer: int) -> str:
        """What the kernel calls a buffer; interpret mode numbers them from 100 in a fixed order."""
        names = buffer_names(self.calls[kernel % len(self.calls)].params)
        return names[buffer - 100] if 0 <= buffer - 100 < len(names) else "a buffer of an inner scope"


def written(part: Sequence[Any]) -> str:
    """A range as one writes it in Python."""
    texts = [
        f"{index.start}:{index.stop}" + f":{index.step}" * (index.step != 1) if isinstance(index, slice) else str(index) for index in part
    ]
    return ", ".join(texts)


def buffer_names(params: dict[str, Any]) -> list[str]:
    """In the order of allocation: inputs and outputs in HBM, scalars, and what lives in the core's own memories."""
    mapping, variables = params["grid_mapping"], params["jaxpr"].invars
    names = [str(name) for name in params["jaxpr"].debug_info.arg_names or [f"argument {i}" for i in range(len(variables))]]
    scalars, inputs = mapping.num_index_operands, mapping.num_inputs
    aliased = [output for _, output in params["input_output_aliases"]]
    outputs = [names[scalars + inputs + i] for i in range(mapping.num_outputs) if i not in aliased]
    own = []
    for i, variable in enumerate(variables[scalars:]):
        blocks = mapping.block_mappings
        space = (blocks[i].transformed_block_aval if i < len(blocks) else variable.aval).memory_space
        if str(getattr(space, "value", space)) not in ("any", "hbm", "semaphore_mem"):
            own.append(names[scalars + i])
    return [*names[scalars : scalars + inputs], *outputs, *names[:scalars], *own]


def pallas_calls(jaxpr: Jaxpr) -> Iterator[Any]:
    """The kernels of a program, nested calls included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "pallas_call":
            yield equation
        else:
            for value in equation.params.values():
                if isinstance(value, ClosedJaxpr | Jaxpr):
                    yield from pallas_calls(value.jaxpr if isinstance(value, ClosedJaxpr) else value)


def parallel(params: dict[str, Any]) -> bool:
    """Whether the steps of a kernel may be split between cores."""
    return any(is_parallel(kind) for kind in semantics(params))


def is_parallel(kind: Any) -> bool:
    return str(getattr(kind, "name", kind)).lower() == "parallel"


def semantics(params: dict[str, Any]) -> tuple[Any, ...]:
    """Of every dimension of the grid; those that `jax.vmap` added are parallel, as they are to the compiler."""
    mapping = params["grid_mapping"]
    declared = iter(getattr(params["compiler_params"], "dimension_semantics", None) or ())
    return tuple("parallel" if index in mapping.vmapped_dims else next(declared, "arbitrary") for index in range(len(mapping.grid)))


def warm() -> None:
    """Traces a small program, so that processes forked from this one begin at once. Starts no thread and no device."""
    kind = jax.ShapeDtypeStruct((16, 128), jnp.float32)

    def body(x: Any, o: Any, total: Any) -> None:
        @pallas.when(pallas.program_id(0) == 0)  # type: ignore[untyped-decorator]
        def _() -> None:
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(x[...], x[...].T)
        o[...] = jax.nn.softmax(x[...], axis=1) + total[0, 0]

    spec, scratch = pallas.BlockSpec((8, 128), lambda i: (i, 0)), [tpu.VMEM((8, 8), jnp.float32)]
    call = pallas.pallas_call(body, out_shape=kind, grid=(2,), in_specs=[spec], out_specs=spec, scratch_shapes=scratch)
    program = Interpreted(jax.make_jaxpr(call)(kind))
    with adapted():
        jax.jit(program.evaluate).trace(kind)
