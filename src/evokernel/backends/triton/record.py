"""Runs a candidate's launch function once per size on tensors without data, compiles the launched kernels, and records the launches.

This process contains the candidate's Python code and no device. It writes data, which the verifier checks before anything runs.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler as nvidia
from triton.runtime import autotuner, cache, driver
from triton.runtime.jit import JITFunction

from evokernel.backends.gpu.program import program_key
from evokernel.backends.gpu.torch_guard import TorchGuard
from evokernel.backends.triton.launch_check import RECORDING
from evokernel.backends.triton.launch_function import DTYPES, FILE, load_launch_function
from evokernel.core.backend import CallShape
from evokernel.core.errors import CandidateError

MAX_LAUNCHES, MAX_KERNELS = 10_000, 64


class SingleFolderCache(cache.FileCacheManager):  # type: ignore[misc]
    """Triton's cache without renaming, because a sandboxed process cannot move files between folders. No other process reads it."""

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        is_bytes = isinstance(data, bytes)
        path = Path(self._make_path(filename))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if is_bytes else str(data).encode())
        return str(path)


class NullDriver:
    """Replaces Triton's driver: it names a target to compile for, but has no device."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("meta")


class PtxBackend(nvidia.CUDABackend):  # type: ignore[misc]
    """Triton's compiler up to PTX. The verifier runs ptxas, which is a separate program."""

    def __init__(self, target: GPUTarget) -> None:
        super().__init__(target)
        self.binary_ext = "ptx"

    def add_stages(self, stages: dict[str, Any], options: Any, *rest: Any) -> None:
        super().add_stages(stages, options, *rest)
        stages.pop("cubin", None)


