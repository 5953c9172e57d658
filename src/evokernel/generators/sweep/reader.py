"""Reads a reference's source into an expression tree by walking `Model.__init__` and `Model.forward`; nothing is run."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass, field

from evokernel.core.records import Signature, Task, Tensor
from evokernel.generators.sweep.graph import (
    Node,
    NoSketch,
    Num,
    apply,
    as_node,
    const,
    integer,
    leaf,
    permute,
    reduce,
    scalar_name,
    select,
    size,
    unsqueeze,
)
from evokernel.generators.sweep.modules import MODULES
from evokernel.generators.sweep.ops import FUNCTIONS

BINARY: dict[type[ast.operator], tuple[str, Callable[[float, float], float]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv),
    ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("mod", operator.mod),
    ast.Pow: ("pow", operator.pow),
}
RELATIONS: dict[type[ast.cmpop], str] = {ast.Lt: "<", ast.Gt: ">", ast.LtE: "<=", ast.GtE: ">="}


@dataclass(frozen=True)
class Made:
    """A layer made in `__init__`, or several in a row."""

    kind: str
    args: tuple[object, ...]
    settings: tuple[tuple[str, object], ...]
    path: str = ""


@dataclass
class Reader:
    """The values of names while one model is read."""

    signature: Signature
    names: dict[str, object] = field(default_factory=dict)
    own: dict[str, object] = field(default_factory=dict)
    """Attributes of `self`."""

    def tensor(self, name: str) -> Node | None:
        """The parameter or buffer of this dotted name."""
        found = next((t for t in self.signature.params if t.name == name.replace(".", "_")), None)
        return leaf(found.name, found.shape, found.dtype) if found else None

    def body(self, statements: list[ast.stmt]) -> object:
        """Runs statements until one returns."""
        for statement in statements:
            if isinstance(statement, ast.Return):
                return self.value(statement.value) if statement.value else None
            if isinstance(statement, ast.Assign):
                given = self.value(statement.value)
                for target in statement.targets:
                    self.assign(target, given)
            elif isinstance(statement, ast.AnnAssign) and statement.value:
                self.assign(statement.target, self.value(statement.value))
            elif isinstance(statement, ast.AugAssign):
                self.assign(statement.target, self.binary(statement.op, self.value(statement.target), self.value(statement.value)))
            elif isinstance(statement, ast.Expr) and (is_set_up(statement.value) or isinstance(statement.value, ast.Constant)):
                continue
            elif not isinstance(statement, ast.Pass):
                raise NoSketch(f"a {type(statement).__name__.lower()} statement in line {statement.lineno}")
        return None

    def assign(self, target: ast.expr, given: object) -> None:
        """Binds a name, an attribute of `self`, or several at once."""
        if isinstance(target, ast.Name):
            self.names[target.id] = given
        elif isinstance(target, ast.Attribute) and is_self(target.value):
            parameter = self.tensor(target.attr)
            self.own[target.attr] = parameter or (
                Made(given.kind, given.args, given.settings, target.attr) if isinstance(given, Made) else given
            )
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(given, tuple) and len(given) == len(target.elts):
            for one, part in zip(target.elts, given):
                self.assign(one, part)
        else:
            raise NoSketch(f"an assignment in line {target.lineno}")

    def value(self, at: ast.expr) -> object:
        """The value of an expression."""
        if isinstance(at, ast.Constant):
            return Num.of(at.value) if isinstance(at.value, (int, float)) and not isinstance(at.value, bool) else at.value
        if isinstance(at, (ast.Tuple, ast.List)):
            return tuple(self.value(e) for e in at.elts)
        if isinstance(at, ast.Name):
            if at.id in self.names:
                return self.names[at.id]
            raise NoSketch(f"the name {at.id}")
        if isinstance(at, ast.BinOp):
            return self.binary(at.op, self.value(at.left), self.value(at.right))
        if isinstance(at, ast.UnaryOp) and isinstance(at.op, ast.USub):
            given = self.value(at.operand)
            return Num(-given.value, "neg", (given,), integer=given.integer) if isinstance(given, Num) else apply("neg", given)
        if isinstance(at, ast.Attribute):
            return self.attribute(at)
        if isinstance(at, ast.Subscript):
            return self.subscript(at)
        if isinstance(at, ast.Call):
            return self.call(at)
        if isinstance(at, ast.Compare) and len(at.ops) == 1 and type(at.ops[0]) in RELATIONS:
            return Compared(RELATIONS[type(at.ops[0])], self.value(at.left), self.value(at.comparators[0]))
        raise NoSketch(f"{ast.unparse(at)[:40]}")

    def binary(self, op: ast.operator, left: object, right: object) -> object:
        """Arithmetic on numbers stays arithmetic; on tensors it becomes a step."""
        if isinstance(op, ast.MatMult):
            return FUNCTIONS["matmul"](left, right)
        if type(op) not in BINARY:
            raise NoSketch(f"the operator {type(op).__name__}")
        name, function = BINARY[type(op)]
        if isinstance(left, Num) and isinstance(right, Num):
            whole = left.integer and right.integer and name not in ("div", "pow")
            return Num(function(left.value, right.value), name, (left, right), integer=whole)
        if name == "pow":
            return FUNCTIONS["pow"](left, right)
        if name in ("floordiv", "mod"):
            raise NoSketch(f"{name} of tensors")
        return apply(name, left, right)

    def attribute(self, at: ast.Attribute) -> object:
        """`self.x`, a tensor's `shape` or `T`."""
        if is_self(at.value):
            if at.attr in self.own:
                return self.own[at.attr]
            raise NoSketch(f"self.{at.attr}")
        node = self.value(at.value)
        if isinstance(node, Made):
            found = self.tensor(f"{node.path}.{at.attr}")
            if found:
                return found
        if isinstance(node, tuple) and at.attr in ("values", "indices"):
            return node[at.attr == "indices"]
        if isinstance(node, Node) and at.attr == "shape":
            return tuple(extent(node, i) for i in range(len(node.shape)))
        if isinstance(node, Node) and at.attr in ("T", "mT"):
            return FUNCTIONS["transpose"](node, -2, -1)
        raise NoSketch(f"the attribute {at.attr}")

    def subscript(self, at: ast.Subscript) -> object:
        """Indexing of tuples, and of tensors with `None` and full slices only."""
        base = self.value(at.value)
        if isinstance(base, tuple):
            return base[integer(self.value(at.slice))]
        parts = at.slice.elts if isinstance(at.slice, ast.Tuple) else [at.slice]
        node = as_node(base)
        if any(isinstance(p, ast.Constant) and p.value is ... for p in parts):
            dots = next(i for i, p in enumerate(parts) if isinstance(p, ast.Constant) and p.value is ...)
            named = sum(isinstance(p, ast.Slice) for p in parts)
            parts = [*parts[:dots], *[ast.Slice()] * (len(node.shape) - named), *parts[dots + 1 :]]
        for position, part in enumerate(parts):
            if isinstance(part, ast.Constant) and part.value is None:
                node = unsqueeze(node, position)
            elif not (isinstance(part, ast.Slice) and part.lower is part.upper is part.step is None):
                raise NoSketch(f"the index [{ast.unparse(at.slice)[:30]}]")
        return node

    def call(self, at: ast.Call) -> object:
        """A function of torch, a method of a tensor, or a layer of `self`."""
        settings = {k.arg: self.value(k.value) for k in at.keywords if k.arg and k.arg != "inplace"}
        function = at.func
        if isinstance(function, ast.Attribute) and not is_self(function.value) and not is_library(function.value):
            owner = self.value(function.value)
            args = [self.value(a) for a in at.args]
            return self.method(function.attr, owner, args, settings)
        args = [self.value(a) for a in at.args if not isinstance(a, ast.Starred)]
        if isinstance(function, ast.Attribute) and is_self(function.value):
            return self.layer(self.own.get(function.attr, function.attr), args)
        name = function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
        if name in ("sqrt", "int", "float", "tuple", "list", "len") and args and not isinstance(args[0], Node):
            return plain_call(name, args[0])
        if name in MODULES or name in ("Sequential", "Parameter"):
            return Made(name, tuple(args), tuple(settings.items()))
        if name in ("ones", "zeros", "randn", "rand", "empty", "tensor", "full", "arange"):
            return Made(name, tuple(args), tuple(settings.items()))
        return self.function(name, args, settings)

    def method(self, name: str, owner: object, args: list[object], settings: dict[str, object]) -> object:
        """`x.name(...)`, with the few methods that only move axes."""
        node = as_node(owner) if isinstance(owner, Node) else None
        if node is None:
            raise NoSketch(f".{name}() of something that is no tensor")
        if name in ("size", "dim", "numel"):
            return extent(node, integer(args[0]) % len(node.shape)) if args else tuple(extent(node, i) for i in range(len(node.shape)))
        if name in ("permute",):
            axes = args[0] if isinstance(args[0], tuple) else tuple(args)
            return permute(node, tuple(integer(a) % len(node.shape) for a in axes))
        if name in ("view", "reshape"):
            return reshape(node, args[0] if isinstance(args[0], tuple) else tuple(args))
        if name in ("max", "min") and (len(args) == 1 or "dim" in settings):
            kept = settings.get("keepdim", False)
            axis = args[0] if args else settings["dim"]
            return tuple(FUNCTIONS[f](node, axis, kept) for f in (f"a{name}", f"arg{name}"))
        return self.function(name, [node, *args], settings)

    def function(self, name: str, args: list[object], settings: dict[str, object]) -> object:
        """A function of torch or torch.nn.functional, bound by its own parameter names."""
        if name in ("max", "min"):
            if len(args) == 2 and isinstance(args[1], Node):
                return apply(name, *args)
            return self.method(name, args[0], args[1:], settings) if len(args) > 1 or settings else reduce(name, args[0])
        if name == "where" and len(args) == 3 and isinstance(args[0], Compared):
            return select(args[0].relation, args[0].left, args[0].right, args[1], args[2])
        if name not in FUNCTIONS:
            raise NoSketch(f"{name}()")
        try:
            return FUNCTIONS[name](*args, **settings)
        except TypeError as error:
            raise NoSketch(f"{name}() with these arguments") from error

    def layer(self, made: object, args: list[object]) -> object:
        """Calls a layer made in `__init__`."""
        if not isinstance(made, Made) or made.kind not in (*MODULES, "Sequential"):
            raise NoSketch(f"the layer {made.kind if isinstance(made, Made) else made}")
        if made.kind == "Sequential":
            for i, part in enumerate(made.args):
                inner = Made(part.kind, part.args, part.settings, f"{made.path}.{i}") if isinstance(part, Made) else part
                args = [self.layer(inner, args)]
            return args[0]
        try:
            return MODULES[made.kind](lambda name: self.tensor(f"{made.path}.{name}"), *args, *made.args, **dict(made.settings))
        except TypeError as error:
            raise NoSketch(f"nn.{made.kind} with these settings") from error


