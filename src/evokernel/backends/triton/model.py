"""Lets a KernelBench solution (`ModelNew`) with Triton kernels be recorded and interpreted like a launch function.

Its file comes with `reference.json`: the task's source and its small size, from which the nesting of its arguments follows. The model is
made with the numbers of each call, its parameters are replaced by the call's, and what it returns is copied to the outputs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from evokernel.backends.gpu.model_environment import fake_cuda_environment
from evokernel.backends.gpu.model_facts import CLASS, NOMINAL
from evokernel.core.errors import CandidateError
from evokernel.reference.module import Reference, SeededRandom, flatten_arguments, flatten_value, module_tensors
from evokernel.reference.solution_binding import ReferenceTensor, bind_tensors, substitute_arguments

REFERENCE = "reference.json"
SEED = 0x5EED


class ModelEntry:
    """A launch function that calls a candidate's model."""

    def __init__(self, folder: Path, model_class: Any) -> None:
        order = json.loads((folder / REFERENCE).read_text())
        self.reference, self.model_class = Reference(order["source"], order["name"], order["small"]), model_class
        self.sample = self.reference.sample(SEED)
        self.init = self.reference.init_arguments()
        arguments = flatten_arguments(self.sample.module.forward, self.sample.args)
        self.forward_numbers = sum(isinstance(value, bool | int | float) for _, value in arguments)

    def __call__(self, *values: Any) -> None:
        input_count, tensor_count = len(self.sample.inputs), len(self.sample.inputs) + len(self.sample.params)
        number_count = len(self.sample.scalars)
        tensors, numbers, outputs = (
            values[:tensor_count],
            values[tensor_count : tensor_count + number_count],
            values[tensor_count + number_count :],
        )
        with torch.utils._python_dispatch._disable_current_modes():  # making a model draws its weights, which are then replaced
            model = self.make_model(numbers[self.forward_numbers :], tensors[input_count:])
        substitutes = {id(one.tensor): tensor for one, tensor in zip(self.sample.inputs, tensors)}
        result = model(*substitute_arguments(self.sample.args, substitutes, iter(numbers)))
        results = [leaf for _, leaf in flatten_value("out", result) if leaf is not None]
        check_results(results, outputs)
        for output, one in zip(outputs, results):
            output.copy_(one)

    def make_model(self, init_numbers: tuple[float, ...], parameters: tuple[torch.Tensor, ...]) -> torch.nn.Module:
        """Returns the candidate's model with the parameters of a call, in the way of KernelBench: both models are initialised alike."""
        init = substitute_arguments(self.init, {}, iter(init_numbers))
        with SeededRandom(SEED):
            module = self.reference.namespace["Model"](*init)
        with SeededRandom(SEED):
            model: torch.nn.Module = self.model_class(*init).eval()
        known = [ReferenceTensor(name, tensor, parameter) for (name, tensor), parameter in zip(module_tensors(module), parameters)]
        bind_tensors(model, known)
        return model


def check_results(results: list[Any], outputs: tuple[torch.Tensor, ...]) -> None:
    """Refuses results of other types or sizes than the reference's."""
    expected = [(str(one.dtype), tuple(one.shape)) for one in outputs]
    actual = [(str(one.dtype), tuple(one.shape)) for one in results if isinstance(one, torch.Tensor)]
    if actual != expected:
        raise CandidateError("mismatch", f"{CLASS} returns {actual}, the reference {expected}")


def load_model_entry(path: Path, import_file: Callable[[Path], Any]) -> ModelEntry:
    """Loads a candidate's model in a PyTorch that says that there is a device."""
    if not (path.parent / REFERENCE).exists():
        raise CandidateError("symbol", f"the file defines {CLASS} and no launch function; verify it with `evokernel bench kernelbench`")
    fake_cuda_environment(refuse_extensions, NOMINAL).__enter__()  # until this process ends
    with torch.no_grad():
        model_class = getattr(import_file(path), CLASS, None)
        if not isinstance(model_class, type) or not issubclass(model_class, torch.nn.Module):
            raise CandidateError("symbol", f"the file defines no class {CLASS}(nn.Module); define it")
        entry = ModelEntry(path.parent, model_class)
    torch.set_grad_enabled(False)
    torch.Tensor.is_cuda = property(lambda _: True)  # solutions assert it
    return entry


def refuse_extensions(*_: object, **__: object) -> None:
    """Refuses inline extensions next to Triton kernels."""
    raise CandidateError("unsupported", "the file has Triton kernels and inline extensions; use one of them")
