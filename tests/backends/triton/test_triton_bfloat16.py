"""Without a GPU, kernels in bfloat16 are judged by what they compute, not by what Triton's interpreter makes of their bits."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")


@pytest.mark.slow(one_in=5)
def test_interpreter_computes_bfloat16_by_value():
    script = Path(__file__).parent / "interpreted_bfloat16.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    found = dict(line.split() for line in done.stdout.splitlines())
    assert len(found) == 12
    assert {name: far for name, far in found.items() if float(far)} == {}
