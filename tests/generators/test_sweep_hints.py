"""How words bear on decisions: that hints speak of what there is, and that words of any message blame nobody."""

import pytest

from evokernel.generators.template_search.decisions import Decision
from evokernel.generators.template_search.dialects import dialect_of
from evokernel.generators.template_search.evidence import Evidence
from evokernel.generators.template_search.option_model import Belief
from evokernel.generators.template_search.stage_planner import FUSE
from evokernel.memory import seed_cards


@pytest.mark.parametrize("backend", ["cpp", "pallas"])
def test_hints_speak_of_decisions_that_exist(backend):
    dialect = dialect_of(backend)
    options = {(d.name, o) for sketch in dialect.sketches.values() for d in sketch.decisions for o in d.options}
    options |= {(d.name, o) for d in (*dialect.shared, Decision("fuse", FUSE)) for o in d.options}
    names, hints = {name for name, _ in options}, dialect.hints
    assert {(name, option) for name, option, _ in hints.signs} | set(hints.cards) | set(hints.needs) | set(hints.forbidden) <= options
    used = {name for table in (*hints.suspects.values(), *hints.remedies.values()) for name in table}
    assert used | set(hints.words) | set(hints.minor) | {name for names in hints.sizes.values() for name in names} <= names
    assert hints.common <= {option for _, option in options}


@pytest.mark.parametrize("backend", ["cpp", "pallas"])
def test_what_opens_and_warns_is_in_the_knowledge(backend):
    """A phrase that no card holds could never be shown."""
    cards = "\n".join(f"{c.title}\n{c.text}\n{c.code}\n{' '.join(c.apis)}" for c in seed_cards.seeds(backend)).lower()
    hints = dialect_of(backend).hints
    for table in (hints.cards, hints.forbidden, hints.needs):
        for pair, phrases in table.items():
            assert any(phrase in cards for phrase in phrases), pair


def test_an_option_is_blamed_when_its_word_stands_in_the_message_unless_any_message_has_it():
    hints = dialect_of("cpp").hints
    parts = (("conv", {"scratch": "static"}), ("pool", {"scratch": "heap"}))
    belief = Belief([Evidence(parts, False, "memory", "static storage of more than 64 MiB: take scratch from the heap")], hints)
    assert belief.score("conv", "scratch", "static") == belief.score("pool", "scratch", "heap")
    told = (("map", {"alias": "restrict", "lanes": "16"}),)
    belief = Belief([Evidence(told, False, "compile_error", "expected ',' before 'restrict'")], hints)
    assert belief.score("map", "alias", "restrict") < belief.score("map", "lanes", "16") - 0.5


def test_a_size_is_blamed_where_the_message_names_what_it_refuses():
    hints = dialect_of("pallas").hints
    parts = (("matmul", {"rows": "512", "cols": "64", "chunk": "256"}), ("row", {"rows": "32"}))
    told = "kernel.py:49: … Block spec for args[1] in pallas_call step at kernel.py:28 has block shape (256, 64), array shape (1024, 768)"
    belief = Belief([Evidence(parts, False, "block_shape", told)], hints)
    assert belief.score("matmul", "cols", "64") < belief.score("matmul", "rows", "512") - 1
    assert belief.score("matmul", "cols", "64") < belief.score("row", "rows", "32") - 1
    silent = Belief([Evidence(parts, False, "vmem", "512 bytes, 64 more than there are")], hints)
    assert silent.score("row", "rows", "32") < silent.score("row", "rows", "8"), "no number is singled out"
