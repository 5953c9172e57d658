"""Track the cost of requests: a ledger row per request, exact totals, and budgets that stop a run."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import NamedTuple

from evokernel.core.errors import StopRun, UserError
from evokernel.core.journal import Journal, append_line
from evokernel.llm.settings import ChatSettings


class TokenCounts(NamedTuple):
    """The tokens of one request, as the service reports them; None for a count that it does not report."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """The part of `input_tokens` that came from the service's cache."""


UNKNOWN_TOKENS = TokenCounts()


class RequestRow(NamedTuple):
    """One request in the ledger. `retries` counts the earlier requests of the same call."""

    time: float
    model: str
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost_usd: float | None
    seconds: float
    retries: int
    ok: bool
    error: str = ""
    key: str = ""
    """The attempt, with `/plan`, `/critic`, `/repair-1` or `/lesson` for a step of it; empty for other requests."""


class CostTracker:
    """Totals over all requests of this process and, once a ledger is open, of earlier processes. Thread-safe."""

    def __init__(self, settings: ChatSettings, price_provider: str, table: str = "generator") -> None:
        self.settings, self.price_provider, self.table = settings, price_provider, table
        self.total_tokens, self.cost_usd = 0, 0.0
        self.ledger: Path | None = None
        self.unlimited_reason = ""
        """Why a budget cannot limit this run: a service that does not report its usage; empty as long as it can."""
        self.lock = threading.Lock()

    def open_ledger(self, ledger: Path) -> None:
        """Append rows to this file from now on, and count those already in it, so that a budget covers a resumed run."""
        try:
            ledger.parent.mkdir(parents=True, exist_ok=True)
            Journal(ledger).repair()
            lines = ledger.read_text(encoding="utf-8").splitlines() if ledger.exists() else []
            rows = [RequestRow(**json.loads(line)) for line in lines]
        except OSError as error:
            raise UserError(f"cannot use the ledger {ledger}: {error.strerror or error}; make its folder writable") from error
        except (ValueError, TypeError) as error:
            raise UserError(f"the ledger {ledger} is damaged ({error}); move it away to count from zero") from error
        with self.lock:
            self.ledger = ledger
            for row in rows:
                self.add_to_totals(row)

    def record_request(self, row: RequestRow) -> None:
        """Count a request, also a failed one if the service reported its usage."""
        with self.lock:
            self.add_to_totals(row)
            if self.ledger:
                append_line(self.ledger, json.dumps(row._asdict()))
        has_budget = self.settings.budget_usd or self.settings.budget_tokens
        if row.ok and has_budget and (row.input_tokens is None or row.output_tokens is None):
            self.unlimited_reason = f"{row.model} does not report its usage, so no budget can limit this run"

    def add_to_totals(self, row: RequestRow) -> None:
        """Add a row to the totals; the caller holds the lock."""
        self.total_tokens += (row.input_tokens or 0) + (row.output_tokens or 0)
        self.cost_usd += row.cost_usd or 0.0

    def require_price(self) -> None:
        """Raise UserError if there is a budget in USD but no price: such a budget would limit nothing."""
        if self.settings.budget_usd and self.request_cost(TokenCounts(1, 1)) is None:
            raise UserError(
                f"{self.table}.budget_usd cannot limit this run: the price of '{self.settings.model}' is not known. "
                f"Set {self.table}.price_in and {self.table}.price_out (USD per million tokens), or use {self.table}.budget_tokens instead."
            )

    def check_budget(self) -> None:
        """Raise StopRun once a budget is spent or cannot be enforced. Up to `concurrency` requests in progress may exceed it."""
        with self.lock:
            cost_usd, tokens, unlimited_reason = self.cost_usd, self.total_tokens, self.unlimited_reason
        if unlimited_reason:
            raise StopRun(f"{unlimited_reason}; set {self.table}.budget_usd and budget_tokens to 0 to continue without a limit")
        if self.settings.budget_usd and cost_usd >= self.settings.budget_usd:
            raise StopRun(
                f"the budget is spent: {cost_usd:.4f} of {self.settings.budget_usd:g} USD; raise {self.table}.budget_usd to continue"
            )
        if self.settings.budget_tokens and tokens >= self.settings.budget_tokens:
            limit = f"{self.settings.budget_tokens} tokens; raise {self.table}.budget_tokens to continue"
            raise StopRun(f"the budget is spent: {tokens} of {limit}")

    def request_cost(self, tokens: TokenCounts) -> float | None:
        """The cost of a request in USD, by the configured prices or else the provider's published ones; None if a part is unknown."""
        if tokens.input_tokens is None or tokens.output_tokens is None:
            return None
        if self.settings.price_in is not None and self.settings.price_out is not None:
            return (tokens.input_tokens * self.settings.price_in + tokens.output_tokens * self.settings.price_out) / 1e6
        return published_cost(tokens, self.settings.model, self.price_provider) if self.price_provider else None


def published_cost(tokens: TokenCounts, model: str, provider: str) -> float | None:
    """The cost in USD by genai-prices, a price table in a package; None for a model that it does not list."""
    from genai_prices import Usage, calc_price

    usage = Usage(input_tokens=tokens.input_tokens, output_tokens=tokens.output_tokens, cache_read_tokens=tokens.cached_tokens or 0)
    try:
        return float(calc_price(usage, model, provider_id=provider).total_price)
    except (LookupError, ValueError):
        return None
