"""Evaluates boxes of the values of a graph: plans them by demand, then computes them in order and frees each after its last use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import torch

from evokernel.reference import region_reductions, region_rules, region_views, region_windows
from evokernel.reference.float64_reference import NARROW, widen_tensor
from evokernel.reference.region_boxes import Box, count_elements, halve_box, measure_box
from evokernel.reference.region_graph import Demand, Graph, Node, Plan, RandomForwardError, Ref, RegionError
from evokernel.reference.region_rules import find_rule, plan_whole

RULE_MODULES = (region_rules, region_views, region_reductions, region_windows)
"""Importing them registers their rules."""
WIDE_BYTES = 8
CHUNK_SHARE, RESULT_SHARE, CACHE_SHARE, SCHEDULE_SHARE = 1 / 32, 1 / 16, 1 / 4, 1 / 2
"""Shares of the memory limit: operands of one chunk of a reduction, the largest result that is cached, all that are cached, boxes that
exist at one time."""
MIN_CHUNK, MAX_GROWTH = 1024, 8
"""Elements of the smallest chunk; a box whose operands are this many times larger is cut in two if they are large."""
CACHED_OPS = frozenset({"mm", "bmm", "convolution"})
"""Operators whose results are cached besides those of reductions: computing them again takes longest."""


class Pair(NamedTuple):
    """A box of a value in the reference's own precision, and in float64; integers and booleans may share one tensor."""

    own: torch.Tensor
    wide: torch.Tensor

    @property
    def nbytes(self) -> int:
        """The memory of both tensors."""
        return int(self.own.nbytes + (0 if self.own is self.wide else self.wide.nbytes))


@dataclass(eq=False, slots=True)
class Step:
    """One box to compute."""

    demand: Demand
    plan: Plan | None
    value: Pair | None
    """Set in advance if the box is cached or empty."""
    is_cut: bool = False
    """Whether the box is computed in two halves, because it needs too much memory at once."""


