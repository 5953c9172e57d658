"""Rows of a table, selected by index."""

from __future__ import annotations

from evokernel.generators.template_search.dialects.cuda.common_decisions import THREADS, VECTOR
from evokernel.generators.template_search.dialects.descriptions import describe_table_rows
from evokernel.generators.template_search.kernel_template import KernelTemplate

template = KernelTemplate(decisions=(THREADS, VECTOR), describe=describe_table_rows)
