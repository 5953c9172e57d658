"""Contract of the knowledge cards of every backend. Cards with a `task` are verified here; the tests of each backend check other claims."""

import re
from collections import Counter
from pathlib import Path

import pytest
from sampling import one_in
from time_limits import HANG_S

from evokernel.core.plugins import find_plugin, make_plugin, plugin_folder, plugin_names
from evokernel.core.records import Candidate, Job
from evokernel.generators.prompting import LANGUAGES
from evokernel.memory.seed_cards import load_seed_cards, parse_front_matter, split_front_matter
from evokernel.suites.family import FAMILIES
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

BACKENDS = plugin_names("backend")
CARDS = {backend: {item.id.removeprefix(f"{backend}/"): item for item in load_seed_cards(backend)} for backend in BACKENDS}
ALL_CARDS = [pytest.param(backend, card, id=f"{backend}-{card}") for backend in BACKENDS for card in sorted(CARDS[backend])]


def card_task(backend, card):
    """Return the task that the card's code solves; None if the card names none."""
    path = plugin_folder("backend", backend) / "knowledge" / f"{card}.md"
    return parse_front_matter(split_front_matter(path.read_text())[0]).get("task")


KERNELS = [(backend, card) for backend in BACKENDS for card in sorted(CARDS[backend]) if card_task(backend, card)]


@pytest.mark.toolchain
@pytest.mark.parametrize(("backend", "card"), one_in(12, KERNELS, "-".join))
def test_kernel_of_a_card_solves_its_task(backend, card):
    plugin = make_plugin("backend", backend)
    if problem := plugin.unavailable_reason():
        pytest.skip(problem)
    (task,) = (task for task in load_tasks(card_task(backend, card)) if task.id == card_task(backend, card))
    code = re.search(r"^```\w+\n(.*?)^```", CARDS[backend][card].text, re.DOTALL | re.MULTILINE)[1]
    candidate = Candidate(backend=backend, files={plugin.file_name: code})
    outcome = verify(Job(backend=backend, task=task, candidate=candidate, timeout_s=HANG_S, clock="synthetic"))
    assert outcome.feasible, outcome.failure


@pytest.mark.parametrize(("backend", "card"), ALL_CARDS)
def test_card_is_short_and_has_at_most_one_code_block(backend, card):
    item = CARDS[backend][card]
    suffix = Path(find_plugin("backend", backend).file_name).suffix
    fence = LANGUAGES.get(suffix, suffix.removeprefix("."))
    blocks = re.findall(rf"^```{fence}\n(.*?)^```", item.text, re.DOTALL | re.MULTILINE)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", card)
    assert item.title
    assert item.source
    assert item.family in ("", *FAMILIES)
    assert set(item.families) <= set(FAMILIES)
    assert item.family not in item.families
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
