"""How a Triton block reads an operand: a masked load, converted to float32."""

from __future__ import annotations

from dataclasses import dataclass

from evokernel.generators.template_search.dialects.blocks import BlockRead


@dataclass(frozen=True)
class MaskedRead(BlockRead):
    """An operand that is loaded under a mask."""

    @property
    def line(self) -> str:
        """The statement that reads it."""
        if self.node.op == "index":
            return f"v_{self.name} = ({self.offset}).to(tl.float32)"
        mask = f", mask={self.mask}, other=0" if self.mask else ""
        at = f"{self.name} + {self.offset}" if self.offset != "0" else self.name
        return f"v_{self.name} = tl.load({at}{mask}).to(tl.float32)"
