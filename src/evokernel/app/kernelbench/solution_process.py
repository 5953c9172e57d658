"""The process that runs a solution as KernelBench does, inside the sandbox. Its result is a claim: the solution's code runs in it.

The rules are those of `eval_kernel_against_ref` and `time_execution_with_cuda_event` in ScalingIntelligence/KernelBench, commit 423217d:
seed 42, weights and inputs from one seed for both models, `torch.allclose` in every trial, and CUDA events around each call after the
second-level cache was overwritten. One rule differs: inputs of integer type keep their type.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evokernel.backends.gpu.torch_guard import CLEAR_OPS, EMPTY, VIEWS, ZEROS
from evokernel.reference.arrays import from_array, to_array
from evokernel.reference.module import Reference, SeededRandom, flatten_value, module_tensors
from evokernel.reference.solution_binding import ReferenceTensor, as_python_number, bind_tensors, substitute_arguments

ORDER, RESULT, SOLUTION_FILE, READY, GO = "order.json", "result.json", "solution.py", "ready to time", "go"
SEED = 42
LOOSE_TOLERANCE = 1e-2
TOLERANCES = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-2}
"""KernelBench's `get_tolerance_for_precision`; versions 0 and 0.1 used 1e-2 for float32 as well (LOOSE_TOLERANCE)."""
WARM_UPS, DISCARDED = 3, 1
L2_SHAPE = (32, 1024, 1024)
MAX_ERROR_CHARS = 600
FREE_OPERATORS = VIEWS | {*EMPTY, *ZEROS, *CLEAR_OPS}
"""Operators that allocate, clear or take views; every other operator computes or copies."""


