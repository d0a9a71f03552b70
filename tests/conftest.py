"""What all tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A shared machine is noisy: a slow example is no fault, nor is slow making of one. CI looks at more of them.
for _name, _examples in {"quick": 100, "thorough": 400}.items():
    settings.register_profile(
        _name, deadline=None, max_examples=_examples, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# What a shell starts in the background ignores interrupts, below nohup also hang-ups, and so would every program that
# a test sends them to.
for _signal, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _usual)


@pytest.fixture(scope="session", autouse=True)
def _no_spool_at_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What no collector takes in a test, also in a process it starts, is not left in the user's home."""
    os.environ["AGENTPROF_SPOOL"] = str(tmp_path_factory.mktemp("spool"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real inputs beside the repository; tests that need it are skipped without it."""
    folder = Path(__file__).parents[1].parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"real inputs are not there: {folder.name} beside the repository")
    return folder
