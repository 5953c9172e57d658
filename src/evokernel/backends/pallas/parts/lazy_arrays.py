"""Arrays of a traced program that are read element by element on demand, so that arrays of any size take no memory.

Elements are named by flat indices in row-major order. Operations outside kernels mostly move data, and each of them is a rule from the
elements of its result to the elements of its operands.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax._src import core
from jax.extend.core import ClosedJaxpr

from evokernel.backends.pallas.interpret import XLA_OPTIONS
from evokernel.backends.pallas.parts.reshape_boxes import find_reshaped_box
from evokernel.backends.pallas.tpu_rounding import add_tpu_rounding
from evokernel.core.errors import CandidateError

Box: TypeAlias = tuple[tuple[int, int], ...]
"""Start and stop index per dimension."""

CHUNK_ELEMENTS = 1 << 20
"""Elements for which indices are computed at once; bounds the memory for them."""
MAX_COMPUTED_BYTES = 512 << 20
"""Bytes of the operands and results of an operation that is not a rule on elements and therefore runs completely."""


class LazyArray(ABC):
    """An array whose elements are computed when they are read. `depends_on_kernel` says whether a read may need `require` first.

    `is_constant` says that the values do not depend on the program's inputs.
    """

    def __init__(self, shape: Sequence[int], dtype: Any, *, depends_on_kernel: bool = False, is_constant: bool = False) -> None:
        self.shape, self.dtype, self.depends_on_kernel, self.is_constant = tuple(shape), np.dtype(dtype), depends_on_kernel, is_constant
        self.size = math.prod(self.shape)

    @abstractmethod
    def read(self, flat: np.ndarray) -> np.ndarray:
        """The values of these elements."""

    def require(self, flat: np.ndarray) -> None:
        """Runs the kernels that write these elements."""
        return

    def read_box(self, box: Box) -> np.ndarray:
        """The values of a box."""
        shape = [stop - start for start, stop in box]
        values = np.empty(math.prod(shape), self.dtype)
        for part, flat in split_box(self.shape, box):
            values[part] = self.read(flat)
        return values.reshape(shape)

    def require_box(self, box: Box) -> None:
        """Runs the kernels that write the elements of a box."""
        if self.depends_on_kernel:
            for _, flat in split_box(self.shape, box):
                self.require(flat)

    def read_all(self) -> np.ndarray:
        """All values; runs the kernels that write them."""
        box = tuple((0, size) for size in self.shape)
        self.require_box(box)
        return self.read_box(box)

    def forget_values(self) -> None:
        """Drops stored values, because the inputs have changed."""
        return


class HeldArray(LazyArray):
    """A view of an array in memory; `dtype` may differ from the stored one."""

    def __init__(self, data: np.ndarray, dtype: Any = None, is_constant: bool = False) -> None:
        super().__init__(data.shape, data.dtype if dtype is None else dtype, is_constant=is_constant)
        self.data = data

    def with_view(self, data: np.ndarray) -> HeldArray:
        """Another view of the same array."""
        return HeldArray(data, self.dtype, self.is_constant)

    def read(self, flat: np.ndarray) -> np.ndarray:
        values = self.data[unravel(flat, self.shape)].astype(self.dtype, copy=False)
        return values if self.shape else np.broadcast_to(values, flat.shape)

    def read_box(self, box: Box) -> np.ndarray:
        return self.data[tuple(slice(*bounds) for bounds in box)].astype(self.dtype, copy=False)


class AxisMap:
    """A rule from elements of a result to elements of an operand that is affine in every dimension.

    The coordinate of the operand in dimension `d` is `(coordinate[axes[d]] * factor[d] + offset[d]) / divisor[d]`. If that is no valid
    coordinate, then the element does not come from this operand.
    """

    def __init__(
        self,
        operand: Sequence[int],
        result: Sequence[int],
        axes: Sequence[int] | None = None,
        factor: Sequence[int] | None = None,
        offset: Sequence[int] | None = None,
        divisor: Sequence[int] | None = None,
    ) -> None:
        rank = len(operand)
        self.operand, self.result = tuple(operand), tuple(result)
        self.axes = tuple(range(rank)) if axes is None else tuple(axes)
        self.factor, self.divisor = factor or (1,) * rank, divisor or (1,) * rank
        self.offset = offset or (0,) * rank

    def pull(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The operand's elements, and whether each of them exists."""
        coordinates, valid = unravel(flat, self.result), np.ones(flat.shape, bool)
        source = np.zeros(flat.shape, np.int64)
        for size, axis, factor, offset, divisor in zip(self.operand, self.axes, self.factor, self.offset, self.divisor, strict=True):
            index, rest = np.divmod(coordinates[axis] * factor + offset, divisor)
            valid &= (rest == 0) & (index >= 0) & (index < size)
            source = source * size + index
        return source, valid

    def push(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """The reverse of `pull`: the result's elements; None if an element of the operand appears several times in the result."""
        repeats = [size for axis, size in enumerate(self.result) if axis not in self.axes]
        if any(size != 1 for size in repeats) or 0 in self.factor:
            return None
        coordinates, valid = unravel(flat, self.operand), np.ones(flat.shape, bool)
        target = [np.zeros(flat.shape, np.int64) for _ in self.result]
        for index, axis, factor, offset, divisor in zip(coordinates, self.axes, self.factor, self.offset, self.divisor, strict=True):
            target[axis], rest = np.divmod(index * divisor - offset, factor)
            valid &= (rest == 0) & (target[axis] >= 0) & (target[axis] < self.result[axis])
        place = np.zeros(flat.shape, np.int64)
        for index, size in zip(target, self.result, strict=True):
            place = place * size + index
        return place, valid

    @property
    def keeps_boxes(self) -> bool:
        """Whether a box of the operand is a box of the result."""
        return all(divisor == 1 and factor in (0, 1) for factor, divisor in zip(self.factor, self.divisor))

    @property
    def is_strided(self) -> bool:
        """Whether neighbours in the result are further apart in the operand."""
        return any(factor > 1 for factor in self.factor)

    @property
    def reads_boxes(self) -> bool:
        """Whether a box of the result comes from a box of the operand, with equal steps between its elements in one of them."""
        return all(factor >= 0 and (divisor == 1 or factor == 1) for factor, divisor in zip(self.factor, self.divisor))

    def pull_box(self, box: Box) -> tuple[Box, tuple[slice, ...]] | None:
        """The operand's box for a box of the result, and the elements of the result that it fills; None if that is empty."""
        source, target = [], [slice(*bounds) for bounds in box]
        for size, axis, factor, offset, divisor in zip(self.operand, self.axes, self.factor, self.offset, self.divisor, strict=True):
            if factor == 0:
                source.append((offset, offset + 1))
                continue
            start, stop = box[axis]
            if divisor > 1:
                first, last = max(-(-(start + offset) // divisor), 0), min((stop - 1 + offset) // divisor, size - 1)
                target[axis] = slice(first * divisor - offset, last * divisor - offset + 1, divisor)
            else:
                low, high = max(start, -(offset // factor)), min(stop - 1, (size - 1 - offset) // factor)
                first, last = low * factor + offset, high * factor + offset
                target[axis] = slice(low, high + 1)
            if first > last:
                return None
            source.append((first, last + 1))
        return tuple(source), tuple(target)

    def push_box(self, box: Box) -> Box | None:
        """The result's box for a box of the operand; None if there is none or an element appears several times."""
        target = [(0, size) for size in self.result]
        if not self.keeps_boxes or 0 in self.factor or any(size != 1 for axis, size in enumerate(self.result) if axis not in self.axes):
            return None
        for (first, last), axis, offset in zip(box, self.axes, self.offset, strict=True):
            target[axis] = (max(first - offset, 0), min(last - offset, self.result[axis]))
        return tuple(target)

    def arrange(self, values: np.ndarray) -> np.ndarray:
        """Values of a box of the operand with the result's dimensions."""
        values = values[tuple(slice(None, None, factor or 1) for factor in self.factor)].transpose(np.argsort(self.axes))
        return np.expand_dims(values, tuple(axis for axis in range(len(self.result)) if axis not in self.axes))


class BoxPiece(NamedTuple):
    """The part of a box that comes from one operand."""

    array: LazyArray
    source: Box
    """The operand's box."""
    target: tuple[slice, ...]
    """The elements of the result that it fills."""
    arrange: Callable[[np.ndarray], np.ndarray]
    """Gives the operand's values the result's dimensions."""


class MovedArray(LazyArray):
    """The result of an operation that moves or casts data. Each element comes from the first operand whose rule has it, else from `fill`.

    A rule that is None keeps the order of the elements.
    """

    def __init__(
        self, operands: Sequence[tuple[LazyArray, AxisMap | None]], shape: Sequence[int], dtype: Any, fill: LazyArray | None = None
    ) -> None:
        self.operands, self.fill = tuple(operands), fill
        super().__init__(
            shape,
            dtype,
            depends_on_kernel=any(array.depends_on_kernel for array, _ in operands),
            is_constant=all(array.is_constant for array, _ in operands),
        )

    def pull(self, flat: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Per operand that holds any of the elements: its number, the positions in `flat`, and its own elements. -1 stands for `fill`."""
        missing = np.arange(flat.size)
        for number, (_, rule) in enumerate(self.operands):
            if not missing.size:
                return
            if rule is None:
                yield number, missing, flat[missing]
                return
            source, valid = rule.pull(flat[missing])
            if valid.any():
                yield number, missing[valid], source[valid]
            missing = missing[~valid]
        if missing.size:
            yield -1, missing, np.zeros(missing.size, np.int64)

    def read(self, flat: np.ndarray) -> np.ndarray:
        values = np.empty(flat.shape, self.dtype)
        for number, places, source in self.pull(flat):
            array = self.fill if number < 0 else self.operands[number][0]
            assert array is not None
            values[places] = array.read(source)
        return values

    def require(self, flat: np.ndarray) -> None:
        for number, _, source in self.pull(flat):
            if number >= 0 and self.operands[number][0].depends_on_kernel:
                self.operands[number][0].require(source)

    def pull_box(self, box: Box) -> list[BoxPiece] | None:
        """The pieces of a box; None if an operand has no box for its piece."""
        pieces: list[BoxPiece] = []
        for array, rule in self.operands:
            if rule is None and array.shape == self.shape:
                pieces.append(BoxPiece(array, box, tuple(slice(*bounds) for bounds in box), np.asarray))
            elif rule is None:
                reshaped = find_reshaped_box(array.shape, self.shape, box)
                if reshaped is None or (array.depends_on_kernel and not reshaped.is_exact):  # other blocks would have to be computed
                    return None
                pieces.append(BoxPiece(array, reshaped.source, tuple(slice(*bounds) for bounds in box), reshaped.arrange))
            elif not rule.reads_boxes or (rule.is_strided and array.depends_on_kernel):
                return None
            elif (pulled := rule.pull_box(box)) is not None:
                pieces.append(BoxPiece(array, *pulled, rule.arrange))
        return pieces

    def read_box(self, box: Box) -> np.ndarray:
        pieces = self.pull_box(box)
        if pieces is None:
            return super().read_box(box)
        values = np.empty([stop - start for start, stop in box], self.dtype)
        if self.fill is not None:
            values[...] = self.fill.read(np.zeros(1, np.int64))[0]
        for piece in reversed(pieces):  # the first operand that has an element wins
            place = tuple(slice(part.start - start, part.stop - start, part.step) for part, (start, _) in zip(piece.target, box))
            values[place] = piece.arrange(piece.array.read_box(piece.source))
        return values

    def require_box(self, box: Box) -> None:
        pieces = self.pull_box(box)
        if pieces is None:
            super().require_box(box)
        else:
            for piece in pieces:
                piece.array.require_box(piece.source)

    def push_box(self, number: int, box: Box) -> Box | None:
        """The box that comes from a box of one operand; None if it is not a box."""
        array, rule = self.operands[number]
        if rule is not None:
            return rule.push_box(box) if all(rule is not None for _, rule in self.operands) or number == 0 else None
        return box if array.shape == self.shape and number == 0 else None

    def push(self, number: int, flat: np.ndarray) -> np.ndarray | None:
        """The elements that come from these elements of one operand; None if an element appears several times."""
        rule = self.operands[number][1]
        if rule is None:
            place, valid = flat, np.ones(flat.shape, bool)
        elif (pushed := rule.push(flat)) is None:
            return None
        else:
            place, valid = pushed
        place = place[valid]
        return np.concatenate([place[places] for source, places, _ in self.pull(place) if source == number] or [place[:0]])


class ComputedArray(LazyArray):
    """A result of an operation that runs completely, because it is small arithmetic or has no rule on elements."""

    def __init__(self, equation: Any, operands: Sequence[LazyArray], output: int, results: list[np.ndarray], where: str) -> None:
        aval = equation.outvars[output].aval
        super().__init__(
            aval.shape,
            aval.dtype,
            depends_on_kernel=any(operand.depends_on_kernel for operand in operands),
            is_constant=all(operand.is_constant for operand in operands),
        )
        self.equation, self.operands, self.output, self.results, self.where = equation, operands, output, results, where

    def compute(self) -> np.ndarray:
        """The complete result; shared by all results of the operation."""
        if not self.results:
            arrays = [variable.aval for variable in (*self.equation.invars, *self.equation.outvars)]
            if sum(math.prod(aval.shape) * aval.dtype.itemsize for aval in arrays) > MAX_COMPUTED_BYTES:
                raise refuse_size(f"`{self.equation.primitive.name}` outside the kernels{self.where}", "compute it inside a kernel")
            self.results += evaluate_equation(self.equation, [operand.read_all() for operand in self.operands])
        return self.results[self.output]

    def read(self, flat: np.ndarray) -> np.ndarray:
        values: np.ndarray = self.compute().reshape(-1)[flat]
        return values

    def require(self, flat: np.ndarray) -> None:
        self.compute()

    def forget_values(self) -> None:
        self.results.clear()


def refuse_size(subject: str, fix: str) -> CandidateError:
    """The error for a program that cannot run in parts."""
    return CandidateError(
        "unsupported", f"{subject} cannot be checked at this size, where the verifier runs only some output blocks: {fix}"
    )


def split_box(shape: Sequence[int], box: Box) -> Iterator[tuple[slice, np.ndarray]]:
    """The flat indices of a box in chunks, with the place of each chunk."""
    sizes = [stop - start for start, stop in box]
    total, strides = math.prod(sizes), element_strides(shape)
    for start in range(0, total, CHUNK_ELEMENTS):
        part = slice(start, min(start + CHUNK_ELEMENTS, total))
        coordinates = unravel(np.arange(part.start, part.stop), sizes)
        flat = np.zeros(part.stop - part.start, np.int64)
        for (first, _), coordinate, stride in zip(box, coordinates, strides, strict=True):
            flat += (coordinate + first) * stride
        yield part, flat


def unravel(flat: np.ndarray, shape: Sequence[int]) -> tuple[np.ndarray, ...]:
    """The coordinates of elements."""
    coordinates: tuple[np.ndarray, ...] = tuple(np.unravel_index(flat, tuple(shape))) if shape else ()
    return coordinates


def element_strides(shape: Sequence[int]) -> list[int]:
    """Elements between neighbours, per dimension."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


compiled_equations: dict[tuple[Any, ...], tuple[Any, Any]] = {}
"""By identity of the equation and shapes of its operands: the equation, which keeps its identity, and its program."""


def compile_for_cpu(function: Callable[..., Any], arrays: Sequence[np.ndarray]) -> Any:
    """Compiles a function for arrays of these shapes."""
    shapes = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
    return jax.jit(function).trace(*shapes).lower(lowering_platforms=("cpu",)).compile(XLA_OPTIONS)


def evaluate_equation(equation: Any, values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of one operation outside kernels, with the rounding of the TPU. It is compiled once for each shape."""
    key = (id(equation), *((value.shape, value.dtype) for value in values))
    if key not in compiled_equations:
        arguments = [core.Var(variable.aval) for variable in equation.invars]
        jaxpr = core.Jaxpr((), arguments, equation.outvars, [equation.replace(invars=arguments)])
        closed = add_tpu_rounding(ClosedJaxpr(jaxpr, ()))
        compiled_equations[key] = equation, compile_for_cpu(core.jaxpr_as_fun(closed), values)
    return [np.asarray(result) for result in compiled_equations[key][1](*values)]
