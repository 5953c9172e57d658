"""Describes an operator for its export: its arguments, and the dtypes, ranks, sizes and numbers with which its kernel was verified.

The sizes of tensors become symbols: axes that are equal at every verified size share a symbol, which has the name of the task's constant.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from evokernel.core.errors import UserError
from evokernel.core.records import Signature, Task
from evokernel.reference.constants import constants_used_by, find_constants, rewrite_constants

SHOWN_SIZES = ("small", "laptop", "bench")
"""Sizes that an export may name: generators must not learn the others."""
MAX_FACTOR = 8
Dimension = int | str
SizeVector = tuple[int, ...]
"""The values of one axis at each verified size."""


class OperatorSpec(NamedTuple):
    """The description of an operator, and the references of sizes that its tests use."""

    record: dict[str, Any]
    """The content of `operator.json`; `torch_operator.py` reads it."""
    references: dict[str, str]
    """Sources of the reference at other sizes, by file name."""


class Symbols:
    """Assigns symbols to the axes whose sizes differ between the verified sizes."""

    def __init__(self, constants: Sequence[Mapping[str, int]], min_size: int | None) -> None:
        self.names: dict[SizeVector, str] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        self.min_size = min_size
        vectors = {tuple(one[key] for one in constants): key for key in reversed(list(constants[0])) if key.isidentifier()}
        self.constants = {vector: key for vector, key in vectors.items() if len(set(vector)) > 1}

    def describe(self, vector: SizeVector) -> Dimension:
        """Return the number of a constant axis; otherwise its symbol, or a multiple of another symbol."""
        if len(set(vector)) == 1:
            return vector[0]
        known = {**self.constants, **self.names}
        for factor in range(1, MAX_FACTOR + 1):
            base = tuple(size // factor for size in vector)
            if base in known and tuple(factor * size for size in base) == vector:
                name = self.add(base, known[base])
                return name if factor == 1 else f"{factor}*{name}"
        return self.add(vector, f"n{len(self.names)}")

    def add(self, vector: SizeVector, name: str) -> str:
        """Use a symbol; its range is that of its values."""
        self.names[vector] = name
        self.ranges[name] = (min(vector) if self.min_size is None else self.min_size, max(vector))
        return name


def make_operator_spec(task: Task, name: str, backend: str, protocol: str, is_single_size: bool) -> OperatorSpec:
    """Describe an operator; `is_single_size`: the kernel was written for, and verified at, the timed size only."""
    sizes = list_sizes(task, is_single_size)
    signatures = [task.signature if label == "bench" else probe_signature(task, overrides) for label, overrides in sizes.items()]
    own = find_constants(ast.parse(task.source))
    min_size = 1 if protocol == "strict" and len(sizes) > 1 else None  # the strict protocol checks odd sizes down to 1
    symbols = Symbols([{**own, **overrides} for overrides in sizes.values()], min_size)
    inputs = describe_tensors(symbols, [one.inputs for one in signatures], "input")
    params = describe_tensors(symbols, [one.params for one in signatures], "state")
    scalars = describe_scalars(symbols, signatures)
    known = set(symbols.ranges)
    outputs = describe_tensors(symbols, [one.outputs for one in signatures], "output")
    is_inferable = can_infer_shapes(task, sizes.get("small", {}))
    if not is_inferable and set(symbols.ranges) != known:  # sizes of outputs that follow from no argument
        return make_operator_spec(task, name, backend, protocol, is_single_size=True)
    small = next((label for label in sizes if label == "small"), "bench")
    record = {
        "name": name,
        "task": task.id,
        "backend": backend,
        **describe_structures(task, sizes[small]),
        "tensors": [*inputs, *params],
        "scalars": scalars,
        "outputs": outputs,
        "output_shapes": "reference" if is_inferable else "symbols",
        "sizes": {symbol: symbols.ranges[symbol] for symbol in symbols.ranges if symbol in known},
        "tolerance": {"atol": task.atol, "rtol": task.rtol},
    }
    for tensor, path in zip(params, record.pop("paths"), strict=True):
        tensor["path"] = path
    record["verified"] = describe_verified(record)
    record["verified_shapes"] = {
        label: {tensor.name: list(tensor.shape) for tensor in (*one.inputs, *one.params, *one.outputs)}
        for label, one in zip(sizes, signatures)
        if label in SHOWN_SIZES
    }
    references = {"reference_small.py": rewrite_constants(task.source, sizes["small"])} if "small" in sizes else {}
    return OperatorSpec(record, references)


def list_sizes(task: Task, is_single_size: bool) -> dict[str, dict[str, int]]:
    """Return the verified sizes; only the timed one if the module's class depends on constants that arguments cannot change."""
    tree = ast.parse(task.source)
    changed = {key for overrides in task.sizes.values() for key in overrides}
    if is_single_size or changed & constants_used_by(tree, "Model"):
        return {"bench": {}}
    return dict(task.sizes)


