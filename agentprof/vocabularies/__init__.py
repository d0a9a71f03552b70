"""Reads any span vocabulary into a `Span`: the tables in order, and the one function that reads them.

A vocabulary is a table: which attribute holds which field, and which attribute value means which kind of
span. Attribute names of different vocabularies do not clash, so all tables are merged once: for a field the
first table that has a value wins, for the kind the first rule that matches.
"""

from __future__ import annotations

from agentprof.vocabularies._normalise import normalise
from agentprof.vocabularies._reading import is_read
from agentprof.vocabularies._table import VOCABULARIES
from agentprof.vocabularies.shape import KindRule, Vocabulary

__all__ = ["VOCABULARIES", "KindRule", "Vocabulary", "is_read", "normalise"]
