"""The causes of a kernel's latency that profiles report, shared by all backends so that experience transfers between them."""

from __future__ import annotations

CAUSES = {
    "few_cores": "some cores have no work",
    "uneven_work": "some cores have more work than others, or the last wave of blocks is not full",
    "launch": "the fixed cost of launching a kernel, or of several launches",
    "library_start": "the start of the matrix unit and of its library",
    "synchronisation": "barriers and waits between cores, or between the pipes of a core",
    "no_overlap": "copies and computation take turns instead of running at the same time",
    "small_copies": "copies are so small that their fixed cost dominates",
    "unaligned_copies": "copies with rows or addresses that are not aligned",
    "excess_traffic": "more bytes are moved than the operator needs",
    "memory_bandwidth": "the bytes that the operator needs",
    "scalar_work": "scalar accesses and index arithmetic, element by element",
    "vector_work": "elementwise arithmetic on the vector unit",
    "vector_memory": "loads and stores between on-chip memory and the registers of the vector unit",
    "product_on_vector": "a matrix product or convolution on the vector unit instead of the matrix unit",
    "matrix_work": "products on the matrix unit",
    "cross_lane": "reductions and moves across the lanes of a vector",
    "transcendental": "exponentials, logarithms and other functions of that kind",
    "spills": "values that do not fit into registers",
    "step_overhead": "the fixed cost of many short steps",
    "dependent_operations": "operations that wait for the results of others",
}
"""What each cause means, to complete the sentence "the kernel loses time by ..."."""
