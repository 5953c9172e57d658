"""How a model calls its operator: the forward of ModelNew is read, never run. Whatever it does besides that call is refused."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from evokernel.core.errors import CandidateError
from evokernel.reference.names import identifier

if TYPE_CHECKING:
    from evokernel.backends.ascendc.bindings import Bound
    from evokernel.backends.ascendc.project import Passed
    from evokernel.core.records import Signature

MODULE = "custom_ops_lib"
HARMLESS = {"contiguous", "to", "npu", "float", "half", "detach", "clone", "cuda", "data", "requires_grad_", "type"}
CASTS = {"float", "int", "bool"}
CONTEXTS = {"no_grad", "inference_mode"}


class Call(NamedTuple):
    """A bound function and what it is given."""

    function: str
    passed: tuple[Passed, ...]


class Everything(NamedTuple):
    """All that forward is given, as `*inputs` has it."""


class Library(NamedTuple):
    """The module of bound functions."""


class Function(NamedTuple):
    """One of them."""

    name: str


class Attribute(NamedTuple):
    """Something of `self` that was not set to a number: a tensor that the module holds, or a module on the way to one."""

    path: str


class Value(NamedTuple):
    """An argument as the judge passes it."""

    passed: Passed


Known = Everything | Library | Function | Attribute | Value | Call | str
"""A plain string is one of the model's own."""


