"""Encoded requests on disk until a receiver takes them: one OTLP protobuf request a file, shared by processes.

The name of a file says all that is needed without opening it:

    <ns since the epoch>-<destination>-<spans>-<bytes>-<pid and number>.pb

The destination is a digest of URL and headers, so that spans never reach a receiver they were not meant for.
Whoever sends a file first renames it (`.claimed-<host>-<pid>` follows the name): only one of several processes
succeeds. Files are never rewritten; a file under its final name is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from agentprof import _guard
from agentprof._counts import counts

MAX_BYTES = 64 * 1024 * 1024
MAX_FILES = 10_000
"""Beyond either bound the oldest files are dropped and counted."""
CLAIM_S = 600.0
"""A claim or an unfinished file this old belongs to nobody: its process is gone, on whatever machine it was."""

_NAME = re.compile(
    r"(?P<stem>(?P<ns>\d{20})-(?P<to>[0-9a-f]{12})-(?P<spans>\d+)-(?P<bytes>\d+)-[0-9a-f]+-\d+\.pb)"
    r"(?:\.claimed-(?P<host>[0-9a-f]{8})-(?P<pid>\d+))?"
)
_UNFINISHED = ".unfinished"

_numbers = itertools.count(1)


def destination(url: str, headers: Mapping[str, str]) -> str:
    """What stands for a receiver in file names; a key in the headers cannot be read back from it."""
    text = "\n".join([url, *(f"{name.lower()}: {value}" for name, value in sorted(headers.items()))])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Claim(NamedTuple):
    """A file this process may send: nobody else has it."""

    path: Path
    stem: str
    spans: int
    size: int

    def read(self) -> bytes | None:
        """Its request; None if the file is damaged or gone."""
        try:
            request = self.path.read_bytes()
        except OSError:
            return None
        return request if len(request) == self.size else None


class _File(NamedTuple):
    name: str
    stem: str
    to: str
    spans: int
    size: int
    claim: tuple[str, int] | None


class Spool:
    """The files of one folder, and those among them that are for one receiver."""

    def __init__(self, folder: Path, to: str) -> None:
        self.folder = folder
        self._to = to
        self._host = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]

    def put(self, request: bytes, spans: int) -> bool:
        """Keep a request; False where the disk does not take it, which is counted and logged once."""
        stem = f"{time.time_ns():020d}-{self._to}-{spans}-{len(request)}-{os.getpid():x}-{next(_numbers)}.pb"
        unfinished = self.folder / (stem + _UNFINISHED)
        try:
            self._make_folder()
            try:
                file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with open(file, "wb") as stream:
                    stream.write(request)
                os.rename(unfinished, self.folder / stem)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(unfinished)
                raise
        except OSError as error:
            reason = error.strerror or type(error).__name__
            _guard.noted("spool", f"agentprof: spans cannot be kept on disk in {self.folder}: {reason}")
            return False
        try:
            self._keep_bounds()
        except OSError:
            _guard.failed("the bounds of the spool")
        return True

    def claim_oldest(self) -> Claim | None:
        """The oldest file for this receiver that nobody else is sending; None: there is none."""
        for file in self._files():
            if file.to != self._to or (file.claim is not None and not self._is_stale(file)):
                continue
            claimed = self.folder / f"{file.stem}.claimed-{self._host}-{os.getpid()}"
            with contextlib.suppress(OSError):  # another process was quicker, or has delivered it
                os.utime(self.folder / file.name)
                os.rename(self.folder / file.name, claimed)
                return Claim(claimed, file.stem, file.spans, file.size)
        return None

    def release(self, claim: Claim) -> None:
        """Put a file back: it could not be sent now."""
        with contextlib.suppress(OSError):
            os.rename(claim.path, self.folder / claim.stem)

    def remove(self, claim: Claim) -> None:
        """The file has been sent, or cannot be."""
        with contextlib.suppress(OSError):
            os.unlink(claim.path)

    def _make_folder(self) -> None:
        if self.folder.is_dir():
            status = self.folder.stat()
            # Whoever may write here could have our spans sent elsewhere, or theirs sent in our name.
            if hasattr(os, "getuid") and status.st_uid != os.getuid():
                raise PermissionError(0, "the folder belongs to another user")
            return
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def _files(self) -> list[_File]:
        """All files, oldest first; what is not ours by its name is left alone."""
        try:
            names = os.listdir(self.folder)
        except OSError:
            return []
        files = []
        for name in names:
            found = _NAME.fullmatch(name)
            if found is not None:
                claim = (found["host"], int(found["pid"])) if found["pid"] else None
                files.append(
                    _File(name, found["stem"], found["to"], int(found["spans"]), int(found["bytes"]), claim)
                )
            elif name.endswith(_UNFINISHED) and _NAME.fullmatch(name.removesuffix(_UNFINISHED)):
                self._sweep(name)
        return sorted(files, key=lambda file: file.stem)

    def _sweep(self, name: str) -> None:
        """Remove what a process that is gone has not finished."""
        with contextlib.suppress(OSError):
            if self._age_s(name) > CLAIM_S:
                os.unlink(self.folder / name)

    def _age_s(self, name: str) -> float:
        return time.time() - (self.folder / name).stat().st_mtime

    def _is_stale(self, file: _File) -> bool:
        """Whether a claim belongs to a process that is gone."""
        if file.claim is None:
            return True
        host, pid = file.claim
        if host == self._host and os.name == "posix":
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True
            except OSError:
                pass  # it exists, and belongs to another user
        try:
            return self._age_s(file.name) > CLAIM_S
        except OSError:
            return False

    def _keep_bounds(self) -> None:
        files = self._files()
        size = sum(file.size for file in files)
        surplus = len(files)
        for file in files:
            if size <= MAX_BYTES and surplus <= MAX_FILES:
                return
            if file.claim is not None and not self._is_stale(file):
                continue
            try:
                os.unlink(self.folder / file.name)
            except FileNotFoundError:
                pass  # delivered or dropped by another process meanwhile
            else:
                counts.add(discarded=file.spans)
                _guard.noted("full spool", f"agentprof: {self.folder} is full, the oldest spans are dropped")
            size -= file.size
            surplus -= 1