class OperatorLog(TorchDispatchMode):  # type: ignore[misc]
    """Notes the PyTorch operators that compute or copy while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, None] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.name().startswith("aten::") and func.name() not in FREE_OPERATORS:
            self.names[func.name().partition("::")[2].partition(".")[0]] = None
        return func(*args, **(kwargs or {}))


class SolutionRun:
    """One run of a solution; `result` is written to a file after every step, so that a crash leaves what was found before."""

    def __init__(self, workdir: Path, order: dict[str, Any]) -> None:
        self.workdir, self.order = workdir, order
        self.device = torch.device(order["device"])
        self.reference = Reference(order["source"], order["name"], order["sizes"])
        self.result: dict[str, Any] = {"step": "started"}
        self.operators = OperatorLog()

    def note(self, **values: Any) -> None:
        """Add to the result and write it."""
        self.result |= values
        part = self.workdir / f"{RESULT}.part"
        part.write_text(json.dumps(self.result))
        os.replace(part, self.workdir / RESULT)

    def load_class(self) -> Any:
        """Load the solution as KernelBench does: Triton files as a module, others in the namespace of the reference."""
        path = self.workdir / SOLUTION_FILE
        if self.order["kind"] == "triton":
            spec = importlib.util.spec_from_file_location("solution", path)
            assert spec
            assert spec.loader
            module = importlib.util.module_from_spec(spec)
            sys.modules["solution"] = module
            spec.loader.exec_module(module)
            return module.ModelNew
        namespace = dict(self.reference.namespace)
        exec(compile(path.read_text(), str(path), "exec"), namespace)
        return namespace["ModelNew"]

    def make_models(self, solution: Any) -> tuple[torch.nn.Module, torch.nn.Module]:
        """Return both models on the device, with the weights of one seed."""
        set_seed()
        init = [self.place(value) for value in self.reference.init_arguments()]
        models = []
        for cls in (self.reference.namespace["Model"], solution):
            set_seed()
            models.append(cls(*init).to(self.device))
        return models[0], models[1]

    def place(self, value: Any) -> Any:
        """Move an argument to the device."""
        return value.to(self.device) if isinstance(value, torch.Tensor) else value

    def draw_inputs(self, seed: int) -> list[Any]:
        """Draw inputs from a seed, and seed again."""
        set_seed(seed)
        inputs = [self.place(value) for value in self.reference.make_inputs()]
        set_seed(seed)
        return inputs

    def run_trials(self, model: torch.nn.Module, model_new: torch.nn.Module, count: int) -> None:
        """Compare the outputs of all trials; every trial must pass."""
        torch.manual_seed(SEED)
        seeds = [int(torch.randint(0, 2**32 - 1, (1,)).item()) for _ in range(count)]
        passed, passed_loose, largest = 0, 0, 0.0
        for seed in seeds:
            inputs = self.draw_inputs(seed)
            expected, actual = model(*inputs), model_new(*inputs)
            self.synchronize()
            if expected.shape != actual.shape:
                self.note(error=f"the output has shape {tuple(actual.shape)}, the reference's {tuple(expected.shape)}")
                break
            tolerance = TOLERANCES.get(expected.dtype, LOOSE_TOLERANCE)
            passed += torch.allclose(expected, actual, atol=tolerance, rtol=tolerance)
            passed_loose += torch.allclose(expected, actual, atol=LOOSE_TOLERANCE, rtol=LOOSE_TOLERANCE)
            largest = max(largest, float((expected.double() - actual.double()).abs().max()) if expected.numel() else 0.0)
        self.note(step="trials", trials=count, passed=passed, passed_loose=passed_loose, largest_difference=repr(largest))

    def log_operators(self, model_new: torch.nn.Module) -> None:
        """Note the PyTorch operators of one call."""
        inputs = self.draw_inputs(SEED)
        with self.operators:
            model_new(*inputs)
        self.note(operators=sorted(self.operators.names))

    def time_models(self, model: torch.nn.Module, model_new: torch.nn.Module, count: int) -> None:
        """Time both models once the verifier allows it, which keeps other measurements away from the device."""
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        if sys.stdin.readline().strip() != GO:
            return
        inputs = self.draw_inputs(SEED)
        self.note(step="timed", solution_ms=self.time_calls(model_new, inputs, count))
        self.note(reference_ms=self.time_calls(model, inputs, count))

    def time_calls(self, model: Callable[..., Any], inputs: Sequence[Any], count: int) -> list[float]:
        """Return the milliseconds of each call, by events around it."""
        for _ in range(WARM_UPS):
            model(*inputs)
            self.synchronize()
        torch.cuda.empty_cache()
        times = []
        for _ in range(count + DISCARDED):
            self.synchronize()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.empty(L2_SHAPE, dtype=torch.int64, device=self.device).fill_(SEED)
            start.record()
            model(*inputs)
            end.record()
            self.synchronize()
            times.append(start.elapsed_time(end))
        return times[DISCARDED:]

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def run_criterion(self) -> None:
        """Evaluate the solution as KernelBench does."""
        with torch.no_grad():
            solution = self.load_class()
            self.note(step="loaded")
            model, model_new = self.make_models(solution)
            if self.device.type == "cpu":
                pretend_device()
            self.run_trials(model, model_new, self.order["trials"])
            if self.result["passed_loose"] == self.order["trials"] and self.device.type == "cuda" and self.order["timed_calls"]:
                self.time_models(model, model_new, self.order["timed_calls"])
            self.log_operators(model_new)
        self.note(step="done")

    def run_cases(self) -> None:
        """Run the solution on inputs and parameters that the verifier drew; the verifier compares the outputs.

        All cases use the same memory, so that an output that is kept for an address is found out.
        """
        with torch.no_grad():
            solution = self.load_class()
            self.note(step="loaded")
            call = self.bind_model(solution)
            if self.device.type == "cpu":
                pretend_device()
            for number, case in enumerate(self.order["cases"]):
                outputs = call(case, number)
                (self.workdir / f"outputs{number}.bin").write_bytes(b"".join(array.data.tobytes() for array in outputs))
                self.note(step=f"case {number}", operators=sorted(self.operators.names))
        self.note(step="done")

    def bind_model(self, solution: Any) -> Callable[[dict[str, Any], int], list[Any]]:
        """Return a call that copies a case into the tensors of the model, runs it and returns its outputs."""
        with SeededRandom(SEED):
            init = [self.place(value) for value in self.reference.init_arguments()]
            module = self.reference.namespace["Model"](*init).eval()
        with SeededRandom(SEED):
            model = solution(*init).eval()
        sample = self.reference.sample(SEED, module)
        parameters = [tensor for _, tensor in module_tensors(module)]
        tensors = [tensor.detach().clone().to(self.device) for tensor in [*(one.tensor for one in sample.inputs), *parameters]]
        count = len(sample.inputs)
        named = zip(module_tensors(module), tensors[count:], strict=True)
        bind_tensors(model, [ReferenceTensor(name, tensor.cpu(), substitute) for (name, tensor), substitute in named])
        model = model.to(self.device)
        substitutes = {id(one.tensor): tensor for one, tensor in zip(sample.inputs, tensors)}

        def call(case: dict[str, Any], number: int) -> list[Any]:
            data = (self.workdir / f"inputs{number}.bin").read_bytes()
            offset = 0
            for tensor, (dtype, shape) in zip(tensors, case["tensors"], strict=True):
                array = to_array("", torch.empty(shape, dtype=getattr(torch, dtype)))
                size = array.data.nbytes
                values = np.frombuffer(data, array.data.dtype, count=array.data.size, offset=offset).reshape(shape)
                tensor.copy_(from_array(array._replace(data=values)))
                offset += size
            numbers = iter([as_python_number(kind, value) for kind, value in case["scalars"]])
            with self.operators:
                result = model(*substitute_arguments(sample.args, substitutes, numbers))
            self.synchronize()
            return [to_array("", leaf) for _, leaf in flatten_value("out", result) if isinstance(leaf, torch.Tensor)]

        return call


def set_seed(seed: int = SEED) -> None:
    """Seed PyTorch's generators."""
    torch.manual_seed(seed)
    if torch.cuda.is_available():
        torch.cuda.manual_seed(seed)


class ReportErrors:
    """Context that notes any exception of the solution in the result; the process then ends."""

    def __init__(self, run: SolutionRun) -> None:
        self.run = run

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        text = str(error).strip() or type(error).__name__
        self.run.note(error=f"{type(error).__name__}: {text[-MAX_ERROR_CHARS:]}")
        return True


def pretend_device() -> None:
    """Let tensors on the host say that they are on a device: solutions assert it, and Triton's interpreter needs none.

    What the interpreter itself computes with PyTorch is not logged.
    """
    torch.Tensor.is_cuda = property(lambda _: True)
    if interpreter := sys.modules.get("triton.runtime.interpreter"):
        execute = interpreter.GridExecutor.__call__

        def execute_unlogged(executor: object, *args: object, **kwargs: object) -> object:
            with torch.utils._python_dispatch._disable_current_modes():
                return execute(executor, *args, **kwargs)

        interpreter.GridExecutor.__call__ = execute_unlogged


def main() -> None:
    """Entry point: the folder of the order is the argument. Exit code 3: the device cannot be used in this sandbox."""
    workdir = Path(sys.argv[2])
    order = json.loads((workdir / ORDER).read_text())
    if order["device"] != "cpu":
        try:
            torch.cuda.init()
            torch.zeros(1, device=order["device"]).add_(1).item()
        except (RuntimeError, AssertionError) as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            sys.exit(3)
    if order["mode"] == "probe":
        return
    torch.set_num_threads(order["threads"])
    run = SolutionRun(workdir, order)
    with ReportErrors(run):
        run.run_criterion() if order["mode"] == "criterion" else run.run_cases()
