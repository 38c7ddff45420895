"""The last words of an engine: the line that says why it died, without what looks like a secret in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.act.unit_log import last_line


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("error: hf_token=abc is not valid", "error: hf_token=*** is not valid"),
        ("Authorization: Bearer abc.def-1", "Authorization: Bearer ***"),
        ("invalid token hf_abcdefghijklmnop", "invalid token ***"),
        ("https://user:pw@host/x failed", "https://user:***@host/x failed"),
        ("OPENAI_API_KEY: sk-abcdefghijklmnop", "OPENAI_API_KEY: ***"),
        ("{'password': 'x y'}", "{'password': ***}"),
        ("--api-key word given", "--api-key *** given"),
    ],
)
def test_a_secret_in_an_engines_last_words_is_not_shown(tmp_path: Path, said: str, shown: str) -> None:
    """They go to the controller's page, which asks for no password."""
    log = tmp_path / "base-1.log"
    log.write_text(f"loading\n{said}\n\n")

    assert last_line(log) == shown


@pytest.mark.parametrize(
    "said",
    [
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "max_tokens=4096 is too large",
        "token at position 5: unexpected",
        "[Errno 98] error while attempting to bind on address ('0.0.0.0', 8100): address already in use",
        "ValueError: no tokenizer at /models/x: see https://host:8000/docs",
    ],
)
def test_what_is_no_secret_is_shown_as_it_was_said(tmp_path: Path, said: str) -> None:
    log = tmp_path / "base-1.log"
    log.write_text(said)

    assert last_line(log) == said
