"""Verifies public Pallas kernels for TPU with the `pallas` backend: those of JAX itself, of its documentation and of its tests.

    python benchmarks/pallas_kernels.py CHECKOUT [--names matmul,flash] [--chip v5e] [--out FOLDER]

CHECKOUT is a checkout of jax-ml/jax; kernels of `jax.experimental.pallas.ops.tpu` come from the installed package. pallas_kernels.toml
names each kernel, its arguments and what it computes in PyTorch; the code is read from the checkout. A kernel of a test is the body of the
test up to its first assertion. The protocol is `strict`. Writes pallas.md and pallas.json; the same command resumes.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tempfile
import textwrap
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evokernel.core.errors import InfraError, UserError
from evokernel.core.records import Candidate, Job
from evokernel.suites.loader import load_tasks
from evokernel.verifier import verify

TABLE = Path(__file__).with_name("pallas_kernels.toml")
HEADER = """import functools
import itertools
import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

floatx, intx = jnp.dtype("float32"), jnp.dtype("int32")


def smem_on_tpu():
    return pltpu.SMEM
"""
"""Imports of the files, and two names that tests use."""
CELL = re.compile(r"^```(?:\{code-cell\}[^\n]*|python[^\n]*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
CELL_OPTION = re.compile(r"^---\n.*?^---\n|^:\w+:[^\n]*\n", re.DOTALL | re.MULTILINE)
ASSERTION = re.compile(r"\bassert|skipTest|np\.testing")
REFERENCE = """import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES = {{"small": {{}}, "held_out": {{}}}}


class Model(nn.Module):
    def forward(self, {names}):
        {body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def write_candidate(row: dict[str, Any], checkout: Path) -> str:
    """Return the source of a candidate: the kernel as it is, and a function `kernel` that calls it."""
    if "module" in row:
        code = f"from {row['module']} import *\n{row.get('setup', '')}"
    elif "test" in row:
        return write_test_candidate(row, checkout)
    else:
        text = (checkout / row["file"]).read_text()
        code = "\n\n".join([row.get("setup", ""), *find_functions(text, row["functions"])])
    return f"{HEADER}\n\n{code}\n\n\ndef kernel({', '.join(row['inputs'])}):\n    return {row['call']}\n"


def find_functions(text: str, names: Sequence[str]) -> list[str]:
    """Return functions of a page; `name#2` is the second definition of that name."""
    cells = [CELL_OPTION.sub("", cell) for cell in CELL.findall(text)]
    found = []
    for name, _, number in (one.partition("#") for one in names):
        definitions = []
        for cell in cells:
            try:
                body = ast.parse(cell).body
            except SyntaxError:
                continue
            definitions += [ast.unparse(node) for node in body if isinstance(node, ast.FunctionDef) and node.name == name]
        found.append(definitions[int(number or 1) - 1])
    return found


def write_test_candidate(row: dict[str, Any], checkout: Path) -> str:
    """Return a candidate from a test: its statements up to the first assertion, without those that make the inputs."""
    class_name, _, method_name = row["test"].partition(".")
    tree = ast.parse((checkout / row["file"]).read_text())
    owner = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name)
    method = next(node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name == method_name)
    lines = [row.get("setup", "")]
    for statement in method.body:
        text = ast.unparse(statement)
        if (isinstance(statement, ast.If) and "skipTest" in text) or ".lower(" in text:
            continue
        if ASSERTION.search(text) and not isinstance(statement, ast.FunctionDef):
            break
        targets = {name.id for target in getattr(statement, "targets", ()) for name in ast.walk(target) if isinstance(name, ast.Name)}
        if not targets & set(row["inputs"]) and not text.startswith(("key", "k1", "self.skip")):
            lines.append(text.replace("self.pallas_call", "pl.pallas_call"))
    body = textwrap.indent("\n".join([*lines, f"return {row['call']}"]), "    ")
    return f"{HEADER}\n\ndef kernel({', '.join(row['inputs'])}):\n{body}\n"


