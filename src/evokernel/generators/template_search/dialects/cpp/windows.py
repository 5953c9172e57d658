"""Shared by convolutions and poolings: a window over up to three axes, and the elementwise steps after it."""

from __future__ import annotations

from collections.abc import Mapping

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.c_text import format_literal
from evokernel.generators.template_search.dialects.cpp.emit import emit_function
from evokernel.generators.template_search.dialects.loop_text import number_arguments
from evokernel.generators.template_search.graph import Num, UnsupportedPattern, walk
from evokernel.generators.template_search.kernel_template import StageArgument, TemplateVariables, name_free_numbers, name_operands
from evokernel.generators.template_search.patterns import RESULT, KernelPattern

WINDOW = Decision("window", ("runtime", "fixed"), trait="literal")
"""Whether the window's numbers are compile-time constants."""
BORDER = Decision("border", ("branch", "clip", "assume"), trait="padded")
FUSION = Decision("fusion", ("pass", "image"), trait="epilogue")
"""When the epilogue runs: after everything, or after each image."""
AXES = ("d", "h", "w")
ONE, ZERO = Num.of(1), Num.of(0)


def window_variables(
    kinds: Mapping[str, tuple[Num, ...]], inputs: tuple[Num, ...]
) -> tuple[list[StageArgument], TemplateVariables, set[str]]:
    """A window's numbers under the names templates use (kd, kh, kw, sd, ...): absent leading axes have extent 1.

    Kinds are k (window), s (stride), p (padding), d (dilation) and e (extra extent of the output).
    """
    rank = len(inputs)
    if rank > len(AXES):
        raise UnsupportedPattern(f"windows over {rank} axes")
    arguments: list[StageArgument] = []
    values: dict[str, str] = {}
    for axis, extent in zip(AXES, (ONE,) * (len(AXES) - rank) + inputs):
        arguments.append(StageArgument(f"n{axis}", extent))
    for kind, nums in kinds.items():
        filler = ZERO if kind in "pe" else ONE
        for axis, num in zip(AXES, (filler,) * (len(AXES) - rank) + nums):
            name = f"{kind}{axis}"
            values[name] = format_literal(num.value, True) if num.is_literal else name
            if not num.is_literal:
                arguments.append(StageArgument(name, num))
    traits = {"literal"} if all(n.is_literal for nums in kinds.values() for n in nums) else set()
    padded = any(not n.is_literal or n.value != 0 for n in kinds["p"])
    return arguments, {"window": values, "shape": window_members(values), "padded": padded}, traits | ({"padded"} if padded else set())


def window_members(values: Mapping[str, str]) -> list[tuple[str, str]]:
    """The members of the struct that describes a window, with their values in the call."""
    return [*((f"n{axis}", f"n{axis}") for axis in AXES), *values.items()]


def epilogue_variables(pattern: KernelPattern) -> tuple[list[StageArgument], TemplateVariables, set[str]]:
    """The epilogue as the function `after(r, x0, ...)`, and the offset of each operand for a channel's points."""
    after = pattern.epilogue
    if after is None:
        return [], {"epilogue": "", "operands": [], "numbers": [], "f": {}}, set()
    names, free = name_operands(pattern.operands), name_free_numbers(after)
    result = next(n for n in walk(after) if n.op == "leaf" and n.name == RESULT)
    rows = {o.node: o.present[2] for o in pattern.operands}
    operands = [{"name": names[o.node], "offset": operand_offset(o.present)} for o in pattern.operands]
    args = [{"kind": "full", "name": "dest"}]
    args += [{"kind": "full" if rows[node] else "scalar", "name": name if rows[node] else f"{name}[0]"} for node, name in names.items()]
    variables = {
        "epilogue": emit_function("after", after, {result: "r", **names}, free), "has_math": pattern.uses_math, "operands": operands,
        "numbers": list(free.values()), "f": {"name": "after", "args": args, "extra": "".join(f", {s}" for s in free.values())},
    }  # fmt: skip
    arguments = [*(StageArgument(names[o.node], o.node) for o in pattern.operands), *number_arguments(free)]
    return arguments, variables, {"epilogue"} | ({"math"} if pattern.uses_math else set())


def operand_offset(present: tuple[bool, ...]) -> str:
    """The offset of an operand for `image`, `channel` and the points from `at` on."""
    text = "image" if present[0] else ""
    if present[1]:
        text = f"({text} * channels + channel)" if text else "channel"
    if present[2]:
        text = f"{text} * points + at" if text else "at"
    return text or "0"
