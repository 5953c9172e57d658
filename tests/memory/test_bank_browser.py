"""Paged queries return the same items as the reader, by value, by words and by similarity."""

import pytest
from bank_parts import HASH, learn, make_bank_with_history, open_bank
from engine_parts import make_task
from test_memory_bank import item

from evokernel.core.bank_uri import parse_location
from evokernel.core.errors import InfraError, UserError
from evokernel.memory.bank import Bank
from evokernel.memory.consolidate import consolidate
from evokernel.memory.queries import BankBrowser, ItemQuery
from evokernel.memory.revoke import revoke


def ids(listing):
    return [valued.entry.item.id for valued in listing.items]


def test_pages_contain_every_item_once_by_descending_value(path):
    with BankBrowser(path) as bank, Bank.open_reader(path) as reader:
        every = bank.list_page(ItemQuery(), 100)
        assert every.total == len(every.items) == reader.compute_stats().items
        assert [*ids(bank.list_page(ItemQuery(), 5)), *ids(bank.list_page(ItemQuery(), 100, 5))] == ids(every)
        best_values = [max((q for q in (valued.q1, valued.q2) if q is not None), default=-9) for valued in every.items]
        assert best_values == sorted(best_values, reverse=True)
        values = {(entry.item, entry.stage): (entry.q, entry.visits) for entry in reader.list_values()}
        first = every.items[0]
        assert (first.q1, first.visits1) == values.get((first.entry.item.id, "draft"), (None, 0))


def test_filters_agree_with_the_reader(path):
    with BankBrowser(path) as bank, Bank.open_reader(path) as reader:
        for filters in ({"kind": "practice"}, {"kind": "trace", "task": "t/gelu"}, {"text": "GELU drafted mismatch"}, {"backend": "cpp"}):
            assert sorted(ids(bank.list_page(ItemQuery(**filters), 100))) == sorted(
                entry.item.id for entry in reader.find_items(**filters)
            ), filters
        assert bank.list_page(ItemQuery(text="feasible_xyz"), 10).total == 0
        assert bank.list_page(ItemQuery(text="latency_us"), 10).total == 0, "names of JSON fields do not match"
        page = bank.list_page(ItemQuery(min_value=-5), 100)
        assert {valued.entry.item.id for valued in page.items} == {entry.item for entry in reader.list_values()}


@pytest.mark.parametrize("word", ["50%", "a_b", 'say"so"', "back\\slash", "naïve"])
def test_special_characters_are_searched_literally(path, word):
    with open_bank(path, "b") as writer:
        writer.add([item("odd").model_copy(update={"text": f"xx {word} xx"}), item("even").model_copy(update={"text": "a1b 501 say so"})])
    with BankBrowser(path) as bank:
        assert ids(bank.list_page(ItemQuery(text=word), 10)) == ["odd"]


def test_similarity_search_agrees_with_the_reader_and_sees_new_items(path):
    with BankBrowser(path) as bank, Bank.open_reader(path) as reader:
        query = make_task("gelu").source
        assert [valued.entry.item.id for valued in bank.search_nearest(query, HASH, ItemQuery(), 5)] == [
            hit.item.id for hit in reader.search(query, HASH, 5)
        ]
        kinds = {valued.entry.item.kind for valued in bank.search_nearest(query, HASH, ItemQuery(kind="trace"), 5)}
        assert kinds == {"trace"}
        assert {valued.entry.item.task for valued in bank.search_nearest("anything", HASH, ItemQuery(task="t/gelu"), 5)} == {"t/gelu"}
        with open_bank(path, "b") as writer:
            writer.add([item("new").model_copy(update={"key": "zebra crossing the river"})])
        assert bank.search_nearest("zebra crossing the river", HASH, ItemQuery(), 1)[0].entry.item.id == "new"


def test_revoked_items_are_hidden_and_attempt_results_are_found(path):
    with BankBrowser(path) as bank:
        token = bank.change_token()
        with open_bank(path, "b") as writer:
            learn(writer, "gelu", 0, ["cpp/tip"])
            learn(writer, "gelu", 1, ["cpp/tip"], feasible=False)
        assert bank.change_token() != token
        results = bank.attempt_results(["b:t/gelu/0", "b:t/gelu/1", "b:t/gelu/9"])
        assert {id: entry.feasible for id, entry in results.items()} == {"b:t/gelu/0": True, "b:t/gelu/1": False}
        assert bank.search_nearest(make_task("gelu").source, HASH, ItemQuery(), 50)
        revoke(path, "b:t/gelu/0")
        assert "b:t/gelu/0" not in ids(bank.list_page(ItemQuery(), 100))
        assert "b:t/gelu/0" not in [valued.entry.item.id for valued in bank.search_nearest(make_task("gelu").source, HASH, ItemQuery(), 50)]


def test_file_that_is_not_a_bank_is_rejected(tmp_path):
    (tmp_path / "x.db").write_text("not a bank")
    with pytest.raises(UserError, match=r"x\.db"):
        BankBrowser(tmp_path / "x.db")


def test_archived_items_are_not_on_pages(path):
    with open_bank(path, "b") as writer:
        for n in range(2):
            learn(writer, "gelu", n, [])
    with BankBrowser(path) as bank:
        before = set(ids(bank.list_page(ItemQuery(), 100)))
        assert [(merge.item, merge.survivor) for merge in consolidate(path).merged]
        after = set(ids(bank.list_page(ItemQuery(), 100)))
        assert after < before
        assert after == {entry.item.id for entry in bank.find_items()}
        archived_id = (before - after).pop()
        assert archived_id not in [valued.entry.item.id for valued in bank.search_nearest(make_task("gelu").source, HASH, ItemQuery(), 100)]
        assert bank.get_item(archived_id).is_archived


def test_nul_character_does_not_hide_the_rest_of_a_text(path):
    with open_bank(path, "b") as writer:
        writer.add([item("odd").model_copy(update={"text": "before \0 after", "code": r"a\\u0000b"}), item("even")])
    with BankBrowser(path) as bank:
        assert ids(bank.list_page(ItemQuery(text="before AFTER"), 10)) == ["odd"]


def test_browser_reconnects_after_a_server_restart(postgres):
    url = parse_location(postgres.url("away_and_back"))
    make_bank_with_history(url)
    with BankBrowser(url) as bank:
        before = bank.list_page(ItemQuery(), 5)
        postgres.stop()
        with pytest.raises(InfraError, match="cannot be reached"):
            bank.list_page(ItemQuery(), 5)
        postgres.start()
        assert bank.list_page(ItemQuery(), 5) == before
        postgres.restart()
        assert bank.list_page(ItemQuery(), 5) == before