def write_reference(row: dict[str, Any]) -> str:
    """Return the task: what the kernel computes, in PyTorch."""
    *statements, last = row["reference"].strip().splitlines()
    body = textwrap.indent("\n".join([*statements, f"return {last}"]), "        ").strip()
    return REFERENCE.format(names=", ".join(row["inputs"]), body=body, inputs=", ".join(row["inputs"].values()))


def verify_kernel(row: dict[str, Any], checkout: Path, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the verdict on one kernel with its reason and estimate."""
    started = time.monotonic()
    path = folder / f"{re.sub(r'[^a-z0-9]+', '_', row['name'])}.py"
    path.write_text(write_reference(row))
    result: dict[str, Any] = {"name": row["name"], "reason": "", "detail": "", "us": None, "published_us": row.get("published_us")}
    try:
        candidate = Candidate(backend="pallas", files={"kernel.py": write_candidate(row, checkout)})
        job = Job(
            backend="pallas",
            settings={"chip": args.chip},
            task=load_tasks(str(path))[0],
            candidate=candidate,
            timeout_s=args.timeout_s,
            protocol="strict",
        )
        outcome = verify(job)
    except (UserError, InfraError, StopIteration, IndexError) as error:
        result |= {"verdict": "not run", "reason": type(error).__name__, "detail": str(error)}
    else:
        failure = outcome.failure
        result |= {"verdict": "failed" if failure else "verified", "us": outcome.latency_us}
        result |= {"gate": failure.gate, "reason": failure.reason, "detail": failure.detail} if failure else {}
    return result | {"seconds": round(time.monotonic() - started, 1)}


def format_report(rows: Sequence[dict[str, Any]]) -> str:
    """Format the counts and the table of all kernels."""
    verified = sum(row["verdict"] == "verified" for row in rows)
    lines = [f"{verified} of {len(rows)} kernels are verified.", ""]
    lines += [f"- {count} {reason}" for reason, count in Counter(row["reason"] for row in rows if row["reason"]).most_common()]
    lines += ["", "| kernel | verdict | reason | estimate, µs | published, µs |", "|---|---|---|---|---|"]
    for row in rows:
        detail = (row["detail"].strip().splitlines() or [""])[0][:200].replace("|", "/")
        estimate = "not reported" if row["us"] is None else f"{row['us']:.1f}"
        published = "not reported" if row["published_us"] is None else f"{row['published_us']:g}"
        lines.append(f"| {row['name']} | {row['verdict']} | {row['reason']} {detail} | {estimate} | {published} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--names", default="", help="only kernels whose names contain one of these words")
    parser.add_argument("--again", action="store_true", help="repeat the kernels that are not verified")
    parser.add_argument("--chip", default="v5e")
    parser.add_argument("--timeout-s", type=float, default=240)
    parser.add_argument("--out", type=Path, default=Path("pallas-kernels"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    json_path = args.out / "pallas.json"
    rows: dict[str, dict[str, Any]] = {row["name"]: row for row in (json.loads(json_path.read_text()) if json_path.exists() else [])}
    table = tomllib.loads(TABLE.read_text())["kernel"]
    with tempfile.TemporaryDirectory() as folder:
        for entry in table:
            name = entry["name"]
            if args.names and not any(word in name for word in args.names.split(",")):
                continue
            if name in rows and not (args.again and rows[name]["verdict"] != "verified"):
                continue
            rows[name] = row = verify_kernel(entry, args.checkout, args, Path(folder))
            json_path.write_text(json.dumps([*rows.values()], indent=1))
            detail = (row["detail"].splitlines() or [""])[0][:150]
            print(f"{row['seconds']:6} s  {name}: {row['verdict']} {row['reason']} {detail}", file=sys.stderr, flush=True)
    report = format_report([rows[entry["name"]] for entry in table if entry["name"] in rows])
    (args.out / "pallas.md").write_text(report)
    print(report)


if __name__ == "__main__":
    main()
