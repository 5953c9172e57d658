"""Embeddings from an OpenAI-compatible endpoint: a hosted model, or one on your own machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evokernel.core.errors import InfraError, UserError

if TYPE_CHECKING:
    from openai import OpenAI


class OpenAIEmbedder:
    """Embeds `batch` texts per request. `dimensions` shortens the vectors if the model supports that (0: full length)."""

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        base_url: str = "",
        api_key_env: str = "OPENAI_API_KEY",
        dimensions: int = 0,
        batch: int = 64,
        max_chars: int = 20_000,
        timeout_s: float = 60.0,
        retries: int = 4,
    ) -> None:
        if batch < 1 or max_chars < 1 or dimensions < 0:
            raise ValueError("batch and max_chars must be at least 1, dimensions at least 0")
        self.model, self.base_url, self.api_key_env = model, base_url, api_key_env
        self.dimensions, self.batch, self.max_chars = dimensions, batch, max_chars
        self.timeout_s, self.retries = timeout_s, retries
        self.id = f"openai-{model}" + (f"-{dimensions}" if dimensions else "")
        self._client: OpenAI | None = None

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Return one unit row vector per text; texts are truncated to `max_chars`."""
        rows: list[list[float]] = []
        for first in range(0, len(texts), self.batch):
            rows += self._request([text[: self.max_chars] or " " for text in texts[first : first + self.batch]])
        vectors = np.array(rows, np.float32).reshape(len(texts), len(rows[0]) if rows else 0)
        unit: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        return unit

    def _request(self, texts: list[str]) -> list[list[float]]:
        import openai

        shorter = self.dimensions or openai.omit
        try:
            reply = self._connect().embeddings.create(model=self.model, input=texts, encoding_format="float", dimensions=shorter)
        except (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError) as error:
            raise InfraError(f"embedding service {self.base_url or 'of OpenAI'}: {first_line(error)}") from error
        except openai.AuthenticationError as error:
            raise UserError(f"the embedding service rejected the API key in ${self.api_key_env}: {first_line(error)}") from error
        except openai.APIStatusError as error:
            raise UserError(f"the embedding service rejected embedder.model '{self.model}': {first_line(error)}") from error
        except openai.OpenAIError as error:
            raise InfraError(f"embedding service {self.base_url or 'of OpenAI'}: {first_line(error)}") from error
        rows = [entry.embedding for entry in sorted(reply.data or [], key=lambda entry: entry.index)]
        if len(rows) != len(texts) or len({len(row) for row in rows}) > 1:
            raise InfraError(f"embedding service {self.base_url or 'of OpenAI'} returned {len(rows)} vectors for {len(texts)} texts")
        return rows

    def _connect(self) -> OpenAI:
        """Create the client on first use, so that a run that embeds nothing needs no key."""
        if self._client is None:
            from openai import OpenAI

            key = os.environ.get(self.api_key_env, "") if self.api_key_env else "none"
            if not key:
                local = " (or set embedder.api_key_env = '' for an endpoint without a key)" if self.base_url else ""
                raise UserError(f"embedder 'openai' needs an API key. Set it with: export {self.api_key_env}=...{local}")
            self._client = OpenAI(api_key=key, base_url=self.base_url or None, timeout=self.timeout_s, max_retries=self.retries)
        return self._client


def first_line(error: Exception) -> str:
    """Return the first line of an error, at most 200 characters."""
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


plugin = OpenAIEmbedder
