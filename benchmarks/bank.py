"""What retrieval costs as a bank grows, in a file and on a server. `python benchmarks/bank.py file|server ITEMS [KEYS] [--url URL]`.

One retrieval is what a policy asks for: the 20 nearest traces and notes of correct kernels of a backend, which has two thirds of the bank,
then their values. KEYS are the distinct references the items were written for: ITEMS / 100 when not given, ITEMS for the worst case.
Vectors are made as the hash embedder makes them, of passages of this package's own text: four passages each. Wall time in ms, as the
run waits for it; `first` meets its query for the first time, of a server that has answered a thousand others (with --fresh, none).
`recall` is the share of the 20 nearest keys that are found, against exact search over all vectors. With --consolidate the bank is
tidied afterwards: of the kernels of a task, half are near copies of others. Without --url a server of its own is started, from the
wheel that the tests use. With --writers N, as many processes then learn into it at once, as runs do: an update of two values, and an
item, each in a transaction.
"""

from __future__ import annotations

import random
import resource
import struct
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
from retrieval import corpus

from evokernel.core.bank_uri import BankLocation, ServerUrl, parse_location
from evokernel.core.plugins import make_plugin
from evokernel.core.records import MemoryItem, Stage
from evokernel.memory.bank import COLUMNS, Bank
from evokernel.memory.consolidate import consolidate
from evokernel.memory.index import grid
from evokernel.memory.schema import connect
from evokernel.memory.tables import asked, places, transaction

K, QUERIES, BEFORE, PASSAGES, BLOCK = 20, 200, 1_000, 8_000, 5_000
LEDGER = ("run", "attempt", "item", "stage", "scope", "reward", "alpha", "q_before", "q_after")
BACKENDS = ("cpp", "cpp", "pallas")
SERVER = {
    "fsync": "on",
    "shared_buffers": "4GB",
    "maintenance_work_mem": "2600MB",
    "max_wal_size": "8GB",
    "max_parallel_maintenance_workers": "0",  # the wheel's build of pgvector does not survive several on every processor
}


class Vectors:
    """Keys by number, the same for every store; as an embedder, it knows its queries by their names."""

    id = "bench-1024"

    def __init__(self) -> None:
        chance, embedder, lines = random.Random(1), make_plugin("embedder", "hash"), corpus()
        starts = [chance.randrange(len(lines) - 10) for _ in range(PASSAGES)]
        self.passages = np.array([embedder._row("\n".join(lines[at : at + 10])) for at in starts], np.float32)

    def of(self, numbers: Sequence[int]) -> np.ndarray:
        mixed = (np.array(numbers, np.int64)[:, None] * 4 + np.arange(4)).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(33)
        made = self.passages[mixed % np.uint64(PASSAGES)].sum(1)
        unit: np.ndarray = made / np.linalg.norm(made, axis=1, keepdims=True)
        return unit

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return self.of([-int(text) for text in texts])


def items(first: int, last: int, keys: int) -> Iterator[tuple[int, MemoryItem]]:
    """With the number of each one's key; a task's kernels come in pairs that end alike and differ in a name."""
    lines = corpus()
    for n in range(first, last):
        key = n % keys
        kind = "trace" if n % 2 else "experience"
        at = (key * 131 + n // keys // 4) * 7919 % (len(lines) - 30)
        code = "\n".join([*lines[at : at + 30], f"int kernel_{n};"]) if n % 2 else ""
        told = {"title": f"item {n}", "text": "what happened, in some words", "code": code}
        yield (
            key,
            MemoryItem(
                id=f"old:{n}",
                kind=kind,
                backend=BACKENDS[key % 3],
                task=f"old/{key}",
                feasible=n // keys % 2 == 0,
                candidate=f"{n:012x}",
                **told,
            ),
        )


def fill(where: BankLocation, count: int, keys: int, vectors: Vectors) -> None:
    """As many runs would have left it; written in bulk."""
    connection = connect(where)
    is_server = isinstance(where, ServerUrl)
    with transaction(connection):
        connection.execute("INSERT INTO meta VALUES ('embedder', ?)", (vectors.id,))
    if is_server:
        fill_keys(connection, keys, vectors)
    for first in range(0, count, BLOCK):
        made = list(items(first, min(first + BLOCK, count), keys))
        rows = [
            (item.id, "old", "", item.kind, item.backend, item.task, "", "", item.model_dump_json(), *asked(item), key + 1)
            for key, item in made
        ]
        ids = [row[0] for row in rows[::10]]
        tables = [
            ("items", ("id", "run", "pack", *COLUMNS, "key"), rows),
            ("ledger", LEDGER, [("old", "t/x/0", id, "draft", "", 1.0, 0.5, 0.0, 0.5) for id in ids]),
            ("q", ("item", "stage", "scope", "q", "visits"), [(id, "draft", "", 0.5, 1) for id in ids]),
        ]
        if not is_server:
            tables[0] = ("items", tables[0][1][:-1], [row[:-1] for row in rows])
            held = grid(vectors.of([key for key, _ in made]))
            tables.append(("vectors", ("seq", "vector"), [(first + n + 1, vector.tobytes()) for n, vector in enumerate(held)]))
        with transaction(connection):
            for table, columns, lines in tables:
                in_bulk(connection, is_server, f"{table} ({', '.join(columns)})", lines)
    connection.close()


def in_bulk(connection: Any, is_server: bool, table: str, rows: list[tuple[Any, ...]]) -> None:
    if not is_server:
        connection.executemany(f"INSERT INTO {table} VALUES ({places(len(rows[0]))})", rows)
        return
    with connection._connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for one in rows:
            copy.write_row(one)


def fill_keys(connection: Any, keys: int, vectors: Vectors) -> None:
    """A server's keys, with their sketches, then the index."""
    from evokernel.memory import remote_index

    inside = connection._connection
    started = time.perf_counter()
    with inside.cursor().copy("COPY keys (backend, sha256, vector, sketch) FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for first in range(0, keys, BLOCK):
            numbers = range(first, min(first + BLOCK, keys))
            held = grid(vectors.of(numbers))
            short = held.astype(np.float32) @ remote_index.projections(1024)
            short /= np.maximum(np.linalg.norm(short, axis=1, keepdims=True), 1e-12)
            copy.write(b"".join(row(*one) for one in zip(numbers, held, short, strict=True)))
        copy.write(b"\xff\xff")
    tell(f"{keys} keys in {time.perf_counter() - started:.0f} s")
    inside.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    inside.execute("ANALYZE keys")
    started = time.perf_counter()
    with transaction(connection):
        connection._index("cpp")
    tell(f"index on the keys of the backend that is asked for in {time.perf_counter() - started:.0f} s")


def row(number: int, vector: np.ndarray, sketch: np.ndarray) -> bytes:
    """As COPY reads it: many times faster than as psycopg writes it."""
    numbers = np.empty(len(sketch), [("size", ">i4"), ("value", ">f4")])
    numbers["size"], numbers["value"] = 4, sketch
    array = struct.pack(">5i", 1, 0, 700, len(sketch), 1) + numbers.tobytes()
    cells = (BACKENDS[number % 3].encode(), f"{number:064x}".encode(), vector.tobytes(), array)
    return struct.pack(">h", len(cells)) + b"".join(struct.pack(">i", len(cell)) + cell for cell in cells)


def measure(where: BankLocation, count: int, keys: int, vectors: Vectors, before: int) -> None:
    opened, bank = timed(lambda: Bank.open(where, vectors, backend="cpp", run="bench"))
    names = [str(n) for n in range(1, QUERIES + 1)]

    def retrieve(name: str) -> list[str]:
        found = bank.search(name, K, ("trace", "experience"), feasible=True)
        bank.values([hit.item.id for hit in found], Stage.DRAFT)
        return [hit.item.task or "" for hit in found]

    for n in range(before):
        retrieve(str(QUERIES + 1 + n))
    first = [timed(lambda name=name: retrieve(name)) for name in names]  # type: ignore[misc]
    again = [timed(lambda name=name: retrieve(name))[0] for name in names]  # type: ignore[misc]
    right = recall([[int(task.partition("/")[2]) for task in found] for _, found in first], names, keys, vectors, count // keys)
    bank.close()
    size = connect(where)
    cells = [f"{count}", f"{keys}", *percentiles([took for took, _ in first]), *percentiles(again), f"{right:.3f}", f"{opened / 1e3:.1f}"]
    tell(" ".join(f"{cell:>10}" for cell in [*cells, f"{size.size_bytes() / 2**20:.0f}", f"{peak_mib():.0f}"]))
    size.close()


def tidy(where: BankLocation) -> None:
    took, done = timed(lambda: consolidate(where))
    tell(f"consolidated in {took / 1e3:.1f} s: {len(done.merged)} merged, {len(done.archived)} put aside, {done.items_after} items left")


class Named:
    """Vectors' name, without the work."""

    id = Vectors.id

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.eye(1, 1024, dtype=np.float32).repeat(len(texts), 0)


def write(where: str, run: str, attempts: int, ready: Barrier) -> None:
    with Bank.open(parse_location(where), Named(), backend="other", run=run) as bank:
        ready.wait()
        for n in range(attempts):
            bank.update(f"t/x/{n}", Stage.DRAFT, {"old:0": 0.5, "old:1": -0.5}, 0.3)
            bank.add([MemoryItem(id=f"{run}:t/x/{n}", kind="trace", backend="other", title="t", text=f"word{n}", key="x", task="t/x")])


def learn(where: BankLocation, writers: int, attempts: int = 250) -> None:
    context = get_context("spawn")
    ready = context.Barrier(writers + 1)
    started = [context.Process(target=write, args=(str(where), f"run{n}", attempts, ready)) for n in range(writers)]
    for one in started:
        one.start()
    ready.wait()
    took, _ = timed(lambda: [one.join() for one in started])
    tell(f"{writers} writers: {2 * writers * attempts / took * 1e3:.0f} transactions a second")


def recall(found: list[list[int]], names: list[str], keys: int, vectors: Vectors, each: int) -> float:
    """Of the nearest keys that have what was asked for, how many were found; half of a key's items are of correct kernels."""
    queries = grid(vectors.embed(names)).astype(np.float32)
    near = np.full((len(names), 0), 0.0, np.float32)
    numbers = np.zeros((len(names), 0), np.int64)
    for first in range(0, keys, BLOCK):
        mine = [n for n in range(first, min(first + BLOCK, keys)) if BACKENDS[n % 3] == "cpp"]
        held = grid(vectors.of(mine)).astype(np.float32)
        cosines = queries @ (held / np.linalg.norm(held, axis=1, keepdims=True)).T
        near = np.concatenate([near, cosines], axis=1)
        numbers = np.concatenate([numbers, np.broadcast_to(np.array(mine), cosines.shape)], axis=1)
        best = np.argsort(-near, axis=1, kind="stable")[:, :K]
        near, numbers = np.take_along_axis(near, best, 1), np.take_along_axis(numbers, best, 1)
    per_key = -(-each // 2)
    wanted = max(1, -(-K // per_key))
    shares = [len(set(tasks) & set(row[:wanted].tolist())) / wanted for tasks, row in zip(found, numbers, strict=True)]
    return sum(shares) / len(shares)


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = action()
    return (time.perf_counter() - started) * 1e3, result


def percentiles(samples: list[float]) -> list[str]:
    ordered = sorted(samples)
    return [f"{ordered[int(len(ordered) * share)]:.1f}" for share in (0.5, 0.99)]


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def tell(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("store", choices=["file", "server"])
    parser.add_argument("items", type=int)
    parser.add_argument("keys", type=int, nargs="?")
    parser.add_argument("--url", default="")
    parser.add_argument("--writers", type=int, default=0)
    parser.add_argument("--consolidate", action="store_true")
    parser.add_argument("--fresh", action="store_true", help="ask at once, as after a restart")
    parser.add_argument("--filled", action="store_true", help="the bank at --url holds them already")
    given = parser.parse_args()
    keys = given.keys or max(1, given.items // 100)
    vectors, server = Vectors(), None
    with tempfile.TemporaryDirectory() as folder:
        where = parse_location(given.url or Path(folder) / "bank.db")
        if given.store == "server" and not given.url:
            sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "servers"))
            from postgres_server import Postgres

            server = Postgres(**SERVER)
            where = parse_location(server.url())
        try:
            if not given.filled:
                started = time.perf_counter()
                fill(where, given.items, keys, vectors)
                tell(f"filled in {time.perf_counter() - started:.0f} s")
            head = ["items", "keys", "first p50", "p99", "again p50", "p99", "recall", "open s", "disk MiB", "peak MiB"]
            tell(" ".join(f"{cell:>10}" for cell in head))
            measure(where, given.items, keys, vectors, 0 if given.fresh or given.store == "file" else BEFORE)
            if given.writers:
                learn(where, given.writers)
            if given.consolidate:
                tidy(where)
        finally:
            if server:
                server.close()


if __name__ == "__main__":
    main()
