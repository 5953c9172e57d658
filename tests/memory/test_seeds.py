"""Knowledge cards become seed memories; a malformed card is named."""

import pytest

from evokernel.core.errors import UserError
from evokernel.core.plugins import plugin_folder, plugin_names
from evokernel.memory.seed_cards import card, seeds

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


def test_a_card_becomes_an_item(tmp_path):
    (tmp_path / "read-once.md").write_text(GOOD)
    item = card(tmp_path / "read-once.md", "cpp")
    assert (item.id, item.kind, item.backend, item.title) == ("cpp/read-once", "practice", "cpp", "Read memory once: fuse the passes")
    assert (item.source, item.bottleneck, item.family, item.task) == ("measured", "memory", "softmax", None)
    assert item.apis == ("std::exp", "#pragma omp simd")
    assert not item.always_include
    assert item.text == "Body with --- inside.\n\n---\nMore."


def test_a_bundled_card(tmp_path):
    (tmp_path / "abi.md").write_text(GOOD.replace("family: softmax", "bundle: true").replace("practice", "api"))
    assert card(tmp_path / "abi.md", "cpp").always_include


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("kind: practice\n", "", "lacks kind"),
        ("kind: practice", "kind: advice", "kind 'advice' must be one of"),
        ("title: Read memory once: fuse the passes", "title:", "not 'key: value'"),
        ("source: measured", "sauce: measured", "did you mean 'source'"),
        ("family: softmax", "kind: api", "given twice"),
        ("family: softmax", "bundle: yes", "true or false"),
        ("---\nkind", "kind", "begins with front matter"),
        ("\nBody with --- inside.\n\n---\nMore.\n", "", "says nothing"),
    ],
)
def test_a_malformed_card_is_named(tmp_path, old, new, says):
    path = tmp_path / "bad.md"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UserError, match=r"bad\.md") as caught:
        card(path, "cpp")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_card_that_is_no_text(tmp_path):
    (tmp_path / "bad.md").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"bad\.md"):
        card(tmp_path / "bad.md", "cpp")


@pytest.mark.parametrize("backend", plugin_names("backend"))
def test_every_backends_cards_are_whole(backend):
    items = seeds(backend)
    assert len(items) == len(list((plugin_folder("backend", backend) / "knowledge").glob("*.md")))
    assert len({item.id for item in items}) == len(items)
    assert all(item.id.startswith(f"{backend}/") and item.text and item.backend == backend for item in items)
