"""The causes of a kernel's latency with the time each is worth: from replays of its schedule, and from estimates of a better way.

The simulator replays the recorded schedule with one thing made free (`simulator/runtime/what_if.h`). Where something has to replace what
became free, an estimate of a well-written kernel limits the gain, and the summary says "about".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from evokernel.backends.ascendc.better_kernel import BetterKernel
from evokernel.backends.ascendc.chips import Chip
from evokernel.backends.ascendc.simulator_report import LaunchReport
from evokernel.core.op_taxonomy import list_needed_kinds
from evokernel.core.records import Opportunity, Task

NOTABLE_SHARE, NOTABLE_US = 0.02, 0.02
"""Smaller gains are left out: share of the latency, and microseconds."""
SMALL_COPY_BYTES, EXCESS_TRAFFIC, LAUNCH_SHARE = 16 << 10, 1.1, 0.5
CLEARLY = 1.15
"""One replay explains more than another if it gains this many times as much."""
MOSTLY_WAITING = 3
"""Scalar accesses that gain this many times the work of the scalar unit mostly wait for other pipes."""
MAX_OPPORTUNITIES, MAX_LINES = 8, 3
NOTABLE_LINE_SHARE = 0.1
"""Lines with a smaller share of the largest line's gain, such as the flags of a queue, are not named."""
COPY_WORK = ("MTE2", "MTE3")
EXAMPLE_BY_KIND = {"convolution": "convolution-with-epilogue", "attention": "attention-in-steps", "fuse": "product-with-epilogue"}
"""The card with the worked example of products on the cube, by the kind of operator."""


@dataclass(frozen=True)
class KernelFacts:
    """What is known about one kernel's latency."""

    task: Task
    report: LaunchReport
    chip: Chip
    cores: int
    """Cores for the kernel's blocks."""
    better: BetterKernel | None
    """A well-written kernel of the task; None if it cannot be estimated."""
    lines: Mapping[str, int]
    """Lines of the candidate's source by the addresses of a site."""

    @property
    def us(self) -> float:
        return self.report.us

    @property
    def spread(self) -> float:
        """Cores of the chip for each core that has a block: the times of a well-written kernel are those of all cores."""
        return max(1.0, self.cores / self.report.block_dim)

    def busy_us(self, pipe: str) -> float:
        """Time in which a pipe of an average core works."""
        waves = max(1.0, self.report.block_dim / self.cores)
        return self.chip.cycles_to_us(self.report.busy.get(pipe, 0.0) / self.report.blocks_run) * waves

    def saving_us(self, replay: str) -> float:
        return self.chip.cycles_to_us(self.report.saved.get(replay, 0.0))

    @cached_property
    def moved_bytes(self) -> float:
        return self.report.scale_to_all_blocks(self.report.mte2_bytes + self.report.mte3_bytes)

    @property
    def copy_bytes(self) -> float:
        """Mean size of a copy; 0 without copies."""
        report = self.report
        return (report.mte2_bytes + report.mte3_bytes) / report.mte_instr if report.mte_instr else 0.0

    @property
    def uses_cube(self) -> bool:
        return self.report.macs > 0 or self.report.busy.get("M", 0.0) > 0

    @property
    def is_by_hand(self) -> bool:
        """Whether the kernel programs the cube itself, without the library's Matmul."""
        return self.uses_cube and not self.report.library_start

    def list_lines(self, *works: str) -> list[tuple[int, float]]:
        """Lines with such work and the microseconds that each is worth, largest first."""
        gains: dict[int, float] = {}
        for site in self.report.sites:
            if site.work in works and (line := self.lines.get(site.addresses, 0)):
                gains[line] = gains.get(line, 0.0) + self.chip.cycles_to_us(site.cycles)
        least = NOTABLE_LINE_SHARE * max(gains.values(), default=0.0)
        return sorted(((line, gain) for line, gain in gains.items() if gain >= least), key=lambda item: -item[1])

    def make(self, cause: str, gain_us: float, problem: str, move: str, card: str, works: tuple[str, ...] = ()) -> Opportunity:
        """An opportunity with its times and lines in the summary; the gain is at most the latency."""
        gain = max(0.0, min(gain_us, self.us))
        lines = self.list_lines(*works)[:MAX_LINES]
        where = f" (line {', '.join(str(line) for line, _ in lines)})" if lines else ""
        summary = f"{problem}{where}: {gain:.1f} of {self.us:.1f} µs. {move}"
        return Opportunity(cause=cause, gain_us=round(gain, 4), line=lines[0][0] if lines else 0, summary=summary, card=card)


