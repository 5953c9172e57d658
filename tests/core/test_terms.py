"""Baselines and clocks in the words that every surface uses."""

import pytest

from evokernel.core import labels


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["eager"], "PyTorch eager"),
        (["compile"], "torch.compile"),
        (["xla"], "XLA"),
        (["xla", "xla", "eager", ""], "PyTorch eager, XLA"),
        (["mine"], "mine"),
        ([""], "the baseline"),
    ],
)
def test_baselines(names, text):
    assert labels.baseline_label(names) == text


@pytest.mark.parametrize(
    ("names", "text", "label"),
    [
        (["cpu"], "CPU time per core", ""),
        (["wall", "", "wall"], "wall time", ""),
        (["tpu"], "time on a TPU", ""),
        (["synthetic"], "synthetic (not measured)", "synthetic (not measured)"),
        (["estimate (schedule)"], "estimate (schedule)", "estimate (schedule)"),
        (["model"], "estimate (model)", "estimate (model)"),
        (["cpu", "estimate (schedule)"], "CPU time per core, estimate (schedule)", "estimate (schedule)"),
        ([], "not measured", ""),
    ],
)
def test_clocks(names, text, label):
    assert labels.clock_label(names) == text
    assert labels.estimate_note(iter(names)) == label


def test_speed_ups_name_what_they_are_over():
    assert labels.speedup_phrase(1.5, "xla") == ", 1.50x the speed of XLA"
    assert labels.speedup_phrase(1.5, "") == ", 1.50x the speed of the baseline"
    assert labels.speedup_phrase(None, "xla") == ""
