"""Hints: they name existing decisions and cards, and ordinary words of messages blame no option."""

import pytest

from evokernel.core.causes import CAUSES
from evokernel.core.records import Profile
from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects import get_dialect
from evokernel.generators.template_search.evidence import Evidence
from evokernel.generators.template_search.option_model import OptionModel
from evokernel.generators.template_search.stage_planner import FUSION_MODES
from evokernel.memory import seed_cards


@pytest.mark.parametrize("backend", ["cpp", "cuda", "pallas", "triton"])
def test_hints_name_existing_decisions(backend):
    dialect = get_dialect(backend)
    options = {(d.name, o) for template in dialect.templates.values() for d in template.decisions for o in d.options}
    options |= {(d.name, o) for d in (*dialect.kernel_decisions, Decision("fuse", FUSION_MODES)) for o in d.options}
    names, hints = {name for name, _ in options}, dialect.hints
    assert {(name, option) for name, option, _ in hints.signs} | set(hints.cards) | set(hints.needs) | set(hints.forbidden) <= options
    used_names = {name for table in (*hints.suspects.values(), *hints.remedies.values()) for name in table}
    assert used_names | set(hints.words) | set(hints.minor) | {name for names in hints.sizes.values() for name in names} <= names
    assert hints.common <= {option for _, option in options}


@pytest.mark.parametrize("backend", ["cpp", "cuda", "pallas", "triton"])
def test_phrases_of_hints_are_in_knowledge_cards(backend):
    """A phrase that no card contains could never match."""
    cards = "\n".join(f"{c.title}\n{c.text}\n{c.code}\n{' '.join(c.apis)}" for c in seed_cards.load_seed_cards(backend)).lower()
    hints = get_dialect(backend).hints
    for table in (hints.cards, hints.forbidden, hints.needs):
        for pair, phrases in table.items():
            assert any(phrase in cards for phrase in phrases), pair


@pytest.mark.parametrize("backend", ["ascendc", "cuda", "pallas", "triton"])
def test_remedies_follow_the_cause_that_a_policy_names(backend):
    hints = get_dialect(backend).hints
    assert set(hints.causes) <= set(CAUSES)
    assert set(hints.causes.values()) <= set(hints.remedies)
    profile = Profile(bottleneck=hints.causes["excess_traffic"], summary="")
    assert hints.find_remedies(profile, "few_cores") == hints.remedies[hints.causes["few_cores"]] != hints.find_remedies(profile)
    assert hints.find_remedies(profile, "unknown") == hints.find_remedies(profile) == hints.remedies[profile.bottleneck]


def test_option_named_in_the_message_is_blamed_unless_the_word_is_common():
    hints = get_dialect("cpp").hints
    stages = (("conv", {"scratch": "static"}), ("pool", {"scratch": "heap"}))
    model = OptionModel([Evidence(stages, False, "memory", "static storage of more than 64 MiB: take scratch from the heap")], hints)
    assert model.score_option("conv", "scratch", "static") == model.score_option("pool", "scratch", "heap")
    choice = (("map", {"alias": "restrict", "lanes": "16"}),)
    model = OptionModel([Evidence(choice, False, "compile_error", "expected ',' before 'restrict'")], hints)
    assert model.score_option("map", "alias", "restrict") < model.score_option("map", "lanes", "16") - 0.5


def test_size_that_the_message_refuses_is_blamed():
    hints = get_dialect("pallas").hints
    stages = (("matmul", {"rows": "512", "cols": "64", "chunk": "256"}), ("row", {"rows": "32"}))
    message = (
        "kernel.py:49: … Block spec for args[1] in pallas_call step at kernel.py:28 has block shape (256, 64), array shape (1024, 768)"
    )
    model = OptionModel([Evidence(stages, False, "block_shape", message)], hints)
    assert model.score_option("matmul", "cols", "64") < model.score_option("matmul", "rows", "512") - 1
    assert model.score_option("matmul", "cols", "64") < model.score_option("row", "rows", "32") - 1
    without_numbers = OptionModel([Evidence(stages, False, "vmem", "512 bytes, 64 more than there are")], hints)
    assert without_numbers.score_option("row", "rows", "32") < without_numbers.score_option("row", "rows", "8"), "no number is singled out"
