"""The prior of template_search: options to try first, and wrong options that are never written."""

from random import Random

import pytest

from evokernel.core.errors import UserError
from evokernel.core.records import Context, Stage
from evokernel.core.state import State
from evokernel.generators.template_search import TemplateSearch
from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects import get_dialect, list_dialects
from evokernel.generators.template_search.evidence import read_decisions
from evokernel.generators.template_search.option_model import OptionModel
from evokernel.generators.template_search.prior import Prior, load_prior
from evokernel.generators.template_search.search import DecisionSearch
from evokernel.generators.template_search.search_space import build_search_space
from evokernel.generators.template_search.stage_planner import FUSION_MODES
from evokernel.suites.loader import load_tasks

DRAFT = Context(stage=Stage.DRAFT)
SIZES = ("rows", "cols", "chunk", "lanes", "algorithm", "view")
"""Decisions for which a dialect may choose the option by the sizes of a stage."""
TAIL = Decision("tail", ("scalar", "masked", "assume"))


def test_entries_of_a_family_replace_those_of_all_families():
    prior = Prior(wrong={"": {"tail": ("assume",)}, "row": {"tail": ()}}, start={"": {"tail": ("assume", "masked")}})
    assert prior.list_right_options("map", TAIL) == ("scalar", "masked")
    assert prior.list_right_options("row", TAIL) == TAIL.options
    assert (prior.find_start("map", TAIL), prior.find_start("row", TAIL)) == ("masked", "assume")
    assert Prior().find_start("map", TAIL) == ""


def test_all_options_stay_if_all_are_wrong():
    assert Prior(wrong={"": {"tail": TAIL.options}}).list_right_options("map", TAIL) == TAIL.options


@pytest.mark.parametrize("backend", list_dialects())
def test_prior_names_only_decisions_and_options_that_exist(backend):
    dialect = get_dialect(backend)
    fuse = Decision("fuse", FUSION_MODES)
    decisions = {"kernel": (fuse, *dialect.kernel_decisions)} | {name: template.decisions for name, template in dialect.templates.items()}
    prior = load_prior(dialect.folder)
    for table in (prior.wrong, prior.start):
        for family, entries in table.items():
            known = decisions[family] if family else [d for group in decisions.values() for d in group]
            for name, options in entries.items():
                all_options = {option for d in known if d.name == name for option in d.options}
                assert all_options, (family, name)
                assert set(options) <= all_options, (family, name, options)


def test_unknown_prior_is_refused():
    with pytest.raises(UserError, match="prior must be expert or uniform, not 'good'"):
        TemplateSearch(prior="good")


@pytest.mark.parametrize("backend", list_dialects())
def test_first_draft_takes_the_options_to_try_first(backend):
    dialect = get_dialect(backend)
    prior = load_prior(dialect.folder)
    task = load_tasks("starter/softmax")[0]
    codes = {TemplateSearch(backend, seed=seed).write(State(task=task), DRAFT).candidate.code for seed in range(4)}
    for code in codes:
        for family, choice in read_decisions(code, dialect.hints):
            for name, option in choice.items():
                assert option not in prior.wrong[""].get(name, ()) or name in prior.wrong.get(family, {})
                first = prior.start.get(family, {}).get(name) or prior.start[""].get(name)
                assert not first or option in first or name in SIZES


@pytest.mark.parametrize(
    ("task", "family", "expected"),
    [
        ("starter/softmax", "row", {"algorithm": "whole", "rows": "128"}),
        ("starter/matmul", "matmul", {"left": "mk", "right": "kn", "rows": "128", "cols": "256", "chunk": "all"}),
        ("starter/linear_gelu", "matmul", {"right": "nk"}),
        ("starter/batched_matmul", "matmul", {"right": "nk", "rows": "all"}),
        ("starter/argmax", "argreduce", {"turn": "yes"}),
    ],
)
def test_blocks_of_the_first_draft_follow_from_the_sizes(task, family, expected):
    code = TemplateSearch("pallas").write(State(task=load_tasks(task)[0]), DRAFT).candidate.code
    choices = [choice for name, choice in read_decisions(code, get_dialect("pallas").hints) if name == family]
    assert [{name: choice[name] for name in expected} for choice in choices] == [expected]


def test_wrong_options_are_never_drawn_but_with_a_uniform_prior():
    space = build_search_space(load_tasks("starter/gelu")[0], "cpp")
    prior = load_prior(get_dialect("cpp").folder)

    def draw_aliases(prior):
        searches = [DecisionSearch(space, OptionModel([]), Random(seed), 1.0, prior) for seed in range(60)]
        return {choice["alias"] for search in searches for _, choice in search.complete(lambda group: {}).stages if "alias" in choice}

    assert "restrict" in draw_aliases(Prior())
    assert "restrict" not in draw_aliases(prior)
