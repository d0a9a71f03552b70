"""What answers requests, of the API as of pages: whatever happens, there is an answer that says what to do."""

from __future__ import annotations

import logging
import traceback

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentprof_collector.api.answers import Refused
from agentprof_collector.errors import AgentprofError, StoreError, TaskAmbiguous, TaskNotFound

_log = logging.getLogger(__name__)


class Endpoint:
    """An application that answers requests; who it is for says how an answer and a refusal look."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self.answer(Request(scope, receive))
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 (who asks is told that it is not their fault)
            response = self.refusal(explained(error))
        await response(scope, receive, send)

    async def answer(self, request: Request) -> Response:
        """The answer to a request; may raise `Refused`, and whatever a store raises."""
        raise NotImplementedError

    def refusal(self, refused: Refused) -> Response:
        """The answer that says why there is no other."""
        raise NotImplementedError


def explained(error: Exception) -> Refused:
    """What to tell a client about an error."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, TaskNotFound):
        return Refused(404, str(error))
    if isinstance(error, TaskAmbiguous):
        return Refused(409, str(error))
    if isinstance(error, StoreError):
        return Refused(503, str(error), headers={"Retry-After": "1"})
    # Its message may hold what was stored: the log says where it was.
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = f"{place[0].filename}:{place[0].lineno}" if place else "unknown"
    _log.error("a request could not be answered: %s at %s", type(error).__name__, where)
    what = str(error) if isinstance(error, AgentprofError) else type(error).__name__
    return Refused(500, f"a mistake of agentprof itself: {what}. The log of the collector says where.")
