"""An OpenAI-compatible server for a small model on one GPU (or on a CPU, for tests): many requests are decoded together.

    python benchmarks/model_server/serve_model.py MODEL [--gguf FILE] [--port 8100] [--slots 64] [--context 8192]
    evokernel run --generator llm --set generator.model=local --set generator.base_url=http://127.0.0.1:8100/v1

MODEL is a folder that transformers reads, of a Qwen2 or Llama model; `--gguf` names a GGUF file in it, for which the package `gguf` is
needed. Endpoints: /v1/chat/completions (temperature, max_tokens, seed, n, stream), /v1/models, /health with the rate of tokens so far.
A streamed answer comes in one piece, with comments before it that keep the connection alive. There is no access control: it listens on
127.0.0.1 only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from batched_decoder import BatchedDecoder
from request_scheduler import Answer, Scheduler
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

DEFAULT_MAX_TOKENS, MAX_CHOICES, HEARTBEAT_S = 2048, 256, 5.0


class BadRequest(Exception):
    """A request that cannot be answered, with the code of OpenAI's API."""

    def __init__(self, text: str, code: str = "invalid_request_error") -> None:
        super().__init__(text)
        self.code = code


class ModelServer:
    """Answers chat requests with a tokenizer and a scheduler."""

    def __init__(self, tokenizer: Any, scheduler: Scheduler, name: str) -> None:
        self.tokenizer, self.scheduler, self.name = tokenizer, scheduler, name

    async def complete(self, request: Request) -> Response:
        """Handle /v1/chat/completions."""
        try:
            body = await request.json()
            prompt, options = self.read_prompt(body), read_options(body)
            seed = int(body.get("seed") or uuid.uuid4().int >> 66)
            limits = options["max_tokens"], options["temperature"]
            futures = [self.scheduler.submit(prompt, *limits, seed + number) for number in range(options["n"])]
        except (json.JSONDecodeError, UnicodeDecodeError):
            return error_response("the body is not JSON", "invalid_request_error")
        except BadRequest as error:
            return error_response(str(error), error.code)
        except ValueError as error:
            return error_response(str(error), "context_length_exceeded")
        except RuntimeError as error:
            return error_response(str(error), "server_error", 500)
        answers = asyncio.gather(*map(asyncio.wrap_future, futures))
        if body.get("stream"):
            return StreamingResponse(self.stream(answers, body), media_type="text/event-stream")
        try:
            return JSONResponse(self.describe(await answers))
        except RuntimeError as error:
            return error_response(str(error), "server_error", 500)

    def read_prompt(self, body: Any) -> list[int]:
        """Return the tokens of the messages, in the model's chat format."""
        messages = body.get("messages") if isinstance(body, dict) else None
        is_valid = isinstance(messages, list) and messages and all(isinstance(one, dict) for one in messages)
        if not is_valid or not all(isinstance(one.get("role"), str) and isinstance(one.get("content"), str) for one in messages):
            raise BadRequest("messages must be a list of objects with a role and a text")
        text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    async def stream(self, answers: asyncio.Future[list[Answer]], body: dict[str, Any]) -> AsyncIterator[str]:
        """Yield the answers as server-sent events: one piece per choice, then usage if it is asked for."""
        while not (await asyncio.wait([answers], timeout=HEARTBEAT_S))[0]:
            yield ": waiting\n\n"
        if answers.exception():
            yield f"data: {json.dumps({'error': {'message': str(answers.exception()), 'code': 'server_error'}})}\n\n"
            return
        whole = self.describe(answers.result())
        head = whole | {"object": "chat.completion.chunk"}
        usage = head.pop("usage")
        for choice in whole["choices"]:
            piece = {"index": choice["index"], "delta": choice["message"], "finish_reason": choice["finish_reason"]}
            yield f"data: {json.dumps(head | {'choices': [piece]})}\n\n"
        if (body.get("stream_options") or {}).get("include_usage"):
            yield f"data: {json.dumps(head | {'choices': [], 'usage': usage})}\n\n"
        yield "data: [DONE]\n\n"

    def describe(self, answers: list[Answer]) -> dict[str, Any]:
        """Return answers in the form of OpenAI's API."""
        texts = [self.tokenizer.decode(answer.tokens, skip_special_tokens=True) for answer in answers]
        written = sum(len(answer.tokens) for answer in answers)
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex[:24]}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.name,
            "choices": [
                {"index": number, "message": {"role": "assistant", "content": text}, "finish_reason": answer.finish_reason}
                for number, (text, answer) in enumerate(zip(texts, answers))
            ],
            "usage": {
                "prompt_tokens": answers[0].prompt_tokens,
                "completion_tokens": written,
                "total_tokens": answers[0].prompt_tokens + written,
            },
        }

    async def list_models(self, request: Request) -> Response:
        """Handle /v1/models."""
        return JSONResponse({"object": "list", "data": [{"id": self.name, "object": "model", "owned_by": "local"}]})

    async def report_health(self, request: Request) -> Response:
        """Handle /health."""
        scheduler = self.scheduler
        rate = scheduler.finished_tokens / scheduler.busy_s if scheduler.busy_s else None
        report = {"requests": scheduler.finished_requests, "tokens": scheduler.finished_tokens, "busy_s": round(scheduler.busy_s, 3)}
        report |= {"prompt_tokens": scheduler.prompt_tokens, "copied_prompt_tokens": scheduler.decoder.copied_tokens}
        report |= {"prompt_s": round(scheduler.prompt_s, 3), "steps": scheduler.steps, "slot_steps": scheduler.slot_steps}
        queue = {"active": len(scheduler.active), "waiting": len(scheduler.waiting), "tokens_per_s": rate}
        return JSONResponse(report | queue | {"error": str(scheduler.error or "")}, 500 if scheduler.error else 200)

    def build_application(self) -> Starlette:
        """Return the application."""
        chat = Route("/v1/chat/completions", self.complete, methods=["POST"])
        return Starlette(routes=[chat, Route("/v1/models", self.list_models), Route("/health", self.report_health)])


