"""Estimates latency without a TPU: simulates the compiler's final schedule with its transfers, and names the bottleneck."""

from evokernel.backends.pallas.schedule.bundles import ScheduleError
from evokernel.backends.pallas.schedule.diagnosis import Diagnosis, diagnose
from evokernel.backends.pallas.schedule.module_estimate import Estimate, Operation, estimate_schedule

__all__ = ["Diagnosis", "Estimate", "Operation", "ScheduleError", "diagnose", "estimate_schedule"]