@dataclass(frozen=True)
class Compared:
    """The condition of a `where`."""

    relation: str
    left: object
    right: object


def is_self(at: ast.expr) -> bool:
    """Whether an expression is the name `self`."""
    return isinstance(at, ast.Name) and at.id == "self"


def is_set_up(at: ast.expr) -> bool:
    """A statement without bearing on what is computed: `super().__init__()`, a buffer, the start value of a parameter."""
    if not (isinstance(at, ast.Call) and isinstance(at.func, ast.Attribute)):
        return False
    return at.func.attr in ("__init__", "register_buffer") or ast.unparse(at.func).startswith(("nn.init.", "torch.nn.init."))


def is_library(at: ast.expr) -> bool:
    """Whether a dotted name starts at an imported library."""
    while isinstance(at, ast.Attribute):
        at = at.value
    return isinstance(at, ast.Name) and at.id in ("torch", "F", "nn", "math", "functional", "np")


def extent(node: Node, axis: int) -> Num:
    """A size, as the kernel reads it."""
    if node.op != "leaf" or node.dims[axis] < 0:
        return Num.of(node.shape[axis])
    return Num(node.shape[axis], "extent", name=node.name, axis=node.dims[axis])


def plain_call(name: str, given: object) -> object:
    """A number's or a tuple's own functions."""
    if name in ("tuple", "list"):
        return given
    if isinstance(given, tuple) and name == "len":
        return Num.of(len(given))
    if not isinstance(given, Num):
        raise NoSketch(f"{name}()")
    if name == "sqrt":
        return Num(given.value**0.5, "sqrt", (given,), integer=False)
    return Num(int(given.value), "int", (given,)) if name == "int" else Num(float(given.value), "float", (given,), integer=False)


