"""Find the files that travel with the program: migrations, dashboards, units."""

from __future__ import annotations

from pathlib import Path

from tidegate.runtime.errors import Permanent


def share_path(name: str) -> Path:
    """The folder `name` ("alembic", "dashboards", "systemd") of the wheel or of the checkout.

    Raises Permanent when neither has it.
    """
    package = Path(__file__).resolve().parents[1]
    for candidate in (package / "share" / name, package.parents[1] / name):
        if candidate.is_dir():
            return candidate
    raise Permanent(f"the installation has no {name!r} folder; reinstall the tidegate package")
