"""Contract of the knowledge cards of every backend; the tests of each backend check their claims."""

import re
from collections import Counter
from pathlib import Path

import pytest

from evokernel.core.plugins import find_plugin, plugin_folder, plugin_names
from evokernel.memory.seed_cards import load_seed_cards
from evokernel.tasks.family import FAMILIES

BACKENDS = plugin_names("backend")
CARDS = {backend: {item.id.removeprefix(f"{backend}/"): item for item in load_seed_cards(backend)} for backend in BACKENDS}
ALL_CARDS = [pytest.param(backend, card, id=f"{backend}-{card}") for backend in BACKENDS for card in sorted(CARDS[backend])]
FENCES = {".asc": "cpp", ".cpp": "cpp", ".cu": "cuda", ".py": "python"}


@pytest.mark.parametrize(("backend", "card"), ALL_CARDS)
def test_card_is_short_and_has_at_most_one_code_block(backend, card):
    item = CARDS[backend][card]
    fence = FENCES[Path(find_plugin("backend", backend).file_name).suffix]
    blocks = re.findall(rf"^```{fence}\n(.*?)^```", item.text, re.DOTALL | re.MULTILINE)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", card)
    assert item.title
    assert item.source
    assert item.family in ("", *FAMILIES)
    assert len(item.text.splitlines()) <= 65
    assert len(item.text) <= 4000
    assert len(blocks) <= 1, "one card has one code block"
    assert item.text.count("```") == 2 * len(blocks), f"code blocks are fenced as {fence}"
    assert (item.kind == "api") >= bool(item.apis), "only api cards may list API names"


@pytest.mark.parametrize("backend", BACKENDS)
def test_backend_has_api_and_practice_cards_in_its_folder(backend):
    kinds = Counter(item.kind for item in CARDS[backend].values())
    assert set(kinds) == {"api", "practice"}
    assert kinds.total() >= 30
    assert {path.stem for path in (plugin_folder("backend", backend) / "knowledge").iterdir()} == set(CARDS[backend])


@pytest.mark.parametrize("backend", BACKENDS)
def test_titles_are_unique(backend):
    assert not [title for title, n in Counter(item.title for item in CARDS[backend].values()).items() if n > 1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_static_cards_are_small_enough_for_every_draft(backend):
    static_cards = [item for item in CARDS[backend].values() if item.always_include]
    assert static_cards
    assert all(item.kind == "api" for item in static_cards)
    assert sum(len(item.text) for item in static_cards) <= 6000
