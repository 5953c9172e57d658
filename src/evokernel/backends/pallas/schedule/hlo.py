"""Parses the scheduled HLO module: which operations run, in which order, and how often."""

from __future__ import annotations

import json
import re
from math import prod
from typing import NamedTuple

COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{")
INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\w+\[[^\s]*) ([\w\-]+)\((.*)$")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[()\[\]{},]|[^"()\[\]{},]+|"')
SHAPE = re.compile(r"(\w+)\[([\d,]*)\]")
SOURCE_LINE = re.compile(r"\w+\.py:(\d{1,7})\b")
KERNEL_TARGET = "tpu_custom_call"
NAME = re.compile(r"%([\w.\-]+)")
BITS = {"pred": 8, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "f8e4m3fn": 8, "f8e5m2": 8, "s16": 16, "u16": 16, "f16": 16, "bf16": 16}
BITS |= {"s32": 32, "u32": 32, "f32": 32, "s64": 64, "u64": 64, "f64": 64, "c64": 64}


class Instruction(NamedTuple):
    """One instruction of a computation."""

    name: str
    type: str
    opcode: str
    rest: str
    """Text after the opening bracket: operands, closing bracket, attributes."""

    @property
    def operands(self) -> list[str]:
        """Names of the operands."""
        return NAME.findall(split_attributes(self.rest)[0])

    def attribute(self, name: str) -> str:
        """The value of an attribute; empty if it does not exist. Quoted text may come from a candidate and is never parsed as one."""
        return split_attributes(self.rest)[1].get(name, "")

    def called_computations(self, *attributes: str) -> list[str]:
        """Names of the computations in these attributes."""
        return [computation for name in attributes for computation in re.findall(r"[\w.\-]+", self.attribute(name).replace("%", " "))]

    @property
    def bytes(self) -> float:
        """Size of the result; for an asynchronous copy the smaller of source and destination."""
        return min(map(shape_bytes, SHAPE.findall(self.type)[:2]), default=0.0)

    @property
    def element_count(self) -> int:
        """Number of elements of the result, if it is one array; otherwise 0."""
        shape = SHAPE.match(self.type)
        return prod(int(extent) for extent in shape[2].split(",") if extent) if shape else 0

    @property
    def is_scalar(self) -> bool:
        """Whether the result is a scalar."""
        return bool(re.match(r"\w+\[\]", self.type))

    @property
    def is_kernel(self) -> bool:
        """Whether the instruction calls a Pallas kernel."""
        return self.opcode == "custom-call" and self.attribute("custom_call_target").strip('"') == KERNEL_TARGET

    @property
    def source_line(self) -> int:
        """The last source line in the name of the operation; 0 if there is none."""
        lines = SOURCE_LINE.findall(self.attribute("metadata"))
        return int(lines[-1]) if lines else 0

    @property
    def writes_smem(self) -> bool:
        return "S(6)" in self.type


class Module(NamedTuple):
    """All computations of a module; instructions execute in the order of their lines."""

    computations: dict[str, list[Instruction]]
    entry: str


def parse_module(text: str) -> Module:
    """Parses a module; skips lines that are not instructions."""
    computations: dict[str, list[Instruction]] = {}
    entry, inside = "", ""
    for line in text.splitlines():
        if line.startswith("}"):
            inside = ""
        elif inside:
            if match := INSTRUCTION.match(line):
                computations[inside].append(Instruction(match[1], match[2], match[3], match[4]))
        elif head := COMPUTATION.match(line):
            inside = head[2]
            computations[inside] = []
            if head[1]:
                entry = inside
    return Module(computations, entry)


def split_attributes(rest: str) -> tuple[str, dict[str, str]]:
    """Splits the rest of an instruction into its operands and its attributes by name."""
    parts: list[str] = []
    part: list[str] = []
    depth = 1
    for token in TOKEN.findall(rest):
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
        if (token == "," and depth == 0) or (token == ")" and depth == 0 and not parts):
            parts.append("".join(part))
            part = []
        else:
            part.append(token)
    parts.append("".join(part))
    attributes: dict[str, str] = {}
    for text in parts[1:]:
        name, equals, value = text.strip().partition("=")
        if equals:
            attributes.setdefault(name, value)
    return parts[0], attributes


def shape_bytes(shape: tuple[str, str]) -> float:
    """Bytes of a shape; 0 for types without data (token, tuple)."""
    kind, extents = shape
    return BITS.get(kind, 0) * prod(int(extent) for extent in extents.split(",") if extent) / 8


def trip_count(loop: Instruction, module: Module) -> int | None:
    """Trip count of a loop: from the compiler's attribute, or from a condition that compares with one constant; None if neither exists."""
    try:
        return int(json.loads(loop.attribute("backend_config"))["known_trip_count"]["n"])
    except (ValueError, KeyError, TypeError):
        pass
    lines = [line for name in loop.called_computations("condition") for line in module.computations.get(name, [])]
    limits = [int(line.rest[:-1].partition(")")[0]) for line in lines if line.opcode == "constant" and re.match(r"\d{1,9}\)", line.rest)]
    compares = [line for line in lines if line.attribute("direction") == "LT"]
    return limits[0] if len(limits) == 1 and compares else None


def parse_duplicates(text: str) -> dict[str, str]:
    """Operation name to the name of its dump: the compiler compiles and dumps equal operations once."""
    names, key = {}, ""
    for line in text.splitlines():
        if line.startswith("key:"):
            key = line[4:].strip()
        elif line.startswith("  ") and key:
            names[line.strip().lstrip("%")] = key
    return names