def read_options(body: dict[str, Any]) -> dict[str, Any]:
    """Return the checked options of a request. Options that would change the answer and are not supported are refused."""
    unsupported = [name for name in ("tools", "stop", "logprobs", "response_format") if body.get(name)]
    if body.get("top_p") not in (None, 1, 1.0):
        unsupported.append("top_p")
    if unsupported:
        raise BadRequest(f"not supported by this server: {', '.join(unsupported)}")
    temperature, choices = body.get("temperature", 1.0), body.get("n") or 1
    max_tokens = body.get("max_completion_tokens") or body.get("max_tokens") or DEFAULT_MAX_TOKENS
    if not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        raise BadRequest(f"temperature must be from 0 to 2, not {temperature!r}")
    if not isinstance(max_tokens, int) or max_tokens < 1:
        raise BadRequest(f"max_tokens must be 1 or more, not {max_tokens!r}")
    if not isinstance(choices, int) or not 1 <= choices <= MAX_CHOICES:
        raise BadRequest(f"n must be from 1 to {MAX_CHOICES}, not {choices!r}")
    if body.get("seed") is not None and not isinstance(body["seed"], int):
        raise BadRequest(f"seed must be an integer, not {body['seed']!r}")
    return {"temperature": float(temperature), "max_tokens": max_tokens, "n": choices}


def error_response(text: str, code: str, status: int = 400) -> JSONResponse:
    """Return an error in the form of OpenAI's API."""
    return JSONResponse(
        {"error": {"message": text, "type": "invalid_request_error" if status == 400 else "server_error", "code": code}}, status
    )


def find_end_tokens(model: Any, tokenizer: Any) -> set[int]:
    """Return the tokens that end an answer."""
    ends = {tokenizer.eos_token_id}
    for config in (model.config, getattr(model, "generation_config", None)):
        named = getattr(config, "eos_token_id", None)
        ends |= set(named if isinstance(named, list) else [named])
    return ends - {None}


def main() -> None:
    """Load a model and serve it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of the model")
    parser.add_argument("--gguf", help="a GGUF file in this folder")
    parser.add_argument("--port", type=int, default=8100)
    parser.add_argument("--slots", type=int, default=64, help="requests in flight")
    parser.add_argument("--context", type=int, default=8192, help="tokens of a prompt and its answer")
    options = parser.parse_args()
    import torch
    import uvicorn
    from transformers import AutoModelForCausalLM, AutoTokenizer

    device, dtype = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
    start_s, extra = time.monotonic(), {"gguf_file": options.gguf} if options.gguf else {}
    print(f"loading {options.gguf or options.model} on {device}", flush=True)
    tokenizer = AutoTokenizer.from_pretrained(options.model, **extra)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype, **extra).to(device).eval()
    decoder = BatchedDecoder(model, options.slots, options.context)
    ends, name = find_end_tokens(model, tokenizer), Path(options.gguf or options.model).stem
    del model
    server = ModelServer(tokenizer, Scheduler(decoder, ends), name)
    print(f"loaded in {time.monotonic() - start_s:.0f} s; serving http://127.0.0.1:{options.port}/v1", flush=True)
    uvicorn.run(server.build_application(), host="127.0.0.1", port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
