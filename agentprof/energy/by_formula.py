"""Energy of calls of hosted models by EcoLogits' formula, if that package is installed.

The formula (ecologits 0.11.3, `ecologits/impacts/llm.py`) takes output tokens, the measured duration, and the
parameters of the model, which for closed models are a range; the range of its result comes from these and from
the overhead of the data centre, and from nothing else: it assumes 64 requests at once on GPUs of 80 GB. Input
costs nothing in it. https://ecologits.ai/latest/methodology/llm_inference/
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import logging
import math
from typing import Any

from agentprof.energy.busy import last_attempt_ns
from agentprof.model import Call, Energy, Span
from agentprof.pricing.names import look_ups

_UJ_PER_KWH = 3.6e12
_CACHED = 4096

# Names of providers in EcoLogits, by those of the price table.
_PROVIDERS = {
    "anthropic": "anthropic",
    "azure": "openai",
    "cohere": "cohere",
    "google": "google_genai",
    "mistral": "mistralai",
    "openai": "openai",
}

_log = logging.getLogger("agentprof")


class FormulaEnergy:
    """The formula as installed; imported when a call first needs it, which takes some tenths of a second."""

    def __init__(self) -> None:
        self._models: dict[tuple[str | None, str | None], dict[str, Any] | None] = {}
        self._is_there = importlib.util.find_spec("ecologits") is not None
        self._basis = ""

    def of(self, span: Span, call: Call) -> Energy | None:
        """None: not installed, a model or a provider it does not know, or the output is unknown."""
        if not self._is_there or call.usage is None or call.usage.output is None:
            return None
        try:
            return self._of(span, call, call.usage.output)
        except Exception as error:  # noqa: BLE001 (of another version anything may be different)
            self._is_there = False
            _log.warning(
                "energy is not estimated: the installed ecologits cannot be used (%s: %s); known to work is 0.11.3",
                type(error).__name__,
                error,
            )
            return None

    def _of(self, span: Span, call: Call, tokens: int) -> Energy | None:
        inputs = self._inputs(call)
        if inputs is None:
            return None
        formula = importlib.import_module("ecologits.impacts.llm").compute_llm_impacts
        last_ns = last_attempt_ns(span, call)
        latency_s = math.inf if last_ns is None else last_ns / 1e9
        kwh = formula(output_token_count=tokens, request_latency=latency_s, **inputs).energy.value
        return Energy(
            low_uj=math.floor(getattr(kwh, "min", kwh) * _UJ_PER_KWH),
            high_uj=math.ceil(getattr(kwh, "max", kwh) * _UJ_PER_KWH),
            source="ecologits",
            boundary="facility",
            covers="output tokens",
            basis=self._basis,
        )

    def _inputs(self, call: Call) -> dict[str, Any] | None:
        """What the formula wants to know of a model at its provider; None: it does not know them."""
        key = (call.provider, call.model)
        if key not in self._models:
            if len(self._models) >= _CACHED:
                self._models.clear()
            self._models[key] = self._looked_up(call)
        return self._models[key]

    def _looked_up(self, call: Call) -> dict[str, Any] | None:
        names = [
            (_PROVIDERS[who], name)
            for who, name in look_ups(call.provider, call.model or "")
            if who in _PROVIDERS
        ]
        if not names:
            return None
        known = importlib.import_module("ecologits.model_repository").models
        provider, model = next(
            ((who, found) for who, name in names if (found := known.find_model(who, name))), (None, None)
        )
        if model is None:
            return None
        self._basis = f"ecologits {importlib.metadata.version('ecologits')}"
        place = importlib.import_module("ecologits.tracers.utils").PROVIDER_CONFIG_MAP[provider]
        size = model.architecture.parameters
        return {
            "model_active_parameter_count": getattr(size, "active", size),
            "model_total_parameter_count": getattr(size, "total", size),
            "tps": model.deployment.tps if model.deployment else None,
            "ttft": model.deployment.ttft if model.deployment else None,
            "datacenter_pue": place.datacenter_pue,
            # Of these only the footprint of the energy depends, which is not asked for.
            "datacenter_wue": 0.0,
            "if_electricity_mix_adpe": 0.0,
            "if_electricity_mix_pe": 0.0,
            "if_electricity_mix_gwp": 0.0,
            "if_electricity_mix_wue": 0.0,
        }
