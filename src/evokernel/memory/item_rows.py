"""Items as rows of a bank: stores, parses and embeds them."""

from __future__ import annotations

import logging

import numpy as np
from pydantic import ValidationError

from evokernel.core.bank_uri import BankLocation
from evokernel.core.errors import UserError
from evokernel.core.protocols import Embedder
from evokernel.core.records import MemoryItem
from evokernel.memory.index import quantize_vectors
from evokernel.memory.schema import other_bank_hint
from evokernel.memory.tables import INDEXED_FIELDS, Connection, indexed_fields, placeholders

log = logging.getLogger(__name__)
EMBEDDING_BATCH = 1024
"""Items that are embedded again at a time."""
ITEM_COLUMNS = ("kind", "backend", "task", "family", "parent", "record", *INDEXED_FIELDS)
UPSERT_ITEM = f"""INSERT INTO items (id, run, pack, {", ".join(ITEM_COLUMNS)}) VALUES ({placeholders(3 + len(ITEM_COLUMNS))})
    ON CONFLICT (id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in ITEM_COLUMNS)}
    WHERE items.record <> excluded.record RETURNING seq"""


def embedding_text(item: MemoryItem) -> str:
    """The text whose embedding represents the item in a search."""
    return item.key or f"{item.title}\n{item.text}\n{item.code}"


def store_item(connection: Connection, run: str, item: MemoryItem, vector: np.ndarray, pack: str = "") -> bool:
    """Store an item; False if the bank has the identical item already. The caller holds a transaction."""
    values = (item.kind, item.backend, item.task, item.family, item.parent, item.model_dump_json(), *indexed_fields(item))
    row = connection.execute(UPSERT_ITEM, (item.id, run, pack, *values)).fetchone()
    if row:
        connection.store_vector(row[0], item.backend, vector.tobytes())
    return row is not None


def claim_embedder(connection: Connection, path: BankLocation, embedder: Embedder) -> None:
    """Check that the bank uses this embedder, and record it in a new bank; the caller holds a transaction.

    A bank never mixes vectors of different embedders. Vectors of an earlier version of the same embedder are computed again.
    """
    connection.execute("INSERT INTO meta VALUES ('embedder', ?) ON CONFLICT DO NOTHING", (embedder.id,))
    bank_embedder = connection.execute("SELECT value FROM meta WHERE name = 'embedder'").fetchone()[0]
    if is_earlier_version(embedder, bank_embedder):
        log.warning("memory bank %s uses embedder '%s': its items are embedded again by '%s'", path, bank_embedder, embedder.id)
        reembed_items(connection, path, embedder)
    elif bank_embedder != embedder.id:
        raise UserError(
            f"memory bank {path} uses embedder '{bank_embedder}', not '{embedder.id}': choose that embedder, or use --memory OTHER"
        )


def is_earlier_version(embedder: Embedder, embedder_id: str) -> bool:
    """Whether an id names an earlier version of this embedder."""
    return embedder_id in getattr(embedder, "replaced_ids", ())


def reembed_items(connection: Connection, path: BankLocation, embedder: Embedder) -> None:
    """Compute every vector of the bank again, also of archived and revoked items, in batches because a bank may exceed memory."""
    connection.delete_vectors()
    last = 0
    while rows := connection.execute(
        f"SELECT seq, backend, record FROM items WHERE seq > ? ORDER BY seq LIMIT {EMBEDDING_BATCH}", (last,)
    ).fetchall():
        texts = [embedding_text(parse_item(path, record)) for _, _, record in rows]
        vectors = dict(zip(dict.fromkeys(texts), quantize_vectors(embedder.embed(list(dict.fromkeys(texts)))), strict=True))
        for (seq, backend, _), text in zip(rows, texts, strict=True):
            connection.store_vector(seq, backend, vectors[text].tobytes())
        last = rows[-1][0]
    connection.execute("UPDATE meta SET value = ? WHERE name = 'embedder'", (embedder.id,))


def parse_item(path: BankLocation, record: str) -> MemoryItem:
    """Parse the JSON record of an item."""
    try:
        return MemoryItem.model_validate_json(record)
    except ValidationError as error:
        raise UserError(f"memory bank {path} contains an unreadable record: {other_bank_hint()}") from error
