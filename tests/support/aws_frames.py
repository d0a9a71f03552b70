"""Frames of the event streams of AWS, as Bedrock sends them."""

from __future__ import annotations

import base64
import json
import struct
import zlib


def frame(payload: bytes, **headers: str) -> bytes:
    """One frame; `_` in names of headers stands for `-`, and a colon comes before them."""
    packed = b""
    for name, value in headers.items():
        key, text = f":{name.replace('_', '-')}".encode(), value.encode()
        packed += bytes([len(key)]) + key + b"\x07" + struct.pack(">H", len(text)) + text
    prelude = struct.pack(">II", 12 + len(packed) + len(payload) + 4, len(packed))
    prelude += struct.pack(">I", zlib.crc32(prelude))
    whole = prelude + packed + payload
    return whole + struct.pack(">I", zlib.crc32(whole))


def chunk(event: bytes) -> bytes:
    """An event of a model, wrapped as InvokeModelWithResponseStream does it."""
    payload = json.dumps({"bytes": base64.b64encode(event).decode(), "p": "abcdef"}).encode()
    return frame(payload, event_type="chunk", content_type="application/json", message_type="event")


def exception(kind: str) -> bytes:
    """The end of a stream by an error."""
    return frame(b'{"message": "no more"}', exception_type=kind, message_type="exception")
