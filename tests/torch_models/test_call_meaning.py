"""Calls that compute the same are recognised, whatever form they are written in; others are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from evokernel.torch_models.call_meaning import describe_meaning, short_name
from evokernel.torch_models.calls import Function, OuterCallMode, TorchCall, canonical_call

X, W, B = torch.randn(6, 4), torch.randn(4, 4), torch.randn(4)


class LastCall(OuterCallMode):
    call: TorchCall | None = None
    name: str | None = None

    def handle_call(self, func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.call, self.name = canonical_call(func, args, kwargs), short_name(func)
        return func(*args, **kwargs)


def meaning(function: Callable[[], Any]) -> tuple[Any, str | None]:
    mode = LastCall()
    with torch.no_grad(), mode:
        function()
    assert mode.call
    described = describe_meaning(mode.call)
    assert described
    return described[0], mode.name


@pytest.mark.parametrize(
    "forms",
    [
        [lambda: torch.softmax(X, dim=-1), lambda: functional.softmax(X, -1), lambda: X.softmax(-1), lambda: torch.nn.Softmax(-1)(X)],
        [lambda: torch.matmul(X, W), lambda: X @ W, lambda: X.matmul(W), lambda: torch.mm(X, W)],
        [lambda: torch.tanh(X), lambda: X.clone().tanh_(), lambda: X.tanh(), lambda: torch.nn.Tanh()(X)],
        [lambda: torch.relu(X), lambda: functional.relu(X), lambda: torch.nn.ReLU(inplace=True)(X.clone())],
        [lambda: torch.add(X, B), lambda: X + B],
        [lambda: functional.gelu(X), lambda: torch.nn.GELU()(X)],
    ],
    ids=["softmax", "matmul", "tanh", "relu", "add", "gelu"],
)
def test_forms_of_one_call_mean_the_same(forms):
    assert len({meaning(form) for form in forms}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: torch.softmax(X, dim=-1), lambda: torch.softmax(X, dim=0)),
        (lambda: torch.tanh(X), lambda: torch.tanh(X[:5])),
        (lambda: torch.tanh(X), lambda: torch.tanh(X.double())),
        (lambda: functional.gelu(X), lambda: functional.gelu(X, approximate="tanh")),
        (lambda: torch.add(X, B), lambda: torch.add(X, B, alpha=2)),
        (lambda: torch.sub(W, W.t()), lambda: torch.sub(W, W.t(), alpha=-1)),
        (lambda: functional.linear(X, W), lambda: functional.linear(X, W, B)),
    ],
    ids=["axis", "size", "dtype", "variant", "factor", "sign", "bias"],
)
def test_other_calls_mean_something_else(one, other):
    assert meaning(one)[0] != meaning(other)[0]


def test_a_call_that_needs_data_has_no_meaning():
    mode = LastCall()
    with mode:
        torch.nonzero(X)
    assert mode.call
    assert describe_meaning(mode.call) is None
