"""A local server that answers `POST /v1/embeddings` like an OpenAI-compatible service: a bag of words, or the trouble asked for."""

from __future__ import annotations

import json
import threading
import zlib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Embeddings(BaseHTTPRequestHandler):
    """`server.failures`: statuses to answer with first; `server.short`: how many vectors to leave out; `server.asked`: the requests."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        status = self.server.failures.pop(0) if self.server.failures else 200
        self.answer(status, {"error": {"message": "no"}} if status != 200 else self.vectors(asked))

    def vectors(self, asked):
        data = []
        for index, text in enumerate(asked["input"]):
            vector = [0.0] * 32
            for word in text.lower().split():
                vector[zlib.crc32(word.encode()) % 32] += 1.0
            data.append({"object": "embedding", "index": index, "embedding": vector})
        data = data[: len(data) - self.server.short]
        return {"object": "list", "model": asked["model"], "data": data[::-1], "usage": {"prompt_tokens": 1, "total_tokens": 1}}

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
        server.failures, server.asked, server.short = [], [], 0
        server.url = f"http://127.0.0.1:{server.server_port}/v1"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()