class LaunchRecord:
    """The recorded steps of one call of the launch function."""

    def __init__(self, call: CallShape) -> None:
        self.call, self.steps = call, list[list[Any]]()
        self.storages: dict[int, int] = {}
        self.live_tensors: list[torch.Tensor] = []
        self.scratch: list[int] = []
        self.tensors = [self.add_tensor(dtype, shape) for _, dtype, shape in (*call.inputs, *call.outputs)]
        self.sizes = [tensor.numel() * tensor.element_size() for tensor in self.tensors]

    def add_tensor(self, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        tensor = torch.empty(shape, dtype=DTYPES[dtype], device="meta")
        self.register_tensor(tensor, len(self.storages))
        return tensor

    def register_tensor(self, tensor: torch.Tensor, number: int) -> None:
        self.live_tensors.append(tensor)
        self.storages[tensor.untyped_storage()._cdata] = number

    def add_scratch(self, tensor: torch.Tensor, is_zero: bool) -> None:
        """Registers scratch that the launch function allocated."""
        self.register_tensor(tensor, len(self.storages))
        self.scratch.append(tensor.untyped_storage().nbytes())
        if is_zero:
            self.add_fill(tensor)

    def add_fill(self, tensor: torch.Tensor) -> None:
        if not tensor.is_contiguous():
            raise CandidateError("unsupported", "the launch function can zero only contiguous tensors; zero this view in a kernel")
        number, offset = self.locate_tensor(tensor)
        self.steps.append(["fill", number, offset, 0, tensor.numel() * tensor.element_size()])

    def add_copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        self.steps.append(["copy", *self.locate_tensor(target), *self.locate_tensor(source), source.numel() * source.element_size()])

    def locate_tensor(self, tensor: torch.Tensor) -> tuple[int, int]:
        """Returns the tensor's number and the byte offset in it."""
        number = self.storages.get(tensor.untyped_storage()._cdata)
        if number is None:
            raise CandidateError(
                "forbidden", "a kernel gets a tensor that is neither an argument nor scratch of this call; allocate scratch inside `kernel`"
            )
        return number, tensor.storage_offset() * tensor.element_size()

    def call_arguments(self) -> list[object]:
        numbers = [bool(value) if kind == "bool" else int(value) if kind == "int" else value for _, kind, value in self.call.scalars]
        input_count = len(self.call.inputs)
        return [*self.tensors[:input_count], *numbers, *self.tensors[input_count:]]


class LaunchRecorder:
    """Intercepts Triton's launches and records them."""

    def __init__(self) -> None:
        self.tape: LaunchRecord | None = None
        self.kernels: dict[str, dict[str, Any]] = {}
        """By hash: name, PTX and launch properties."""

    @contextmanager
    def record_context(self) -> Any:
        """Context in which Triton's launches are recorded instead of executed."""
        originals = JITFunction.run, autotuner.Autotuner.run
        JITFunction.run = lambda function, *args, grid, warmup, **kwargs: self.record_launch(originals[0], function, args, grid, kwargs)
        autotuner.Autotuner.run = lambda tuner, *args, **kwargs: self.record_autotune(tuner, args, kwargs)
        try:
            yield
        finally:
            JITFunction.run, autotuner.Autotuner.run = originals

    def record_launch(self, compile: Any, function: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> None:
        current = self.tape
        if current is None:
            raise CandidateError("forbidden", "a kernel is launched outside `kernel`; launch it inside the call")
        if len(current.steps) >= MAX_LAUNCHES:
            raise CandidateError("launch", f"one call makes more than {MAX_LAUNCHES} launches; launch fewer, larger kernels")
        compiled_kernel = compile(function, *args, grid=grid, warmup=True, **kwargs)
        bound_arguments = function.signature.bind(
            *args, **{name: value for name, value in kwargs.items() if name in function.signature.parameters}
        )
        bound_arguments.apply_defaults()
        arguments = dict(bound_arguments.arguments)
        sizes = tuple(grid(arguments) if callable(grid) else grid) if not isinstance(grid, int) else (grid,)
        sizes = (*map(int, sizes), 1, 1)[:3]
        runtime = [(name, kind) for name, kind in compiled_kernel.src.signature.items() if kind != "constexpr"]
        values = [self.encode_argument(current, kind, arguments[name]) for name, kind in runtime]
        current.steps.append(["launch", self.register_kernel(compiled_kernel), list(sizes), values])

    def encode_argument(self, tape: LaunchRecord, kind: str, value: Any) -> list[Any]:
        """Encodes one argument: a location in a tensor, or a typed number."""
        if isinstance(value, torch.Tensor):
            return ["pointer", *tape.locate_tensor(value)]
        if not isinstance(kind, str) or kind.startswith(("tensordesc", "nvTmaDesc")) or not isinstance(value, int | float | bool):
            raise CandidateError(
                "unsupported", f"a kernel argument has the type {kind} ({type(value).__name__}); pass tensors and numbers only"
            )
        return [kind, value]

    def register_kernel(self, compiled: Any) -> str:
        """Stores a kernel once; returns its file name."""
        if compiled.hash not in self.kernels:
            if len(self.kernels) >= MAX_KERNELS:
                raise CandidateError(
                    "memory", f"the candidate compiles more than {MAX_KERNELS} different kernels; use fewer constexpr variants"
                )
            meta = compiled.metadata
            ptx = compiled.asm["ptx"]
            self.kernels[compiled.hash] = {
                "file": f"kernel{len(self.kernels)}",
                "name": meta.name,
                "ptx": ptx.decode() if isinstance(ptx, bytes) else ptx,
                "warps": meta.num_warps,
                "shared": meta.shared,
                "cluster": meta.num_ctas,
                "cooperative": bool(getattr(meta, "launch_cooperative_grid", False)),
                "scratch": getattr(meta, "global_scratch_size", 0) or 0,
            }
        return str(self.kernels[compiled.hash]["file"])

    def record_autotune(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Records every autotuner configuration. The verifier picks one by trying them on the device, if there is one."""
        record = self.tape
        if record is None:
            raise CandidateError("forbidden", "a kernel is launched outside `kernel`; launch it inside the call")
        tuner.nargs = dict(zip(tuner.arg_names, args))
        configs = tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs
        before, choices = record.steps, list[list[list[Any]]]()
        for config in configs:
            record.steps = []
            try:
                tuner.fn.run(*args, **kwargs, **config.all_kwargs())
            except (CandidateError, AssertionError, RuntimeError):
                if config is configs[-1] and not choices:
                    raise
                continue
            finally:
                recorded_steps, record.steps = record.steps, before
            choices.append(recorded_steps)
        record.steps.append(["choice", choices]) if len(choices) > 1 else record.steps.extend(choices[0])


def load_triton(capability: int) -> None:
    """Prepares Triton before any candidate is loaded, while starting programs is still allowed."""
    driver.set_active(NullDriver(capability))
    backends = triton.backends.backends
    backends["nvidia"] = type(backends["nvidia"])(compiler=PtxBackend, driver=backends["nvidia"].driver)
    tool, version = nvidia.get_ptxas(capability), nvidia.get_ptxas_version(capability)
    getattr(tool, "version", None)
    nvidia.get_ptxas = lambda *_: tool
    nvidia.get_ptxas_version = lambda *_: version
    cache.triton_key = lambda: triton.__version__  # a hash of all of Triton's files: no other process reads this cache
    importlib.import_module("triton.experimental.gluon")  # else Triton loads it at the first launch of every candidate
    with TorchGuard(lambda *_: None, lambda *_: None, "meta"):  # PyTorch loads many modules at the first use of meta tensors
        tensor = torch.zeros(4, 4, device="meta")
        torch.empty_like(tensor).view(-1)[2:].zero_()
        tensor.t().unsqueeze(0).transpose(1, 2).view(2, 8).unsqueeze(0).expand(3, 2, 8).stride()


def record_launches(candidate: Path, calls: Mapping[str, CallShape], into: Path) -> None:
    """Records the launches of every size and the PTX of all kernels into a folder."""
    triton.knobs.cache.dir = str(Path.cwd() / "compiled")
    triton.knobs.cache.manager_class = SingleFolderCache
    recorder, sizes = LaunchRecorder(), {}
    with recorder.record_context():
        entry = load_launch_function(candidate / FILE)
        for call in calls.values():
            recorder.tape = record = LaunchRecord(call)
            with TorchGuard(record.add_scratch, record.add_fill, "meta", record.add_copy):
                entry(*record.call_arguments())
            recorder.tape = None
            if not any(step[0] in ("launch", "choice") for step in record.steps):
                raise CandidateError("no_code", "`kernel` launches no kernel; launch a @triton.jit function with name[grid](...)")
            tensors = [(dtype, shape) for _, dtype, shape in (*call.inputs, *call.outputs)]
            call_key = program_key(tensors, [(kind, value) for _, kind, value in call.scalars])
            sizes[call_key] = {"tensors": record.sizes, "outputs": len(call.outputs), "scratch": record.scratch, "steps": record.steps}
    (into / RECORDING).write_text(json.dumps({"sizes": sizes, "kernels": list(recorder.kernels.values())}))
