"""Knowledge cards become seed memory; errors name the malformed card."""

import pytest

from evokernel.core.errors import UserError
from evokernel.core.plugins import plugin_folder, plugin_names
from evokernel.memory.seed_cards import load_card, load_seed_cards

GOOD = """---
kind: practice
title: Read memory once: fuse the passes
source: measured
bottleneck: memory
apis: std::exp, #pragma omp simd ,
family: softmax
---

Body with --- inside.

---
More.
"""


def test_card_becomes_an_item(tmp_path):
    (tmp_path / "read-once.md").write_text(GOOD)
    item = load_card(tmp_path / "read-once.md", "cpp")
    assert (item.id, item.kind, item.backend, item.title) == ("cpp/read-once", "practice", "cpp", "Read memory once: fuse the passes")
    assert (item.source, item.bottleneck, item.family, item.task) == ("measured", "memory", "softmax", None)
    assert item.apis == ("std::exp", "#pragma omp simd")
    assert not item.always_include
    assert item.text == "Body with --- inside.\n\n---\nMore."


def test_card_that_is_always_included(tmp_path):
    (tmp_path / "abi.md").write_text(GOOD.replace("family: softmax", "always_include: true").replace("practice", "api"))
    assert load_card(tmp_path / "abi.md", "cpp").always_include


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: practice\n", "", "lacks kind"),
        ("kind: practice", "kind: advice", "kind 'advice' must be one of"),
        ("title: Read memory once: fuse the passes", "title:", "not 'key: value'"),
        ("source: measured", "sauce: measured", "did you mean 'source'"),
        ("family: softmax", "kind: api", "given twice"),
        ("family: softmax", "always_include: yes", "true or false"),
        ("family: softmax", "min_flops: many", "min_flops 'many' must be a number"),
        ("---\nkind", "kind", "begins with front matter"),
        ("\nBody with --- inside.\n\n---\nMore.\n", "", "has no text"),
    ],
)
def test_error_names_the_malformed_card(tmp_path, old, new, message):
    path = tmp_path / "bad.md"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UserError, match=r"bad\.md") as caught:
        load_card(path, "cpp")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_card_that_is_not_text_is_rejected(tmp_path):
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"bad\.md"):
        load_card(tmp_path / "bad.md", "cpp")


@pytest.mark.parametrize("backend", plugin_names("backend"))
def test_cards_of_every_backend_are_complete(backend):
    items = load_seed_cards(backend)
    assert len(items) == len(list((plugin_folder("backend", backend) / "knowledge").glob("*.md")))
    assert len({item.id for item in items}) == len(items)
    assert all(item.id.startswith(f"{backend}/") and item.text and item.backend == backend for item in items)
