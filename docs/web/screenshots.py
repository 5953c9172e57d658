"""Pictures of every view for docs/web.md. `python docs/web/screenshots.py RUNS BANK RUN TASK ITEM [--browser PATH]`.

Serves a folder of runs and a bank and photographs each view, in light and dark and as on a phone, into this folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent
DESK, PHONE = {"width": 1180, "height": 900}, {"width": 360, "height": 720}


def shoot(browser: Browser, name: str, address: str, size: dict[str, int], dark: bool = False, tall: int = 0) -> None:
    """One picture."""
    from PIL import Image

    context = browser.new_context(viewport={**size, "height": tall or size["height"]}, color_scheme="dark" if dark else "light")
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("main h1")
    page.wait_for_timeout(600)
    path = HERE / f"{name}.png"
    page.screenshot(path=path)
    context.close()
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path} {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("runs", "bank", "run", "task", "item"):
        parser.add_argument(name)
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    asked = parser.parse_args()
    program = [sys.executable, "-m", "evokernel.cli.main", "web", asked.runs, "--memory", asked.bank, "--port", "0"]
    server = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert server.stdout
    url = next(word for word in server.stdout.readline().split() if word.startswith("http"))
    bank = Path(asked.bank).name

    def to(view: str, **state: str) -> str:
        return f"{url}{view}?{urlencode(state)}"

    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=asked.browser, args=["--no-sandbox"])
            shoot(browser, "runs", to(""), DESK, tall=620)
            shoot(browser, "run", to("run", run=asked.run), DESK, tall=1500)
            shoot(browser, "task", to("task", run=asked.run, task=asked.task), DESK, tall=1900)
            shoot(browser, "memory", to("memory", bank=bank, q="softmax rows", how="meaning"), DESK, tall=640)
            shoot(browser, "item", to("item", bank=bank, id=asked.item), DESK, tall=820)
            shoot(browser, "curriculum", to("graph", run=asked.run), DESK, tall=640)
            shoot(browser, "run-dark", to("run", run=asked.run), DESK, dark=True, tall=900)
            shoot(browser, "run-phone", to("run", run=asked.run), PHONE)
            shoot(browser, "task-phone-dark", to("task", run=asked.run, task=asked.task), PHONE, dark=True)
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
