"""Time without a chip: the compiler's final schedule is executed bundle by bundle, its transfers priced, its bottleneck named."""

from evokernel.backends.pallas.schedule.bundles import ScheduleError
from evokernel.backends.pallas.schedule.diagnosis import Diagnosis, diagnose
from evokernel.backends.pallas.schedule.module import Estimate, Operation, estimate

__all__ = ["Diagnosis", "Estimate", "Operation", "ScheduleError", "diagnose", "estimate"]
