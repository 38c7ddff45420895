"""`tidegate engine read` on files, standard input and an address."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidegate.cli.engine import app
from tidegate.model.figures import Figure
from tidegate.runtime.errors import Permanent

_CAPTURES = Path(__file__).parents[1] / "captures"
_A, _B = str(_CAPTURES / "two-ranks-a.prom"), str(_CAPTURES / "two-ranks-b.prom")


def run(*arguments: str, stdin: bytes | None = None) -> str:
    result = CliRunner().invoke(app, ["read", *arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def data(*arguments: str, stdin: bytes | None = None) -> dict[str, Any]:
    found = json.loads(run(*arguments, "--json", stdin=stdin))
    assert isinstance(found, dict)
    return found


def test_a_pair_as_json() -> None:
    """Every figure by its name, with a value or a reason."""
    found = data(_A, _B, "--interval", "10")

    assert (found["engine"], found["state"], found["model"], found["partial"]) == ("vllm", "ready", "m", False)
    assert found["seconds"] == 10
    assert found["figures"].keys() == {figure.value for figure in Figure}
    assert found["figures"]["prompt_tokens_per_second"] == {"value": 200.0}
    assert found["figures"]["itl_p95"] == {"missing": "not_supported"}
    assert found["figures"]["kv_cache_hit_rate"] == {"value": 0.5, "basis": "tokens"}
    assert found["figures"]["kv_cache_usage"] == {"value": 0.75, "basis": "blocks"}
    assert (found["up"], found["ready"], found["progressing"]) == (True, True, True)
    assert found["problems"] == []


def test_a_pair_is_fifteen_seconds_apart_unless_said() -> None:
    """As two scrapes of the usual interval are."""
    assert data(_A, _B)["figures"]["prompt_tokens_per_second"] == {"value": pytest.approx(2000 / 15)}


def test_a_pair_for_a_person() -> None:
    """With units, and words for what is missing."""
    lines = run(_A, _B, "--interval", "10").splitlines()

    assert lines[:5] == ["engine   vllm", "state    ready", "model    m", "hints    vLLM >= 0.9.2", "window   10 s"]
    assert "kv_cache_hit_rate               50 % of tokens" in lines
    assert "generation_tokens_per_second    50 tokens/s" in lines
    assert "ttft_p95                        0.775 s" in lines
    not_exported = lines[lines.index("missing: not_supported (the engine does not export it)") :]
    assert "itl_p95" in " ".join(not_exported)


def test_what_is_missing_for_one_reason_is_told_once() -> None:
    """A page that cannot be used leaves nothing to say figure by figure."""
    text = run("-", stdin=b"<!doctype html>")

    assert text.count("malformed (the body cannot be used, see the problems)") == 1
    assert "queue_depth, running" in text
    assert len(text.splitlines()) < 25


def test_one_page_from_standard_input() -> None:
    """Gauges are there, rates need a second page."""
    found = data("-", stdin=Path(_B).read_bytes())

    assert found["figures"]["running"] == {"value": 8.0}
    assert found["figures"]["finished"] == {"missing": "one_scrape"}
    assert found["seconds"] is None


def test_a_page_that_stands_still_is_stalled() -> None:
    """The same page twice, with requests in it."""
    found = data(_A, _A)

    assert (found["state"], found["up"], found["ready"], found["progressing"]) == ("stalled", True, False, False)
    assert found["figures"]["running"] == {"missing": "stale"}
    assert "not progressing" in found["problems"][0]


def test_a_page_that_is_no_engines(tmp_path: Path) -> None:
    """It was read, so the exit is 0; what is wrong is said, here of the first page and of the second."""
    page, text = tmp_path / "page.html", tmp_path / "text"
    page.write_text("<html>")
    text.write_text("DCGM_FI_DEV_GPU_UTIL 1\n")

    found = data(str(page), str(text))

    assert (found["engine"], found["state"]) == (None, "unsupported")
    assert {tuple(figure.items()) for figure in found["figures"].values()} == {(("missing", "not_supported"),)}
    assert found["problems"][0].startswith("first body: the body is HTML")
    assert "an exporter of GPU metrics" in found["problems"][1]
    assert "engine   not recognised" in run(str(text))


def test_a_file_that_is_not_there() -> None:
    """One line that says what to give instead."""
    with pytest.raises(Permanent, match=r"cannot read /no/such: No such file or directory; give a file, - for"):
        run("/no/such")


def test_an_address_where_nothing_listens() -> None:
    """So does a refused connection."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Permanent, match=r"^no page to read: .*connection refused"):
        run(f"http://127.0.0.1:{port}/metrics")


@pytest.mark.parametrize(
    "arguments",
    [
        (_A, "--interval", "5"),
        ("-", "-"),
        (_A, _B, "--interval", "0"),
        (_A, _B, "--interval", "nan"),
        (_A, _B, "--interval", "1e300"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    """Exit 2, as for any option that is wrong."""
    assert CliRunner().invoke(app, ["read", *arguments]).exit_code == 2


@pytest.fixture
def address() -> Iterator[str]:
    """A server whose first answer is page a and whose second is page b."""
    pages = [Path(_A).read_bytes(), Path(_B).read_bytes()]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.pop(0)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_address_is_scraped_twice_by_the_clock(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty seconds apart on the clock, which is played two hundred times as fast here."""
    monkeypatch.setenv("TIDEGATE_CLOCK", "1795968000.0,1795968000.0,200.0")

    found = data(address, "--interval", "60")

    assert found["seconds"] >= 60
    assert found["figures"]["prompt_tokens_per_second"]["value"] == pytest.approx(2000 / found["seconds"])


def test_an_address_once(address: str) -> None:
    """One scrape unless a second one is asked for."""
    assert data(address)["figures"]["running"] == {"value": 8.0}
