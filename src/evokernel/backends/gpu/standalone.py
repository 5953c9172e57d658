"""Runs a recorded program in a separate process for tools that observe a process: a sanitizer, a profiler. Inputs come from files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from evokernel.backends.gpu.driver import Driver
from evokernel.backends.gpu.program import FILE, read_programs, validate_program
from evokernel.backends.gpu.replay import BoundProgram, LoadedModules, read_images

INPUTS = "inputs.json"
FAILED = 3


def main() -> None:
    """Waits for a folder on stdin and runs its order; the folder also holds the input bytes of each call. Outputs are ignored."""
    driver = Driver(int(sys.argv[2]), sleeps_while_waiting=True)
    name = sys.stdin.readline().strip()
    if not name:  # the verifier has ended
        return
    folder = Path(name)
    order = json.loads((folder / INPUTS).read_text())
    programs = read_programs(Path(order["programs"]) / FILE)
    modules = LoadedModules(driver, read_images(Path(order["programs"])))
    for number, key in enumerate(order["keys"]):
        program = programs[key]
        validate_program(program)
        data = np.fromfile(folder / f"{number}.bin", np.uint8) if (folder / f"{number}.bin").exists() else None
        places = [driver.allocate(count) for count in program.tensors]
        at = 0
        for place, count in list(zip(places, program.tensors))[: len(places) - program.outputs]:
            if data is not None:
                driver.upload(place, data.ctypes.data + at, count)
                at += count
            else:
                driver.fill(place, 0x3C, count)  # small numbers, whatever their type
        bound_program = BoundProgram(driver, modules, program, places, is_guarded=False)
        driver.synchronize()
        for _ in range(order.get("times", 1)):
            bound_program.start()
        driver.synchronize()
        bound_program.close()
        for place in places:
            driver.release(place)
    sys.stdout.write("done\n")
