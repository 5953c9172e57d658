"""Estimates latency without a TPU: simulates the compiler's final schedule with its transfers, and names the bottleneck."""

from evokernel.backends.pallas.schedule.bundles import ScheduleError
from evokernel.backends.pallas.schedule.diagnosis import Diagnosis, diagnose
from evokernel.backends.pallas.schedule.module_estimate import Analysis, Estimate, Operation, analyse_schedule, estimate_schedule

__all__ = [
    "Analysis",
    "Diagnosis",
    "Estimate",
    "Operation",
    "ScheduleError",
    "analyse_schedule",
    "diagnose",
    "estimate_schedule",
]
