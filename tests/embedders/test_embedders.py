"""Properties of each embedder."""

import subprocess
import sys

import numpy as np
import pytest
from embedding_server import serving

from evokernel.core.errors import InfraError, UserError
from evokernel.core.plugins import make_plugin

HASH = make_plugin("embedder", "hash")
SOFTMAX = "class Model(nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, dim=1)\n"
CONV = "class Model(nn.Module):\n    def forward(self, x):\n        return self.conv2d(x)\n"


def similarity(a, b):
    rows = HASH.embed([a, b])
    return float(rows[0] @ rows[1])


@pytest.fixture
def server():
    with serving() as server:
        yield server


def remote(server, **more):
    return make_plugin("embedder", "openai", base_url=server.url, api_key_env="", retries=0, **more)


def test_hash_id_contains_the_dimension():
    assert HASH.id == "hash-1024-v2"
    assert make_plugin("embedder", "hash", dim=64).embed(["x y"]).shape == (1, 64)
    with pytest.raises(UserError, match="dim = 2"):
        make_plugin("embedder", "hash", dim=2)


def test_hash_is_equal_in_another_process():
    code = f"from evokernel.embedders.hash import HashEmbedder; print(HashEmbedder().embed([{SOFTMAX!r}]).tobytes().hex())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "99"})
    assert out.stdout.strip() == HASH.embed([SOFTMAX]).tobytes().hex()


def test_hash_vectors_of_this_version_are_unchanged():
    """Banks store vectors under this id: a change of the vectors requires a new id."""
    row = np.rint(HASH.embed([SOFTMAX])[0] * 2048).astype(int)
    assert {int(n): int(row[n]) for n in np.flatnonzero(row)} == {
        72: 324,
        182: -324,
        198: 513,
        243: -648,
        251: 324,
        277: 324,
        330: -324,
        351: -324,
        399: 324,
        455: 324,
        619: 324,
        643: -513,
        676: 324,
        726: -324,
        743: 324,
        762: 324,
        968: -324,
        981: -1295,
        997: 324,
    }


def test_hash_ignores_naming_conventions():
    assert similarity("conv2d", "Conv2d") > 0.9
    assert similarity("max_pool", "MaxPool") > 0.9
    assert similarity("layer_norm", "the LayerNorm of x") > 0.5
    assert similarity("softmax", "log_softmax") > 0.3
    assert similarity("softmax", "conv") < 0.1


def test_hash_ignores_boilerplate():
    assert similarity(SOFTMAX, "softmax") > 0.4
    assert similarity(SOFTMAX, CONV) < 0.3
    assert not HASH.embed(["import torch\nself def return"]).any()


PRODUCTS = {
    "x, w": ("F.linear(x, w)", "nn.Linear(64, 32)(x)", "torch.nn.functional.linear(x, w)"),
    "a, b": ("torch.matmul(a, b)", "a @ b", "(a.T@b)", 'einsum("ij,jk->ik", a, b)', "a.mm(b)", "torch.bmm(a, b)", "torch.addmm(1, a, b)"),
}
OTHERS = {"x, w": ("F.conv2d(x, w)", "torch.relu(x)", "F.softmax(x, dim=1)", "x.sum(dim=1)", "nn.LayerNorm(64)(x)")}


def references(calls):
    head = "class Model(nn.Module):\n    def forward(self, {}):\n        return {}\n"
    return [head.format(names, call) for names, of_these in calls.items() for call in of_these]


def test_hash_groups_calls_by_kind_of_computation():
    products, others = HASH.embed(references(PRODUCTS)), HASH.embed(references(OTHERS))
    assert (products @ products.T).min() > 0.35 > (products @ others.T).max()


def test_hash_distinguishes_calls_from_words():
    product = "torch.matmul(a, b)"
    assert similarity("Rectified linear unit: max(x, 0).", product) < 0.1 < similarity("nn.Linear(8, 8)", product)
    assert similarity("max(x, 0)", "x.amax()") < similarity("x.max()", "x.amax()")
    assert similarity("    @property", product) < 0.1
    assert similarity("self.norm(a)", "x.norm()") < similarity("torch.norm(a)", "x.norm()")


def test_hash_counts_each_call_once():
    once, repeated = HASH.embed(["torch.relu(a @ b)", "torch.relu(torch.relu(torch.relu(a @ b @ b @ b)))"])
    assert once @ repeated > 0.9


def test_hash_cache_is_bounded(monkeypatch):
    monkeypatch.setattr("evokernel.embedders.hash.CACHE_SIZE", 10)
    embedder = make_plugin("embedder", "hash")
    texts = [f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(100)]
    before = HASH.embed(texts)
    assert (embedder.embed(texts) == before).all()
    assert len(embedder._features) <= 10


def test_openai_sends_batches_and_keeps_the_order(server):
    texts = [f"w{n}" for n in range(7)]
    embedder = remote(server, batch=3)
    rows = embedder.embed(texts)
    assert [len(request["input"]) for request in server.requests] == [3, 3, 1]
    assert (rows == np.concatenate([embedder.embed([text]) for text in texts])).all()


def test_openai_sends_its_settings(server):
    embedder = remote(server, model="m", dimensions=32, max_chars=5)
    embedder.embed(["abcdefgh", ""])
    assert embedder.id == "openai-m-32"
    assert server.requests[0]["model"] == "m"
    assert server.requests[0]["dimensions"] == 32
    assert server.requests[0]["input"] == ["abcde", " "]
    remote(server).embed(["x"])
    assert "dimensions" not in server.requests[1]


def test_openai_retries_failed_requests(server, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    server.failures = [500, 429]
    assert make_plugin("embedder", "openai", base_url=server.url, api_key_env="", retries=3).embed(["x"]).shape == (1, 32)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_openai_service_failure_raises_infra_error(server, status):
    server.failures = [status]
    with pytest.raises(InfraError, match="embedding service"):
        remote(server).embed(["x"])


def test_openai_too_few_vectors_raise_infra_error(server):
    server.missing_count = 1
    with pytest.raises(InfraError, match="1 vectors for 2 texts"):
        remote(server).embed(["x", "y"])


def test_openai_unreachable_service_raises_infra_error():
    with pytest.raises(InfraError, match="embedding service"):
        make_plugin("embedder", "openai", base_url="http://127.0.0.1:9/v1", api_key_env="", retries=0).embed(["x"])


@pytest.mark.parametrize(("status", "message"), [(401, "rejected the API key"), (404, "embedder.model 'm'"), (400, "embedder.model 'm'")])
def test_openai_rejection_raises_user_error(server, status, message):
    server.failures = [status]
    with pytest.raises(UserError, match=message) as caught:
        remote(server, model="m").embed(["x"])
    assert "\n" not in str(caught.value)


def test_openai_without_key_names_the_variable(server, monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    embedder = make_plugin("embedder", "openai", base_url=server.url, api_key_env="MY_KEY")
    with pytest.raises(UserError, match="export MY_KEY="):
        embedder.embed(["x"])