def reshape(node: Node, shape: tuple[object, ...]) -> Node:
    """A vector laid along one axis; other reshapes are not followed."""
    sizes = [integer(s) for s in shape]
    if node.op == "leaf" and len(node.shape) == 1 and sum(s != 1 for s in sizes) == 1:
        at = next(i for i, s in enumerate(sizes) if s != 1)
        for _ in range(at):
            node = unsqueeze(node, 0)
        for _ in range(len(sizes) - at - 1):
            node = unsqueeze(node, len(node.shape))
        return node
    if tuple(size(node.shape) // -size(tuple(sizes)) if s == -1 else s for s in sizes) == node.shape:
        return node
    raise NoSketch("a reshape")


def read(task: Task) -> Node:
    """What the task's model returns; raises NoSketch for what is not understood."""
    tree = ast.parse(task.source)
    model = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"), None)
    if model is None:
        raise NoSketch("a file without Model")
    reader = Reader(task.signature)
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            try:
                reader.body([statement])
            except NoSketch:
                continue
    methods = {n.name: n for n in model.body if isinstance(n, ast.FunctionDef)}
    if "__init__" in methods:
        bind_init(reader, tree, methods["__init__"])
        outer = dict(reader.names)
        reader.body(methods["__init__"].body)
        reader.names = outer
    forward = methods.get("forward")
    if forward is None:
        raise NoSketch("a Model without forward")
    bind_inputs(reader, forward, task.signature.inputs)
    result = reader.body(forward.body)
    if isinstance(result, (Node, Num)):
        return as_node(result) if isinstance(result, Node) else const(result)
    raise NoSketch("several outputs" if isinstance(result, tuple) else "a forward that returns no tensor")


def bind_init(reader: Reader, tree: ast.Module, init: ast.FunctionDef) -> None:
    """Arguments the model is made with: those the kernel is given by name keep their name."""
    maker = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "get_init_inputs"), None)
    returned = next((s.value for s in maker.body if isinstance(s, ast.Return)), None) if maker else None
    given = reader.value(returned) if returned else ()
    names = [a.arg for a in init.args.args[1:]]
    values: dict[str, object] = dict(zip(reversed(names), (reader.value(d) for d in reversed(init.args.defaults))))
    values |= dict(zip(names, given if isinstance(given, tuple) else ()))
    scalars = {s.name for s in reader.signature.scalars}
    for name, value in values.items():
        reader.names[name] = named(name, value, scalars)


def named(name: str, value: object, scalars: set[str]) -> object:
    """A number under the name the kernel receives it by."""
    if isinstance(value, tuple):
        return tuple(named(f"{name}_{i}", part, scalars) for i, part in enumerate(value))
    return (
        Num(value.value, "scalar", name=scalar_name(name), integer=value.integer) if isinstance(value, Num) and name in scalars else value
    )


def bind_inputs(reader: Reader, forward: ast.FunctionDef, inputs: tuple[Tensor, ...]) -> None:
    """Tensor arguments of `forward`, and numbers passed beside them."""
    scalars = {s.name: s for s in reader.signature.scalars}
    tensors = {t.name: t for t in inputs}
    for argument in forward.args.args[1:]:
        name = argument.arg
        if name in tensors:
            reader.names[name] = leaf(name, tensors[name].shape, tensors[name].dtype)
        elif name in scalars:
            reader.names[name] = Num(scalars[name].value, "scalar", name=scalar_name(name), integer=scalars[name].kind == "int")
        else:
            raise NoSketch(f"the input {name}")
