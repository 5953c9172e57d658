"""Checks a kernel at the timed size on the device: draws inputs there, runs the kernel, computes the reference and compares.

A kernel could write anywhere in the memory of its process. So inputs are drawn again from their seed after it has run, and the expected
outputs are computed after that: nothing that existed while the kernel ran is used, except the outputs and the guard bands around them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch

from evokernel.core.backend import DeviceCase, DeviceCaseResult, DeviceCheckResult
from evokernel.core.errors import CandidateError, UserError
from evokernel.core.numeric_contract import (
    FLUSHED_DTYPES,
    MAX_REFERENCE_ERROR,
    MAX_REFERENCE_ERROR_HALF,
    PAPER_RULE,
    ROUNDING_STEPS,
    SMALLEST_NORMAL,
    VANISHING_SHARE,
    ToleranceRule,
    compute_error_share,
    has_half_tensors,
    make_tolerance_rule,
)
from evokernel.core.output_difference import OutputDifference
from evokernel.core.records import Task
from evokernel.reference.arrays import dtype_name
from evokernel.reference.device_reference import DeviceReference, ExpectedTensors
from evokernel.reference.device_sample import have_equal_bits
from evokernel.reference.input_distributions import DrawOptions
from evokernel.reference.module import Sample
from evokernel.reference.tensor_compare import (
    ExpectedTensor,
    compute_rms,
    have_same_nonfinite,
    is_all_finite,
    measure_reference_error,
)

NO_FLOAT64_REFERENCE = "float64 reference: not available, so the task's own tolerance applies"
FINGERPRINT_ELEMENTS = 1 << 16
CHANGED_INPUT = "the kernel changed an input (at the timed size): inputs are read-only, write to the outputs only"
DIFFERENT_BITS = (
    "two runs on equal inputs give different outputs (at the timed size): look for a data race, or for memory that is read before it is set"
)


class UnsuitableInputs(Exception):
    """The operator is not defined for this kind of inputs."""


class CheckedKernel(Protocol):
    """A candidate on the device, with tensors of its own."""

    def run(self, inputs: Sequence[torch.Tensor]) -> None:
        """Copy the inputs, poison the outputs, run the kernel once and wait. Raises CandidateError if it fails or writes elsewhere."""

    def read_outputs(self) -> list[torch.Tensor]:
        """Return copies of the outputs."""

    def has_inputs(self, inputs: Sequence[torch.Tensor]) -> bool:
        """Whether the kernel's inputs still have these bits."""


class UsualOutputs(NamedTuple):
    """The outputs on the task's own inputs."""

    magnitudes: list[float]
    is_finite: bool


