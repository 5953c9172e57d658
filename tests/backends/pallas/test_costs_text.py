"""The costs that prompts show agree with the chip that latencies are estimated for."""

from evokernel.backends.pallas.chips import get_chip
from evokernel.core.plugins import plugin_folder


def test_costs_in_prompts_are_those_of_the_chip():
    text = " ".join((plugin_folder("backend", "pallas") / "prompts" / "costs.md").read_text().split())
    chip = get_chip("v5e")
    for claim in (
        f"{chip.name}; {chip.clock_hz / 1e6:.0f} cycles are 1 µs",
        f"{chip.hbm_bytes_per_cycle:.0f} bytes a cycle ({chip.hbm_bytes_per_s * chip.hbm_efficiency / 1e9:.0f} GB/s)",
        f"{chip.read_latency} cycles of latency, one out of VMEM {chip.write_latency}",
        f"({chip.peak_flops / 1e12:.0f} Tflop/s)",
        f"{chip.xlu} cycles each, a result after {chip.xlu_latency}",
    ):
        assert claim in text, claim
