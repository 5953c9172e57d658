"""A bank page by page: the same items that an archive lists, in order, by words, by meaning."""

import pytest
from bank_parts import HASH, learn, open_bank, with_history
from engine_parts import task
from test_memory_bank import item

from evokernel.core.bank_uri import parse_location
from evokernel.core.errors import InfraError, UserError
from evokernel.memory.bank import Bank
from evokernel.memory.consolidate import consolidate
from evokernel.memory.queries import Browser, Wanted
from evokernel.memory.revoke import revoke


def ids(listing):
    return [one.entry.item.id for one in listing.items]


def test_pages_hold_everything_once_the_most_valuable_first(path):
    with Browser(path) as bank, Bank.read(path) as archive:
        every = bank.page(Wanted(), 100)
        assert every.total == len(every.items) == archive.stats().items
        assert [*ids(bank.page(Wanted(), 5)), *ids(bank.page(Wanted(), 100, 5))] == ids(every)
        worth = [max((q for q in (one.q1, one.q2) if q is not None), default=-9) for one in every.items]
        assert worth == sorted(worth, reverse=True)
        known = {(one.item, one.stage): (one.q, one.visits) for one in archive.standings()}
        first = every.items[0]
        assert (first.q1, first.visits1) == known.get((first.entry.item.id, "draft"), (None, 0))


def test_filters_say_what_an_archives_say(path):
    with Browser(path) as bank, Bank.read(path) as archive:
        for given in ({"kind": "practice"}, {"kind": "trace", "task": "t/gelu"}, {"text": "GELU drafted mismatch"}, {"backend": "cpp"}):
            assert sorted(ids(bank.page(Wanted(**given), 100))) == sorted(entry.item.id for entry in archive.entries(**given)), given
        assert bank.page(Wanted(text="feasible_xyz"), 10).total == 0
        assert bank.page(Wanted(text="latency_us"), 10).total == 0, "names of fields are not found"
        valued = bank.page(Wanted(least=-5), 100)
        assert {one.entry.item.id for one in valued.items} == {one.item for one in archive.standings()}


@pytest.mark.parametrize("word", ["50%", "a_b", 'say"so"', "back\\slash", "naïve"])
def test_any_word_is_found_as_it_is(path, word):
    with open_bank(path, "b") as writer:
        writer.add([item("odd").model_copy(update={"text": f"xx {word} xx"}), item("even").model_copy(update={"text": "a1b 501 say so"})])
    with Browser(path) as bank:
        assert ids(bank.page(Wanted(text=word), 10)) == ["odd"]


def test_meaning_ranks_as_an_archive_does_and_catches_up(path):
    with Browser(path) as bank, Bank.read(path) as archive:
        query = task("gelu").source
        assert [one.entry.item.id for one in bank.nearest(query, HASH, Wanted(), 5)] == [
            hit.item.id for hit in archive.search(query, HASH, 5)
        ]
        kinds = {one.entry.item.kind for one in bank.nearest(query, HASH, Wanted(kind="trace"), 5)}
        assert kinds == {"trace"}
        assert {one.entry.item.task for one in bank.nearest("anything", HASH, Wanted(task="t/gelu"), 5)} == {"t/gelu"}
        with open_bank(path, "b") as writer:
            writer.add([item("new").model_copy(update={"key": "zebra crossing the river"})])
        assert bank.nearest("zebra crossing the river", HASH, Wanted(), 1)[0].entry.item.id == "new"


def test_what_is_revoked_is_not_found_and_what_came_of_attempts_is(path):
    with Browser(path) as bank:
        mark = bank.mark()
        with open_bank(path, "b") as writer:
            learn(writer, "gelu", 0, ["cpp/tip"])
            learn(writer, "gelu", 1, ["cpp/tip"], feasible=False)
        assert bank.mark() != mark
        came = bank.came_of(["b:t/gelu/0", "b:t/gelu/1", "b:t/gelu/9"])
        assert {id: one.feasible for id, one in came.items()} == {"b:t/gelu/0": True, "b:t/gelu/1": False}
        assert bank.nearest(task("gelu").source, HASH, Wanted(), 50)
        revoke(path, "b:t/gelu/0")
        assert "b:t/gelu/0" not in ids(bank.page(Wanted(), 100))
        assert "b:t/gelu/0" not in [one.entry.item.id for one in bank.nearest(task("gelu").source, HASH, Wanted(), 50)]


def test_a_file_that_is_no_bank(tmp_path):
    (tmp_path / "x.db").write_text("no bank")
    with pytest.raises(UserError, match=r"x\.db"):
        Browser(tmp_path / "x.db")


def test_what_was_put_aside_is_not_on_pages(path):
    with open_bank(path, "b") as writer:
        for n in range(2):
            learn(writer, "gelu", n, [])
    with Browser(path) as bank:
        before = set(ids(bank.page(Wanted(), 100)))
        assert [(merge.item, merge.survivor) for merge in consolidate(path).merged]
        after = set(ids(bank.page(Wanted(), 100)))
        assert after < before
        assert after == {entry.item.id for entry in bank.entries()}
        gone = (before - after).pop()
        assert gone not in [one.entry.item.id for one in bank.nearest(task("gelu").source, HASH, Wanted(), 100)]
        assert bank.get(gone).archived


def test_a_zero_in_a_text_does_not_hide_the_rest(path):
    with open_bank(path, "b") as writer:
        writer.add([item("odd").model_copy(update={"text": "before \0 after", "code": r"a\\u0000b"}), item("even")])
    with Browser(path) as bank:
        assert ids(bank.page(Wanted(text="before AFTER"), 10)) == ["odd"]


def test_a_server_that_was_away_is_looked_at_again(postgres):
    url = parse_location(postgres.url("away_and_back"))
    with_history(url)
    with Browser(url) as bank:
        before = bank.page(Wanted(), 5)
        postgres.stop()
        with pytest.raises(InfraError, match="cannot be reached"):
            bank.page(Wanted(), 5)
        postgres.start()
        assert bank.page(Wanted(), 5) == before
        postgres.restart()
        assert bank.page(Wanted(), 5) == before
