"""What single keys accept: each refusal says the whole allowed range, and never repeats a secret."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from fakes.configuration import complaints, read
from pydantic_core import PydanticCustomError

from tidegate.config.addresses import Database, ListenAddress, Url, host_of, metrics_url, port_of
from tidegate.config.fields import Amount, AnyText, Between, Checked, Duration, FilePath, Pattern, Whole, shown
from tidegate.config.settings import Listen

REFUSED: list[tuple[Checked, Any, str]] = [
    (Between(0, 1), True, "must be a number, 0 to 1, not true"),
    (Between(0, 1), 30, "must be 0 to 1, not 30; write 0.3 for 30 %"),
    (Between(0, 1), Decimal("NaN"), "must be a finite number, 0 to 1"),
    (Between(0, 9), 10**400, "must be a finite number, 0 to 9"),
    (Whole(1, 9), Decimal("2.0"), "must be a whole number, 1 to 9, not 2.0"),
    (Duration("hours", 1, 9), {}, "must be a number, 1 to 9 hours, not a table"),
    (Duration("hours", 1, 9), [], "must be a number, 1 to 9 hours, not an array"),
    (Amount(), Decimal("0.1234567891"), "must have at most 9 decimal places"),
    (Amount(), 100_001, "must be 0 to 100000, not 100001"),
    (AnyText(), "a\nb", "must be one line of at most 4096 characters"),
    (AnyText(), 3, 'must be a text in "quotes", not 3'),
    (Pattern("a*", "some a", longest=3), "aaaa", "must have at most 3 characters, not 4"),
    (Pattern("a*", "some a"), "b" * 90, f'must be some a, not "{"b" * 60}..."'),
    (FilePath(), "", "must be a path, not an empty text"),
    (FilePath(), "~/x", 'must be a whole path, not "~/x": a service has no home folder and no shell'),
    (ListenAddress(), "9092", 'must be "host:port"'),
    (ListenAddress(), ":9092", 'must be "host:port"'),
    (ListenAddress(), "h:65536", 'must end in a port, 0 to 65535, not "65536"'),
    (ListenAddress(), "::1:80", "must begin with a host name or address (IPv6 in brackets)"),
    (Url(), "ftp://h", 'must be an address such as http://127.0.0.1:8000, not "ftp://h"'),
    (Url(), "http://h:x", "must be an address such as"),
    (Url(), "http://h/#x", "must not have a #fragment"),
    (Database(), "postgres://h/d", "must begin with postgresql://, not postgres://"),
    (Database(), "mysql://h/d", 'must be "embedded" or an address such as'),
    (Database(), "postgresql://h", 'must be "embedded" or an address such as'),
]


@pytest.mark.parametrize(("check", "value", "expected"), REFUSED, ids=lambda part: str(part)[:40])
def test_a_refusal_says_what_would_be_right(check: Checked, value: Any, expected: str) -> None:
    with pytest.raises(PydanticCustomError) as refused:
        check.check(value)
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (Url(secret=True), "htp://hooks.example/hunter2"),
        (Url(), "http://me:hunter2@h"),
        (Url(), "http://h/?key=hunter2#x"),
        (Database(), "postgresql://u:hunter2@h/d"),
        (Database(), "postgresql://u@h/d?password=hunter2"),
        (Database(), "host=h password=hunter2"),
    ],
)
def test_a_refusal_never_repeats_a_secret(check: Checked, value: str) -> None:
    with pytest.raises(PydanticCustomError) as refused:
        check.check(value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:0", Listen("127.0.0.1", 0)),
        ("[::1]:9092", Listen("::1", 9092)),
        ("gpu-1.example:80", Listen("gpu-1.example", 80)),
    ],
)
def test_listen_addresses(text: str, expected: Listen) -> None:
    assert ListenAddress().check(text) == expected


def test_the_parts_of_addresses() -> None:
    assert (host_of("http://[::1]:80/x"), host_of("http://[bad")) == ("::1", "")
    assert (port_of("https://h"), port_of("http://h:8"), port_of("http://h:x")) == (443, 8, None)
    assert metrics_url("http://h:1/") == "http://h:1/metrics"
    assert metrics_url("http://h:1/x/metrics?a=1") == "http://h:1/x/metrics?a=1"
    assert shown(None) == "nothing"


def test_a_key_that_holds_a_secret_is_told_where_secrets_belong() -> None:
    (channel,) = complaints('[[channel]]\nkind = "webhook"\nname = "c"\nurl = "https://h"\nsecret = "hunter2"\n')
    assert "name it in secret_file or secret_env" in channel
    assert "hunter2" not in channel
    (host,) = complaints('[[host]]\nname = "h"\ngpus = 1\npassword = "hunter2"\n')
    assert "name that file where the secret is used" in host


def test_a_table_that_cannot_be_mended_is_still_told_of() -> None:
    assert complaints('[[pool]]\nname = "p"\nservice = "s"\nflavour = [3]\n[[service]]\nname = "s"\n') == [
        "4: pool[p].flavour[#1]: must be a table of key = value, not 3"
    ]


def test_the_agent_is_named_after_its_machine() -> None:
    agent = read("[agent]\n").agent
    assert agent is not None
    assert agent.name == "here"
