"""Contract of every embedder. An embedder that uses a service is tested with a local server that answers like the real one."""

import numpy as np
import pytest
from embedding_server import serving
from engine_parts import make_attempt, make_task

from evokernel.core.plugins import accepts_setting, make_plugin, plugin_names
from evokernel.memory.bank import Bank
from evokernel.memory.distill import distill


@pytest.fixture
def server():
    with serving() as server:
        yield server


@pytest.fixture(params=plugin_names("embedder"))
def embedder(request, server):
    if accepts_setting("embedder", request.param, "base_url"):
        return make_plugin("embedder", request.param, base_url=server.url, api_key_env="", batch=2)
    return make_plugin("embedder", request.param)


TEXTS = ["softmax over rows", "matrix multiplication with tiles", "softmax over the rows of a matrix", "row reduction", "softmax over rows"]


def test_rows_are_unit_vectors(embedder):
    rows = embedder.embed(TEXTS)
    assert rows.dtype == np.float32
    assert rows.shape[0] == len(TEXTS)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-5)


def test_equal_texts_have_equal_vectors_in_any_batch(embedder):
    rows = embedder.embed(TEXTS)
    assert (rows[0] == rows[4]).all()
    for text, row in zip(TEXTS, rows, strict=True):
        assert (embedder.embed([text])[0] == row).all()


def test_texts_with_common_words_are_more_similar(embedder):
    rows = embedder.embed(TEXTS)
    assert rows[0] @ rows[2] > rows[0] @ rows[1]


def test_unusual_texts_are_embedded(embedder):
    rows = embedder.embed(["", "\0", "ünïcödé 核 " * 50, "x" * 100_000, "1 2 3"])
    assert rows.shape[0] == 5
    assert np.isfinite(rows).all()
    assert embedder.embed([]).shape[0] == 0


def test_embedder_has_an_id(embedder):
    assert embedder.id
    assert "\n" not in embedder.id


def test_bank_can_use_the_embedder(embedder, tmp_path):
    with Bank.open(tmp_path / "bank.db", embedder, backend="cpp", run="r") as bank:
        for name in ("relu", "gelu"):
            bank.add(distill(make_task(name), make_attempt(0, name)))
        hits = bank.search(make_task("gelu").source, 1)
    assert hits[0].item.task == "t/gelu"
    assert hits[0].similarity == pytest.approx(1.0)