def model_call(text: str, functions: Mapping[str, Bound], signature: Signature) -> Call:
    """The call in ModelNew's forward."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise CandidateError("no_code", f"model_src is no Python: {error}") from error
    model = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"), None)
    methods = {node.name: node for node in model.body if isinstance(node, ast.FunctionDef)} if model else {}
    if "forward" not in methods:
        raise CandidateError("no_code", "model_src must define class ModelNew(torch.nn.Module) with a forward")
    try:
        return Reader(text, functions, signature).read(tree, methods.get("__init__"), methods["forward"])
    except RecursionError as error:
        raise CandidateError("unsupported", "model_src is nested too deeply to be read") from error


def passed_in_order(bound: Bound, signature: Signature) -> tuple[Passed, ...]:
    """What `function(*inputs)` passes: tensors to the parameters that are tensors, numbers to those that are numbers.

    Where it also takes what the module holds, that comes after what forward is given: by name where all names fit, else in order.
    """
    asked = [parameter for parameter in bound.parameters if parameter.kind == "tensor"]
    required = sum(not parameter.is_optional for parameter in asked)
    order = list(range(len(signature.inputs)))
    if len(order) < required <= len(order) + len(signature.params):
        order += by_name([parameter.name for parameter in asked[len(order) :]], signature)
    if not required <= len(order) <= len(asked):
        raise CandidateError("symbol", f"{bound.name} of the bind takes {len(asked)} tensors, and forward is given {len(order)}")
    tensors, numbers = iter(order), iter(range(len(signature.scalars)))
    passed: list[Passed] = []
    for parameter in bound.parameters:
        index = next(tensors if parameter.kind == "tensor" else numbers, None)
        if index is None and not parameter.is_optional:
            raise CandidateError("symbol", f"{bound.name} of the bind takes more numbers than the {len(signature.scalars)} there are")
        passed.append(("absent",) if index is None else ("tensor" if parameter.kind == "tensor" else "number", index))
    return tuple(passed)


def by_name(asked: Sequence[str], signature: Signature) -> list[int]:
    """The parameters of a signature in the order they are asked for: `bias_opt` is `bias`, or else the only one like `conv_bias`."""
    left = {tensor.name: len(signature.inputs) + index for index, tensor in enumerate(signature.params)}
    wanted = [name if name in left else re.sub(r"_(?:opt|optional|tensor)$", "", name) for name in asked]
    found = {name: left.pop(name) for name in wanted if name in left}
    for name in wanted:
        if name not in found and len(like := [one for one in left if one.endswith(f"_{name}")]) == 1:
            found[name] = left.pop(like[0])
    if left or len(found) != len(wanted):
        return list(range(len(signature.inputs), len(signature.inputs) + len(signature.params)))
    return [found[name] for name in wanted]


def is_idle(statement: ast.stmt) -> bool:
    """A docstring, or something that computes nothing."""
    return isinstance(statement, ast.Assert | ast.Pass) or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


class Reader:
    """Follows names through the model's text."""

    def __init__(self, text: str, functions: Mapping[str, Bound], signature: Signature) -> None:
        self.text, self.functions, self.signature = text, functions, signature
        self.tensors = {tensor.name: index for index, tensor in enumerate((*signature.inputs, *signature.params))}
        self.numbers = {number.name: index for index, number in enumerate(signature.scalars)}
        self.globals: dict[str, Known] = {}
        self.held: dict[str, Known] = {}

    def read(self, tree: ast.Module, init: ast.FunctionDef | None, forward: ast.FunctionDef) -> Call:
        for statement in tree.body:
            self.note_global(statement)
        if init is not None:
            self.note_held(init)
        names = dict(self.globals) | self.given(forward)
        found = self.run(forward.body, names)
        if found is None:
            raise CandidateError("unsupported", "forward of model_src returns no call of the operator")
        return found

    def note_global(self, statement: ast.stmt) -> None:
        """Imports of the bound functions, and constants."""
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name == MODULE:
                    self.globals[alias.asname or alias.name] = Library()
        elif isinstance(statement, ast.ImportFrom) and statement.module == MODULE:
            for alias in statement.names:
                self.globals[alias.asname or alias.name] = Function(alias.name)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            value = self.value(statement.value, self.globals)
            if value is not None:
                self.globals[statement.targets[0].id] = value

    def note_held(self, init: ast.FunctionDef) -> None:
        """Numbers that `self` keeps; everything else is looked up by its path when it is used."""
        names = dict(self.globals) | self.given(init, numbers_only=True)
        for node in ast.walk(init):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                    value = self.value(node.value, names)
                    if value is not None and not isinstance(value, Attribute):
                        self.held[target.attr] = value

    def given(self, function: ast.FunctionDef, numbers_only: bool = False) -> dict[str, Known]:
        """A function's parameters: by name where the signature has it, else in order, tensors first."""
        arguments = function.args
        named = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)][1:]
        defaults = dict(zip(reversed(named), reversed(arguments.defaults)))
        known = {name: identifier(name) for name in named}
        taken = {own for own in known.values() if own in self.tensors or own in self.numbers}
        inputs = [tensor.name for tensor in self.signature.inputs if tensor.name not in taken]
        scalars = [number.name for number in self.signature.scalars if number.name not in taken]
        left = [] if numbers_only else [*inputs, *scalars]
        found: dict[str, Known] = {}
        for name in named:
            own = known[name] if known[name] in taken else left.pop(0) if left else ""
            if own in self.tensors and not numbers_only:
                found[name] = Value(("tensor", self.tensors[own]))
            elif own in self.numbers:
                found[name] = Value(("number", self.numbers[own]))
            elif name in defaults and (value := self.value(defaults[name], {})) is not None:
                found[name] = value
        if arguments.vararg is not None and not numbers_only:
            found[arguments.vararg.arg] = Everything()
        return found

    def run(self, body: Sequence[ast.stmt], names: dict[str, Known]) -> Call | None:
        """The call that a body returns; None when it goes on behind it."""
        for statement in body:
            if is_idle(statement):
                continue
            if isinstance(statement, ast.With) and all(self.is_context(item.context_expr) for item in statement.items):
                if (found := self.run(statement.body, names)) is not None:
                    return found
            elif isinstance(statement, ast.If) and not statement.orelse:
                self.unchanged(statement, names)
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
                value = self.value(statement.value, names)
                if value is None:
                    raise self.too_much(statement)
                names[statement.targets[0].id] = value
            elif isinstance(statement, ast.Return) and statement.value is not None:
                value = self.value(statement.value, names)
                if not isinstance(value, Call):
                    raise self.too_much(statement)
                return value
            else:
                raise self.too_much(statement)
        return None

    def unchanged(self, statement: ast.If, names: dict[str, Known]) -> None:
        """A condition is harmless when what it leads to leaves every name what it was: `if not x.is_contiguous(): x = x.contiguous()`."""
        after = dict(names)
        if all(isinstance(inner, ast.Raise) for inner in statement.body):
            return
        if self.run(statement.body, after) is not None or after != names:
            raise self.too_much(statement)

    @staticmethod
    def is_context(node: ast.expr) -> bool:
        called = node.func if isinstance(node, ast.Call) else node
        return isinstance(called, ast.Attribute) and called.attr in CONTEXTS

    def too_much(self, node: ast.stmt | ast.expr) -> CandidateError:
        line = (ast.get_source_segment(self.text, node) or "").strip().splitlines()
        return CandidateError("unsupported", f"model_src does more than call the operator: {line[0] if line else 'forward'}")

    def value(self, node: ast.expr, names: Mapping[str, Known]) -> Known | None:
        """What an expression stands for; None for what is not understood."""
        if isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)):
            return self.constant(node)
        if isinstance(node, ast.Name):
            return names.get(node.id, Attribute("self") if node.id == "self" else None)
        if isinstance(node, ast.Attribute):
            return self.attribute(node, names)
        if isinstance(node, ast.Call):
            return self.call(node, names)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self.every(node, names)
        return None

    @staticmethod
    def constant(node: ast.expr) -> Known | None:
        try:
            value = ast.literal_eval(node)
        except ValueError:
            return None
        if value is None:
            return Value(("absent",))
        if isinstance(value, bool | int | float):
            return Value((type(value).__name__, value))
        return value if isinstance(value, str) else None

    def attribute(self, node: ast.Attribute, names: Mapping[str, Known]) -> Known | None:
        owner = self.value(node.value, names)
        if isinstance(owner, Library):
            return Function(node.attr)
        if isinstance(owner, Attribute):
            return self.of_self(f"{owner.path}.{node.attr}".removeprefix("self."))
        if ast.unparse(node).startswith("torch.ops."):
            return Function(node.attr)
        return owner if node.attr in HARMLESS and isinstance(owner, Value) else None

    def of_self(self, path: str) -> Known:
        """A number that `self` keeps, a tensor under the name the signature gives it, or the way to one."""
        if path in self.held:
            return self.held[path]
        index = self.tensors.get(identifier(path))
        return Attribute(f"self.{path}") if index is None else Value(("tensor", index))

    def every(self, node: ast.ListComp | ast.GeneratorExp, names: Mapping[str, Known]) -> Known | None:
        """All of what forward is given, each made contiguous or the like."""
        [first, *more] = node.generators
        if more or first.ifs or not isinstance(first.target, ast.Name) or not isinstance(self.value(first.iter, names), Everything):
            return None
        each = Value(("each",))
        return Everything() if self.value(node.elt, {**names, first.target.id: each}) == each else None

    def call(self, node: ast.Call, names: Mapping[str, Known]) -> Known | None:
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) >= 2:
            library, name = (self.value(argument, names) for argument in node.args[:2])
            return Function(name) if isinstance(library, Library) and isinstance(name, str) else None
        if isinstance(node.func, ast.Name) and node.func.id in CASTS | {"list", "tuple"} and len(node.args) == 1:
            return self.value(node.args[0], names)
        function = self.value(node.func, names) if not self.is_wrapper(node.func) else None
        if isinstance(function, Function):
            return self.bound_call(node, function.name, names)
        if self.is_wrapper(node.func) and isinstance(node.func, ast.Attribute):
            inner = self.value(node.func.value, names)
            return inner if isinstance(inner, Value | Call) else None
        return None

    @staticmethod
    def is_wrapper(node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in HARMLESS

    def bound_call(self, node: ast.Call, name: str, names: Mapping[str, Known]) -> Call:
        bound = self.functions.get(name)
        if bound is None:
            raise CandidateError("symbol", f"model_src calls {name}, and the bind defines {', '.join(self.functions)}")
        passed: list[Passed] = []
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            value = self.value(argument.value if isinstance(argument, ast.Starred) else argument, names)
            if isinstance(argument, ast.Starred) and isinstance(value, Everything) and len(node.args) == 1:
                return Call(name, passed_in_order(bound, self.signature))
            if isinstance(argument, ast.Starred) or not isinstance(value, Value):
                raise self.too_much(argument)
            passed.append(value.passed)
        return Call(name, tuple(passed))
