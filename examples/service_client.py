"""Start `evokernel serve` on a free port, send it a kernel over HTTP, and read the result. Needs the extra `serve` and httpx."""

import re
import subprocess
import sys
import tempfile

import httpx

KERNEL = """
extern "C" void kernel(const float* x, const int64_t* x_shape, float* out, const int64_t* out_shape) {
    const int64_t rows = x_shape[0], columns = x_shape[1];
    for (int64_t i = 0; i < rows; ++i) {
        float sum = 0;
        for (int64_t j = 0; j < columns; ++j) sum += x[i * columns + j];
        out[i] = sum;
    }
}
"""
SERVE = [sys.executable, "-m", "evokernel.cli.main", "serve", "--port", "0", "--workers", "1", "--set", "clock=synthetic"]


def use_service(url: str) -> None:
    """Ask the service what a kernel must look like, and send one."""
    with httpx.Client(base_url=url, timeout=120) as client:
        task = client.get("/v1/tasks/starter/sum_rows", params={"backend": "cpp"}).json()
        print("entry point:", task["entry_point"])
        body = {"task": "starter/sum_rows", "backend": "cpp", "kernel": KERNEL}
        answer = client.post("/v1/verifications", json=body, params={"wait_s": 100}).json()
        print("state:", answer["state"])
        print("passed every gate:", answer["result"]["feasible"])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen([*SERVE, "--folder", folder], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address is not None, "the server did not start; its message is above"
            use_service(address[0])
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
