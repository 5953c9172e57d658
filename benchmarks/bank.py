"""Measures the cost of retrieval as a bank grows, in a file and on a server.

    python benchmarks/bank.py file|server ITEMS [KEYS] [--url URL] [--writers N] [--consolidate] [--fresh] [--reuse]

One retrieval is the query of a policy: the 20 nearest traces and notes of correct kernels of a backend, which has two thirds of the bank,
then their values. KEYS is the number of distinct references of the items: ITEMS / 100 by default, ITEMS for the worst case. The vectors
are those of the hash embedder for passages of this package's own text, four passages each. Times are wall time in ms. `first` is a new
query; the server has answered a thousand others before (with --fresh, none). `recall` is the share of the 20 nearest keys, by exact search
over all vectors, that the bank finds. Without --url the benchmark starts a server from the wheel that the tests use.

With --writers N, N processes then learn into the bank in parallel, as runs do: an update of two values and a new item, each in a
transaction. With --consolidate the bank is consolidated at the end; half of the kernels of a task are near copies of others.
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
from retrieval import load_corpus_lines

from evokernel.core.bank_uri import BankLocation, ServerUrl, parse_location
from evokernel.core.plugins import make_plugin
from evokernel.core.records import MemoryItem, Stage
from evokernel.memory.bank import Bank
from evokernel.memory.consolidate import consolidate
from evokernel.memory.index import quantize_vectors
from evokernel.memory.item_rows import ITEM_COLUMNS
from evokernel.memory.schema import open_or_create
from evokernel.memory.tables import indexed_fields, placeholders, write_transaction

K, QUERIES, WARM_UP_QUERIES, PASSAGES, BLOCK = 20, 200, 1_000, 8_000, 5_000
LEDGER = ("run", "attempt", "item", "stage", "scope", "reward", "alpha", "q_before", "q_after")
BACKENDS = ("cpp", "cpp", "pallas")
SERVER = {
    "fsync": "on",
    "shared_buffers": "4GB",
    "maintenance_work_mem": "2600MB",
    "max_wal_size": "8GB",
    "max_parallel_maintenance_workers": "0",  # with several, the pgvector of the wheel crashes on some processors
}


class KeyVectors:
    """Vectors of numbered keys, the same for every store. As an embedder, it takes the number of a query as its text."""

    id = "bench-1024"

    def __init__(self) -> None:
        rng, embedder, lines = random.Random(1), make_plugin("embedder", "hash"), load_corpus_lines()
        starts = [rng.randrange(len(lines) - 10) for _ in range(PASSAGES)]
        self.passages = np.array([embedder._embed_text("\n".join(lines[start : start + 10])) for start in starts], np.float32)

    def vectors_for(self, numbers: Sequence[int]) -> np.ndarray:
        hashes = (np.array(numbers, np.int64)[:, None] * 4 + np.arange(4)).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        hashes = (hashes ^ (hashes >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9) >> np.uint64(33)
        sums = self.passages[hashes % np.uint64(PASSAGES)].sum(1)
        unit: np.ndarray = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return unit

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return self.vectors_for([-int(text) for text in texts])


def make_items(first: int, last: int, keys: int) -> Iterator[tuple[int, MemoryItem]]:
    """Yield items with the number of their key. The kernels of a task come in pairs that differ only in a name."""
    lines = load_corpus_lines()
    for n in range(first, last):
        key = n % keys
        kind = "trace" if n % 2 else "experience"
        start = (key * 131 + n // keys // 4) * 7919 % (len(lines) - 30)
        code = "\n".join([*lines[start : start + 30], f"int kernel_{n};"]) if n % 2 else ""
        texts = {"title": f"item {n}", "text": "the attempt, in some words", "code": code}
        yield (
            key,
            MemoryItem(
                id=f"old:{n}",
                kind=kind,
                backend=BACKENDS[key % 3],
                task=f"old/{key}",
                feasible=n // keys % 2 == 0,
                candidate=f"{n:012x}",
                **texts,
            ),
        )


def fill_bank(location: BankLocation, count: int, keys: int, vectors: KeyVectors) -> None:
    """Fill the bank in bulk, as if many runs had written it."""
    connection = open_or_create(location)
    is_server = isinstance(location, ServerUrl)
    with write_transaction(connection):
        connection.execute("INSERT INTO meta VALUES ('embedder', ?)", (vectors.id,))
    if is_server:
        fill_keys(connection, keys, vectors)
    for first in range(0, count, BLOCK):
        keyed_items = list(make_items(first, min(first + BLOCK, count), keys))
        rows = [
            (item.id, "old", "", item.kind, item.backend, item.task, "", "", item.model_dump_json(), *indexed_fields(item), key + 1)
            for key, item in keyed_items
        ]
        ids = [row[0] for row in rows[::10]]
        tables = [
            ("items", ("id", "run", "pack", *ITEM_COLUMNS, "embedding"), rows),
            ("ledger", LEDGER, [("old", "t/x/0", id, "draft", "", 1.0, 0.5, 0.0, 0.5) for id in ids]),
            ("item_values", ("item", "stage", "scope", "q", "visits"), [(id, "draft", "", 0.5, 1) for id in ids]),
        ]
        if not is_server:
            tables[0] = ("items", tables[0][1][:-1], [row[:-1] for row in rows])
            quantized_vectors = quantize_vectors(vectors.vectors_for([key for key, _ in keyed_items]))
            tables.append(("vectors", ("seq", "vector"), [(first + n + 1, vector.tobytes()) for n, vector in enumerate(quantized_vectors)]))
        with write_transaction(connection):
            for table, columns, lines in tables:
                insert_rows(connection, is_server, f"{table} ({', '.join(columns)})", lines)
    connection.close()


def insert_rows(connection: Any, is_server: bool, table: str, rows: list[tuple[Any, ...]]) -> None:
    if not is_server:
        connection.executemany(f"INSERT INTO {table} VALUES ({placeholders(len(rows[0]))})", rows)
        return
    with connection._connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for one in rows:
            copy.write_row(one)


def fill_keys(connection: Any, keys: int, vectors: KeyVectors) -> None:
    """Write the keys of a server with their sketches, then build the index."""
    from evokernel.memory import remote_index

    pg_connection = connection._connection
    start_s = time.perf_counter()
    with pg_connection.cursor().copy("COPY embeddings (backend, sha256, vector, sketch) FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for first in range(0, keys, BLOCK):
            numbers = range(first, min(first + BLOCK, keys))
            quantized_vectors = quantize_vectors(vectors.vectors_for(numbers))
            sketches = quantized_vectors.astype(np.float32) @ remote_index.projection_matrix(1024)
            sketches /= np.maximum(np.linalg.norm(sketches, axis=1, keepdims=True), 1e-12)
            copy.write(b"".join(pack_row(*one) for one in zip(numbers, quantized_vectors, sketches, strict=True)))
        copy.write(b"\xff\xff")
    print_line(f"{keys} keys in {time.perf_counter() - start_s:.0f} s")
    pg_connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    pg_connection.execute("ANALYZE embeddings")
    start_s = time.perf_counter()
    with write_transaction(connection):
        connection._ensure_index("cpp")
    print_line(f"index on the keys of the queried backend in {time.perf_counter() - start_s:.0f} s")


def pack_row(number: int, vector: np.ndarray, sketch: np.ndarray) -> bytes:
    """Pack a row for COPY in its binary format, which is many times faster than psycopg's own."""
    numbers = np.empty(len(sketch), [("size", ">i4"), ("value", ">f4")])
    numbers["size"], numbers["value"] = 4, sketch
    array = struct.pack(">5i", 1, 0, 700, len(sketch), 1) + numbers.tobytes()
    cells = (BACKENDS[number % 3].encode(), f"{number:064x}".encode(), vector.tobytes(), array)
    return struct.pack(">h", len(cells)) + b"".join(struct.pack(">i", len(cell)) + cell for cell in cells)


def measure_bank(location: BankLocation, count: int, keys: int, vectors: KeyVectors, warm_up_queries: int) -> None:
    open_ms, bank = measure_ms(lambda: Bank.open(location, vectors, backend="cpp", run="bench"))
    names = [str(n) for n in range(1, QUERIES + 1)]

    def retrieve(name: str) -> list[str]:
        hits = bank.search(name, K, ("trace", "experience"), feasible=True)
        bank.values([hit.item.id for hit in hits], Stage.DRAFT)
        return [hit.item.task or "" for hit in hits]

    for n in range(warm_up_queries):
        retrieve(str(QUERIES + 1 + n))
    first_results = [measure_ms(lambda name=name: retrieve(name)) for name in names]  # type: ignore[misc]
    repeated_ms = [measure_ms(lambda name=name: retrieve(name))[0] for name in names]  # type: ignore[misc]
    recall_share = compute_recall(
        [[int(task.partition("/")[2]) for task in hits] for _, hits in first_results], names, keys, vectors, count // keys
    )
    bank.close()
    connection = open_or_create(location)
    cells = [
        f"{count}",
        f"{keys}",
        *percentiles([elapsed_ms for elapsed_ms, _ in first_results]),
        *percentiles(repeated_ms),
        f"{recall_share:.3f}",
        f"{open_ms / 1e3:.1f}",
    ]
    print_line(" ".join(f"{cell:>10}" for cell in [*cells, f"{connection.size_bytes() / 2**20:.0f}", f"{peak_mib():.0f}"]))
    connection.close()


def consolidate_timed(location: BankLocation) -> None:
    elapsed_ms, result = measure_ms(lambda: consolidate(location))
    print_line(
        f"consolidated in {elapsed_ms / 1e3:.1f} s: {len(result.merged)} merged, {len(result.archived)} archived, "
        f"{result.items_after} items remain"
    )


