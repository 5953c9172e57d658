"""Translates the scalar operations of a schedule into Python code.

The generated code contains nothing from the dump except parsed numbers: names become generated addresses, operations are looked up in the
tables below, and anything else becomes an unknown word.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from evokernel.backends.pallas.schedule.bundles import CORE_ID, Predicate, ScalarOp
from evokernel.backends.pallas.schedule.machine import ARGUMENTS, WORD_MASK, float_operation, float_to_word, pick, pick_read

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
    "sadd": f"(({{0}}+{{1}})&{WORD_MASK})",
    "ssub": f"(({{0}}-{{1}})&{WORD_MASK})",
    "smul": f"(({{0}}*{{1}})&{WORD_MASK})",
    "sand": "({0}&{1})",
    "sor": "({0}|{1})",
    "sxor": "({0}^{1})",
    "sshll": f"(({{0}}<<({{1}}&31))&{WORD_MASK})",
    "sshrl": f"(({{0}}&{WORD_MASK})>>({{1}}&31))",
    "sshra": f"(((({{0}}&{WORD_MASK})^0x80000000)-0x80000000)>>({{1}}&31))",
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
DIVISION_RESULTS = {"kRem": (False, True), "kDiv": (True, False), "kDivAndRem": (True, True)}


def runtime_functions() -> dict[str, Any]:
    """The functions that generated code may call, in addition to methods of the machine."""
    table: dict[str, Any] = {f"f{name}": float_operation(function) for name, function in FLOATING.items()}
    table |= {f"f{name}": float_operation(getattr(operator, name), compares=True) for name in COMPARE}
    return table | {"min": min, "max": max, "pick": pick, "pick_read": pick_read, "__builtins__": {}}


class Branch(NamedTuple):
    """A branch to a region, taken if the predicate holds; always taken without a predicate."""

    predicate: Predicate | None
    region: int


class TranslatedBundle(NamedTuple):
    """One bundle as Python lines, which run in this order: compute values, apply effects, write registers."""

    values: str
    effects: tuple[str, ...]
    writes: str
    needs_clock: bool
    """Whether an effect reads the clock."""
    branch: Branch | None


class ScalarTranslator:
    """Translates the bundles of one program; a symbol has the same address in all bundles.

    If a register or a word is written under an unknown condition, its value is unknown, too. `careful` code implements this, so that
    only branches, transfers and waits are decisions. Other code treats every condition as a decision, and is faster.
    """

    def __init__(self, careful: bool = False) -> None:
        self.careful = careful
        self.symbols: dict[str, int] = {}
        self.spaces: dict[str, str] = {}
        """Pointer to the memory space of its target."""
        self.unknown_operations: Counter[str] = Counter()

    def translate_bundle(self, ops: tuple[ScalarOp, ...]) -> TranslatedBundle:
        """Translates one bundle: all registers are read before any is written, independent of the order in the dump."""
        results: list[tuple[str, str]] = []
        effects: list[str] = []
        needs_clock, branch = False, None
        self.spaces |= {"%" + op.result: op.name.partition(".")[2] for op in ops if op.name.startswith(POINTERS)}
        for op in ops:
            if op.name.startswith("int_to_ptr"):  # the register already contains the value
                continue
            if op.name.startswith("sbr"):
                target = TARGET.search(" ".join(op.operands))
                branch = Branch(op.predicate, int(target[1]) if target else -1)
                continue
            guard = predicate_expression(op.predicate) if op.predicate else ""
            match = REGISTER.match(op.result)
            if match:
                register, value = f"{'r' if match[1] == 's' else 'p'}[{int(match[2])}]", self.value_expression(op)
                results.append((register, self.select_expression(guard, value, register) if guard else value))
            elif effect := self.effect_statement(op):
                if guard and self.careful and effect.startswith("s["):
                    cell, _, value = effect.partition("=")
                    effects.append(f"{cell}={self.select_expression(guard, value, cell)}")
                else:
                    effects.append(f"if {guard}: {effect}" if guard else effect)
                needs_clock = needs_clock or effect.startswith(("m.transfer", "m.wait", "m.delay"))
        if not results:
            return TranslatedBundle("", tuple(effects), "", needs_clock, branch)
        registers, values = (",".join(column) for column in zip(*results))
        if not effects:  # Python evaluates the right side before it assigns
            return TranslatedBundle(f"{registers}={values}", (), "", needs_clock, branch)
        temporaries = ",".join(f"x{n}" for n in range(len(results)))
        return TranslatedBundle(f"{temporaries}={values}", tuple(effects), f"{registers}={temporaries}", needs_clock, branch)

    def select_expression(self, condition: str, yes: str, no: str) -> str:
        if not self.careful or "m.pop_division_result" in yes:
            return f"({yes} if {condition} else {no})"
        return f"pick_read({condition},lambda:{yes},{no})" if "s[" in yes else f"pick({condition},{yes},{no})"

    def effect_statement(self, op: ScalarOp) -> str:
        """A statement that calls the machine; empty if the operation does not affect time."""
        name, operands = op.name, op.operands
        first, second = (*operands, "0", "0")[:2]
        if name.startswith("sst"):
            if store := STORE.match(", ".join(operands)):
                return f"s[{self.operand_expression(store[1])}]={self.operand_expression(store[2])}"
        elif name.startswith("sdivrem"):
            quotient, remainder = DIVISION_RESULTS.get(operands[-1] if operands else "", (True, True))
            return f"m.divide({self.operand_expression(first)},{self.operand_expression(second)},{int(quotient)},{int(remainder)})"
        elif name.startswith("dma.done"):
            return f"m.wait({self.operand_expression(first)},{self.operand_expression(second)})"
        elif name.startswith("dma."):
            size, flag, smem = (
                self.operand_expression(op.keywords.get(key, "0")) for key in ("size_in_granules", "dst_syncflagno", "smem")
            )
            return f"m.transfer({self.transfer_direction(op)},{size},{flag},{smem})"
        elif name.startswith("vsyncadd"):
            return f"m.add_to_flag({self.operand_expression(first)},{self.operand_expression(second)})"
        elif name.startswith("vsyncpa"):
            return f"m.reset_flag({self.operand_expression(first)})"
        elif name.startswith(("vdelay", "sdelay")):
            return f"m.delay({self.operand_expression(first)})"
        elif name.startswith(WITHOUT_EFFECT):
            return ""
        self.unknown_operations[sanitise_name(name)] += 1
        return ""

    def transfer_direction(self, op: ScalarOp) -> str:
        """Source and target memory of a transfer, from the operation's name or from its pointers; if both are unknown, HBM to VMEM."""
        source, target = self.spaces.get(op.keywords.get("src", ""), ""), self.spaces.get(op.keywords.get("dst", ""), "")
        if between := TRANSFER.match(op.name):
            source, target = between.groups()
        if source not in SPACES or target not in SPACES:
            self.unknown_operations[sanitise_name(op.name)] += 1
            source, target = "hbm", "vmem"
        return f"{source!r},{target!r}"

    def value_expression(self, op: ScalarOp) -> str:
        """The expression for the value that an operation writes into its register."""
        base, *qualifiers = op.name.split(".")
        operands = op.operands
        if op.name.startswith("spop.drf"):
            return "m.pop_division_result()"
        if base == "inlined_call_operand":
            address = ARGUMENTS + self.symbol_address("operand " + op.result)
            return str(address) if qualifiers[:1] and qualifiers[0] in POINTED else f"s[{address}]"  # a scalar argument is passed by value
        if base == "sld" and operands:
            if operands[-1] == CORE_ID:
                return "m.core"
            return f"s[{self.operand_expression(operands[0])}]"
        if base == "scalar_lea":
            return f"(({'+'.join(self.operand_expression(operand) for operand in operands) or '0'})&{(1 << 64) - 1})"
        if base == "scalar_select" and len(operands) == 3:
            return self.select_expression(*(self.operand_expression(operand) for operand in operands))
        if base == "scmp" and len(operands) == 2 and len(qualifiers) > 1 and qualifiers[0] in COMPARE:
            return self.comparison_expression(qualifiers[0], qualifiers[1], operands[0], operands[1])
        operand_count = OPERANDS.get(base, 2)
        if len(operands) == operand_count:
            left, right = (*(self.operand_expression(operand) for operand in operands), "0")[:2]
            if qualifiers[:1] == ["f32"] and base in FLOATING:
                return f"f{base}({left},{right})"
            if (base in ARITHMETIC and qualifiers[:1] != ["f32"]) or base == "smov":
                return ARITHMETIC[base].format(left, right)
            if (base, *qualifiers) == ("smulhi", "u32"):
                return f"((({left}&{WORD_MASK})*({right}&{WORD_MASK}))>>32)"
            if base in EXTREMES and qualifiers[:1] in (["s32"], ["u32"]):
                return EXTREMES[base].format(integer_expression(left, qualifiers[0]), integer_expression(right, qualifiers[0]))
        return "m.make_unknown()"

    def comparison_expression(self, relation: str, kind: str, left: str, right: str) -> str:
        left, right = self.operand_expression(left), self.operand_expression(right)
        if kind == "f32":
            return f"f{relation}({left},{right})"
        return f"({integer_expression(left, kind)}{COMPARE[relation]}{integer_expression(right, kind)})"

    def operand_expression(self, text: str) -> str:
        """The expression for a register, number, address or condition; any other text becomes an unknown word."""
        text = text.strip()
        if text.startswith("!"):
            return f"(1-{atom_expression(text[1:])})"
        if match := HINTED.match(text):
            text = match[1]
        if allocation := ALLOCATION.match(text):
            return str(self.symbol_address(allocation[1]) + int(allocation[2] or "0", 16))
        if address := ADDRESS.match(text):
            parts = (part.strip().lstrip("$") for part in address[1].strip("[]").split("+"))
            return f"({'+'.join(str(self.symbol_address(part[1:])) if part.startswith('#') else atom_expression(part) for part in parts)})"
        return atom_expression(text)

    def symbol_address(self, name: str) -> int:
        """The address of a symbol; different symbols are far apart."""
        return self.symbols.setdefault(name, (len(self.symbols) + 1) << 24)


def predicate_expression(predicate: Predicate) -> str:
    register = f"p[{predicate.register & 0xFF}]"
    return f"(1-{register})" if predicate.is_negated else register


def atom_expression(text: str) -> str:
    """The expression for a register, a number or a Boolean; any other text becomes an unknown word."""
    if register := REGISTER.match(text):
        return f"{'r' if register[1] == 's' else 'p'}[{int(register[2])}]"
    if DECIMAL.match(text):
        return f"({int(text)})"
    if HEXADECIMAL.match(text):
        return str(int(text, 16))
    if FLOAT.match(text) and math.isfinite(float(text)):
        return str(float_to_word(float(text)))
    if text in ("true", "$true", "false", "$false"):
        return "1" if text.endswith("true") else "0"
    return "m.make_unknown()"


def integer_expression(value: str, kind: str) -> str:
    """The expression for a word as a signed or unsigned integer, for comparisons."""
    return f"((({value}&{WORD_MASK})^0x80000000)-0x80000000)" if kind == "s32" else f"({value}&{WORD_MASK})"


def sanitise_name(name: str) -> str:
    """An operation name shortened and without special characters, for a note."""
    return re.sub(r"[^\w.\-]", "", name)[:40]
