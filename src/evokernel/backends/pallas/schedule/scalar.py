"""Turns the scalar side of a schedule into Python, one function per stretch of bundles without a branch target inside.

Nothing of the dump gets into the source but numbers that were parsed as numbers: names are replaced by addresses of our own, operations
are looked up in the tables below, and whatever is in neither becomes an unknown word.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from evokernel.backends.pallas.schedule.bundles import CORE, Predicate, ScalarOp
from evokernel.backends.pallas.schedule.machine import ARGUMENTS, WORD, float_word, pick, pick_read, with_floats

REGISTER = re.compile(r"%?([sp])\d+_[sp](\d{1,2})$")
HINTED = re.compile(r"(\S+) \[#\w+\]$")
DECIMAL = re.compile(r"-?\d{1,20}$")
HEXADECIMAL = re.compile(r"0x[0-9a-f]{1,16}$")
FLOAT = re.compile(r"-?\d{1,40}\.\d{0,40}(e[+-]?\d{1,3})?$")
ALLOCATION = re.compile(r"\[#(\w+)(?: \+ \$(0x[0-9a-f]{1,8}))?\]$")
ADDRESS = re.compile(r"\[(?:smem|sflag|vmem|hbm):(.*)\]$")
TARGET = re.compile(r"\$region(\d{1,9})")
STORE = re.compile(r"(\[.*\]),?\s*(\S+)$")
TRANSFER = re.compile(r"dma\.([a-z]+)_to_([a-z]+)$")
SPACES = ("hbm", "vmem", "smem", "cmem")
POINTED = (*SPACES, "sflag")
POINTERS = ("int_to_ptr.", "inlined_call_operand.", "scalar_lea.")

ARITHMETIC = {
    "sadd": f"(({{0}}+{{1}})&{WORD})",
    "ssub": f"(({{0}}-{{1}})&{WORD})",
    "smul": f"(({{0}}*{{1}})&{WORD})",
    "sand": "({0}&{1})",
    "sor": "({0}|{1})",
    "sxor": "({0}^{1})",
    "sshll": f"(({{0}}<<({{1}}&31))&{WORD})",
    "sshrl": f"(({{0}}&{WORD})>>({{1}}&31))",
    "sshra": f"(((({{0}}&{WORD})^0x80000000)-0x80000000)>>({{1}}&31))",
    "por": "({0}|{1})",
    "pand": "({0}&{1})",
    "pnand": "(1-({0}&{1}))",
    "pnor": "(1-({0}|{1}))",
    "pxor": "({0}^{1})",
    "pneg": "(1-{0})",
    "pmov": "{0}",
    "smov": "{0}",
}
OPERANDS = {"pneg": 1, "pmov": 1, "smov": 1}
EXTREMES = {"smin": "min({0},{1})", "smax": "max({0},{1})"}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
FLOATING: dict[str, Callable[[float, float], float]] = {
    "sadd": operator.add,
    "ssub": operator.sub,
    "smul": operator.mul,
    "smin": min,
    "smax": max,
}
WITHOUT_EFFECT = ("shalt", "cld", "cst", "sfence", "strace", "compiler-scheduling-barrier", "vsyncmov", "snop")
KINDS = {"kRem": (False, True), "kDiv": (True, False), "kDivAndRem": (True, True)}


def functions() -> dict[str, Any]:
    """What generated code may call besides the machine."""
    named: dict[str, Any] = {f"f{name}": with_floats(function) for name, function in FLOATING.items()}
    named |= {f"f{name}": with_floats(getattr(operator, name), compares=True) for name in COMPARE}
    return named | {"min": min, "max": max, "pick": pick, "pick_read": pick_read, "__builtins__": {}}


class Branch(NamedTuple):
    """Taken to the region when the predicate holds, always without one."""

    predicate: Predicate | None
    region: int


class Step(NamedTuple):
    """One bundle as Python lines, in this order: values are computed, effects happen, registers change."""

    values: str
    effects: tuple[str, ...]
    writes: str
    timed: bool
    """Whether an effect needs to know what time it is."""
    branch: Branch | None


class Translator:
    """Of one program: its symbols have addresses that stay the same from bundle to bundle.

    A register that is written, or a word that is stored, under a condition nobody knows is itself not known: `careful` code does it
    that way and leaves only branches, transfers and waits to be decided. Other code takes every condition for a decision, and is faster.
    """

    def __init__(self, careful: bool = False) -> None:
        self.careful = careful
        self.symbols: dict[str, int] = {}
        self.spaces: dict[str, str] = {}
        """Memory that pointers lead to."""
        self.not_understood: Counter[str] = Counter()

    def step(self, ops: tuple[ScalarOp, ...]) -> Step:
        """Every register is read before any is written, whatever the order in the dump."""
        results: list[tuple[str, str]] = []
        effects: list[str] = []
        timed, branch = False, None
        self.spaces |= {"%" + op.result: op.name.partition(".")[2] for op in ops if op.name.startswith(POINTERS)}
        for op in ops:
            if op.name.startswith("int_to_ptr"):  # the register already holds the value
                continue
            if op.name.startswith("sbr"):
                target = TARGET.search(" ".join(op.operands))
                branch = Branch(op.predicate, int(target[1]) if target else -1)
                continue
            guard = condition(op.predicate) if op.predicate else ""
            found = REGISTER.match(op.result)
            if found:
                register, value = f"{'r' if found[1] == 's' else 'p'}[{int(found[2])}]", self.value(op)
                results.append((register, self.chosen(guard, value, register) if guard else value))
            elif effect := self.effect(op):
                if guard and self.careful and effect.startswith("s["):
                    place, _, value = effect.partition("=")
                    effects.append(f"{place}={self.chosen(guard, value, place)}")
                else:
                    effects.append(f"if {guard}: {effect}" if guard else effect)
                timed = timed or effect.startswith(("m.transfer", "m.wait", "m.delay"))
        if not results:
            return Step("", tuple(effects), "", timed, branch)
        registers, values = (",".join(column) for column in zip(*results))
        if not effects:  # the right side is evaluated before anything is assigned
            return Step(f"{registers}={values}", (), "", timed, branch)
        kept = ",".join(f"x{n}" for n in range(len(results)))
        return Step(f"{kept}={values}", tuple(effects), f"{registers}={kept}", timed, branch)

    def chosen(self, condition: str, yes: str, no: str) -> str:
        if not self.careful or "m.fetch" in yes:
            return f"({yes} if {condition} else {no})"
        return f"pick_read({condition},lambda:{yes},{no})" if "s[" in yes else f"pick({condition},{yes},{no})"

    def effect(self, op: ScalarOp) -> str:
        """A call of the machine; empty when the operation has no bearing on time."""
        name, operands = op.name, op.operands
        first, second = (*operands, "0", "0")[:2]
        if name.startswith("sst"):
            if store := STORE.match(", ".join(operands)):
                return f"s[{self.operand(store[1])}]={self.operand(store[2])}"
        elif name.startswith("sdivrem"):
            quotient, remainder = KINDS.get(operands[-1] if operands else "", (True, True))
            return f"m.divide({self.operand(first)},{self.operand(second)},{int(quotient)},{int(remainder)})"
        elif name.startswith("dma.done"):
            return f"m.wait({self.operand(first)},{self.operand(second)})"
        elif name.startswith("dma."):
            size, flag, smem = (self.operand(op.named.get(key, "0")) for key in ("size_in_granules", "dst_syncflagno", "smem"))
            return f"m.transfer({self.direction(op)},{size},{flag},{smem})"
        elif name.startswith("vsyncadd"):
            return f"m.add({self.operand(first)},{self.operand(second)})"
        elif name.startswith("vsyncpa"):
            return f"m.reset({self.operand(first)})"
        elif name.startswith(("vdelay", "sdelay")):
            return f"m.delay({self.operand(first)})"
        elif name.startswith(WITHOUT_EFFECT):
            return ""
        self.not_understood[tidy(name)] += 1
        return ""

    def direction(self, op: ScalarOp) -> str:
        """The two memories of a transfer, named by the operation or known from its pointers; read from HBM when neither tells."""
        source, target = self.spaces.get(op.named.get("src", ""), ""), self.spaces.get(op.named.get("dst", ""), "")
        if between := TRANSFER.match(op.name):
            source, target = between.groups()
        if source not in SPACES or target not in SPACES:
            self.not_understood[tidy(op.name)] += 1
            source, target = "hbm", "vmem"
        return f"{source!r},{target!r}"

    def value(self, op: ScalarOp) -> str:
        """The expression of what an operation writes into its register."""
        base, *qualifiers = op.name.split(".")
        operands = op.operands
        if op.name.startswith("spop.drf"):
            return "m.fetch()"
        if base == "inlined_call_operand":
            address = ARGUMENTS + self.symbol("operand " + op.result)
            return str(address) if qualifiers[:1] and qualifiers[0] in POINTED else f"s[{address}]"  # one number comes as itself
        if base == "sld" and operands:
            if operands[-1] == CORE:
                return "m.core"
            return f"s[{self.operand(operands[0])}]"
        if base == "scalar_lea":
            return f"(({'+'.join(self.operand(operand) for operand in operands) or '0'})&{(1 << 64) - 1})"
        if base == "scalar_select" and len(operands) == 3:
            return self.chosen(*(self.operand(operand) for operand in operands))
        if base == "scmp" and len(operands) == 2 and len(qualifiers) > 1 and qualifiers[0] in COMPARE:
            return self.comparison(qualifiers[0], qualifiers[1], operands[0], operands[1])
        wanted = OPERANDS.get(base, 2)
        if len(operands) == wanted:
            left, right = (*(self.operand(operand) for operand in operands), "0")[:2]
            if qualifiers[:1] == ["f32"] and base in FLOATING:
                return f"f{base}({left},{right})"
            if (base in ARITHMETIC and qualifiers[:1] != ["f32"]) or base == "smov":
                return ARITHMETIC[base].format(left, right)
            if base in EXTREMES and qualifiers[:1] in (["s32"], ["u32"]):
                return EXTREMES[base].format(ordered(left, qualifiers[0]), ordered(right, qualifiers[0]))
        return "m.unknown()"

    def comparison(self, relation: str, kind: str, left: str, right: str) -> str:
        left, right = self.operand(left), self.operand(right)
        if kind == "f32":
            return f"f{relation}({left},{right})"
        return f"({ordered(left, kind)}{COMPARE[relation]}{ordered(right, kind)})"

    def operand(self, text: str) -> str:
        """Register, number, address or condition; anything else is an unknown word."""
        text = text.strip()
        if text.startswith("!"):
            return f"(1-{plain(text[1:])})"
        if hinted := HINTED.match(text):
            text = hinted[1]
        if allocation := ALLOCATION.match(text):
            return str(self.symbol(allocation[1]) + int(allocation[2] or "0", 16))
        if address := ADDRESS.match(text):
            parts = (part.strip().lstrip("$") for part in address[1].strip("[]").split("+"))
            return f"({'+'.join(str(self.symbol(part[1:])) if part.startswith('#') else plain(part) for part in parts)})"
        return plain(text)

    def symbol(self, name: str) -> int:
        """Addresses of distinct symbols are far apart."""
        return self.symbols.setdefault(name, (len(self.symbols) + 1) << 24)


def condition(predicate: Predicate) -> str:
    register = f"p[{predicate.register & 0xFF}]"
    return f"(1-{register})" if predicate.negated else register


def plain(text: str) -> str:
    """A register, a number or a truth value."""
    if register := REGISTER.match(text):
        return f"{'r' if register[1] == 's' else 'p'}[{int(register[2])}]"
    if DECIMAL.match(text):
        return f"({int(text)})"
    if HEXADECIMAL.match(text):
        return str(int(text, 16))
    if FLOAT.match(text) and math.isfinite(float(text)):
        return str(float_word(float(text)))
    if text in ("true", "$true", "false", "$false"):
        return "1" if text.endswith("true") else "0"
    return "m.unknown()"


def ordered(value: str, kind: str) -> str:
    """The value as its type orders it."""
    return f"((({value}&{WORD})^0x80000000)-0x80000000)" if kind == "s32" else f"({value}&{WORD})"


def tidy(name: str) -> str:
    """Fit for a note."""
    return re.sub(r"[^\w.\-]", "", name)[:40]
