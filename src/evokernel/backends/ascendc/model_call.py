"""Reads how `ModelNew.forward` calls its operator, without running it. Any other computation in forward is refused.

Steps that only prepare an argument (shapes, order of axes, element types) become part of it: see `tensor_steps`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evokernel.backends.ascendc import tensor_steps
from evokernel.backends.ascendc.model_values import (
    AllArguments,
    ArgumentValue,
    BindingFunction,
    BindingModule,
    OperatorCall,
    SelfAttribute,
    SymbolValue,
    positional_arguments,
)
from evokernel.core.errors import CandidateError
from evokernel.reference.names import to_identifier

if TYPE_CHECKING:
    from evokernel.backends.ascendc.bindings import BoundFunction
    from evokernel.backends.ascendc.project import CallArgument
    from evokernel.core.records import Signature

MODULE = "custom_ops_lib"
IDENTITY_METHODS = {"to", "npu", "detach", "clone", "cuda", "data", "requires_grad_", "type", "contiguous", *tensor_steps.CASTS}
TENSOR_KINDS = {"clone": "copy", "cpu": "host"}
"""Methods whose result is not the tensor itself, with the kind of argument it is."""
LIST_KINDS = {"tensor": "tensors", "copy": "copies"}
ONE_TENSOR = ("tensor", *TENSOR_KINDS.values())
CASTS = {"float", "int", "bool"}
NO_GRAD_CONTEXTS = {"no_grad", "inference_mode"}


def parse_model_call(text: str, functions: Mapping[str, BoundFunction], signature: Signature) -> OperatorCall:
    """Find the operator call in the forward of ModelNew."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise CandidateError("no_code", f"model_src is not valid Python: {error}") from error
    model = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ModelNew"), None)
    methods = {node.name: node for node in model.body if isinstance(node, ast.FunctionDef)} if model else {}
    if "forward" not in methods:
        raise CandidateError("no_code", "model_src must define class ModelNew(torch.nn.Module) with a forward method")
    try:
        return ModelReader(text, functions, signature).find_operator_call(tree, methods.get("__init__"), methods["forward"])
    except RecursionError as error:
        raise CandidateError(
            "unsupported", "model_src is nested too deeply to parse: write a plain call of the operator in forward"
        ) from error


def list_element(argument: CallArgument) -> object:
    """An argument as an element of a list, whose kind is that of the list."""
    if argument[0] == "size":
        return argument
    return argument[1] if len(argument) == 2 else argument[1:]


