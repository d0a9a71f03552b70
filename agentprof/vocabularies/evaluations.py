"""Names of the GenAI conventions for the verdict of an evaluation, and the words its label is read by.

The event is described in open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-events.md; the words of
labels are not fixed there, these are the usual ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentprof.model import Outcome

RESULT: Final = "gen_ai.evaluation.result"
"""Name of the event."""
LABEL: Final = "gen_ai.evaluation.score.label"
SCORE: Final = "gen_ai.evaluation.score.value"
EVENT_NAME: Final = "event.name"
"""Where the name of an event stood before log records had a field for it."""

VERDICTS: Final[Mapping[str, Outcome]] = {
    "pass": "success",
    "passed": "success",
    "success": "success",
    "succeeded": "success",
    "correct": "success",
    "true": "success",
    "yes": "success",
    "fail": "failure",
    "failed": "failure",
    "failure": "failure",
    "incorrect": "failure",
    "false": "failure",
    "no": "failure",
}
"""Labels in lower case."""