def list_opportunities(facts: KernelFacts) -> tuple[Opportunity, ...]:
    """The opportunities of a kernel, largest gain first; none if the simulator replayed nothing."""
    if not facts.report.saved:
        return ()
    every = [opportunity for find in FINDERS for opportunity in find(facts)]
    notable = [one for one in every if one.gain_us >= max(NOTABLE_US, NOTABLE_SHARE * facts.us)]
    return tuple(sorted(notable, key=lambda one: -one.gain_us)[:MAX_OPPORTUNITIES])


# ---- how the work is spread


def find_few_cores(facts: KernelFacts) -> Iterator[Opportunity]:
    blocks, gain = facts.report.block_dim, facts.saving_us("cores")
    best = min(facts.report.best_cores, facts.cores)
    if blocks < best:
        verb = "has" if blocks == 1 else "have"
        start = f", though each starts {facts.chip.cycles_to_us(facts.chip.cube_start):.2f} µs later" if facts.report.cube_start else ""
        move = f"With {best} cores it takes about {facts.us - gain:.1f} µs{start}: call SetBlockDim({best}) and split the work evenly."
        yield facts.make("few_cores", gain, f"Only {blocks} of {facts.cores} cores {verb} a block", move, "core-counts")


def find_uneven_work(facts: KernelFacts) -> Iterator[Opportunity]:
    blocks, cores = facts.report.block_dim, facts.cores
    waves = -(-blocks // cores)
    problem = (
        f"{blocks} blocks need {waves} waves on {cores} cores, and the last wave is not full"
        if blocks % cores and waves > 1
        else "The slowest core has more work than the average"
    )
    move = f"Spread evenly it takes {facts.us - facts.saving_us('even'):.1f} µs: give all {cores} cores equal shares, the rest one by one."
    yield facts.make("uneven_work", facts.saving_us("even"), problem, move, "even-split")


# ---- time outside the cores


def find_launches(facts: KernelFacts) -> Iterator[Opportunity]:
    launches, each = facts.report.launches, facts.chip.launch_us
    if launches > 1:
        move = "Every launch costs the same: fuse the operators into one kernel."
        yield facts.make("launch", (launches - 1) * each, f"{launches} launches instead of one", move, "fuse-passes")
    elif each > LAUNCH_SHARE * facts.us:
        move = "Every kernel pays it, so there is little left to gain here unless one launch does more."
        yield facts.make("launch", each, "The launch is most of the time", move, "small-problems")


def find_library_start(facts: KernelFacts) -> Iterator[Opportunity]:
    report, chip = facts.report, facts.chip
    cube_us, library_us = chip.cycles_to_us(report.cube_start), facts.saving_us("library")
    objects = round(report.library_start / chip.matmul_start) if chip.matmul_start else 0
    if objects > max(1, report.launches):
        move = "Register one Matmul object and use it for all products (SetTensorA, SetTensorB, SetTail), one after the other."
        extra = chip.cycles_to_us(report.library_start - report.launches * chip.matmul_start)
        yield facts.make(
            "library_start", min(extra, library_us), f"Matmul starts {objects} times on a core", move, "matmul-object", ("library",)
        )
    elif saved_us := library_us + (0.0 if report.vec_instr else cube_us):  # a kernel with vector work needs both kinds of cores
        problem = f"Until the cube starts {cube_us:.1f} µs, until Matmul starts {library_us:.1f} µs"
        move = (
            "A kernel that only multiplies can start the cube cores alone (KERNEL_TYPE_AIC_ONLY), and a product by hand (Mmad) needs no "
            "start of Matmul."
        )
        yield facts.make("library_start", saved_us, problem, move, "kernel-task-type" if facts.is_by_hand else "product-by-hand")


# ---- waiting


def find_synchronisation(facts: KernelFacts) -> Iterator[Opportunity]:
    barriers, meetings = facts.saving_us("barriers"), facts.saving_us("meetings")
    move = "Remove barriers where a queue (EnQue, DeQue) or a flag already orders the two instructions."
    yield facts.make("synchronisation", barriers, "Barriers stop all pipes of a core", move, "pipe-barrier", ("barriers",))
    move = "Synchronise the cores less often: let each core keep what it needs itself, or combine results with one SyncAll."
    yield facts.make("synchronisation", meetings, "The cores wait for each other", move, "sync-all", ("meetings",))


def find_no_overlap(facts: KernelFacts) -> Iterator[Opportunity]:
    gain = facts.saving_us("buffers")
    if gain > CLEARLY * facts.saving_us("barriers"):
        move = f"With two buffers per queue (InitBuffer(queue, 2, bytes)) it takes {facts.us - gain:.1f} µs; halve the tile if UB is full."
        yield facts.make("no_overlap", gain, "Copies and vector work take turns", move, "double-buffering")


# ---- copies


def find_small_copies(facts: KernelFacts) -> Iterator[Opportunity]:
    gain = facts.saving_us("tiles")
    if 0 < facts.copy_bytes < SMALL_COPY_BYTES:
        move = f"With tiles as large as UB allows it takes about {facts.us - gain:.1f} µs: copy several rows at once, 16 KiB or more."
        problem = f"Copies of {facts.copy_bytes / 1024:.3g} KiB, each with its calls, are mostly fixed cost"
        yield facts.make("small_copies", gain, problem, move, "tile-size", COPY_WORK)


def find_unaligned_copies(facts: KernelFacts) -> Iterator[Opportunity]:
    move = "Start copies at multiples of 512 bytes and copy contiguous rows as one: DataCopy with one long block."
    if facts.uses_cube:
        move = "Pad the rows of the matrices to multiples of 32 bytes, or copy them to a workspace with such rows first."
    gain = facts.saving_us("alignment")
    yield facts.make("unaligned_copies", gain, "Rows of copies are not aligned in global memory", move, "gm-alignment", COPY_WORK)


def find_excess_traffic(facts: KernelFacts) -> Iterator[Opportunity]:
    moved, needed = facts.moved_bytes, facts.task.work.bytes
    if facts.uses_cube or moved <= EXCESS_TRAFFIC * needed:
        return
    gain = facts.saving_us("traffic")
    problem = f"{moved / 1e6:.3g} MB are moved, {needed / 1e6:.3g} MB are needed"
    move = f"Without the excess it takes about {facts.us - gain:.1f} µs: keep data in UB between the passes, and read each input once."
    yield facts.make("excess_traffic", gain, problem, move, "fuse-passes", COPY_WORK)


def find_cube_traffic(facts: KernelFacts) -> Iterator[Opportunity]:
    """Operands that products read more than once: blocks of the result share them, so part of it cannot be saved."""
    moved, needed = facts.moved_bytes, facts.task.work.bytes
    if not facts.uses_cube or moved <= EXCESS_TRAFFIC * needed:
        return
    gain = facts.saving_us("MTE2") * (1 - needed / moved)
    problem = f"Copies hold up the cube: {moved / 1e6:.3g} MB are copied, {needed / 1e6:.3g} MB are needed"
    how, card = "larger, square blocks of the result per core, one operand kept in L1", "product-by-hand"
    if not facts.is_by_hand:
        how, card = "base blocks of 128 x 256 (SetFixSplit), so that A is read once for every 256 columns", "matmul-tiling"
    move = f"At best it takes about {facts.us - gain:.1f} µs: {how}."
    yield facts.make("excess_traffic", gain, problem, move, card, COPY_WORK)


# ---- work


def find_scalar_work(facts: KernelFacts) -> Iterator[Opportunity]:
    gain, accesses = facts.saving_us("accesses"), facts.report.scale_to_all_blocks(facts.report.scalar_gm + facts.report.scalar_ub)
    if facts.better and facts.report.macs == 0:
        gain = min(gain, facts.us - facts.better.us)
    problem = f"{accesses:.3g} scalar accesses (GetValue, SetValue)"
    move = f"With DataCopy of complete tiles and vector instructions it takes about {facts.us - gain:.1f} µs."
    if gain > MOSTLY_WAITING * facts.busy_us("S"):
        problem = f"{problem} wait until other pipes have finished"
        move = f"Without these waits it takes about {facts.us - gain:.1f} µs: keep the values in vectors, or read them before the loop."
    card = "scalar-access-gm" if facts.report.scalar_gm > facts.report.scalar_ub else "vector-not-scalar"
    yield facts.make("scalar_work", gain, problem, move, card, ("accesses",))


def find_step_overhead(facts: KernelFacts) -> Iterator[Opportunity]:
    gain, each = facts.saving_us("calls"), facts.report.vec_instr / facts.report.blocks_run
    if gain > CLEARLY * facts.saving_us("tiles"):
        move = "Process a complete tile with one call: count form, repeat form with strides, or Brcb for broadcasts."
        problem = f"{each:.3g} vector instructions per core are so short that their start dominates"
        yield facts.make("step_overhead", gain, problem, move, "rows-in-one-call", ("V",))


def find_product_on_vector(facts: KernelFacts) -> Iterator[Opportunity]:
    if facts.uses_cube or not facts.better or not facts.better.product_us:
        return
    problem = f"The product runs on the vector unit, {facts.us:.1f} µs"
    move = f"On the cube it takes about {facts.better.us:.1f} µs with its start: use Matmul, or Mmad without the library's start."
    kinds = list_needed_kinds(facts.task.family, facts.task.families)
    card = next((EXAMPLE_BY_KIND[kind] for kind in kinds if kind in EXAMPLE_BY_KIND), "product-by-hand")
    yield facts.make("product_on_vector", facts.us - facts.better.us, problem, move, card, ("V",))


def find_vector_work(facts: KernelFacts) -> Iterator[Opportunity]:
    """The vector work beyond that of a well-written kernel, if the vector unit binds."""
    if not facts.better or facts.better.product_us:
        return
    needed = (facts.better.vector_us - facts.better.reduction_us) * facts.spread
    plain = facts.saving_us("V") - facts.saving_us("reductions")
    gain = min(plain, facts.busy_us("V") - facts.saving_us("reductions") - needed)
    move = f"About {needed:.1f} µs are needed: combine instructions (Axpy, Muls for Div by a constant), hoist what is constant."
    problem = f"The vector unit works {facts.busy_us('V'):.1f} µs"
    yield facts.make("vector_work", gain, problem, move, "fused-multiply-add", ("V",))
    needed = facts.better.reduction_us * facts.spread
    move = f"About {needed:.1f} µs are needed: add halves of the rows first, and reduce many rows with one call."
    gain = facts.saving_us("reductions") - needed
    yield facts.make("cross_lane", gain, "Reductions across lanes", move, "row-reductions", ("reductions",))


def find_vector_work_of_mixed(facts: KernelFacts) -> Iterator[Opportunity]:
    """The vector work between or after products that the cube does not hide."""
    if facts.uses_cube:
        move = "Let the vector cores work on one block of the result while the cube computes the next, and combine instructions."
        problem = f"The vector cores work {facts.busy_us('V'):.1f} µs, not hidden behind the products"
        yield facts.make("vector_work", facts.saving_us("V"), problem, move, "product-with-epilogue", ("V",))


def find_matrix_work(facts: KernelFacts) -> Iterator[Opportunity]:
    if not facts.uses_cube or not facts.better or not facts.better.product_us:
        return
    needed = facts.better.product_us * facts.spread
    how, card = "base blocks of 128 x 256, CFG_MDL", "matmul-tiles"
    if facts.is_by_hand:
        how, card = "two buffers each in L1, L0A and L0B, a depth that fills them, and dimensions near multiples of 16", "product-by-hand"
    move = f"About {needed:.1f} µs are needed: {how}, and half where the inputs are half."
    yield facts.make("matrix_work", facts.saving_us("products") - needed, "The products take too long", move, card, ("products", "M"))


def find_memory_bandwidth(facts: KernelFacts) -> Iterator[Opportunity]:
    """Copies beyond the time of a well-written kernel; nothing of it belongs to a cause above if the bytes are those needed."""
    if facts.better and not facts.uses_cube and not facts.better.product_us and facts.moved_bytes <= EXCESS_TRAFFIC * facts.task.work.bytes:
        others = max(facts.saving_us(name) for name in ("cores", "even", "buffers", "barriers", "tiles", "alignment", "accesses", "calls"))
        gain = min(facts.saving_us("copies"), facts.us - facts.better.us) - others
        move = f"All bytes are needed; a well-written kernel takes about {facts.better.us:.1f} µs."
        yield facts.make("memory_bandwidth", gain, "Copies of the bytes that the operator needs", move, "what-binds", COPY_WORK)


FINDERS: tuple[Callable[[KernelFacts], Iterator[Opportunity]], ...] = (
    find_few_cores,
    find_uneven_work,
    find_launches,
    find_library_start,
    find_synchronisation,
    find_no_overlap,
    find_small_copies,
    find_unaligned_copies,
    find_excess_traffic,
    find_cube_traffic,
    find_scalar_work,
    find_step_overhead,
    find_product_on_vector,
    find_vector_work,
    find_vector_work_of_mixed,
    find_matrix_work,
    find_memory_bandwidth,
)
