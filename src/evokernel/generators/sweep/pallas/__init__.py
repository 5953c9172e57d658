"""The sweep's Pallas: blocks that stream through VMEM, products on the matrix unit, accumulators in scratch."""

from __future__ import annotations

from pathlib import Path

from evokernel.generators.sweep.dialect import Dialect
from evokernel.generators.sweep.pallas.decisions import SKETCHES
from evokernel.generators.sweep.pallas.facts import describe

dialect = Dialect(folder=Path(__file__).parent, file="kernel.py", fence="python", sketches=SKETCHES, describe=describe, spaced=True)
