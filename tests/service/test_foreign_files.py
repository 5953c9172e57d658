"""A kernel cannot read what the service keeps: its journal, with the kernels of other tenants, and its token file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from service_servers import ServerProcess, read_stream, sample_body

from evokernel.app.selftest import selftest_folder
from evokernel.app.verification_pool import VerificationPool
from evokernel.sandbox import layers
from evokernel.service.tenants import add_token, hash_token

SECRET, LABEL = "alice_only_4711", "label-of-alice-4711"
TASK = "starter/softmax"
FINDS_OPEN = (selftest_folder("cpp") / "escapes" / "finds-open.cpp").read_text()
"""A cheat of the self-test: it passes screen and build, finds `open` in memory, and is correct only if its call of `open` succeeds."""
OPEN_REASONS = ("unwritten", "crash", "forbidden", "killed")
OPENS = 'make("/tmp/evokernel-was-here", 0101, 0600) < 0'


def open_file(path: Path) -> str:
    """A kernel that is correct only if it can open a file for reading."""
    assert OPENS in FINDS_OPEN
    return FINDS_OPEN.replace(OPENS, f'make("{path}", 0, 0) < 0')


def include_file(path: Path) -> str:
    """A kernel whose compiler messages would quote a file."""
    return f'#include "{path}"\n'


def embed_file(path: Path) -> str:
    """A kernel that would contain a file."""
    return f'asm(".incbin \\"{path}\\"");\n'


def probe_file(path: Path) -> str:
    """A kernel that compiles only if the compiler sees a file."""
    return f'#if !__has_include("{path}")\n#error the compiler does not see it\n#endif\n' + FINDS_OPEN.replace(OPENS, "false")


def test_a_kernel_reads_neither_the_journal_nor_the_tokens(tmp_path: Path) -> None:
    token_file = tmp_path / "tokens.toml"
    tokens = {name: add_token(token_file, name) for name in ("alice", "bob")}
    server = ServerProcess(tmp_path / "jobs", "--tokens", str(token_file))
    try:
        server.start()
        alice, bob = (with_token(server, token) for token in tokens.values())
        submit_secret(alice)
        files = [token_file, *(path for path in (tmp_path / "jobs" / name for name in ("jobs.db", "jobs.db-wal")) if path.stat().st_size)]
        secrets = [SECRET, LABEL, hash_token(tokens["alice"])]
        contents = b"".join(path.read_bytes() for path in files)
        assert all(secret.encode() in contents for secret in secrets), "what is attacked is in these files"
        kernels = [*map(open_file, files), *(attack(files[1]) for attack in (include_file, embed_file, probe_file))]
        ids = bob.post("/v1/batches", json={"verifications": [attack_body(kernel) for kernel in kernels]}).json()["verifications"]
        for id, kernel in zip(ids, kernels, strict=True):
            answer = bob.get(f"/v1/verifications/{id}", params={"wait_s": 120})
            assert answer.json()["state"] == "done"
            is_opening = kernel.startswith(FINDS_OPEN[:100])
            assert answer.json()["result"]["reason"] in (OPEN_REASONS if is_opening else ("forbidden",)), answer.text
            shown = answer.text + str(read_stream(bob, id)) + bob.get(f"/v1/verifications/{id}/profile").text
            assert [secret for secret in secrets if secret in shown] == []
    finally:
        server.stop()


def with_token(server: ServerProcess, token: str) -> httpx.Client:
    """A client with a token."""
    return httpx.Client(base_url=server.client.base_url, headers={"authorization": f"Bearer {token}"}, timeout=130)


def submit_secret(client: httpx.Client) -> None:
    """Verify a correct kernel whose text and label nobody else may see."""
    body = sample_body("good")
    body |= {"kernel": f"{body['kernel']}// {SECRET}\n", "label": LABEL}
    assert client.post("/v1/verifications", params={"wait_s": 120}, json=body).json()["result"]["feasible"]


def attack_body(kernel: str) -> dict[str, Any]:
    return {"task": TASK, "backend": "cpp", "kernel": kernel}


@pytest.mark.slow(one_in=4)
def test_without_the_sandbox_the_same_kernel_opens_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack is real: without the sandbox its values are correct at gate check, because it could open the file."""
    monkeypatch.setenv(layers.VARIABLE, ",".join(layers.load_descriptions()))
    token_file = tmp_path / "tokens.toml"
    add_token(token_file, "alice")
    with VerificationPool(1, {"clock": "synthetic"}) as pool:
        for path, is_open in ((token_file, True), (tmp_path / "nothing", False)):
            planned = pool.plan({"kernel.cpp": open_file(path)}, TASK, backend="cpp")
            outcome = pool.submit(planned, ignore_cache=True).result()
            assert [gate.passed for gate in outcome.gates if gate.gate == "check"] == [is_open], outcome.failure
