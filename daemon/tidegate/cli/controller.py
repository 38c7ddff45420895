"""`tidegate controller`: keep the time series, decide, act, count the cost, raise alerts, serve the status page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def controller(
    config: Annotated[Path, typer.Option("--config", "-c", readable=False, help="The configuration file.")],
) -> None:
    """Run the controller until SIGTERM; SIGHUP reads the file again. Exit 78: the configuration is wrong."""
    from tidegate.config.load import load

    settings = load(config)  # a wrong file is told before any library is missed
    from tidegate.controller.wiring import run
    from tidegate.runtime.clock import clock_from_environment
    from tidegate.runtime.lifecycle import Lifecycle
    from tidegate.runtime.log import configure
    from tidegate.runtime.serve import check_free

    configure(settings.log_level)
    clock = clock_from_environment()
    lifecycle = Lifecycle()
    lifecycle.install()
    # Before the database is touched: a second start by mistake must not end the term of the one that runs.
    check_free(settings.controller.listen.host, settings.controller.listen.port, "controller")
    run(settings, lambda: load(config), clock, lifecycle)
