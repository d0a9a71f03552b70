"""Finds what prices spans in this process, late: price tables and configuration take long to load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentprof import _guard

if TYPE_CHECKING:
    from agentprof.config import Config
    from agentprof.pricing import Pricer


class Prices:
    """What prices spans in this process; found when it is first needed, on a thread nobody waits for."""

    def __init__(self, config: str | None) -> None:
        """Args:
        config: Path of an agentprof.yaml.
        """
        self._path = config
        self._config: Config | None = None
        self._pricer: Pricer | None = None
        self._is_known = False

    def __call__(self, in_haste: bool) -> Pricer | None:
        """The pricer; None: nothing here has prices, and whoever receives the spans prices them.

        Args:
            in_haste: The program is waiting. A price table that is not loaded yet is then left to the receiver,
                which has one; but only this process knows its agentprof.yaml.
        """
        if self._is_known:
            return self._pricer
        from agentprof.config import Config, ConfigError, load_config

        if self._config is None:
            try:
                self._config = load_config(self._path)
            except ConfigError as error:
                _guard.noted("configuration", f"agentprof: {error}; going on without it")
                self._config = Config()
        has_own = self._config != Config()
        if in_haste and not has_own:
            return None
        from agentprof.pricing import Pricer

        pricer = Pricer(self._config, formula=False)
        self._is_known = True
        if pricer.table_version is not None or has_own:
            self._pricer = pricer
        return self._pricer
