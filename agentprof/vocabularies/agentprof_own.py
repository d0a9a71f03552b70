"""Spans that agentprof wrote itself. Task marks, phases and attempts are read in `own.py`."""

from __future__ import annotations

from agentprof import attributes as a
from agentprof.vocabularies.shape import Vocabulary

AGENTPROF = Vocabulary(
    name="agentprof",
    fields={
        "step_name": (a.STEP_NAME,),
        "request_id": (a.REQUEST_ID,),
        "cache_write_1h": (a.CACHE_WRITE_1H_TOKENS,),
    },
    kind_by_presence=((a.HUMAN, "human"), (a.STEP_NAME, "step")),
)
