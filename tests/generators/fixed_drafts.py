"""First drafts of small operators with some decisions fixed."""

from __future__ import annotations

from random import Random

from evokernel.core.records import Task
from evokernel.generators.template_search.option_model import OptionModel
from evokernel.generators.template_search.prior import load_prior
from evokernel.generators.template_search.search import DecisionSearch
from evokernel.generators.template_search.search_space import build_search_space

TEXT = """import torch
import torch.nn as nn
import torch.nn.functional as F

A, B = 24, 40


class Model(nn.Module):
    def forward(self, {names}):
        return {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""
MATRIX, TWO = "torch.randn(A, B)", "torch.randn(A, B), torch.randn(A, B)"


def render_first_draft(task: Task, backend: str, line: str) -> str:
    """The first draft of a task; the line names the decisions that are fixed."""
    space = build_search_space(task, backend)
    fixed = dict(pair.split("=") for pair in line.split())
    search = DecisionSearch(space, OptionModel([]), Random(0), 1.0, load_prior(space.dialect.folder))
    decisions = search.complete(lambda group: fixed, prefers_start=True)
    assert all(any(choice.get(name) == option for _, choice in decisions.stages) for name, option in fixed.items()), "do not apply"
    return space.render_kernel(decisions)
