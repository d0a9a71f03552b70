"""Finds the energy of calls, by what is known best.

Like a price it is found once, where a span is first read, and stored with it: rates that change later change
nothing that is stored.
"""

from __future__ import annotations

from agentprof.config import Config
from agentprof.energy.by_formula import FormulaEnergy
from agentprof.energy.by_rates import RatedEnergy
from agentprof.model import Call, Energy, Span


class CallEnergy:
    """Finds the energy of calls: by the rates of a configuration, else by EcoLogits' formula if it is installed.

    Args:
        config: With the rates.
        formula: Whether the formula may be used; it is imported when a call first needs it.
    """

    def __init__(self, config: Config, *, formula: bool) -> None:
        self._rates = RatedEnergy(config)
        self._formula = FormulaEnergy() if formula else None

    @property
    def has_rates(self) -> bool:
        """Whether the configuration says anything about energy."""
        return self._rates.are_given

    def of(self, span: Span, call: Call) -> Energy | None:
        """The energy of the call of a span; None: unknown.

        A call for which there is an entry of rates that lacks what they apply to has no energy: the user knows
        better than a formula what was meant.
        """
        if self._rates.are_given and self._rates.entry_for(call) is not None:
            return self._rates.of(span, call)
        return None if self._formula is None else self._formula.of(span, call)
