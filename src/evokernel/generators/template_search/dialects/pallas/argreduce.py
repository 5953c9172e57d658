"""Argmax and argmin along one axis; of several equal elements, the first."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Choice, Decision
from evokernel.generators.template_search.dialects.pallas.common_decisions import (
    ACROSS,
    CHUNK,
    IN_LANES,
    LANES,
    LIMIT,
    MASK,
    ROWS,
    SEMANTICS,
    TURN,
    is_transposed,
    is_unchunked,
)  # fmt: skip
from evokernel.generators.template_search.dialects.pallas.layouts import axis_arguments
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes an argmax or argmin by the sizes before, along and after the axis."""
    (main,), (x,) = pattern.main_nodes, pattern.tensors
    if len(main.dims) != 1:
        raise UnsupportedPattern(f"{main.name} over several axes")
    arguments, is_strided = axis_arguments(x, main.dims[0])
    variables = {"strided": is_strided, "fold": main.name.removeprefix("arg"), "kind": x.dtype}
    return PatternDescription(arguments, variables, frozenset({"strided" if is_strided else "rows"}))


def is_in_lanes(choice: Choice) -> bool:
    """Whether the results are stored along lanes."""
    return choice.get("out") == "lanes" or is_transposed(choice)


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("native", "equal", "last", "chunks"), trait="rows"),
        Decision("algorithm", ("native", "equal", "last"), trait="strided"),
        LANES._replace(trait="strided"),
        TURN._replace(when=is_unchunked, trait="rows"),
        Decision("out", ("column", "lanes"), lambda choice: is_unchunked(choice) and not is_transposed(choice), trait="rows"),
        ROWS._replace(when=lambda choice: not is_in_lanes(choice), trait="rows"),
        IN_LANES._replace(when=is_in_lanes, trait="rows"),
        CHUNK, MASK,
        SEMANTICS._replace(when=is_unchunked),
        ACROSS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