class NamedEmbedder:
    """An embedder with the id of KeyVectors that computes nothing."""

    id = KeyVectors.id

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.eye(1, 1024, dtype=np.float32).repeat(len(texts), 0)


def write_attempts(location: str, run: str, attempts: int, ready: Barrier) -> None:
    with Bank.open(parse_location(location), NamedEmbedder(), backend="other", run=run) as bank:
        ready.wait()
        for n in range(attempts):
            bank.update(f"t/x/{n}", Stage.DRAFT, {"old:0": 0.5, "old:1": -0.5}, 0.3)
            bank.add([MemoryItem(id=f"{run}:t/x/{n}", kind="trace", backend="other", title="t", text=f"word{n}", key="x", task="t/x")])


def learn_in_parallel(location: BankLocation, writers: int, attempts: int = 250) -> None:
    context = get_context("spawn")
    ready = context.Barrier(writers + 1)
    processes = [context.Process(target=write_attempts, args=(str(location), f"run{n}", attempts, ready)) for n in range(writers)]
    for process in processes:
        process.start()
    ready.wait()
    elapsed_ms, _ = measure_ms(lambda: [process.join() for process in processes])
    print_line(f"{writers} writers: {2 * writers * attempts / elapsed_ms * 1e3:.0f} transactions per second")


def compute_recall(hits: list[list[int]], names: list[str], keys: int, vectors: KeyVectors, items_per_key: int) -> float:
    """Return the share of the nearest keys, by exact search, among the results; half of the items of a key are correct kernels."""
    queries = quantize_vectors(vectors.embed(names)).astype(np.float32)
    nearest_cosines = np.full((len(names), 0), 0.0, np.float32)
    numbers = np.zeros((len(names), 0), np.int64)
    for first in range(0, keys, BLOCK):
        backend_keys = [n for n in range(first, min(first + BLOCK, keys)) if BACKENDS[n % 3] == "cpp"]
        quantized_vectors = quantize_vectors(vectors.vectors_for(backend_keys)).astype(np.float32)
        cosines = queries @ (quantized_vectors / np.linalg.norm(quantized_vectors, axis=1, keepdims=True)).T
        nearest_cosines = np.concatenate([nearest_cosines, cosines], axis=1)
        numbers = np.concatenate([numbers, np.broadcast_to(np.array(backend_keys), cosines.shape)], axis=1)
        best = np.argsort(-nearest_cosines, axis=1, kind="stable")[:, :K]
        nearest_cosines, numbers = np.take_along_axis(nearest_cosines, best, 1), np.take_along_axis(numbers, best, 1)
    per_key = -(-items_per_key // 2)
    expected_count = max(1, -(-K // per_key))
    shares = [len(set(tasks) & set(row[:expected_count].tolist())) / expected_count for tasks, row in zip(hits, numbers, strict=True)]
    return sum(shares) / len(shares)


def measure_ms(action: Callable[[], Any]) -> tuple[float, Any]:
    start_s = time.perf_counter()
    result = action()
    return (time.perf_counter() - start_s) * 1e3, result


def percentiles(samples: list[float]) -> list[str]:
    sorted_samples = sorted(samples)
    return [f"{sorted_samples[int(len(sorted_samples) * share)]:.1f}" for share in (0.5, 0.99)]


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def print_line(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("store", choices=["file", "server"])
    parser.add_argument("items", type=int)
    parser.add_argument("keys", type=int, nargs="?")
    parser.add_argument("--url", default="")
    parser.add_argument("--writers", type=int, default=0)
    parser.add_argument("--consolidate", action="store_true")
    parser.add_argument("--fresh", action="store_true", help="query at once, as after a restart")
    parser.add_argument("--reuse", action="store_true", help="the bank at --url already has the items")
    args = parser.parse_args()
    keys = args.keys or max(1, args.items // 100)
    vectors, server = KeyVectors(), None
    with tempfile.TemporaryDirectory() as folder:
        location = parse_location(args.url or Path(folder) / "bank.db")
        if args.store == "server" and not args.url:
            sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "servers"))
            from postgres_server import Postgres

            server = Postgres(**SERVER)
            location = parse_location(server.url())
        try:
            if not args.reuse:
                start_s = time.perf_counter()
                fill_bank(location, args.items, keys, vectors)
                print_line(f"filled in {time.perf_counter() - start_s:.0f} s")
            headers = ["items", "keys", "first p50", "p99", "repeated p50", "p99", "recall", "open s", "disk MiB", "peak MiB"]
            print_line(" ".join(f"{cell:>10}" for cell in headers))
            measure_bank(location, args.items, keys, vectors, 0 if args.fresh or args.store == "file" else WARM_UP_QUERIES)
            if args.writers:
                learn_in_parallel(location, args.writers)
            if args.consolidate:
                consolidate_timed(location)
        finally:
            if server:
                server.close()


if __name__ == "__main__":
    main()
