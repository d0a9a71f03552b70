"""Reads the energy counters of NVIDIA GPUs through the driver's own library.

`nvmlDeviceGetTotalEnergyConsumption` counts millijoules since the driver was loaded, on Volta and newer
(https://docs.nvidia.com/deploy/nvml-api/). The library comes with the driver, and no package is needed to call it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final, Protocol

from agentprof_collector.closing import Closing
from agentprof_collector.errors import AgentprofError

LIBRARY: Final = "libnvidia-ml.so.1"

_OK = 0
_ADVICE: Final = {
    "nvmlInit_v2": "Is the NVIDIA driver loaded, and may this user speak to it?",
    "nvmlDeviceGetTotalEnergyConsumption": "GPUs before Volta, and parts of a GPU (MIG), have no energy counter.",
}


class EnergyCounter(Protocol):
    """Accelerators that count the energy they take."""

    def read_mj(self) -> list[int]:
        """Millijoules of each since some moment in the past that stays the same.

        Raises:
            AgentprofError: they cannot be read now.
        """


class NvmlCounter(Closing):
    """The counters of NVIDIA GPUs, from opening to closing.

    Args:
        gpus: their numbers, as `nvidia-smi` has them; none: all of the machine.

    Raises:
        AgentprofError: there is no driver, no such GPU, or one without a counter; with what to do.
    """

    def __init__(self, gpus: Sequence[int] = ()) -> None:
        try:
            self._library: Any = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise AgentprofError(
                f"{LIBRARY} cannot be loaded ({error}). It comes with the NVIDIA driver: run this on the machine "
                "with the GPUs."
            ) from error
        self._call("nvmlInit_v2")
        try:
            numbers = list(gpus) or range(self._count())
            if not numbers:
                raise AgentprofError("the NVIDIA driver sees no GPU on this machine.")
            self._handles = [self._handle(number) for number in numbers]
            self.read_mj()
        except BaseException:
            self.close()
            raise

    def read_mj(self) -> list[int]:
        """See `EnergyCounter`."""
        return [self._energy(handle) for handle in self._handles]

    def close(self) -> None:
        """Let the library go."""
        self._library.nvmlShutdown()

    def _count(self) -> int:
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return count.value

    def _handle(self, number: int) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(handle), gpu=number)
        return handle

    def _energy(self, handle: ctypes.c_void_p) -> int:
        millijoules = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetTotalEnergyConsumption", handle, ctypes.byref(millijoules))
        return millijoules.value

    def _call(self, name: str, *arguments: Any, gpu: int | None = None) -> None:
        try:
            function = getattr(self._library, name)
        except AttributeError as error:
            raise AgentprofError(f"the NVIDIA driver has no {name}: it is too old.") from error
        status = function(*arguments)
        if status != _OK:
            of = "" if gpu is None else f" of GPU {gpu}"
            advice = _ADVICE.get(name, "")
            raise AgentprofError(f"{name}{of}: {self._said(status)}. {advice}".rstrip())

    def _said(self, status: int) -> str:
        try:
            text = self._library.nvmlErrorString
        except AttributeError:
            return f"error {status}"
        text.restype = ctypes.c_char_p
        return (text(status) or b"").decode(errors="replace") or f"error {status}"