def probe_signature(task: Task, overrides: Mapping[str, int]) -> Signature:
    """Return the signature at another size, without values where the reference allows it."""
    from evokernel.reference.measure import probe_size

    try:
        return probe_size(task.source, task.id, overrides, with_values=False).signature
    except UserError:  # the reference needs values
        return probe_size(task.source, task.id, overrides, with_values=True).signature


def can_infer_shapes(task: Task, overrides: Mapping[str, int]) -> bool:
    """Whether the reference runs without values and without gradients, as inside an operator's fake implementation."""
    import torch

    from evokernel.reference.module import Reference

    reference = Reference(task.source, task.id, overrides)
    try:
        with torch.device("meta"):
            sample = reference.sample(0)
            with torch.inference_mode():
                reference.run(sample)
    except UserError:
        return False
    return True


def describe_tensors(symbols: Symbols, sized_tensors: Sequence[Sequence[Any]], role: str) -> list[dict[str, Any]]:
    """Describe each tensor, given its record at every size."""
    return [
        {
            "name": tensors[0].name,
            "role": role,
            "dtype": tensors[0].dtype,
            "dims": [symbols.describe(vector) for vector in zip(*(tensor.shape for tensor in tensors))],
        }
        for tensors in zip(*sized_tensors, strict=True)
    ]


def describe_scalars(symbols: Symbols, signatures: Sequence[Signature]) -> list[dict[str, Any]]:
    """Describe each number: integers are sizes or constants, other numbers have the values that were verified."""
    descriptions: list[dict[str, Any]] = []
    for scalars in zip(*(signature.scalars for signature in signatures), strict=True):
        kind = scalars[0].kind
        values = sorted({scalar.value for scalar in scalars})
        allowed = {"dim": symbols.describe(tuple(int(scalar.value) for scalar in scalars))} if kind == "int" else {"values": values}
        descriptions.append({"name": scalars[0].name, "kind": kind, **allowed})
    return descriptions


def describe_structures(task: Task, overrides: Mapping[str, int]) -> dict[str, Any]:
    """Describe the nesting of arguments and results, by running the reference at a small size."""
    import torch

    from evokernel.reference.module import Reference, module_tensors
    from evokernel.reports.torch_operator import structure_of

    reference = Reference(task.source, task.id, overrides)
    sample = reference.sample(0)
    reference.run(sample)
    with torch.no_grad():
        result = sample.module(*sample.args)
    return {
        "arguments": structure_of(list(sample.args)),
        "constructor": structure_of(list(reference.init_arguments())),
        "result": structure_of(result),
        "writes_inputs": reference.writes_inputs,
        "paths": [path for path, _ in module_tensors(sample.module)],
    }


def describe_verified(record: Mapping[str, Any]) -> str:
    """`x float32 [ROWS, COLS], weight float32 [COLS]; ROWS 1 to 512, COLS 1 to 1024; eps = 1e-05`."""
    tensors = [f"{one['name']} {one['dtype']} [{', '.join(map(str, one['dims']))}]" for one in record["tensors"]]
    ranges = [f"{name} {low} to {high}" for name, (low, high) in record["sizes"].items()]
    numbers = [f"{one['name']} = {one['dim'] if 'dim' in one else ' or '.join(map(str, one['values']))}" for one in record["scalars"]]
    return "; ".join(", ".join(part) for part in (tensors, ranges, numbers) if part)
