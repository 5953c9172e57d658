"""Data movement: permuted, sliced, flipped, concatenated or expanded tensors."""

from __future__ import annotations

from evokernel.generators.template_search.decisions import Decision, one_of
from evokernel.generators.template_search.dialects.pallas.common_decisions import EDGE, LIMIT, PIPELINE, ROWS, SEMANTICS
from evokernel.generators.template_search.dialects.pallas.emit import join_arguments
from evokernel.generators.template_search.dialects.pallas.layouts import CopyResult, View
from evokernel.generators.template_search.graph import Node, UnsupportedPattern, pad_rank
from evokernel.generators.template_search.kernel_template import KernelTemplate, PatternDescription, StageArgument
from evokernel.generators.template_search.patterns import KernelPattern


def move_expression(root: Node, names: list[str]) -> tuple[str, tuple[StageArgument, ...]]:
    """The result as a JAX expression, and the number arguments it needs."""
    rank, axis = len(root.shape), root.dims[0] if root.dims else 0
    sizes = tuple(StageArgument(f"n{i}", n) for i, n in enumerate(root.shape))
    numbers = tuple(StageArgument(f"s{i}", n) for i, n in enumerate(root.nums))
    if root.op == "permute":
        return f"{names[0]}.transpose({join_arguments(map(str, root.dims))})", ()
    if root.op == "flip":
        return f"jnp.flip({names[0]}, ({join_arguments(map(str, root.dims))},))", ()
    if root.op == "cat":
        return f"jnp.concatenate([{join_arguments(names)}], axis={axis})", ()
    if root.op == "expand":
        own = pad_rank(root.args[0].shape, rank)
        shape = join_arguments("1" if n.is_one else f"n{i}" for i, n in enumerate(own))
        return f"jnp.broadcast_to({names[0]}.reshape({shape}), ({join_arguments(s.name for s in sizes)},))", sizes
    if root.op == "slice":
        if not root.nums[1].is_one:
            return f"every({names[0]}, {axis}, s0, n{axis}, s1)", (*sizes, *numbers)
        cut = f"slice(s0, s0 + (n{axis} - 1) * s1 + 1, s1)"
        return f"{names[0]}[{join_arguments(cut if i == axis else ':' for i in range(rank))}]", (*sizes, *numbers)
    raise UnsupportedPattern(f"{root.op} as a separate step")


def describe(pattern: KernelPattern) -> PatternDescription:
    """Describes a movement done outside a kernel; if it has only arguments as inputs, a kernel may copy the result."""
    root = pattern.root
    if any(x.op != "leaf" for x in root.args):
        raise UnsupportedPattern("a number expanded to a tensor")
    names = {x: f"x{i}" for i, x in enumerate(dict.fromkeys(root.args))}
    text, numbers = move_expression(root, [names[x] for x in root.args])
    arguments = (*(StageArgument(name, x) for x, name in names.items()), *numbers)
    result = CopyResult(root)
    view = View("moved", (True, True), "")
    traits = {"plain"} if all(x.name.startswith("in_") for x in root.args) else set()
    is_strided = root.op == "slice" and not root.nums[1].is_one
    variables = {"moved": text, "result": result, "view": view, "strided": is_strided}
    return PatternDescription(arguments, variables, frozenset(traits))


COPIED = one_of("through", "kernel")

template = KernelTemplate(
    decisions=(
        Decision("through", ("kernel", "nothing"), trait="plain"),
        PIPELINE._replace(when=COPIED, options=PIPELINE.options[:2]),
        Decision("width", ("128", "512", "1024", "4096"), COPIED),
        ROWS._replace(when=COPIED),
        EDGE._replace(when=COPIED, options=EDGE.options[:2]),
        SEMANTICS._replace(when=COPIED), LIMIT._replace(when=COPIED),
    ),
    describe=describe,
)  # fmt: skip
