"""The agent's doors on real sockets: TLS, client certificates, passwords, and changing them all while serving."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt
import httpx
import pytest
from fakes.certificates import Pair, authority, needs_openssl, signed
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tidegate.agent.web import Doors, WebWatch
from tidegate.runtime.errors import ConfigError
from tidegate.runtime.guard import Guard
from tidegate.runtime.serve import HttpServer, tcp

HASH = bcrypt.hashpw(b"tide", bcrypt.gensalt(4)).decode()
USERS = f"basic_auth_users:\n  prometheus: {HASH}\n"
TLS = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"
CLIENTS = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n"


async def _hello(_: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


APP = Starlette(routes=[Route(path, _hello) for path in ("/metrics", "/-/healthy", "/-/ready")])


class Agent:
    """A guarded server and the watch over its file."""

    def __init__(self, file: Path | None) -> None:
        self.guard = Guard(APP)
        self.server = HttpServer(self.guard, tcp("127.0.0.1", 0), "agent")
        self.web = WebWatch(file, Doors(self.server.renew, self.guard.use))

    def get(self, path: str = "/metrics", scheme: str = "http", **options: object) -> httpx.Response:
        verify = options.pop("verify", True)
        with httpx.Client(verify=verify, timeout=5.0) as client:  # type: ignore[arg-type]
            return client.get(f"{scheme}://127.0.0.1:{self.server.port}{path}", **options)  # type: ignore[arg-type]


@contextmanager
def agent(file: Path | None) -> Iterator[Agent]:
    """The agent of a web configuration file, serving."""
    made = Agent(file)
    made.web.begin()
    made.server.start()
    try:
        yield made
    finally:
        made.server.stop()
        made.guard.close()


@pytest.fixture
def pki(tmp_path: Path) -> Pair:
    """An authority `ca`, and `server` signed by it, in the test's folder."""
    ca = authority(tmp_path)
    signed(tmp_path, ca, "server")
    return ca


def trusting(ca: Path, client: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca))
    if client is not None:
        context.load_cert_chain(client.cert, client.key)
    return context


def written(folder: Path, text: str) -> Path:
    file = folder / "web.yml"
    file.write_text(text)
    return file


def test_without_a_file_everybody_reads() -> None:
    with agent(None) as made:
        assert made.get().text == "hello"


def test_a_password_is_asked_for_everywhere_but_at_the_health_check(tmp_path: Path) -> None:
    with agent(written(tmp_path, USERS)) as made:
        refused = made.get()
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic ")
        assert made.get("/-/ready").status_code == 401
        assert made.get("/nowhere").status_code == 401
        assert made.get("/-/healthy").status_code == 200
        assert made.get(auth=("prometheus", "wrong")).status_code == 401
        assert made.get(auth=("nobody", "tide")).status_code == 401
        assert made.get(auth=("prometheus", "tide")).text == "hello"


def test_headers_of_the_file_are_on_every_answer(tmp_path: Path) -> None:
    text = (
        USERS + "http_server_config:\n  headers:\n    X-Frame-Options: deny\n    Strict-Transport-Security: max-age=9\n"
    )
    with agent(written(tmp_path, text)) as made:
        for answer in (made.get(), made.get("/-/healthy"), made.get(auth=("prometheus", "tide"))):
            assert answer.headers.get_list("x-frame-options") == ["deny"]
            assert answer.headers["strict-transport-security"] == "max-age=9"


@needs_openssl
def test_tls_with_a_client_certificate(tmp_path: Path, pki: Pair) -> None:
    reader = signed(tmp_path, pki, "reader")
    other = authority(tmp_path, "other")
    stranger = signed(tmp_path, other, "stranger")
    with agent(written(tmp_path, TLS + CLIENTS)) as made:
        assert made.get(scheme="https", verify=trusting(pki.cert, reader)).text == "hello"
        for client in (None, stranger):
            with pytest.raises(httpx.TransportError):
                made.get(scheme="https", verify=trusting(pki.cert, client))
        with pytest.raises(httpx.TransportError):
            made.get(scheme="http")


@needs_openssl
def test_a_renewed_certificate_is_served_without_a_refused_connection(tmp_path: Path, pki: Pair) -> None:
    with agent(written(tmp_path, TLS)) as made:
        context = trusting(pki.cert)
        first = ssl.get_server_certificate(("127.0.0.1", made.server.port))
        with httpx.Client(verify=context, timeout=5.0) as kept:
            url = f"https://127.0.0.1:{made.server.port}/metrics"
            assert kept.get(url).text == "hello"
            signed(tmp_path, pki, "server")
            made.web.look()
            assert kept.get(url).text == "hello"
        second = ssl.get_server_certificate(("127.0.0.1", made.server.port))
        assert first != second
        assert second.strip() in (tmp_path / "server.crt").read_text().replace("\r", "")


@needs_openssl
def test_tls_and_passwords_are_turned_on_and_off_while_serving(tmp_path: Path, pki: Pair) -> None:
    file = written(tmp_path, "")
    with agent(file) as made:
        assert made.get().text == "hello"
        file.write_text(TLS + USERS)
        made.web.look()
        assert made.get(scheme="https", verify=trusting(pki.cert)).status_code == 401
        made.web.use(None)
        made.web.look()
        assert made.get().text == "hello"


@needs_openssl
def test_a_broken_file_keeps_the_old_one_and_a_mended_one_is_taken(tmp_path: Path, pki: Pair) -> None:
    file = written(tmp_path, TLS + USERS)
    with agent(file) as made:
        context = trusting(pki.cert)
        file.write_text("tls_server_config: [")
        made.web.look()
        assert not made.web.ok
        assert made.get(scheme="https", verify=context).status_code == 401
        (tmp_path / "server.key").rename(tmp_path / "aside.key")
        file.write_text(TLS)
        made.web.look()
        assert not made.web.ok
        assert made.get(scheme="https", verify=context).status_code == 401
        (tmp_path / "aside.key").rename(tmp_path / "server.key")  # the file itself did not change again
        made.web.look()
        assert made.web.ok
        assert made.get(scheme="https", verify=context).text == "hello"


@needs_openssl
def test_a_certificate_without_its_key_is_refused_at_the_start(tmp_path: Path, pki: Pair) -> None:
    other = signed(tmp_path, pki, "other")
    other.key.rename(tmp_path / "server.key")
    made = Agent(written(tmp_path, TLS))
    with pytest.raises(ConfigError, match=r"web.yml:3: tls_server_config.key_file: .*server.key is not the key of"):
        made.web.begin()
