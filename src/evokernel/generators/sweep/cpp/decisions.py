"""The decisions each C++ sketch leaves open."""

from __future__ import annotations

from collections.abc import Mapping

from evokernel.generators.sweep.decisions import Choice, Decision, one_of


def is_wide(taken: Choice) -> bool:
    """Whether the loops are written with explicit vectors."""
    return taken.get("simd") == "vec" or is_blocked(taken)


def is_blocked(taken: Choice) -> bool:
    """Whether a register tile is used."""
    return taken.get("gemm") == "block" or taken.get("algorithm") == "block"


def is_stepped(taken: Choice) -> bool:
    """Whether a loop takes several elements at a time, so that some may remain."""
    return is_wide(taken) or taken.get("unroll", "1") != "1" or taken.get("gemm") == "tiled"


def is_by_rows(taken: Choice) -> bool:
    """Whether memory is walked in order, so that the inner loop can be shaped at all."""
    return taken.get("order") != "columns"


SIMD = Decision("simd", ("auto", "omp", "vec"), is_by_rows)
LANES = Decision("lanes", ("native", "4", "8", "12", "16", "32"), is_wide)
UNROLL = Decision("unroll", ("1", "2", "4", "8"), one_of("simd", "auto", "vec"))
TAIL = Decision("tail", ("scalar", "masked", "steps", "assume"), is_stepped)
MATH = Decision("math", ("libm", "libm64", "poly2", "poly4", "poly5", "poly6"), trait="math")
ACC = Decision("acc", ("float", "double"), is_by_rows)
ALIAS = Decision("alias", ("none", "const", "__restrict", "__restrict__", "restrict"), is_by_rows)
INDEX = Decision("index", ("int64_t", "int32_t", "uint32_t"), is_by_rows)
THREADS = Decision("threads", ("none", "omp"), is_by_rows)
ORDER = Decision("order", ("rows", "columns"))
SCRATCH = ("heap", "stack", "static")
WINDOW = Decision("window", ("runtime", "switch", "fixed"))
BORDER = Decision("border", ("branch", "clip", "assume"))

GEMM = (
    Decision("gemm", ("dot", "axpy", "tiled", "block")),
    Decision("tile", ("16", "32", "64", "128"), one_of("gemm", "tiled")),
    Decision("mr", ("1", "2", "4", "6", "8"), is_blocked),
    Decision("nr", ("1", "2", "3", "4"), is_blocked),
    Decision("pack", ("none", "b", "ab"), one_of("gemm", "block")),
    Decision("ktile", ("0", "64", "256"), one_of("gemm", "block")),
)
ROW = (SIMD, LANES, UNROLL, TAIL, MATH, ACC, ALIAS, INDEX, THREADS)

SKETCHES: Mapping[str, tuple[Decision, ...]] = {
    "map": (ORDER._replace(trait="broadcast"), SIMD, LANES, UNROLL, TAIL, MATH, ALIAS, INDEX, THREADS),
    "reduce": (ORDER._replace(without="single"), *ROW),
    "argreduce": (
        ORDER._replace(without="strided"),
        Decision("algorithm", ("serial", "twopass", "blocks", "lanes"), is_by_rows, without="strided"),
        SIMD._replace(when=one_of("algorithm", "twopass", "blocks")),
        Decision("tile", ("16", "64", "256"), one_of("algorithm", "blocks")),
        LANES._replace(when=lambda taken: is_wide(taken) or taken.get("algorithm") == "lanes"),
        UNROLL,
        TAIL._replace(when=lambda taken: is_stepped(taken) or taken.get("algorithm") == "lanes"),
        ALIAS, INDEX, THREADS,
    ),
    "row": (
        ORDER,
        Decision("algorithm", ("passes", "online"), is_by_rows, trait="softmax"),
        Decision("algorithm", ("passes", "naive", "welford"), is_by_rows, trait="moments"),
        Decision("tile", ("8", "64", "512"), one_of("algorithm", "online")),
        Decision("reuse", ("recompute", "store"), one_of("algorithm", "passes"), trait="kept"),
        Decision("divide", ("exact", "reciprocal"), trait="divide"),
        *ROW,
    ),
    "crossentropy": (
        ORDER,
        Decision("algorithm", ("passes", "online"), is_by_rows),
        Decision("tile", ("8", "64", "512"), one_of("algorithm", "online")),
        *ROW,
    ),
    "scan": (
        ORDER._replace(without="strided"),
        Decision("algorithm", ("serial", "rows", "shift", "blocks"), one_of("order", "rows"), without="strided"),
        LANES._replace(when=one_of("algorithm", "shift")),
        UNROLL._replace(when=one_of("algorithm", "rows")),
        Decision("tile", ("16", "64", "256"), one_of("algorithm", "blocks")),
        TAIL._replace(options=("scalar", "assume"), when=one_of("algorithm", "rows", "shift", "blocks")),
        ACC, ALIAS, INDEX, THREADS,
    ),
    "gather": (
        ORDER,
        Decision("algorithm", ("memcpy", "loop"), one_of("order", "rows")),
        SIMD._replace(when=one_of("algorithm", "loop")),
        LANES, UNROLL._replace(when=one_of("simd", "vec")),
        TAIL._replace(options=("scalar", "overlap", "assume"), when=one_of("simd", "vec")),
        Decision("prefetch", ("none", "1", "4", "16"), one_of("order", "rows")),
        ALIAS, INDEX, THREADS,
    ),
    "pool": (
        Decision("algorithm", ("direct", "separable", "padded")),
        BORDER, WINDOW,
        Decision("order", ("taps", "windows"), one_of("algorithm", "separable", "padded")),
        SIMD._replace(options=("auto", "omp"), when=one_of("algorithm", "separable", "padded")),
        Decision("scratch", SCRATCH, one_of("algorithm", "separable", "padded")),
        ALIAS,
    ),
    "matmul": (
        *GEMM,
        Decision("fusion", ("pass", "8", "32", "128"), trait="epilogue"),
        SIMD._replace(when=lambda taken: not is_blocked(taken)),
        LANES, TAIL, Decision("scratch", SCRATCH, one_of("gemm", "block")),
        MATH, ACC._replace(when=one_of("gemm", "dot")), ALIAS, THREADS._replace(trait="batched"),
    ),
    "attention": (
        Decision("algorithm", ("full", "rows", "online")),
        Decision("rows", ("1", "8", "32", "64"), one_of("algorithm", "rows", "online")),
        Decision("span", ("16", "64", "128"), one_of("algorithm", "online")),
        *GEMM, SIMD, LANES, UNROLL, TAIL, Decision("scratch", SCRATCH), MATH, ALIAS,
    ),
    "conv": (
        Decision("algorithm", ("direct", "shift", "im2col", "block")),
        GEMM[0]._replace(when=one_of("algorithm", "im2col")),
        *GEMM[1:],
        Decision("pack", ("none", "w"), one_of("algorithm", "block")),
        SIMD._replace(options=("auto", "omp"), when=lambda taken: not is_blocked(taken)),
        LANES, TAIL,
        Decision("scratch", SCRATCH, one_of("algorithm", "im2col", "block")),
        BORDER._replace(options=("clip", "assume")), WINDOW, ACC._replace(when=one_of("algorithm", "direct")), MATH, ALIAS, THREADS,
    ),
}  # fmt: skip
