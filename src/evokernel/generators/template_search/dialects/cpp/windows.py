"""What convolutions and poolings share: a window over up to three axes, and the elementwise steps after it."""

from __future__ import annotations

from collections.abc import Mapping

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects.cpp.common_decisions import numbers
from evokernel.generators.template_search.dialects.cpp.emit import function, literal
from evokernel.generators.template_search.forms import RESULT, Form
from evokernel.generators.template_search.graph import NoSketch, Num, walk
from evokernel.generators.template_search.sketch import Facts, Given, free_numbers, named

WINDOW = Decision("window", ("runtime", "fixed"), trait="literal")
"""Whether the window's numbers are known while compiling."""
BORDER = Decision("border", ("branch", "clip", "assume"), trait="padded")
FUSION = Decision("fusion", ("pass", "image"), trait="epilogue")
"""When what follows is done: after everything, or after each image."""
AXES = ("d", "h", "w")
ONE, ZERO = Num.of(1), Num.of(0)


def window(kinds: Mapping[str, tuple[Num, ...]], inputs: tuple[Num, ...]) -> tuple[list[Given], Facts, set[str]]:
    """A window's numbers under the names templates use (kd, kh, kw, sd, ...): absent leading axes have extent 1.

    Kinds are k (window), s (stride), p (padding), d (dilation) and e (extra extent of the output).
    """
    rank = len(inputs)
    if rank > len(AXES):
        raise NoSketch(f"windows over {rank} axes")
    given: list[Given] = []
    values: dict[str, str] = {}
    for axis, extent in zip(AXES, (ONE,) * (len(AXES) - rank) + inputs):
        given.append(Given(f"n{axis}", extent))
    for kind, found in kinds.items():
        filler = ZERO if kind in "pe" else ONE
        for axis, num in zip(AXES, (filler,) * (len(AXES) - rank) + found):
            name = f"{kind}{axis}"
            values[name] = literal(num.value, True) if num.is_literal else name
            if not num.is_literal:
                given.append(Given(name, num))
    traits = {"literal"} if all(n.is_literal for found in kinds.values() for n in found) else set()
    padded = any(not n.is_literal or n.value != 0 for n in kinds["p"])
    return given, {"window": values, "shape": shape_of(values), "padded": padded}, traits | ({"padded"} if padded else set())


def shape_of(values: Mapping[str, str]) -> list[tuple[str, str]]:
    """The members of the struct that describes a window, each with its value where the kernel is called."""
    return [*((f"n{axis}", f"n{axis}") for axis in AXES), *values.items()]


def epilogue(form: Form) -> tuple[list[Given], Facts, set[str]]:
    """The elementwise steps after a window as `after(r, x0, ...)`, and where each operand of a channel's points begins."""
    after = form.after
    if after is None:
        return [], {"epilogue": "", "operands": [], "numbers": [], "f": {}}, set()
    names, free = named(form.operands), free_numbers(after)
    result = next(n for n in walk(after) if n.op == "leaf" and n.name == RESULT)
    rows = {o.node: o.present[2] for o in form.operands}
    operands = [{"name": names[o.node], "offset": offset(o.present)} for o in form.operands]
    args = [{"kind": "full", "name": "dest"}]
    args += [{"kind": "full" if rows[node] else "scalar", "name": name if rows[node] else f"{name}[0]"} for node, name in names.items()]
    facts = {
        "epilogue": function("after", after, {result: "r", **names}, free), "has_math": form.uses_math, "operands": operands,
        "numbers": list(free.values()), "f": {"name": "after", "args": args, "extra": "".join(f", {s}" for s in free.values())},
    }  # fmt: skip
    given = [*(Given(names[o.node], o.node) for o in form.operands), *numbers(free)]
    return given, facts, {"epilogue"} | ({"math"} if form.uses_math else set())


def offset(present: tuple[bool, ...]) -> str:
    """Where the part of an operand begins that belongs to `image`, `channel` and the points from `at` on."""
    text = "image" if present[0] else ""
    if present[1]:
        text = f"({text} * channels + channel)" if text else "channel"
    if present[2]:
        text = f"{text} * points + at" if text else "at"
    return text or "0"
