"""Fuzz the reading of engines' pages, guided by coverage: no error, no hang, nothing remembered that changes a page.

atheris is not among the project's dependencies (it has wheels for few versions of Python). To run this for a minute:
    .venv/bin/pip install atheris && .venv/bin/python bench/fuzz/parser_fuzz.py
Arguments are libFuzzer's and come after the defaults: `-max_total_time=3600` fuzzes for an hour. A page that breaks
something is left as a file `crash-...` or `timeout-...` in the working directory; give its name to play it again.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

try:
    import atheris
except ImportError:
    print("atheris is not installed: .venv/bin/pip install atheris (CPython 3.11 to 3.13)", file=sys.stderr)
    sys.exit(2)

with atheris.instrument_imports(include=["tidegate.observe"]):
    from tidegate.model.reading import EngineName
    from tidegate.observe.body import body_parser, read_body
    from tidegate.observe.exposition import Exposition
    from tidegate.observe.textformat import Limits, parse

ROOT = Path(__file__).resolve().parents[2]
DEFAULTS = ("-max_total_time=60", "-timeout=10", "-max_len=4096", "-rss_limit_mb=2048", "-print_final_stats=1")
NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
SMALL = Limits(body_bytes=4000, series=40, labels=6, label_length=60)
WORDS = (
    "vllm:num_requests_running", "vllm:prompt_tokens_total", "sglang:num_queue_reqs", "_bucket", "_sum", "_count",
    "_created", 'le=\\"+Inf\\"', 'engine=\\"1\\"', "# TYPE ", "# HELP ", "# EOF", " counter", "NaN", "+Inf", "1e308",
    '\\\\\\"', "\\x0d\\x0a", "# {", "{", '\\"} ', "1_0",
)  # fmt: skip


def one_input(data: bytes) -> None:
    """Pages of one engine, parted by NUL bytes: each must be read as if it were the first."""
    parser, small = body_parser(), body_parser(SMALL)
    for page in data.split(b"\0"):
        alone = _said(parse(page))
        for known in (parser, small):
            fresh = body_parser(known.limits)
            if _said(known.parse(page)) != _said(fresh.parse(page)):
                raise AssertionError("what was remembered changed a page")
        content_type = None if page[:1] == b"#" else "text/plain; version=0.0.4"
        known_reading = read_body(EngineName("engine"), page, NOW, content_type, parser)
        if repr(known_reading) != repr(read_body(EngineName("engine"), page, NOW, content_type)):
            raise AssertionError("what was remembered changed a reading")
        if alone != _said(parse(page)):
            raise AssertionError("a page reads differently each time")


def _said(found: Exposition) -> tuple[object, ...]:
    samples = {name: [(dict(one.labels), repr(one.value)) for one in column] for name, column in found.samples.items()}
    return samples, found.present, found.spoiled, dict(found.skipped), found.last, found.whole


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus, words = Path(folder) / "corpus", Path(folder) / "words"
        corpus.mkdir()
        words.write_text("".join(f'"{word}"\n' for word in WORDS))
        for page in (ROOT / "tests" / "captures").rglob("*.prom"):
            (corpus / f"{page.parent.name}-{page.name}").write_bytes(page.read_bytes()[:4000])
        given = sys.argv[1:]
        pages = [] if any(not one.startswith("-") for one in given) else [str(corpus)]
        atheris.Setup([sys.argv[0], *DEFAULTS, f"-dict={words}", *given, *pages], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