class Evaluator:
    """Computes boxes of the values of one graph within a memory limit.

    `read_argument` returns a box of an argument. `draw` computes a box of random numbers for a node; without it, they are refused.
    With it, everything is computed in float64 only, so that the rounded result does not depend on the box.
    """

    def __init__(
        self,
        graph: Graph,
        max_bytes: int,
        read_argument: Callable[[int, Box], Pair],
        draw: Callable[[Node, Box], torch.Tensor] | None = None,
    ) -> None:
        self.graph, self.max_bytes, self.read_argument, self.draw = graph, max_bytes, read_argument, draw
        self.cache: OrderedDict[Demand, Pair] = OrderedDict()
        self.cached_bytes = 0

    def evaluate(self, ref: Ref, box: Box) -> Pair:
        """Compute a box. A box that needs too much memory at once is cut in two."""
        schedule = self.schedule(Demand(ref, box))
        if self.estimate_peak(schedule) > self.max_bytes * SCHEDULE_SHARE and count_elements(box) > 1:
            del schedule
            return self.evaluate_halves(ref, box)
        return self.execute(schedule)

    def evaluate_halves(self, ref: Ref, box: Box) -> Pair:
        """Compute a box in two halves."""
        parts = halve_box(box)
        results = [self.evaluate(ref, part) for part in parts]
        axis = next(i for i, (one, other) in enumerate(zip(*parts)) if one != other)
        own = torch.cat([one.own for one in results], axis)
        return Pair(own, own if results[0].own is results[0].wide else torch.cat([one.wide for one in results], axis))

    def find_arguments(self, ref: Ref, box: Box) -> dict[int, list[Box]]:
        """Return the boxes of arguments that a box depends on."""
        needed: dict[int, set[Box]] = {}
        visited = {Demand(ref, box)}
        todo = list(visited)
        while todo:
            demand = todo.pop()
            node = self.graph.nodes[demand.ref.node]
            if node.op is None:
                needed.setdefault(node.argument, set()).add(demand.box)
                continue
            for other in self.make_plan(demand).demands:
                if other not in visited and count_elements(other.box):
                    visited.add(other)
                    todo.append(other)
        return {argument: list(boxes) for argument, boxes in sorted(needed.items())}

    def check_memory(self, ref: Ref, box: Box) -> None:
        """Raise RegionError if a box cannot be computed within the memory limit; computes nothing but indices."""
        visited = {Demand(ref, box)}
        todo = list(visited)
        while todo:
            step = self.make_step(todo.pop())
            if step.plan is None:
                continue
            demands = step.plan.demands
            if step.is_cut:
                demands = (Demand(step.demand.ref, tuple((start, start + 1) for start, _ in step.demand.box)),)
            elif step.plan.split and self.is_chunked(step.plan):
                demands = next(step.plan.split(MIN_CHUNK))
            todo += [one for one in demands if one not in visited]
            visited.update(demands)

    def list_demands(self, demand: Demand) -> Iterator[Demand]:
        """Yield the boxes that a box is computed from, in halves or chunks if it is computed so; computes nothing but indices."""
        step = self.make_step(demand)
        if step.is_cut:
            yield from chain.from_iterable(self.list_demands(Demand(demand.ref, half)) for half in halve_box(demand.box))
        elif step.plan is not None and step.plan.split is not None and self.is_chunked(step.plan):
            yield from chain.from_iterable(step.plan.split(self.choose_chunk(step.plan)))
        elif step.plan is not None:
            yield from step.plan.demands

    def make_plan(self, demand: Demand) -> Plan:
        """Plan one box by the rule of its operator."""
        node, box = self.graph.nodes[demand.ref.node], demand.box
        if torch.Tag.nondeterministic_seeded in node.op.tags:
            draw = self.draw
            if draw is None:
                raise RandomForwardError(f"{node.name}: the reference draws random numbers")
            return Plan((), lambda _, is_wide: draw(node, box))
        plan = find_rule(node)(self, node, demand.ref.result, box)
        return plan_whole(self, node, demand.ref.result, box) if plan is None else plan

    def schedule(self, goal: Demand) -> list[Step]:
        """Return all boxes that a box needs, each after its operands."""
        steps: dict[Demand, Step] = {}
        order: list[Step] = []
        stack: list[tuple[Demand, bool]] = [(goal, False)]
        while stack:
            demand, is_ready = stack.pop()
            if is_ready:
                order.append(steps[demand])
            elif demand not in steps:
                steps[demand] = step = self.make_step(demand)
                stack.append((demand, True))
                stack += [(other, False) for other in self.operands(step) if other not in steps]
        return order

    def make_step(self, demand: Demand) -> Step:
        """Plan one box, unless it is known already."""
        if demand in self.cache:
            self.cache.move_to_end(demand)
            return Step(demand, None, self.cache[demand])
        if not count_elements(demand.box):
            dtype = self.graph.dtype_of(demand.ref)
            own = torch.empty(measure_box(demand.box), dtype=dtype)
            return Step(demand, None, Pair(own, own.double() if dtype in NARROW else own))
        if self.graph.nodes[demand.ref.node].op is None:
            return Step(demand, None, None)
        plan = self.make_plan(demand)
        size = self.estimate_operands(plan)
        if size <= max(self.max_bytes * SCHEDULE_SHARE / 4, MAX_GROWTH * self.estimate_bytes(demand)):
            return Step(demand, plan, None)
        is_cut = (
            count_elements(demand.box) > 1 and self.estimate_operands(self.make_plan(Demand(demand.ref, halve_box(demand.box)[0]))) < size
        )
        if size > self.max_bytes and not is_cut:
            raise RegionError(f"{self.graph.nodes[demand.ref.node].name} needs {size / 2**30:.1f} GiB at once")
        return Step(demand, plan, None, is_cut)

    def estimate_operands(self, plan: Plan) -> int:
        """Return the memory of the boxes that must exist to apply a plan; zero if it is computed in chunks."""
        return 0 if self.is_chunked(plan) else sum(map(self.estimate_bytes, plan.demands))

    def is_chunked(self, plan: Plan) -> bool:
        """Whether a plan is a reduction that is computed in chunks."""
        return plan.split is not None and sum(map(self.estimate_bytes, plan.demands)) > self.max_bytes * CHUNK_SHARE

    def estimate_bytes(self, demand: Demand) -> int:
        """Return the memory of a box in both precisions."""
        dtype = self.graph.dtype_of(demand.ref)
        return count_elements(demand.box) * int(dtype.itemsize + (WIDE_BYTES if dtype in NARROW else 0))

    def estimate_peak(self, steps: Sequence[Step]) -> int:
        """Return the memory of the boxes that exist at one time while a schedule is executed."""
        last_use = {one: i for i, step in enumerate(steps) for one in self.operands(step)}
        freed: dict[int, int] = {}
        live = peak = 0
        for i, step in enumerate(steps):
            size = self.estimate_bytes(step.demand)
            live += size
            peak = max(peak, live)
            freed[last_use.get(step.demand, len(steps))] = freed.get(last_use.get(step.demand, len(steps)), 0) + size
            live -= freed.pop(i, 0)
        return peak

    def operands(self, step: Step) -> tuple[Demand, ...]:
        """Return the boxes that must exist before a step."""
        return () if step.plan is None or step.is_cut or self.is_chunked(step.plan) else step.plan.demands

    def execute(self, steps: Sequence[Step]) -> Pair:
        """Compute the boxes of a schedule in order; return the last."""
        uses: dict[Demand, int] = {}
        for one in chain.from_iterable(map(self.operands, steps)):
            uses[one] = uses.get(one, 0) + 1
        values: dict[Demand, Pair] = {}
        for step in steps:
            values[step.demand] = self.compute_step(step, values)
            for one in self.operands(step):
                uses[one] -= 1
                if not uses[one]:
                    del values[one]
        return values[steps[-1].demand]

    def compute_step(self, step: Step, values: dict[Demand, Pair]) -> Pair:
        """Compute one box."""
        if step.value is not None:
            return step.value
        node = self.graph.nodes[step.demand.ref.node]
        if step.plan is None:
            return self.read_argument(node.argument, step.demand.box)
        if step.is_cut:
            pair = self.evaluate_halves(*step.demand)
        elif self.is_chunked(step.plan):
            pair = self.reduce_in_chunks(step.plan)
        else:
            pair = self.apply_plan(step.plan, [values[one] for one in step.plan.demands])
        if step.plan.split is not None or node.base_name in CACHED_OPS:
            self.store_result(step.demand, pair)
        return pair

    def apply_plan(self, plan: Plan, operands: Sequence[Pair]) -> Pair:
        """Apply a plan in both precisions."""
        if self.draw is not None:
            only = widen_tensor(plan.apply([pair.wide for pair in operands], True))
            return Pair(only, only)
        own = plan.apply([pair.own for pair in operands], False)
        if own.dtype not in NARROW and all(pair.own is pair.wide for pair in operands):
            return Pair(own, own)
        return Pair(own, plan.apply([pair.wide for pair in operands], True))

    def reduce_in_chunks(self, plan: Plan) -> Pair:
        """Compute a long reduction chunk by chunk."""
        assert plan.split is not None
        assert plan.make_reducer is not None
        own, wide = plan.make_reducer(False), plan.make_reducer(True)
        for demands in plan.split(self.choose_chunk(plan)):
            pairs = [self.evaluate(*demand) for demand in demands]
            boxes = [demand.box for demand in demands]
            if self.draw is None:
                own.add(boxes, [pair.own for pair in pairs])
            wide.add(boxes, [pair.wide for pair in pairs])
        result = wide.finish()
        return Pair(own.finish() if self.draw is None else result, result)

    def choose_chunk(self, plan: Plan) -> int:
        """Return the elements of one chunk of a long reduction."""
        element_bytes = max(self.estimate_bytes(one) / count_elements(one.box) for one in plan.demands)
        limit = max(MIN_CHUNK, int(self.max_bytes * CHUNK_SHARE / element_bytes))
        while limit > MIN_CHUNK and self.estimate_chunk(plan, limit) > self.max_bytes * SCHEDULE_SHARE:
            limit //= 2
        return limit

    def estimate_chunk(self, plan: Plan, limit: int) -> int:
        """Return the memory that the first chunk of a reduction needs."""
        assert plan.split is not None
        return sum(self.estimate_peak(self.schedule(demand)) for demand in next(plan.split(limit)))

    def store_result(self, demand: Demand, pair: Pair) -> None:
        """Keep a result for other boxes; the least recently used ones give way."""
        if demand in self.cache or pair.nbytes > self.max_bytes * RESULT_SHARE:
            return
        self.cache[demand] = pair
        self.cached_bytes += pair.nbytes
        while self.cached_bytes > self.max_bytes * CACHE_SHARE:
            self.cached_bytes -= self.cache.popitem(last=False)[1].nbytes
