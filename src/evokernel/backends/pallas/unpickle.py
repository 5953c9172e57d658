"""Unpickles untrusted bytes: it creates new objects and fills each once, and calls or changes no existing object except listed functions.

The unpickler of the standard library sets attributes on any object that a pickle names, even on classes and shared objects.
"""

from __future__ import annotations

import dataclasses
import enum
import pickle
from collections.abc import Callable, Iterable
from types import MemberDescriptorType
from typing import Any, ClassVar


class StrictUnpickler(pickle._Unpickler):
    """Calls only `allowed_functions`, and creates only instances of classes that `find_class` returns."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, file: Any, allowed_functions: Iterable[Callable[..., Any]]) -> None:
        super().__init__(file)
        self.allowed_functions = frozenset(allowed_functions)
        self.unfilled: dict[int, Any] = {}
        """Objects that were created and not yet filled, by id."""

    def load_reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack[-1]
        is_lookup = isinstance(function, enum.EnumMeta) and len(arguments) == 1
        if type(arguments) is not tuple or not (is_lookup or (is_hashable(function) and function in self.allowed_functions)):
            raise pickle.UnpicklingError(f"{function!r:.80} must not be called")
        self.stack[-1] = function(*arguments)

    def load_newobj(self) -> None:
        arguments, kind = self.stack.pop(), self.stack[-1]
        if not isinstance(kind, type) or type(arguments) is not tuple:
            raise pickle.UnpicklingError("an object without a class")
        if issubclass(kind, tuple):
            self.stack[-1] = kind.__new__(kind, *arguments)
        elif kind.__new__ is object.__new__ and not arguments:
            self.stack[-1] = item = object.__new__(kind)
            self.unfilled[id(item)] = item
        else:
            raise pickle.UnpicklingError(f"{kind.__name__} cannot be created with these arguments")

    def load_build(self) -> None:
        state, item = self.stack.pop(), self.stack[-1]
        if self.unfilled.pop(id(item), None) is None:
            raise pickle.UnpicklingError(f"{type(item).__name__} must not be changed")
        if setstate := getattr(item, "__setstate__", None):
            setstate(state)
            return
        for values in state if type(state) is tuple else (state,):
            for name, value in (values or {}).items():
                if is_attribute(type(item), name):
                    object.__setattr__(item, name, value)

    def load_append(self) -> None:
        value = self.stack.pop()
        self.require_type(self.stack[-1], list).append(value)

    def load_appends(self) -> None:
        values = self.pop_mark()
        self.require_type(self.stack[-1], list).extend(values)

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.require_type(self.stack[-1], dict)[key] = value

    def load_setitems(self) -> None:
        values = self.pop_mark()
        self.require_type(self.stack[-1], dict).update(zip(values[::2], values[1::2], strict=True))

    def load_additems(self) -> None:
        values = self.pop_mark()
        self.require_type(self.stack[-1], set).update(values)

    def require_type(self, item: Any, kind: type) -> Any:
        if type(item) is not kind:
            raise pickle.UnpicklingError(f"{type(item).__name__} is not a {kind.__name__}")
        return item

    def refuse_opcode(self) -> None:
        raise pickle.UnpicklingError("a pickle opcode that is not allowed")


def is_hashable(item: Any) -> bool:
    return type(item).__hash__ is not None


def is_attribute(kind: type, name: str) -> bool:
    """Whether the name is a data attribute of instances of the class: a dataclass field, a slot, or a name the class does not define."""
    if name.startswith("__"):
        return False
    if dataclasses.is_dataclass(kind):
        return any(field.name == name for field in dataclasses.fields(kind))
    return isinstance(getattr(kind, name, None), MemberDescriptorType) or not hasattr(kind, name)


REPLACED_OPCODES = ("reduce", "newobj", "build", "append", "appends", "setitem", "setitems", "additems")
REFUSED_OPCODES = ("newobj_ex", "inst", "obj", "persid", "binpersid", "ext1", "ext2", "ext4", "next_buffer", "readonly_buffer")
StrictUnpickler.dispatch |= {getattr(pickle, word.upper())[0]: getattr(StrictUnpickler, f"load_{word}") for word in REPLACED_OPCODES}
StrictUnpickler.dispatch |= {getattr(pickle, word.upper())[0]: StrictUnpickler.refuse_opcode for word in REFUSED_OPCODES}
