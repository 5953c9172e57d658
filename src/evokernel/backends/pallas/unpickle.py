"""Unpickling of bytes that anybody may have written: objects are made, and filled once; nothing that was there before is called or changed.

The unpickler of the standard library sets attributes on whatever a pickle names, be it a class or an object that all programs share.
"""

from __future__ import annotations

import dataclasses
import enum
import pickle
from collections.abc import Callable, Iterable
from types import MemberDescriptorType
from typing import Any, ClassVar


class Strict(pickle._Unpickler):
    """`called` are the only functions; the classes are those that `find_class` finds."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, file: Any, called: Iterable[Callable[..., Any]]) -> None:
        super().__init__(file)
        self.called = frozenset(called)
        self.fresh: dict[int, Any] = {}
        """Objects that were made and not filled yet, by identity."""

    def load_reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack[-1]
        is_lookup = isinstance(function, enum.EnumMeta) and len(arguments) == 1
        if type(arguments) is not tuple or not (is_lookup or (is_hashable(function) and function in self.called)):
            raise pickle.UnpicklingError(f"{function!r:.80} is not to be called")
        self.stack[-1] = function(*arguments)

    def load_newobj(self) -> None:
        arguments, kind = self.stack.pop(), self.stack[-1]
        if not isinstance(kind, type) or type(arguments) is not tuple:
            raise pickle.UnpicklingError("no class")
        if issubclass(kind, tuple):
            self.stack[-1] = kind.__new__(kind, *arguments)
        elif kind.__new__ is object.__new__ and not arguments:
            self.stack[-1] = made = object.__new__(kind)
            self.fresh[id(made)] = made
        else:
            raise pickle.UnpicklingError(f"{kind.__name__} is not made so")

    def load_build(self) -> None:
        state, item = self.stack.pop(), self.stack[-1]
        if self.fresh.pop(id(item), None) is None:
            raise pickle.UnpicklingError(f"{type(item).__name__} is not to be changed")
        if setstate := getattr(item, "__setstate__", None):
            setstate(state)
            return
        for values in state if type(state) is tuple else (state,):
            for name, value in (values or {}).items():
                if is_attribute(type(item), name):
                    object.__setattr__(item, name, value)

    def load_append(self) -> None:
        value = self.stack.pop()
        self.filled(self.stack[-1], list).append(value)

    def load_appends(self) -> None:
        values = self.pop_mark()
        self.filled(self.stack[-1], list).extend(values)

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.filled(self.stack[-1], dict)[key] = value

    def load_setitems(self) -> None:
        values = self.pop_mark()
        self.filled(self.stack[-1], dict).update(zip(values[::2], values[1::2], strict=True))

    def load_additems(self) -> None:
        values = self.pop_mark()
        self.filled(self.stack[-1], set).update(values)

    def filled(self, item: Any, kind: type) -> Any:
        if type(item) is not kind:
            raise pickle.UnpicklingError(f"{type(item).__name__} takes no elements")
        return item

    def refused(self) -> None:
        raise pickle.UnpicklingError("an old or foreign way of making objects")


def is_hashable(item: Any) -> bool:
    return type(item).__hash__ is not None


def is_attribute(kind: type, name: str) -> bool:
    """Whether an object of a class is made of this, among other things: not what its class defines, nor what is computed and kept."""
    if name.startswith("__"):
        return False
    if dataclasses.is_dataclass(kind):
        return any(field.name == name for field in dataclasses.fields(kind))
    return isinstance(getattr(kind, name, None), MemberDescriptorType) or not hasattr(kind, name)


REPLACED = ("reduce", "newobj", "build", "append", "appends", "setitem", "setitems", "additems")
REFUSED = ("newobj_ex", "inst", "obj", "persid", "binpersid", "ext1", "ext2", "ext4", "next_buffer", "readonly_buffer")
Strict.dispatch |= {getattr(pickle, word.upper())[0]: getattr(Strict, f"load_{word}") for word in REPLACED}
Strict.dispatch |= {getattr(pickle, word.upper())[0]: Strict.refused for word in REFUSED}
