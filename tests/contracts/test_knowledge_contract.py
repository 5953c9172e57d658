"""What the knowledge cards of every backend are like; what they claim is checked where the backend is tested."""

import re
from collections import Counter
from pathlib import Path

import pytest

from evokernel.core.plugins import find_plugin, plugin_folder, plugin_names
from evokernel.generators.prompting import file_name
from evokernel.memory.seed_cards import seeds
from evokernel.tasks.family import FAMILIES

BACKENDS = plugin_names("backend")
CARDS = {backend: {item.id.removeprefix(f"{backend}/"): item for item in seeds(backend)} for backend in BACKENDS}
EVERY = [pytest.param(backend, card, id=f"{backend}-{card}") for backend in BACKENDS for card in sorted(CARDS[backend])]
FENCES = {".asc": "cpp", ".cpp": "cpp", ".cu": "cuda", ".py": "python"}


@pytest.mark.parametrize(("backend", "card"), EVERY)
def test_card_is_one_readable_idea(backend, card):
    item = CARDS[backend][card]
    fence = FENCES[Path(file_name(find_plugin("backend", backend))).suffix]
    blocks = re.findall(rf"^```{fence}\n(.*?)^```", item.text, re.DOTALL | re.MULTILINE)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", card)
    assert item.title
    assert item.source
    assert item.family in ("", *FAMILIES)
    assert len(item.text.splitlines()) <= 65
    assert len(item.text) <= 4000
    assert len(blocks) <= 1, "one card, one fragment"
    assert item.text.count("```") == 2 * len(blocks), f"fragments are fenced as {fence}"
    assert (item.kind == "api") >= bool(item.apis), "API names are looked up on api cards only"


@pytest.mark.parametrize("backend", BACKENDS)
def test_both_kinds_are_there_and_found_where_the_package_looks(backend):
    kinds = Counter(item.kind for item in CARDS[backend].values())
    assert set(kinds) == {"api", "practice"}
    assert kinds.total() >= 30
    assert {path.stem for path in (plugin_folder("backend", backend) / "knowledge").iterdir()} == set(CARDS[backend])


@pytest.mark.parametrize("backend", BACKENDS)
def test_titles_differ(backend):
    assert not [title for title, n in Counter(item.title for item in CARDS[backend].values()).items() if n > 1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_bundle_is_small_enough_to_go_with_every_draft(backend):
    bundle = [item for item in CARDS[backend].values() if item.always_include]
    assert bundle
    assert all(item.kind == "api" for item in bundle)
    assert sum(len(item.text) for item in bundle) <= 6000
