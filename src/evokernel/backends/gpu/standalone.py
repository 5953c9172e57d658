"""Runs one recorded program in a process of its own, for tools that watch a process: a sanitizer, a profiler. Inputs come from files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from evokernel.backends.gpu.driver import Driver
from evokernel.backends.gpu.program import FILE, read, refuse_impossible
from evokernel.backends.gpu.replay import Bound, Loaded, images

INPUTS = "inputs.json"
FAILED = 3


def main() -> None:
    """`folder` holds an order and, for every call in it, the bytes of its inputs one after the other; outputs are not looked at."""
    folder = Path(sys.argv[2])
    order = json.loads((folder / INPUTS).read_text())
    programs = read(Path(order["programs"]) / FILE)
    driver = Driver(order["device"])
    loaded = Loaded(driver, images(Path(order["programs"])))
    for number, key in enumerate(order["keys"]):
        program = programs[key]
        refuse_impossible(program)
        data = np.fromfile(folder / f"{number}.bin", np.uint8) if (folder / f"{number}.bin").exists() else None
        places = [driver.allocate(count) for count in program.tensors]
        at = 0
        for place, count in list(zip(places, program.tensors))[: len(places) - program.outputs]:
            if data is not None:
                driver.upload(place, data.ctypes.data + at, count)
                at += count
            else:
                driver.fill(place, 0x3C, count)  # small numbers, whatever their type
        bound = Bound(driver, loaded, program, places, is_guarded=False)
        driver.synchronize()
        for _ in range(order.get("times", 1)):
            bound.start()
        driver.synchronize()
        bound.close()
        for place in places:
            driver.release(place)
    sys.stdout.write("done\n")
