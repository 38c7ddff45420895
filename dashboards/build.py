"""Write the Grafana boards from Python; `--check` fails when the files are not what would be written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import billed
import overview

BOARDS = Path(__file__).resolve().parent / "boards"


def rendered() -> dict[Path, str]:
    """Every board file and its text."""
    boards = {"billed-cost.json": billed.board(), "fleet-overview.json": overview.board()}
    return {BOARDS / name: json.dumps(board, indent=2, ensure_ascii=False) + "\n" for name, board in boards.items()}


def main() -> int:
    """Write or check; exit 1 when a file is not current."""
    files = rendered()
    if "--check" not in sys.argv[1:]:
        for path, text in files.items():
            path.write_text(text)
            print(path.name)
        return 0
    stale = [path.name for path, text in files.items() if not path.is_file() or path.read_text() != text]
    stale += sorted(path.name for path in BOARDS.glob("*.json") if path not in files)
    if stale:
        print(f"not current: {', '.join(stale)}; run `make dashboards`")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
