"""An OpenAI-compatible chat service on the loopback interface whose behaviour, including failures, a script defines."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Behaviour:
    """How one request is answered. The answer is streamed if the request asks for it, unless `stream` overrides this."""

    text: str = "hello"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    usage: tuple[int, int] | None = (100, 10)
    """Tokens read and written; None leaves usage out."""
    cached: int | None = None
    finish_reason: str | None = "stop"
    refusal: str | None = None
    body: bytes | None = None
    """Sent verbatim instead of an answer."""
    error: dict[str, object] | None = None
    """The error object of a status other than 200, or of an event in the stream."""
    stream: bool | None = None
    usage_first: bool = False
    """Report the usage in the first event, before the text."""
    cut_after: int | None = None
    """Break the connection after this many events (without streaming: bytes)."""
    stall_after: int | None = None
    """Stop sending after this many events (without streaming: bytes) until the server is closed."""
    keep_alive: bool = False
    """While stalled, send comments (without streaming: blanks)."""
    wait_for: threading.Event | None = None
    """Answer only when this is set."""


Script = Callable[[dict, int], Behaviour]


class ChatServer:
    """`with ChatServer(script) as server: server.base_url`. The script gets the request's JSON and the number of earlier requests."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.under_way = self.most_under_way = 0
        self.lock = threading.Lock()
        self.closing = threading.Event()

    def __enter__(self) -> ChatServer:
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"chat": self}))
        self.http.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.closing.set()
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()

    def next_behaviour(self, request: dict, headers: dict[str, str]) -> Behaviour:
        with self.lock:
            self.requests.append(request)
            self.headers.append(headers)
            number = len(self.requests) - 1
        return self.script(request, number)


class Handler(BaseHTTPRequestHandler):
    """Answer POST /v1/chat/completions."""

    chat: ChatServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        request = json.loads(raw)
        with self.chat.lock:
            self.chat.under_way += 1
            self.chat.most_under_way = max(self.chat.most_under_way, self.chat.under_way)
        try:
            behaviour = self.chat.next_behaviour(request, {name.lower(): value for name, value in self.headers.items()})
            if behaviour.wait_for:
                behaviour.wait_for.wait(240)
            self.answer(request, behaviour)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with self.chat.lock:
                self.chat.under_way -= 1

    def answer(self, request: dict, behaviour: Behaviour) -> None:
        is_stream = bool(request.get("stream")) if behaviour.stream is None else behaviour.stream
        if self.path != "/v1/chat/completions":
            self.send_body(404, {}, json.dumps({"error": {"message": "not found"}}).encode(), behaviour)
        elif behaviour.body is not None:
            kind = "text/event-stream" if is_stream else "application/json"
            self.send_body(behaviour.status, {"Content-Type": kind, **behaviour.headers}, behaviour.body, behaviour)
        elif behaviour.status != 200:
            error = behaviour.error or {"message": f"scripted {behaviour.status}"}
            self.send_body(behaviour.status, behaviour.headers, json.dumps({"error": error}).encode(), behaviour)
        elif is_stream:
            self.send_events(request, behaviour)
        else:
            self.send_body(200, behaviour.headers, json.dumps(completion(request, behaviour)).encode(), behaviour)

    def send_body(self, status: int, headers: dict[str, str], body: bytes, behaviour: Behaviour) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if behaviour.cut_after is not None:
            self.wfile.write(body[: behaviour.cut_after])
            self.cut_connection()
        elif behaviour.stall_after is not None:
            self.wfile.write(body[: behaviour.stall_after])
            self.stall(behaviour, b" ")
        else:
            self.wfile.write(body)

    def send_events(self, request: dict, behaviour: Behaviour) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(stream(request, behaviour)):
            if number == behaviour.cut_after:
                return self.cut_connection()
            if number == behaviour.stall_after:
                return self.stall(behaviour, chunk(b": still here\n\n"))
            self.wfile.write(chunk(event))
            self.wfile.flush()
        self.wfile.write(chunk(b""))

    def cut_connection(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def stall(self, behaviour: Behaviour, filler: bytes) -> None:
        self.wfile.flush()
        self.close_connection = True
        while not self.chat.closing.wait(0.05):
            if behaviour.keep_alive:
                self.wfile.write(filler)
                self.wfile.flush()


def chunk(data: bytes) -> bytes:
    """One chunk of a body with chunked transfer encoding."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def usage(behaviour: Behaviour) -> dict[str, object]:
    input_tokens, output_tokens = behaviour.usage or (0, 0)
    details = {} if behaviour.cached is None else {"prompt_tokens_details": {"cached_tokens": behaviour.cached}}
    return {"prompt_tokens": input_tokens, "completion_tokens": output_tokens, "total_tokens": input_tokens + output_tokens, **details}


def completion(request: dict, behaviour: Behaviour) -> dict[str, object]:
    """A complete answer."""
    message = {"role": "assistant", "content": None if behaviour.refusal else behaviour.text, "refusal": behaviour.refusal}
    answer: dict[str, object] = {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": behaviour.finish_reason}],
    }
    return answer | ({"usage": usage(behaviour)} if behaviour.usage else {})


def stream(request: dict, behaviour: Behaviour) -> list[bytes]:
    """The events of a streamed answer: the text in pieces, the end, the usage if requested, and [DONE]."""

    def event(**fields: object) -> bytes:
        return (
            b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "model": request["model"], **fields}).encode() + b"\n\n"
        )

    def choice(delta: dict[str, object], finish: str | None = None) -> bytes:
        return event(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])

    wants_usage = bool((request.get("stream_options") or {}).get("include_usage"))
    usage_event = [event(choices=[], usage=usage(behaviour))] if behaviour.usage and (wants_usage or behaviour.usage_first) else []
    part, text = ("refusal", behaviour.refusal) if behaviour.refusal else ("content", behaviour.text)
    step = max(1, len(text) // 4)
    pieces = [choice({part: text[i : i + step]}) for i in range(0, len(text), step)]
    first, last = (usage_event, []) if behaviour.usage_first else ([], usage_event)
    error_event = [event(error=behaviour.error)] if behaviour.error else []
    end = [choice({}, behaviour.finish_reason)] if behaviour.finish_reason else []
    return [choice({"role": "assistant", "content": ""}), *first, *pieces, *error_event, *end, *last, b"data: [DONE]\n\n"]
