"""Rewrites a kernel's body so that it reads memory only where it uses the value.

`jnp.where(step == 0, 0.0, total_ref[...])` reads the total in the first step, too, and drops it. In a part of a program that value may
belong to a step that did not run. With a branch instead of the selection, every read counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax._src import core
from jax._src.lax import lax
from jax._src.lax.control_flow import conditionals
from jax._src.state.types import AbstractRef
from jax.extend.core import ClosedJaxpr, Jaxpr

CALL = "jit"
READ = "get"
SELECTION = "select_n"


def guard_reads(jaxpr: Any) -> Any:
    """The same program, with a branch for every selection by one predicate whose cases read memory."""
    if isinstance(jaxpr, ClosedJaxpr):
        return ClosedJaxpr(guard_reads(jaxpr.jaxpr), jaxpr.consts)
    equations, outputs = inline_calls(jaxpr)
    equations = [equation.replace(params={name: guard_nested(value) for name, value in equation.params.items()}) for equation in equations]
    while (rewritten := guard_first_selection(equations, outputs)) is not None:
        equations = rewritten
    return jaxpr.replace(eqns=equations, outvars=outputs)


def guard_nested(value: Any) -> Any:
    if isinstance(value, (ClosedJaxpr, Jaxpr)):
        return guard_reads(value)
    if isinstance(value, (tuple, list)) and any(isinstance(item, (ClosedJaxpr, Jaxpr)) for item in value):
        return type(value)(guard_reads(item) for item in value)
    return value


def inline_calls(jaxpr: Any) -> tuple[list[Any], list[Any]]:
    """The equations of a program with those of the functions that it calls, and its results. `jnp.where` is such a function."""
    values: dict[Any, Any] = {}

    def find(atom: Any) -> Any:
        return atom if isinstance(atom, core.Literal) else values.get(atom, atom)

    equations = []
    for equation in jaxpr.eqns:
        equation = equation.replace(invars=[find(atom) for atom in equation.invars])
        inner = equation.params.get("jaxpr")
        if equation.primitive.name != CALL or not isinstance(inner, ClosedJaxpr) or inner.consts:
            equations.append(equation)
            continue
        inside, results = inline_calls(inner.jaxpr)
        names: dict[Any, Any] = dict(zip(inner.jaxpr.invars, equation.invars, strict=True))
        for step in inside:
            names |= {variable: core.Var(variable.aval) for variable in step.outvars}
            arguments = [atom if isinstance(atom, core.Literal) else names.get(atom, atom) for atom in step.invars]
            equations.append(step.replace(invars=arguments, outvars=[names[variable] for variable in step.outvars]))
        for variable, result in zip(equation.outvars, results, strict=True):
            values[variable] = result if isinstance(result, core.Literal) else names.get(result, result)
    return equations, [find(atom) for atom in jaxpr.outvars]


def guard_first_selection(equations: list[Any], outputs: list[Any]) -> list[Any] | None:
    """The equations with the first selection that reads memory replaced by a branch; None if there is none."""
    users: dict[int, list[int]] = {}
    for number, equation in enumerate(equations):
        for atom in equation.invars:
            users.setdefault(id(atom), []).append(number)
    for atom in outputs:
        users.setdefault(id(atom), []).append(-1)
    for number, equation in enumerate(equations):
        if equation.primitive.name == SELECTION and len(equation.invars) == 3 and not equation.invars[0].aval.shape:
            cases = [collect_case(equations, number, case, users) for case in equation.invars[1:]]
            if any(equations[i].primitive.name == READ for case in cases for i in case):
                moved = {i for case in cases for i in case}
                branch = make_branch(equation, [[equations[i] for i in case] for case in cases])
                before = [step for i, step in enumerate(equations[:number]) if i not in moved]
                return [*before, *branch, *equations[number + 1 :]]
    return None


def collect_case(equations: list[Any], selection: int, case: Any, users: dict[int, list[int]]) -> list[int]:
    """The equations that compute only this case of a selection and can run as late as the selection, in order."""
    if isinstance(case, core.Literal) or users.get(id(case)) != [selection]:
        return []
    effects = [i for i in range(selection) if has_refs(equations[i]) and equations[i].primitive.name != READ]
    moved: list[int] = []
    for i in range(selection - 1, -1, -1):
        equation = equations[i]
        needed = [users.get(id(variable), []) for variable in equation.outvars]
        is_wanted = any(needed) and all(
            user in moved or (user == selection and variable is case)  # the other case may select this value too
            for variable, numbers in zip(equation.outvars, needed, strict=True)
            for user in numbers
        )
        serves_case = any(variable is case for variable in equation.outvars) or any(user in moved for numbers in needed for user in numbers)
        is_read = equation.primitive.name == READ
        is_movable = (not effects or i > effects[-1]) if is_read else not (has_refs(equation) or equation.effects)
        if is_wanted and serves_case and is_movable:
            moved.append(i)
    return sorted(moved)


def has_refs(equation: Any) -> bool:
    """Whether an operation accesses memory."""
    return any(isinstance(atom.aval, AbstractRef) for atom in equation.invars)


def make_branch(selection: Any, cases: list[list[Any]]) -> list[Any]:
    """A branch with the results of a selection: each case computes its own equations."""
    predicate, *values = selection.invars
    inside = {id(variable) for steps in cases for step in steps for variable in step.outvars}
    atoms = [*values, *(atom for steps in cases for step in steps for atom in step.invars)]
    free = list({id(atom): atom for atom in atoms if not isinstance(atom, core.Literal) and id(atom) not in inside}.values())
    branches = [ClosedJaxpr(core.Jaxpr((), free, [value], steps), ()) for value, steps in zip(values, cases, strict=True)]
    index = core.Var(core.ShapedArray((), np.dtype("int32")))
    convert = {"new_dtype": np.dtype("int32"), "weak_type": False, "sharding": None}
    return [
        core.new_jaxpr_eqn([predicate], [index], lax.convert_element_type_p, convert, set(), selection.source_info),
        core.new_jaxpr_eqn(
            [index, *free], selection.outvars, conditionals.cond_p, {"branches": tuple(branches)}, set(), selection.source_info
        ),
    ]
