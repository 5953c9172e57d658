"""Runs a candidate's launch function once for every size on tensors that hold nothing, compiles what it launches, and writes it down.

This process holds the candidate's Python and no device. What it writes is data, looked at by the judge before anything is run.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler as nvidia
from triton.runtime import autotuner, driver
from triton.runtime.cache import FileCacheManager
from triton.runtime.jit import JITFunction

from evokernel.backends.gpu.program import key
from evokernel.backends.gpu.torch_guard import Guard
from evokernel.backends.triton.screen import findings
from evokernel.core.errors import CandidateError
from evokernel.core.protocols import CallShape

FILE, TRACED, ENTRY = "kernel.py", "traced.json", "kernel"
MOST_LAUNCHES, MOST_KERNELS = 10_000, 64
DTYPES = {
    name: getattr(torch, name) for name in ["float64", "int64", "float32", "int32", "float16", "bfloat16", "int16", "int8", "uint8", "bool"]
}


class OneFolder(FileCacheManager):  # type: ignore[misc]
    """Triton's cache without renaming: a process that is closed in cannot move files between folders, and nobody else reads these."""

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        is_bytes = isinstance(data, bytes)
        path = Path(self._make_path(filename))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if is_bytes else str(data).encode())
        return str(path)


class NoDevice:
    """Stands in for Triton's driver: there is a target to compile for, and nothing to launch on."""

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


class ToPtx(nvidia.CUDABackend):  # type: ignore[misc]
    """Triton's compiler as far as PTX: what comes after is a program of its own, and run by the judge."""

    def __init__(self, target: GPUTarget) -> None:
        super().__init__(target)
        self.binary_ext = "ptx"

    def add_stages(self, stages: dict[str, Any], options: Any, *rest: Any) -> None:
        super().add_stages(stages, options, *rest)
        stages.pop("cubin", None)


