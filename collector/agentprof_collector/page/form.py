"""Proof that the form of an outcome comes from a page of this collector, and not from another site.

A page of another site can make a browser send a form here, but cannot read ours: it does not know the text
that stands in it. The key is made anew with each process, so that a form from before a restart is refused
once, and works after the page was loaded again.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

_KEY = secrets.token_bytes(32)


def proof(task_id: str) -> str:
    """The text that stands in the form of a task."""
    return hmac.new(_KEY, task_id.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def is_proof(task_id: str, text: str) -> bool:
    """Whether a form is of ours, in a time that does not depend on how much of it is right."""
    return hmac.compare_digest(proof(task_id).encode(), text.encode("utf-8", "replace"))
