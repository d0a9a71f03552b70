"""The shape of a vocabulary, the list of them, and their merged form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from agentprof.model import SpanKind
from agentprof.vocabularies.agentprof_own import AGENTPROF
from agentprof.vocabularies.anthropic_sdk import ANTHROPIC_SDK
from agentprof.vocabularies.engines import SGLANG, VLLM
from agentprof.vocabularies.langfuse import LANGFUSE
from agentprof.vocabularies.mcp import MCP
from agentprof.vocabularies.openinference import OPENINFERENCE
from agentprof.vocabularies.openllmetry import OPENLLMETRY
from agentprof.vocabularies.otel_genai import OTEL_GENAI
from agentprof.vocabularies.raaf import RAAF
from agentprof.vocabularies.shape import KindRule, Vocabulary
from agentprof.vocabularies.vercel import VERCEL

# Own names first: what agentprof measured beats what another instrumentation of the same span says.
# Then by how explicit the kind is: OpenInference and OpenLLMetry name it in every span, GenAI names an
# operation; an engine's spans have only latencies. Langfuse's names stand on spans of any other tool.
VOCABULARIES: tuple[Vocabulary, ...] = (
    AGENTPROF,
    OPENINFERENCE,
    OPENLLMETRY,
    OTEL_GENAI,
    ANTHROPIC_SDK,
    MCP,
    VLLM,
    SGLANG,
    RAAF,
    VERCEL,
    LANGFUSE,
)


class Place(NamedTuple):
    """Where an attribute's value goes, and how early its table and name stand (lower wins)."""

    field: str
    rank: int


class Merged(msgspec.Struct, frozen=True):
    """All vocabularies as one look-up."""

    places: Mapping[str, Place]
    kind_rules: tuple[KindRule, ...]
    has_rules: tuple[tuple[str, SpanKind], ...]

    @property
    def names(self) -> frozenset[str]:
        """All attributes the vocabularies ask for."""
        by_rule = {rule.attribute for rule in self.kind_rules} | {name for name, _ in self.has_rules}
        return frozenset(self.places) | by_rule


def merge(vocabularies: tuple[Vocabulary, ...]) -> Merged:
    """The one look-up made of the tables, in their order."""
    places: dict[str, Place] = {}
    rank = 0
    for vocabulary in vocabularies:
        for field, names in vocabulary.fields.items():
            for name in names:
                rank += 1
                places.setdefault(name, Place(field, rank))
    return Merged(
        places=places,
        kind_rules=tuple(rule for vocabulary in vocabularies for rule in vocabulary.kinds),
        has_rules=tuple(rule for vocabulary in vocabularies for rule in vocabulary.kind_by_presence),
    )


MERGED = merge(VOCABULARIES)