class DeviceCheck:
    """Runs the cases of one candidate. It reports whether the kernel or the reference runs, so that a time-out can be attributed."""

    def __init__(
        self, task: Task, protocol: str, reference: DeviceReference, kernel: CheckedKernel, report: Callable[[str], None], limit_s: float
    ) -> None:
        self.task, self.protocol, self.reference, self.kernel, self.report, self.limit_s = (
            task,
            protocol,
            reference,
            kernel,
            report,
            limit_s,
        )
        self.usual: UsualOutputs | None = None
        self.accepted_fingerprints: list[list[torch.Tensor]] = []
        self.note = ""

    def run(self, cases: Sequence[DeviceCase]) -> DeviceCheckResult:
        """Run the cases in order until one fails; after the time limit, only the first one."""
        results: list[DeviceCaseResult] = []
        start_s = time.monotonic()
        for case in cases:
            if results and time.monotonic() - start_s > self.limit_s:
                results.append(DeviceCaseResult("skipped"))
                continue
            results.append(self.run_case(case))
            if results[-1].status == "failed":
                break
        return DeviceCheckResult(tuple(results), self.note)

    def run_case(self, case: DeviceCase) -> DeviceCaseResult:
        """Run one case, compare every output, and run it again: further runs must give equal bits."""
        try:
            outputs = self.run_kernel(case)
            difference = self.compare(case, outputs)
            if difference:
                is_stale = any(all(map(torch.equal, make_fingerprint(outputs), earlier)) for earlier in self.accepted_fingerprints)
                return DeviceCaseResult("failed", difference.reason, "", difference, is_stale)
            for _ in range(case.repeats - 1):
                if not all(map(have_equal_bits, outputs, self.run_kernel(case))):
                    raise CandidateError("nondeterministic", DIFFERENT_BITS)
        except UnsuitableInputs:
            return DeviceCaseResult("unsuitable")
        except CandidateError as error:
            return DeviceCaseResult("failed", error.reason, error.detail)
        self.accepted_fingerprints.append(make_fingerprint(outputs))
        return DeviceCaseResult("passed")

    def run_kernel(self, case: DeviceCase) -> list[torch.Tensor]:
        """Run the kernel on newly drawn inputs; return its outputs."""
        self.report("reference")
        inputs = collect_kernel_inputs(self.draw(case))
        self.report("kernel")
        self.kernel.run(inputs)
        return self.kernel.read_outputs()

    def draw(self, case: DeviceCase) -> Sample:
        """Draw the inputs of a case."""
        sample = self.reference.draw(case.seed, case.kind, DrawOptions(*case.options))
        if sample is None:
            raise UnsuitableInputs(case.kind)
        return sample

    def compare(self, case: DeviceCase, outputs: list[torch.Tensor]) -> OutputDifference | None:
        """Draw the inputs again, compute the reference and compare every element; return the difference of the first wrong output."""
        self.report("reference")
        sample = self.draw(case)
        if not self.kernel.has_inputs(collect_kernel_inputs(sample)):
            raise CandidateError("inputs", CHANGED_INPUT)
        try:
            expected = self.reference.compute(sample, with_float64=self.protocol == "strict" and "random" not in self.task.tags)
        except UserError:
            if case.kind == "own":
                raise
            raise UnsuitableInputs(case.kind) from None
        for index, (one, actual) in enumerate(zip(self.make_expected(case, sample, expected), outputs, strict=True)):
            mask = one.find_wrong_elements(actual)
            if not bool(mask.any()):
                continue
            if self.protocol == "strict":
                moved = (named[index].tensor for named in self.reference.run_all_perturbed(sample, expected.own, ROUNDING_STEPS))
                mask = one.exclude_jumps(mask, actual, moved)
            if bool(mask.any()):
                return one.describe(mask, actual)
        return None

    def make_expected(self, case: DeviceCase, sample: Sample, expected: ExpectedTensors) -> list[ExpectedTensor]:
        """Return the expected outputs with their tolerances. Raises UnsuitableInputs if they cannot verify a kernel."""
        names = [tensor.name for tensor in self.task.signature.outputs]
        owns = [tensor for _, tensor in expected.own]
        if self.protocol == "paper":
            return [ExpectedTensor(name, own, None, PAPER_RULE) for name, own in zip(names, owns, strict=True)]
        self.refuse_unsuitable(case.kind, owns)
        wides = self.select_wide(case.kind, owns, expected)
        moved = self.reference.run_perturbed(sample, expected.own, sample.seed, 1.0) if case.kind not in ("own", "nonfinite") else None
        has_half = has_half_tensors(self.task.signature) or expected.rounds_to_half
        length = expected.reduction_length or self.task.work.reduction_length
        results = []
        for index, (name, own, wide) in enumerate(zip(names, owns, wides, strict=True)):
            rule = ToleranceRule(0.0, 0.0)
            if own.is_floating_point():
                error = measure_reference_error(own, wide, moved[index].tensor if moved else None)
                if case.kind != "own" and error > (MAX_REFERENCE_ERROR_HALF if has_half else MAX_REFERENCE_ERROR):
                    raise UnsuitableInputs(case.kind)
                share = compute_error_share(error, dtype_name(own), length, expected.rounds_to_half)
                is_known = wide is not None or case.kind != "own"
                rule = make_tolerance_rule(self.task.signature, self.task.atol, self.task.rtol, case.kind, share if is_known else None)
            results.append(ExpectedTensor(name, own, wide, rule))
        return results

    def refuse_unsuitable(self, kind: str, owns: Sequence[torch.Tensor]) -> None:
        """Raise UnsuitableInputs if unusual inputs give outputs that say little about a kernel."""
        is_finite = is_all_finite(owns)
        if kind == "own":
            self.usual = self.usual or UsualOutputs(measure_magnitudes(owns), is_finite)
            return
        if kind == "nonfinite":
            return
        usual = self.get_usual()
        if not is_finite and usual.is_finite:
            raise UnsuitableInputs(kind)
        if any(map(is_subnormal, owns)):
            raise UnsuitableInputs(kind)
        pairs = zip(owns, measure_magnitudes(owns), usual.magnitudes, strict=True)
        if kind == "shifted" and any(own.is_floating_point() and size < VANISHING_SHARE * other for own, size, other in pairs):
            raise UnsuitableInputs(kind)

    def get_usual(self) -> UsualOutputs:
        """Return the size of the outputs on the task's own inputs."""
        if self.usual is None:
            owns = [tensor for _, tensor in self.reference.compute(self.reference.draw_own(1), with_float64=False).own]
            self.usual = UsualOutputs(measure_magnitudes(owns), is_all_finite(owns))
        return self.usual

    def select_wide(self, kind: str, owns: Sequence[torch.Tensor], expected: ExpectedTensors) -> list[torch.Tensor | None]:
        """Return the float64 truth of each output that has one: narrower floats, and integers that were computed from floats."""
        if expected.wide is None:
            if any(own.is_floating_point() and own.dtype != torch.float64 for own in owns):
                self.note = NO_FLOAT64_REFERENCE
            return [None] * len(owns)
        floats = [own.is_floating_point() for own in owns]
        if all(have_same_nonfinite(own, wide) for own, wide, is_float in zip(owns, expected.wide, floats) if is_float):
            return [None if own.dtype == torch.float64 else wide for own, wide in zip(owns, expected.wide, strict=True)]
        if kind != "own":
            raise UnsuitableInputs(kind)
        self.note = NO_FLOAT64_REFERENCE
        return [None] * len(owns)


def collect_kernel_inputs(sample: Sample) -> list[torch.Tensor]:
    """Return inputs and parameters as a kernel receives them: row-major, in the order of the signature."""
    return [tensor.detach().contiguous() for _, tensor in (*sample.inputs, *sample.params)]


def is_subnormal(output: torch.Tensor) -> bool:
    """Whether all values of an output are so small that kernels without subnormal numbers replace them by zero."""
    return dtype_name(output) in FLUSHED_DTYPES and output.numel() > 0 and 0 < float(output.abs().max()) < SMALLEST_NORMAL


def measure_magnitudes(outputs: Sequence[torch.Tensor]) -> list[float]:
    """Return the root mean square of each output."""
    return [compute_rms(output) if output.is_floating_point() else 0.0 for output in outputs]


def make_fingerprint(outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return some bytes of each output, by which results of an earlier case are recognized."""
    flats = [output.reshape(-1) for output in outputs]
    return [flat[:: max(1, flat.numel() // FINGERPRINT_ELEMENTS)].contiguous().view(torch.uint8).clone() for flat in flats]
