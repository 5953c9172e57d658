"""Max and mean pooling over one to three axes, by shifts of a flat image or of strips of it, by strided loads, or by taps stacked
before the kernel."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import LIMIT, SEMANTICS, STRIP
from evokernel.generators.template_search.dialects.pallas.windows import format_tuples, window_settings
from evokernel.generators.template_search.graph import UnsupportedPattern
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a pooling by its image, window and divisor."""
    (main,), (x,) = pattern.main_nodes, pattern.tensors
    if pattern.epilogue is not None:
        raise UnsupportedPattern("steps after a pooling")
    if x.dtype != "float32":
        raise UnsupportedPattern(f"a pooling of {x.dtype}")
    rank = len(main.nums) // 4
    texts, setting_arguments = window_settings(main.nums)
    window, strides, paddings, dilations = format_tuples(texts, rank)
    is_padded = any(not n.is_literal or n.value != 0 for n in main.nums[2 * rank : 3 * rank])
    variables = {
        "rank": rank, "window": window, "strides": strides, "paddings": paddings, "dilations": dilations, "kind": main.name,
        "counts": main.name == "mean" and main.dims != (1,) and is_padded, "by_one": all(n.is_one for n in main.nums[rank : 2 * rank]),
    }  # fmt: skip
    traits = {main.name, *(["border"] if main.name == "max" and is_padded else []), *(["planar"] if rank == 2 else [])}
    return PatternDescription((StageArgument("x", x), *setting_arguments), variables, frozenset(traits))


template = KernelTemplate(
    decisions=(
        Decision("algorithm", ("shifts", "lanes", "stacked", "strips"), excluded_by="planar"),
        Decision("algorithm", ("shifts", "lanes", "stacked", "strips", "strided"), trait="planar"),
        Decision("border", ("low", "infinite", "zero"), trait="border"),
        Decision("images", ("1", "2", "4", "8", "16", "64"), one_of("algorithm", "shifts", "strips", "strided")),
        Decision("lanes", ("100", "128", "512"), one_of("algorithm", "lanes")),
        STRIP._replace(when=one_of("algorithm", "lanes")),
        Decision("fold", ("taps", "axes"), one_of("algorithm", "shifts", "lanes", "strips")),
        Decision("width", ("128", "512", "1024"), one_of("algorithm", "stacked", "strips")),
        Decision("rows", ("8", "12", "32", "128"), one_of("algorithm", "stacked")),
        Decision("stack", ("together", "apart"), one_of("algorithm", "stacked")),
        SEMANTICS, LIMIT,
    ),
    describe=describe,
)  # fmt: skip
