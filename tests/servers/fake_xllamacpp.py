"""A fake xllamacpp module without a model, with the parts that evokernel.llm.serve_main uses."""

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
            content = file.read()
        if b"broken" in content:
            raise RuntimeError("failed to load the model: it is broken")
        if b"slow" in content:
            time.sleep(600)
        http = ThreadingHTTPServer((params.hostnames[0], params.port), type("Handler", (Handler,), {"params": params}))
        self.listening_address = f"http://{params.hostnames[0]}:{http.server_address[1]}"
        threading.Thread(target=http.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    params: CommonParams

    def do_GET(self):
        fields = {"n_ctx": self.params.n_ctx, "threads": self.params.cpuparams.n_threads, "port": self.params.port}
        self.answer({"status": "ok", "data": [{"id": "x", "meta": fields}]})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": f"{REPLY}\nasked for {request.get('max_tokens')}"}
        self.answer(
            {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 7, "completion_tokens": 5}},
        )

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass
