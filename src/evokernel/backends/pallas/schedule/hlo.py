"""Reads the scheduled module: which operations run, in which order, and how often."""

from __future__ import annotations

import json
import re
from math import prod
from typing import NamedTuple

COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{")
INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\w+\[[^\s]*) ([\w\-]+)\((.*)$")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[()\[\]{},]|[^"()\[\]{},]+|"')
SHAPE = re.compile(r"(\w+)\[([\d,]*)\]")
NAME = re.compile(r"%([\w.\-]+)")
BITS = {"pred": 8, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "f8e4m3fn": 8, "f8e5m2": 8, "s16": 16, "u16": 16, "f16": 16, "bf16": 16}
BITS |= {"s32": 32, "u32": 32, "f32": 32, "s64": 64, "u64": 64, "f64": 64, "c64": 64}


class Instruction(NamedTuple):
    """One line of a computation."""

    name: str
    type: str
    opcode: str
    rest: str
    """Operands, closing bracket, attributes."""

    @property
    def operands(self) -> list[str]:
        """Names only."""
        return NAME.findall(dissect(self.rest)[0])

    def attribute(self, name: str) -> str:
        """Empty when there is none. Text in quotes, which may come from a candidate, is never taken for one."""
        return dissect(self.rest)[1].get(name, "")

    def called(self, *attributes: str) -> list[str]:
        """The computations that attributes name."""
        return [found for name in attributes for found in re.findall(r"[\w.\-]+", self.attribute(name).replace("%", " "))]

    @property
    def bytes(self) -> float:
        """Of the result; of an asynchronous copy the smaller of source and destination."""
        return min(map(size, SHAPE.findall(self.type)[:2]), default=0.0)

    @property
    def scalar(self) -> bool:
        """One number."""
        return bool(re.match(r"\w+\[\]", self.type))

    @property
    def into_smem(self) -> bool:
        return "S(6)" in self.type


class Module(NamedTuple):
    """All computations; operations run in the order of their lines."""

    computations: dict[str, list[Instruction]]
    entry: str


def parse(text: str) -> Module:
    """Lines that are no instructions are passed over."""
    computations: dict[str, list[Instruction]] = {}
    entry, inside = "", ""
    for line in text.splitlines():
        if line.startswith("}"):
            inside = ""
        elif inside:
            if found := INSTRUCTION.match(line):
                computations[inside].append(Instruction(found[1], found[2], found[3], found[4]))
        elif head := COMPUTATION.match(line):
            inside = head[2]
            computations[inside] = []
            if head[1]:
                entry = inside
    return Module(computations, entry)


def dissect(rest: str) -> tuple[str, dict[str, str]]:
    """Operands, and attributes by name."""
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
        name, given, value = text.strip().partition("=")
        if given:
            attributes.setdefault(name, value)
    return parts[0], attributes


def size(shape: tuple[str, str]) -> float:
    """Bytes; nothing for what is no data (a token, a tuple)."""
    kind, extents = shape
    return BITS.get(kind, 0) * prod(int(extent) for extent in extents.split(",") if extent) / 8


def trip_count(loop: Instruction, module: Module) -> int | None:
    """As the compiler knows it, or from a condition that compares with one constant; None when neither tells."""
    try:
        known = json.loads(loop.attribute("backend_config"))["known_trip_count"]["n"]
        return int(known)
    except (ValueError, KeyError, TypeError):
        pass
    lines = [line for name in loop.called("condition") for line in module.computations.get(name, [])]
    limits = [int(line.rest[:-1].partition(")")[0]) for line in lines if line.opcode == "constant" and re.match(r"\d{1,9}\)", line.rest)]
    compares = [line for line in lines if line.attribute("direction") == "LT"]
    return limits[0] if len(limits) == 1 and compares else None


def duplicates(text: str) -> dict[str, str]:
    """Equal operations are compiled and dumped once: name to the name they are dumped under."""
    known, key = {}, ""
    for line in text.splitlines():
        if line.startswith("key:"):
            key = line[4:].strip()
        elif line.startswith("  ") and key:
            known[line.strip().lstrip("%")] = key
    return known