def is_no_op(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring or computes nothing."""
    return isinstance(statement, ast.Assert | ast.Pass) or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))


class ModelReader:
    """Tracks the values of names through the source of a model."""

    def __init__(self, text: str, functions: Mapping[str, BoundFunction], signature: Signature) -> None:
        self.text, self.functions, self.signature = text, functions, signature
        self.tensors = {tensor.name: index for index, tensor in enumerate((*signature.inputs, *signature.params))}
        self.numbers = {number.name: index for index, number in enumerate(signature.scalars)}
        self.globals: dict[str, SymbolValue] = {}
        self.self_values: dict[str, SymbolValue] = {}

    def find_operator_call(self, tree: ast.Module, init: ast.FunctionDef | None, forward: ast.FunctionDef) -> OperatorCall:
        for statement in tree.body:
            self.record_global(statement)
        if init is not None:
            self.record_self_values(init)
        names = dict(self.globals) | self.bind_parameters(forward)
        call = self.find_returned_call(forward.body, names)
        if call is None:
            raise CandidateError(
                "unsupported", "forward in model_src does not return a call of the operator: return the result of the bound function"
            )
        return call

    def record_global(self, statement: ast.stmt) -> None:
        """Record an import of bound functions, or a constant."""
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                if alias.name == MODULE:
                    self.globals[alias.asname or alias.name] = BindingModule()
        elif isinstance(statement, ast.ImportFrom) and statement.module == MODULE:
            for alias in statement.names:
                self.globals[alias.asname or alias.name] = BindingFunction(alias.name)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            value = self.evaluate(statement.value, self.globals)
            if value is not None:
                self.globals[statement.targets[0].id] = value

    def record_self_values(self, init: ast.FunctionDef) -> None:
        """Record numbers stored in `self`; other attributes are resolved by path at their use."""
        names = dict(self.globals) | self.bind_parameters(init, numbers_only=True)
        for node in ast.walk(init):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                    value = self.evaluate(node.value, names)
                    if value is not None and not isinstance(value, SelfAttribute):
                        self.self_values[target.attr] = value

    def bind_parameters(self, function: ast.FunctionDef, numbers_only: bool = False) -> dict[str, SymbolValue]:
        """Values of a function's parameters: by name if the signature has it, else in order, tensors first."""
        arguments = function.args
        parameter_names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)][1:]
        defaults = dict(zip(reversed(parameter_names), reversed(arguments.defaults)))
        identifiers = {name: to_identifier(name) for name in parameter_names}
        matched_names = {own for own in identifiers.values() if own in self.tensors or own in self.numbers}
        inputs = [tensor.name for tensor in self.signature.inputs if tensor.name not in matched_names]
        scalars = [number.name for number in self.signature.scalars if number.name not in matched_names]
        remaining = [] if numbers_only else [*inputs, *scalars]
        values: dict[str, SymbolValue] = {}
        for name in parameter_names:
            own = identifiers[name] if identifiers[name] in matched_names else remaining.pop(0) if remaining else ""
            if own in self.tensors and not numbers_only:
                values[name] = ArgumentValue(("tensor", self.tensors[own]))
            elif own in self.numbers:
                values[name] = ArgumentValue(("number", self.numbers[own]))
            elif name in defaults and (value := self.evaluate(defaults[name], {})) is not None:
                values[name] = value
        if arguments.vararg is not None and not numbers_only:
            values[arguments.vararg.arg] = AllArguments()
        return values

    def find_returned_call(self, body: Sequence[ast.stmt], names: dict[str, SymbolValue]) -> OperatorCall | None:
        """The call that a body returns; None if it returns nothing."""
        for statement in body:
            if is_no_op(statement):
                continue
            if isinstance(statement, ast.With) and all(self.is_context(item.context_expr) for item in statement.items):
                if (call := self.find_returned_call(statement.body, names)) is not None:
                    return call
            elif isinstance(statement, ast.If) and not statement.orelse:
                self.require_unchanged_names(statement, names)
            elif isinstance(statement, ast.Assign) and self.unpack_arguments(statement, names):
                continue
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
                value = self.evaluate(statement.value, names)
                if value is None:
                    raise self.unsupported_statement(statement)
                names[statement.targets[0].id] = value
            elif isinstance(statement, ast.Return) and statement.value is not None:
                value = self.evaluate(statement.value, names)
                if not isinstance(value, OperatorCall):
                    raise self.unsupported_statement(statement)
                return value
            else:
                raise self.unsupported_statement(statement)
        return None

    def forward_arguments(self) -> list[ArgumentValue]:
        """All arguments of forward in order: tensors, then numbers."""
        tensors = [ArgumentValue(("tensor", index)) for index in range(len(self.signature.inputs))]
        return [*tensors, *(ArgumentValue(("number", index)) for index in range(len(self.signature.scalars)))]

    def unpack_arguments(self, statement: ast.Assign, names: dict[str, SymbolValue]) -> bool:
        """Bind the names of `x, mask, dim = inputs`; False if the statement has another form."""
        [target, *more] = statement.targets
        if more or not isinstance(target, ast.Tuple | ast.List) or not isinstance(self.evaluate(statement.value, names), AllArguments):
            return False
        arguments = self.forward_arguments()
        if len(target.elts) > len(arguments) or not all(isinstance(element, ast.Name) for element in target.elts):
            raise self.unsupported_statement(statement)
        names.update({element.id: argument for element, argument in zip(target.elts, arguments) if isinstance(element, ast.Name)})
        return True

    def require_unchanged_names(self, statement: ast.If, names: dict[str, SymbolValue]) -> None:
        """Refuse a conditional that changes a value. `if not x.is_contiguous(): x = x.contiguous()` changes none."""
        after = dict(names)
        if all(isinstance(inner, ast.Raise) for inner in statement.body):
            return
        if self.find_returned_call(statement.body, after) is not None or after != names:
            raise self.unsupported_statement(statement)

    @staticmethod
    def is_context(node: ast.expr) -> bool:
        target = node.func if isinstance(node, ast.Call) else node
        return isinstance(target, ast.Attribute) and target.attr in NO_GRAD_CONTEXTS

    def unsupported_statement(self, node: ast.stmt | ast.expr) -> CandidateError:
        line = (ast.get_source_segment(self.text, node) or "").strip().splitlines()
        return CandidateError(
            "unsupported", f"forward in model_src may only call the operator; move this into the kernel: {line[0] if line else 'forward'}"
        )

    def evaluate(self, node: ast.expr, names: Mapping[str, SymbolValue]) -> SymbolValue | None:
        """The value of an expression; None if it is not supported."""
        if isinstance(node, ast.Constant) or (isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)):
            return self.evaluate_constant(node)
        if isinstance(node, ast.Name):
            return names.get(node.id, SelfAttribute("self") if node.id == "self" else None)
        if isinstance(node, ast.Attribute):
            return self.evaluate_attribute(node, names)
        if isinstance(node, ast.Call):
            return self.evaluate_call(node, names)
        if isinstance(node, ast.Subscript):
            return self.evaluate_subscript(node, names)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self.evaluate_comprehension(node, names)
        if isinstance(node, ast.List | ast.Tuple):
            return self.evaluate_list(node, names)
        return None

    def evaluate_list(self, node: ast.List | ast.Tuple, names: Mapping[str, SymbolValue]) -> SymbolValue | None:
        """A list of tensors, of integers or of floats. A tensor with steps becomes a tuple: (0, ("reshape", -1))."""
        items = [self.evaluate(element, names) for element in node.elts]
        arguments = [item.argument for item in items if isinstance(item, ArgumentValue)]
        kinds = {str(argument[0]) for argument in arguments}
        is_numbers = kinds <= {"int", "float", "bool", "size"}
        if not items or len(arguments) != len(items) or not (is_numbers or kinds == {"tensor"} or kinds == {"copy"}):
            return None
        kind = LIST_KINDS[kinds.pop()] if not is_numbers else "floats" if "float" in kinds else "ints"
        return ArgumentValue((kind, *(list_element(argument) for argument in arguments)))

    @staticmethod
    def evaluate_constant(node: ast.expr) -> SymbolValue | None:
        try:
            value = ast.literal_eval(node)
        except ValueError:
            return None
        if value is None:
            return ArgumentValue(("absent",))
        if isinstance(value, bool | int | float):
            return ArgumentValue((type(value).__name__, value))
        return value if isinstance(value, str) else None

    def evaluate_subscript(self, node: ast.Subscript, names: Mapping[str, SymbolValue]) -> SymbolValue | None:
        """`inputs[0]`, or the size of an axis: `x.shape[1]`."""
        index = self.evaluate(node.slice, names)
        if not isinstance(index, ArgumentValue) or index.argument[0] != "int":
            return None
        place = int(index.argument[1])
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return self.size_of(self.evaluate(node.value.value, names), place)
        arguments = self.forward_arguments()
        is_inside = isinstance(self.evaluate(node.value, names), AllArguments) and -len(arguments) <= place < len(arguments)
        return arguments[place] if is_inside else None

    @staticmethod
    def size_of(value: SymbolValue | None, axis: float) -> ArgumentValue | None:
        """The size of an axis of a tensor."""
        is_tensor = isinstance(value, ArgumentValue) and value.argument[0] in ONE_TENSOR
        return ArgumentValue(("size", value.argument, int(axis))) if is_tensor and isinstance(value, ArgumentValue) else None

    def evaluate_attribute(self, node: ast.Attribute, names: Mapping[str, SymbolValue]) -> SymbolValue | None:
        owner = self.evaluate(node.value, names)
        if isinstance(owner, BindingModule):
            return BindingFunction(node.attr)
        if isinstance(owner, SelfAttribute):
            return self.resolve_self_attribute(f"{owner.path}.{node.attr}".removeprefix("self."))
        if ast.unparse(node).startswith("torch.ops."):
            return BindingFunction(node.attr)
        return owner if node.attr in IDENTITY_METHODS and isinstance(owner, ArgumentValue) else None

    def resolve_self_attribute(self, path: str) -> SymbolValue:
        """A number stored in `self`, a tensor by its name in the signature, or a submodule."""
        if path in self.self_values:
            return self.self_values[path]
        index = self.tensors.get(to_identifier(path))
        return SelfAttribute(f"self.{path}") if index is None else ArgumentValue(("tensor", index))

    def evaluate_comprehension(self, node: ast.ListComp | ast.GeneratorExp, names: Mapping[str, SymbolValue]) -> SymbolValue | None:
        """A comprehension over all arguments of forward that applies an identity method such as `contiguous`."""
        [first, *more] = node.generators
        if more or first.ifs or not isinstance(first.target, ast.Name) or not isinstance(self.evaluate(first.iter, names), AllArguments):
            return None
        each = ArgumentValue(("each",))
        return AllArguments() if self.evaluate(node.elt, {**names, first.target.id: each}) == each else None

    def evaluate_call(self, node: ast.Call, names: Mapping[str, SymbolValue]) -> SymbolValue | None:
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) >= 2:
            library, name = (self.evaluate(argument, names) for argument in node.args[:2])
            return BindingFunction(name) if isinstance(library, BindingModule) and isinstance(name, str) else None
        if isinstance(node.func, ast.Name) and node.func.id in CASTS | {"list", "tuple"} and len(node.args) == 1:
            return self.evaluate(node.args[0], names)
        if (prepared := self.prepare_tensor(node, names)) is not None:
            return prepared
        function = self.evaluate(node.func, names) if not self.is_identity_method(node.func) else None
        if isinstance(function, BindingFunction):
            return self.parse_bound_call(node, function.name, names)
        if self.is_identity_method(node.func) and isinstance(node.func, ast.Attribute):
            inner = self.evaluate(node.func.value, names)
            if isinstance(inner, ArgumentValue) and inner.argument[0] == "tensor" and node.func.attr in TENSOR_KINDS:
                return ArgumentValue((TENSOR_KINDS[node.func.attr], *inner.argument[1:]))
            return inner if isinstance(inner, ArgumentValue | OperatorCall) else None
        return None

    def prepare_tensor(self, node: ast.Call, names: Mapping[str, SymbolValue]) -> ArgumentValue | None:
        """A tensor after a step such as `x.view(-1, 4)`, `torch.transpose(x, 0, 1)` or `x.half()`; or a size, `x.size(0)`."""
        if not isinstance(node.func, ast.Attribute) or node.keywords:
            return None
        method, given = node.func.attr, list(node.args)
        of_torch = isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
        if method not in (*tensor_steps.METHODS, *tensor_steps.CASTS, "contiguous", "size", "to") or (of_torch and not given):
            return None
        tensor = self.evaluate(given.pop(0) if of_torch else node.func.value, names)
        if not isinstance(tensor, ArgumentValue) or tensor.argument[0] not in ONE_TENSOR:
            return None
        if method == "contiguous" or method in tensor_steps.CASTS or method == "to":
            return self.cast_tensor(tensor, method, given)
        if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
            given = given[0].elts
        values = [self.evaluate(argument, names) for argument in given]
        numbers = [value.argument for value in values if isinstance(value, ArgumentValue) and value.argument[0] in ("int", "size")]
        if len(numbers) != len(values):
            return None
        plain = [number[1] if number[0] == "int" else number for number in numbers]
        if method == "size":
            return self.size_of(tensor, plain[0]) if len(plain) == 1 and isinstance(plain[0], int) else None
        step = tensor_steps.make_step(method, plain)
        return None if step is None else ArgumentValue((*tensor.argument, step))

    def cast_tensor(self, tensor: ArgumentValue, method: str, given: Sequence[ast.expr]) -> ArgumentValue:
        """The tensor with another element type, or contiguous. A device, as in `x.to("npu")`, changes nothing."""
        if method == "contiguous":
            return tensor if tensor_steps.is_contiguous(tensor.argument[2:]) else ArgumentValue((*tensor.argument, ("contiguous",)))
        dtype = tensor_steps.CASTS.get(method) or (ast.unparse(given[0]).removeprefix("torch.") if given else "")
        dtype = tensor_steps.CASTS.get(dtype, dtype)
        own = (*self.signature.inputs, *self.signature.params)[int(tensor.argument[1])].dtype
        current = tensor_steps.final_dtype(own, tensor.argument[2:])
        if dtype not in tensor_steps.CASTS.values() or dtype == current or current == "bfloat16":
            return tensor
        return ArgumentValue((*tensor.argument, ("cast", dtype)))

    @staticmethod
    def is_identity_method(node: ast.expr) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in IDENTITY_METHODS | TENSOR_KINDS.keys()

    def parse_bound_call(self, node: ast.Call, name: str, names: Mapping[str, SymbolValue]) -> OperatorCall:
        bound = self.functions.get(name)
        if bound is None:
            raise CandidateError("symbol", f"model_src calls {name}, but the binding defines only {', '.join(self.functions)}")
        arguments: list[CallArgument] = []
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            value = self.evaluate(argument.value if isinstance(argument, ast.Starred) else argument, names)
            if isinstance(argument, ast.Starred) and isinstance(value, AllArguments):
                if len(node.args) + len(node.keywords) == 1:
                    return OperatorCall(name, positional_arguments(bound, self.signature))
                arguments += self.starred_arguments(bound, len(node.args) + len(node.keywords) - 1)
                continue
            if isinstance(argument, ast.Starred) or not isinstance(value, ArgumentValue | str):
                raise self.unsupported_statement(argument)
            if isinstance(value, ArgumentValue):
                self.require_contiguous(value, argument)
            arguments.append(("text", value) if isinstance(value, str) else value.argument)
        omitted = bound.parameters[len(arguments) :]
        defaults = [parameter.default for parameter in omitted if parameter.default is not None]
        if not node.keywords and len(defaults) == len(omitted):
            arguments += defaults
        return OperatorCall(name, tuple(arguments))

    def require_contiguous(self, value: ArgumentValue, node: ast.expr) -> None:
        """Refuse tensors whose axes are in another order than their elements."""
        kind, *rest = value.argument
        prepared = [one for one in rest if isinstance(one, tuple)] if kind in LIST_KINDS.values() else [rest] if kind in ONE_TENSOR else []
        if not all(tensor_steps.is_contiguous(steps) for _, *steps in prepared):
            line = (ast.get_source_segment(self.text, node) or "").strip()
            raise CandidateError("unsupported", f"the operator takes contiguous tensors: write {line}.contiguous() in model_src")

    def starred_arguments(self, bound: BoundFunction, others: int) -> list[CallArgument]:
        """The arguments for `*inputs` beside others: all tensors, and the numbers if the function has room for them."""
        tensors = [("tensor", index) for index in range(len(self.signature.inputs))]
        numbers = [("number", index) for index in range(len(self.signature.scalars))]
        return [*tensors, *(numbers if len(tensors) + len(numbers) + others <= len(bound.parameters) else [])]