class Tape:
    """What one call of the launch function did."""

    def __init__(self, call: CallShape) -> None:
        self.call, self.steps = call, list[list[Any]]()
        self.storages: dict[int, int] = {}
        self.kept: list[torch.Tensor] = []
        self.scratch: list[int] = []
        self.tensors = [self.tensor(dtype, shape) for _, dtype, shape in (*call.inputs, *call.outputs)]
        self.sizes = [tensor.numel() * tensor.element_size() for tensor in self.tensors]

    def tensor(self, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        made = torch.empty(shape, dtype=DTYPES[dtype], device="meta")
        self.know(made, len(self.storages))
        return made

    def know(self, tensor: torch.Tensor, number: int) -> None:
        self.kept.append(tensor)
        self.storages[tensor.untyped_storage()._cdata] = number

    def taken(self, tensor: torch.Tensor, is_zero: bool) -> None:
        """Scratch."""
        self.know(tensor, len(self.storages))
        self.scratch.append(tensor.untyped_storage().nbytes())
        if is_zero:
            self.cleared(tensor)

    def cleared(self, tensor: torch.Tensor) -> None:
        if not tensor.is_contiguous():
            raise CandidateError("unsupported", "only whole tensors are set to zero from the host: do it in a kernel")
        number, offset = self.place(tensor)
        self.steps.append(["fill", number, offset, 0, tensor.numel() * tensor.element_size()])

    def place(self, tensor: torch.Tensor) -> tuple[int, int]:
        """Which tensor, and the byte in it."""
        number = self.storages.get(tensor.untyped_storage()._cdata)
        if number is None:
            raise CandidateError("forbidden", "a kernel is given a tensor that is neither an argument nor scratch of this call")
        return number, tensor.storage_offset() * tensor.element_size()

    def arguments(self) -> list[object]:
        numbers = [bool(value) if kind == "bool" else int(value) if kind == "int" else value for _, kind, value in self.call.scalars]
        given = len(self.call.inputs)
        return [*self.tensors[:given], *numbers, *self.tensors[given:]]


class Recorder:
    """Triton with its launches written down."""

    def __init__(self) -> None:
        self.tape: Tape | None = None
        self.kernels: dict[str, dict[str, Any]] = {}
        """By hash: name, PTX and what a launch needs to know."""

    @contextmanager
    def installed(self) -> Any:
        """While this lasts, launches come here."""
        before = JITFunction.run, autotuner.Autotuner.run
        JITFunction.run = lambda function, *args, grid, warmup, **kwargs: self.launch(before[0], function, args, grid, kwargs)
        autotuner.Autotuner.run = lambda tuner, *args, **kwargs: self.tuned(tuner, args, kwargs)
        try:
            yield
        finally:
            JITFunction.run, autotuner.Autotuner.run = before

    def launch(self, compile: Any, function: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> None:
        tape = self.tape
        if tape is None:
            raise CandidateError("forbidden", "a kernel is launched outside of the call")
        if len(tape.steps) >= MOST_LAUNCHES:
            raise CandidateError("launch", f"more than {MOST_LAUNCHES} launches in one call")
        compiled = compile(function, *args, grid=grid, warmup=True, **kwargs)
        bound = function.signature.bind(*args, **{name: value for name, value in kwargs.items() if name in function.signature.parameters})
        bound.apply_defaults()
        given = dict(bound.arguments)
        sizes = tuple(grid(given) if callable(grid) else grid) if not isinstance(grid, int) else (grid,)
        sizes = (*map(int, sizes), 1, 1)[:3]
        runtime = [(name, kind) for name, kind in compiled.src.signature.items() if kind != "constexpr"]
        values = [self.value(tape, kind, given[name]) for name, kind in runtime]
        tape.steps.append(["launch", self.kernel(compiled), list(sizes), values])

    def value(self, tape: Tape, kind: str, value: Any) -> list[Any]:
        """One argument: a place in a tensor, or a number of a type."""
        if isinstance(value, torch.Tensor):
            return ["pointer", *tape.place(value)]
        if not isinstance(kind, str) or kind.startswith(("tensordesc", "nvTmaDesc")) or not isinstance(value, int | float | bool):
            raise CandidateError("unsupported", f"an argument of type {kind} ({type(value).__name__}): pass tensors and numbers")
        return [kind, value]

    def kernel(self, compiled: Any) -> str:
        """Its name among the files, written once."""
        if compiled.hash not in self.kernels:
            if len(self.kernels) >= MOST_KERNELS:
                raise CandidateError("memory", f"more than {MOST_KERNELS} different kernels are compiled")
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

    def tuned(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Every configuration is written down; which is taken is found by trying them on the device, if there is one."""
        tape = self.tape
        if tape is None:
            raise CandidateError("forbidden", "a kernel is launched outside of the call")
        tuner.nargs = dict(zip(tuner.arg_names, args))
        pruned = tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs
        before, choices = tape.steps, list[list[list[Any]]]()
        for config in pruned:
            tape.steps = []
            try:
                tuner.fn.run(*args, **kwargs, **config.all_kwargs())
            except (CandidateError, AssertionError, RuntimeError):
                if config is pruned[-1] and not choices:
                    raise
                continue
            finally:
                found, tape.steps = tape.steps, before
            choices.append(found)
        tape.steps.append(["choice", choices]) if len(choices) > 1 else tape.steps.extend(choices[0])


def warm(capability: int) -> None:
    """Before any candidate: what Triton asks of programs, it is told here, where programs can be started."""
    driver.set_active(NoDevice(capability))
    backends = triton.backends.backends
    backends["nvidia"] = type(backends["nvidia"])(compiler=ToPtx, driver=backends["nvidia"].driver)
    tool, version = nvidia.get_ptxas(capability), nvidia.get_ptxas_version(capability)
    getattr(tool, "version", None)
    nvidia.get_ptxas = lambda *_: tool
    nvidia.get_ptxas_version = lambda *_: version
    with Guard(lambda *_: None, lambda *_: None, "meta"):  # PyTorch loads much when tensors without contents are first used
        made = torch.zeros(4, 4, device="meta")
        torch.empty_like(made).view(-1)[2:].zero_()
        made.t().unsqueeze(0).transpose(1, 2).view(2, 8).unsqueeze(0).expand(3, 2, 8).stride()


def record(candidate: Path, calls: Mapping[str, CallShape], into: Path) -> None:
    """Leaves what every size launches, and the PTX of all kernels, in a folder."""
    triton.knobs.cache.dir = str(Path.cwd() / "compiled")
    triton.knobs.cache.manager_class = OneFolder
    recorder, sizes = Recorder(), {}
    with recorder.installed():
        entry = loaded(candidate / FILE)
        for call in calls.values():
            recorder.tape = tape = Tape(call)
            with Guard(tape.taken, tape.cleared, "meta"):
                entry(*tape.arguments())
            recorder.tape = None
            if not any(step[0] != "fill" for step in tape.steps):
                raise CandidateError("no_code", "`kernel` launches nothing: start a @triton.jit function with name[grid](...)")
            tensors = [(dtype, shape) for _, dtype, shape in (*call.inputs, *call.outputs)]
            known = key(tensors, [(kind, value) for _, kind, value in call.scalars])
            sizes[known] = {"tensors": tape.sizes, "outputs": len(call.outputs), "scratch": tape.scratch, "steps": tape.steps}
    (into / TRACED).write_text(json.dumps({"sizes": sizes, "kernels": list(recorder.kernels.values())}))


def loaded(path: Path) -> Any:
    """The launch function."""
    if not path.exists() or not (text := path.read_text()).strip():
        raise CandidateError("no_code", f"write exactly one file called {FILE}")
    if found := list(findings({FILE: text})):
        raise CandidateError("forbidden", "\n".join(found[:5]))
    spec = importlib.util.spec_from_file_location("evokernel_candidate", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    entry = getattr(module, ENTRY, None)
    if not callable(entry) or isinstance(entry, JITFunction):
        raise CandidateError("symbol", f"no function called `{ENTRY}` that launches the kernels: write def {ENTRY}(...)")
    return entry
