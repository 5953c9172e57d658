"""Measures how often a kernel that is wrong in a share of its blocks, and only at the size `full`, is caught.

    python benchmarks/hidden_regions.py [--backend pallas] [--verifications 20]

Takes the self-test's honest kernel for large sizes, plants an error into a share of the blocks, and verifies it with different seeds. The
prediction is 1 - (1 - w)^k for a share w of wrong blocks and the number k of blocks at random positions that the honest kernel's
verification runs. The first and the last block, which are always run, stay correct.
"""

from __future__ import annotations

import argparse
import re

from scipy.stats import binomtest

from evokernel.app import factory
from evokernel.core.config import RunConfig, resolve_config
from evokernel.core.plugins import make_plugin, plugin_folder
from evokernel.core.records import Candidate, Outcome, Task
from evokernel.engine.jobs import make_job

SHARES = {"pallas": (0.25, 0.1, 0.02), "ascendc": (12 / 48, 5 / 48)}
PALLAS_LINE = "        out_ref[...] = y\n"
ASCENDC_LINE = "    Muls(y, y, 1.0f / sum, columns);\n"


def plant_error(backend: str, source: str, task: Task, share: float) -> str:
    """Return the source with an error in a share of the blocks, at the timed size only."""
    rows = task.signature.inputs[0].shape[0]
    if backend == "pallas":
        wrong = f"(i > 0) & (i < steps - 1) & ((i * 7919) % 1000 < {round(1000 * share)})"
        planted = f"        i = pl.program_id(0)\n        out_ref[...] = jnp.where({wrong}, y + 1.0, y) if x.shape[0] == {rows} else y\n"
        return source.replace(PALLAS_LINE, planted)
    condition = f"rows == {rows} && GetBlockIdx() >= 1 && GetBlockIdx() <= {round(48 * share)}"
    return source.replace(ASCENDC_LINE, f"{ASCENDC_LINE}    if ({condition}) Adds(y, y, 1.0f, columns);\n")


def count_blocks(backend: str, source: str, task: Task) -> int:
    """Return the number of blocks of the kernel."""
    if backend == "ascendc":
        return 48
    (rows,) = map(int, re.findall(r"^ROWS = (\d+)", source, re.MULTILINE))
    return -(-task.signature.inputs[0].shape[0] // rows)


def measure_backend(backend: str, verifications: int) -> None:
    """Print how many of the verifications caught the kernel, for each share of wrong blocks."""
    config: RunConfig = resolve_config(None, (), backend=backend, size="full", workers=1)
    plugin = make_plugin("backend", backend)
    (path,) = (plugin_folder("backend", backend) / "selftest" / "honest").glob("large-blocks.*")
    source = path.read_text()
    (task,) = factory.load_sized_tasks(config, re.findall(r"task=(\S+)", source)[0])
    executor = factory.make_part(config, "executor")

    def verify(text: str, seed: int) -> Outcome:
        candidate = Candidate(backend=backend, files={plugin.file_name: text})
        job = make_job(config, task, candidate, seed=seed, baselines=()).model_copy(update={"ignore_cache": True})
        return executor.submit(job).result()

    honest = [verify(source, seed) for seed in range(3)]
    blocks = count_blocks(backend, source, task)
    random_blocks = [outcome.random_parts for outcome in honest]
    print(f"{backend}: {task.id}, {blocks} blocks, of which {min(random_blocks)} to {max(random_blocks)} run at random positions")
    for share in SHARES[backend]:
        outcomes = [verify(plant_error(backend, source, task, share), 1000 + seed) for seed in range(verifications)]
        assert all(o.feasible or (o.failure and o.failure.reason == "mismatch") for o in outcomes), [o.failure for o in outcomes]
        caught = sum(not outcome.feasible for outcome in outcomes)
        low, high = binomtest(caught, verifications).proportion_ci(method="exact")
        predicted = [1 - (1 - share) ** count for count in random_blocks]
        print(
            f"  {share:6.1%} of the blocks wrong: caught {caught} of {verifications} [{low:.0%}-{high:.0%}], "
            f"predicted {min(predicted):.0%} to {max(predicted):.0%}",
            flush=True,
        )
    executor.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", action="append", choices=tuple(SHARES))
    parser.add_argument("--verifications", type=int, default=20)
    args = parser.parse_args()
    for backend in args.backend or SHARES:
        measure_backend(backend, args.verifications)


if __name__ == "__main__":
    main()
