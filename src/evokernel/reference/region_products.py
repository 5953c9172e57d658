"""Rows of one large product that several boxes need, computed together: the second operand is read and widened once, not once per box.

Others are computed one by one: where the first operand takes long, as after attention, a convolution or many products, the results that
one row uses again and again would leave the cache when rows take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from evokernel.reference.region_boxes import Range, count_elements, make_full_box, measure_box
from evokernel.reference.region_evaluator import CACHE_SHARE, CACHED_OPS, RESULT_SHARE, Evaluator, Pair
from evokernel.reference.region_graph import Demand, Node, Plan
from evokernel.reference.region_reductions import make_product_plan

PRODUCT_OPS = frozenset({"mm", "bmm"})
MIN_SECOND_ELEMENTS = 1 << 20
"""Elements of the second operand below which boxes are computed one by one."""
MAX_ROWS = 64
"""Rows of a box above which multiplying takes longer than reading and widening the second operand."""
MAX_EARLIER_PRODUCTS, MAX_NODES = 4, 1000
"""Products that a first operand may need itself, and operators of a reference that is searched: unrolled recurrent networks have long
chains of products, and the search would take longer than it saves."""
ROWS_SHARE = CACHE_SHARE / 2
"""The share of the memory limit that the rows of one operator may take."""


class Product(NamedTuple):
    """Boxes of one product with different rows and the same second operand, and the plan that computes them as one matrix."""

    demands: tuple[Demand, ...]
    plan: Plan


def compute_products(evaluator: Evaluator, goals: Sequence[Demand]) -> None:
    """Compute the rows of large products that several goals need, and store them for the evaluation of the goals."""
    if len(evaluator.graph.nodes) > MAX_NODES:
        return
    for product in reversed(ProductSearch(evaluator).find_products(goals)):
        heights = [measure_box(demand.box)[-2] for demand in product.demands]
        own, wide = (one.split(heights, -2) for one in evaluator.reduce_in_chunks(product.plan))
        for demand, *rows in zip(product.demands, own, wide, strict=True):
            evaluator.store_result(demand, Pair(*(one.clone() for one in rows)))


class ProductSearch:
    """Finds the products among the operators that some goals need."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator, self.graph = evaluator, evaluator.graph
        self.slow_nodes = self.find_users(lambda node: node.base_name in CACHED_OPS)
        self.is_fast = cache(self.check_fast)

    def find_users(self, is_member: Callable[[Node], bool]) -> set[int]:
        """Return the operators of a kind and all that depend on them."""
        users: set[int] = set()
        for node in self.graph.nodes:
            if is_member(node) or any(ref.node in users for ref in node.refs):
                users.add(node.index)
        return users

    def find_products(self, goals: Iterable[Demand]) -> list[Product]:
        """Return the products whose rows are computed together, each before those that its operands need.

        Operators are visited from the last to the first, so that all boxes of one are known when it is planned.
        """
        waiting: dict[int, dict[Demand, None]] = {index: {} for index in self.find_users(self.is_large_product)}

        def add(demands: Iterable[Demand]) -> None:
            for demand in demands:
                if demand.ref.node in waiting:
                    waiting[demand.ref.node][demand] = None

        add(goals)
        products: list[Product] = []
        for index in sorted(waiting, reverse=True):
            node, single_demands = self.graph.nodes[index], waiting[index]
            for product in self.join_rows(node, single_demands) if self.is_large_product(node) else ():
                products.append(product)
                for demand in product.demands:
                    del single_demands[demand]
                assert product.plan.split is not None
                for chunk in product.plan.split(self.evaluator.choose_chunk(product.plan)):
                    add(chunk)
            for demand in single_demands:
                add(self.evaluator.list_demands(demand))
        return products

    def is_large_product(self, node: Node) -> bool:
        """Whether an operator is a product of matrices with a large second operand."""
        return node.base_name in PRODUCT_OPS and count_elements(make_full_box(self.graph.shape_of(node.refs[1]))) >= MIN_SECOND_ELEMENTS

    def join_rows(self, node: Node, demands: Iterable[Demand]) -> list[Product]:
        """Join the boxes of a product that need the same large part of its second operand, unless they are stored already."""
        room = self.evaluator.max_bytes * ROWS_SHARE
        groups: dict[Demand, list[Demand]] = {}
        for demand in demands:
            plan, size = self.evaluator.make_step(demand).plan, self.evaluator.estimate_bytes(demand)
            if plan is None or not has_few_rows(demand) or size > min(room, self.evaluator.max_bytes * RESULT_SHARE):
                continue
            first, second = plan.demands
            if count_elements(second.box) >= MIN_SECOND_ELEMENTS and self.is_fast(first):
                groups.setdefault(second, []).append(demand)
                room -= size
        return [Product(tuple(group), plan_rows(node, group, second)) for second, group in groups.items() if len(group) > 1]

    def check_fast(self, demand: Demand) -> bool:
        """Whether a first operand needs few products, all of few rows, and no convolution."""
        visited, products = {demand}, set[int]()
        todo = [demand]
        while todo:
            demand = todo.pop()
            node = self.graph.nodes[demand.ref.node]
            if node.base_name in CACHED_OPS:
                products.add(node.index)
                if node.base_name not in PRODUCT_OPS or not has_few_rows(demand) or len(products) > MAX_EARLIER_PRODUCTS:
                    return False
            others = {one for one in self.evaluator.list_demands(demand) if one.ref.node in self.slow_nodes} - visited
            visited |= others
            todo += others
        return True


def has_few_rows(demand: Demand) -> bool:
    """Whether a box of a product has few rows."""
    return count_elements(demand.box[:-1]) <= MAX_ROWS


def plan_rows(node: Node, demands: Sequence[Demand], second: Demand) -> Plan:
    """Plan boxes of a product as one matrix: the rows of their first operands, one box below the other, times the second operand."""
    *batch, (_, depth), columns = second.box

    def demand(inner: Range) -> tuple[Demand, ...]:
        return (*(Demand(node.refs[0], (*one.box[:-1], inner)) for one in demands), Demand(second.ref, (*batch, inner, columns)))

    height = sum(measure_box(one.box)[-2] for one in demands)
    return make_product_plan(node, measure_box((*batch, (0, height), columns)), depth, demand)
