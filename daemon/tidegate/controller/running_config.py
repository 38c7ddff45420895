"""The running configuration: replaced whole by a good reload, kept by a bad one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

from tidegate.config.settings import Settings
from tidegate.runtime.errors import ConfigError

_log = structlog.get_logger()


class RunningConfig:
    """What is in force. `settings` may change between two reads: read it once for one piece of work."""

    def __init__(self, settings: Settings, read: Callable[[], Settings], now: datetime) -> None:
        self._settings, self._read = settings, read
        self.loaded_at = now
        self.reload_ok = True

    @property
    def settings(self) -> Settings:
        """The configuration in force."""
        return self._settings

    def reload(self, now: datetime) -> bool:
        """Read the file again; False when it is wrong, and then everything stays as it was. For one thread.

        Policies, prices, alert rules and channels take effect at the next tick; targets carry on from where they are.
        Where to listen, the state folder, the database and the intervals are read at the start only.
        """
        try:
            settings = self._read()
        except ConfigError as error:
            self.reload_ok = False
            _log.error("configuration refused, the running one stays", error=str(error))
            return False
        fixed = settings.controller != self._settings.controller
        self._settings, self.loaded_at, self.reload_ok = settings, now, True
        _log.info("configuration reloaded", restart_needed_for="[controller]" if fixed else "")
        return True
