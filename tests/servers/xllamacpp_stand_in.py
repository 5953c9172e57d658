"""What evokernel.llm.serve_main uses of xllamacpp, without a model: put it on the path under that name."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

REPLY = "```cpp kernel.cpp\nvoid kernel() {}\n```"


class CommonParams(SimpleNamespace):
    def __init__(self):
        super().__init__(
            model=SimpleNamespace(path=""), cpuparams=SimpleNamespace(n_threads=4), cpuparams_batch=SimpleNamespace(n_threads=4)
        )


class Server:
    def __init__(self, params):
        with open(params.model.path, "rb") as file:
            said = file.read()
        if b"broken" in said:
            raise RuntimeError("failed to load the model: it is broken")
        if b"slow" in said:
            time.sleep(600)
        http = ThreadingHTTPServer((params.hostnames[0], params.port), type("Handler", (Handler,), {"params": params}))
        self.listening_address = f"http://{params.hostnames[0]}:{http.server_address[1]}"
        threading.Thread(target=http.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    params: CommonParams

    def do_GET(self):
        facts = {"n_ctx": self.params.n_ctx, "threads": self.params.cpuparams.n_threads, "port": self.params.port}
        self.answer({"status": "ok", "data": [{"id": "x", "meta": facts}]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": f"{REPLY}\nasked for {asked.get('max_tokens')}"}
        self.answer(
            {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 7, "completion_tokens": 5}},
        )

    def answer(self, what):
        body = json.dumps(what).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass
