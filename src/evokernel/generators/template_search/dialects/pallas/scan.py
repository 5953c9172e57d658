"""A running sum or product along one axis."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    ACROSS,
    EXACT,
    LANES,
    LIMIT,
    MASK,
    ROWS,
    SEMANTICS,
    is_unchunked,
)
from evokernel.generators.template_search.dialects.pallas.layouts import axis_arguments
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a scan by the sizes before, along and after the axis."""
    (main,), (x,) = pattern.main_nodes, pattern.tensors
    if main.dtype != "float32":
        raise UnsupportedPattern(f"a running sum in {main.dtype}")
    if len(main.dims) != 1 or main.name not in ("sum", "prod"):
        raise UnsupportedPattern(f"a running {main.name}")
    arguments, is_strided = axis_arguments(x, main.dims[0])
    variables = {
        "strided": is_strided, "kind": x.dtype, "sign": "+" if main.name == "sum" else "*",
        "start": "0.0" if main.name == "sum" else "1.0",
    }  # fmt: skip
    place = "strided" if is_strided else "rows"
    return PatternDescription(arguments, variables, frozenset({place, f"{place} {main.name}"}))


PRODUCTS = one_of("algorithm", "triangle", "chunks")

template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("triangle", "chunks", "shift"), trait="rows sum"),
        Decision("algorithm", ("shift", "turned"), trait="rows prod"),
        Decision("algorithm", ("triangle", "parts", "serial", "shift", "chunks"), trait="strided sum"),
        Decision("algorithm", ("serial", "shift"), trait="strided prod"),
        LANES._replace(trait="strided"),
        LANES._replace(when=one_of("algorithm", "turned"), trait="rows"),
        ROWS._replace(options=ROWS.options[:6], when=lambda choice: choice["algorithm"] != "turned", trait="rows"),
        Decision("chunk", ("128", "256", "512"), PRODUCTS, trait="rows"),
        Decision("chunk", ("64", "128", "512"), one_of("algorithm", "parts", "chunks"), trait="strided"),
        Decision("shift", ("roll", "concatenate"), one_of("algorithm", "shift")),
        EXACT._replace(when=one_of("algorithm", "triangle", "chunks", "parts")),
        MASK, SEMANTICS._replace(when=is_unchunked), ACROSS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
