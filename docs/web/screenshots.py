"""Takes the screenshots of docs/web.md. `python docs/web/screenshots.py RUNS BANK RUN OTHER TASK ITEM [--browser PATH]`.

Serves a folder of runs and a bank, and writes a screenshot of each page into this folder: light, dark and phone size.
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


def take_screenshot(browser: Browser, name: str, url: str, size: dict[str, int], dark: bool = False, tall: int = 0) -> None:
    """Write one screenshot."""
    from PIL import Image

    context = browser.new_context(viewport={**size, "height": tall or size["height"]}, color_scheme="dark" if dark else "light")
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("main h1")
    page.wait_for_selector("h1:not(:has-text('Reading'))")
    page.wait_for_timeout(600)
    path = HERE / f"{name}.png"
    page.screenshot(path=path)
    context.close()
    Image.open(path).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path} {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("runs", "bank", "run", "other", "task", "item"):
        parser.add_argument(name)
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("google-chrome"))
    args = parser.parse_args()
    program = [sys.executable, "-m", "evokernel.cli.main", "web", args.runs, "--memory", args.bank, "--port", "0"]
    server = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert server.stdout
    url = next(word for word in server.stdout.readline().split() if word.startswith("http"))
    bank = Path(args.bank).name

    def page_url(view: str, **state: str) -> str:
        return f"{url}{view}?{urlencode(state)}"

    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=args.browser, args=["--no-sandbox"])
            take_screenshot(browser, "runs", page_url(""), DESK, tall=620)
            take_screenshot(browser, "run", page_url("run", run=args.run), DESK, tall=1500)
            take_screenshot(browser, "task", page_url("task", run=args.run, task=args.task), DESK, tall=1900)
            take_screenshot(browser, "memory", page_url("memory", bank=bank, q="softmax rows", how="meaning"), DESK, tall=640)
            take_screenshot(browser, "compare", page_url("compare", runs=f"{args.run},{args.other}"), DESK, tall=900)
            take_screenshot(browser, "item", page_url("item", bank=bank, id=args.item), DESK, tall=820)
            take_screenshot(browser, "curriculum", page_url("graph", run=args.run), DESK, tall=640)
            take_screenshot(browser, "run-dark", page_url("run", run=args.run), DESK, dark=True, tall=900)
            take_screenshot(browser, "run-phone", page_url("run", run=args.run), PHONE)
            take_screenshot(browser, "task-phone-dark", page_url("task", run=args.run, task=args.task), PHONE, dark=True)
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
