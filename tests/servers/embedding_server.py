"""A local server that answers `POST /v1/embeddings` like an OpenAI-compatible service: with bags of words, or with scripted failures."""

from __future__ import annotations

import json
import threading
import zlib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Embeddings(BaseHTTPRequestHandler):
    """`server.failures`: statuses of the first answers; `server.missing_count`: vectors to leave out; `server.requests`: all requests."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        status = self.server.failures.pop(0) if self.server.failures else 200
        self.answer(status, {"error": {"message": "no"}} if status != 200 else self.vectors(request))

    def vectors(self, request):
        data = []
        for index, text in enumerate(request["input"]):
            vector = [0.0] * 32
            for word in text.lower().split():
                vector[zlib.crc32(word.encode()) % 32] += 1.0
            data.append({"object": "embedding", "index": index, "embedding": vector})
        data = data[: len(data) - self.server.missing_count]
        return {"object": "list", "model": request["model"], "data": data[::-1], "usage": {"prompt_tokens": 1, "total_tokens": 1}}

    def answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextmanager
def serving():
    """The server, on a free port of this machine; its address is `.url`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Embeddings) as server:
        server.failures, server.requests, server.missing_count = [], [], 0
        server.url = f"http://127.0.0.1:{server.server_port}/v1"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()
