"""What was spent: a ledger row per request, exact sums, and budgets that stop a run."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import NamedTuple

from evokernel.core.errors import StopRun, UserError
from evokernel.core.journal import Journal, append_line
from evokernel.llm.settings import ChatSettings

log = logging.getLogger(__name__)


class Tokens(NamedTuple):
    """What one request used, as the service says; None where it does not."""

    read: int | None = None
    written: int | None = None
    cached: int | None = None
    """Part of `read` that came from the service's cache."""


UNKNOWN = Tokens()


class Row(NamedTuple):
    """One request in the ledger. `retries` counts the requests of the same call before it."""

    time: float
    model: str
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    cost_usd: float | None
    seconds: float
    retries: int
    ok: bool
    error: str = ""


class Account:
    """Sums over all requests of this process and, once a ledger is open, of those before it. Thread-safe."""

    def __init__(self, settings: ChatSettings, prices: str, table: str = "generator") -> None:
        self.settings, self.prices, self.table = settings, prices, table
        self.tokens, self.cost_usd = 0, 0.0
        self.ledger: Path | None = None
        self.warned = False
        self.lock = threading.Lock()

    def open(self, ledger: Path) -> None:
        """Keeps rows in this file from now on, and counts those already in it, so that a budget outlives a resume."""
        try:
            ledger.parent.mkdir(parents=True, exist_ok=True)
            Journal(ledger).repair()
            lines = ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else []
            rows = [Row(**json.loads(line)) for line in lines]
        except OSError as error:
            raise UserError(f"cannot use the ledger {ledger}: {error.strerror or error}; make its folder writable") from error
        except (ValueError, TypeError) as error:
            raise UserError(f"the ledger {ledger} is damaged ({error}); move it away to count from zero") from error
        with self.lock:
            self.ledger = ledger
            for row in rows:
                self.add(row)

    def enter(self, row: Row) -> None:
        """Counts a request, also a failed one where the service told its usage."""
        with self.lock:
            self.add(row)
            if self.ledger:
                append_line(self.ledger, json.dumps(row._asdict()))
        if row.ok and not self.warned:
            self.warn(row)

    def add(self, row: Row) -> None:
        """Adds a row to the sums; the lock is held."""
        self.tokens += (row.tokens_in or 0) + (row.tokens_out or 0)
        self.cost_usd += row.cost_usd or 0.0

    def warn(self, row: Row) -> None:
        """Says once that a budget cannot be kept, because the service does not say what it takes."""
        if self.settings.budget_usd and row.cost_usd is None:
            self.warned = True
            log.warning("the price of %s is not known: budget_usd cannot limit this run; set price_in and price_out", row.model)
        if self.settings.budget_tokens and row.tokens_out is None:
            self.warned = True
            log.warning("%s does not report its usage: budget_tokens cannot limit this run", row.model)

    def check(self) -> None:
        """Raises StopRun once a budget is spent. Requests under way are not cut off, so up to `concurrency` of them may go beyond it."""
        with self.lock:
            cost_usd, tokens = self.cost_usd, self.tokens
        if self.settings.budget_usd and cost_usd >= self.settings.budget_usd:
            raise StopRun(
                f"the budget is spent: {cost_usd:.4f} of {self.settings.budget_usd:g} USD; raise {self.table}.budget_usd to go on"
            )
        if self.settings.budget_tokens and tokens >= self.settings.budget_tokens:
            limit = f"{self.settings.budget_tokens} tokens; raise {self.table}.budget_tokens to go on"
            raise StopRun(f"the budget is spent: {tokens} of {limit}")

    def cost(self, used: Tokens) -> float | None:
        """USD for a request: by the user's prices, else by the published ones of the provider; None when either half is unknown."""
        if used.read is None or used.written is None:
            return None
        if self.settings.price_in is not None and self.settings.price_out is not None:
            return (used.read * self.settings.price_in + used.written * self.settings.price_out) / 1e6
        return published_cost(used, self.settings.model, self.prices) if self.prices else None


def published_cost(used: Tokens, model: str, provider: str) -> float | None:
    """USD by genai-prices, a table that ships with its package; None for a model it does not know."""
    from genai_prices import Usage, calc_price

    usage = Usage(input_tokens=used.read, output_tokens=used.written, cache_read_tokens=used.cached or 0)
    try:
        return float(calc_price(usage, model, provider_id=provider).total_price)
    except (LookupError, ValueError):
        return None
