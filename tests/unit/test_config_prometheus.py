"""`[prometheus]`: what is sent along, what is refused, and what is said when it is not read."""

from __future__ import annotations

import base64

import pytest
from fakes.configuration import complaints, notes, read

from tidegate.model.scrape import Source

READ = '[controller]\nsource = "prometheus"\n'


def test_samples_come_from_agents_unless_the_file_says_otherwise() -> None:
    assert read("[controller]\n").controller.source is Source.AGENTS


def test_an_address_alone_is_enough() -> None:
    found = read(READ + '[prometheus]\nurl = "http://127.0.0.1:9090/"\n')
    assert (found.controller.source, found.prometheus.url) == (Source.PROMETHEUS, "http://127.0.0.1:9090")
    assert (found.prometheus.headers, found.prometheus.matchers) == ((), ())


def test_the_short_forms_endpoint_is_an_address_too() -> None:
    assert (
        read(READ + '[elastic]\nmetrics_endpoint = "http://prometheus:9090"\n').prometheus.url
        == "http://prometheus:9090"
    )


def test_a_tenant_and_matchers_are_taken_as_written() -> None:
    text = READ + '[prometheus]\nurl = "https://mimir.example/prometheus"\nheaders = { X-Scope-OrgID = "team a" }\n'
    found = read(text + 'matchers = { cluster = "eu-1", tenant = "a" }\nhost_label = "node"\n').prometheus
    assert found.headers == (("X-Scope-OrgID", "team a"),)
    assert (found.matchers, found.host_label) == ((("cluster", "eu-1"), ("tenant", "a")), "node")


def test_secrets_come_from_files() -> None:
    text = READ + '[prometheus]\nurl = "https://p"\nusername = "me"\npassword_file = "/s/token"\n'
    found = read(text).prometheus
    assert found.headers == (("Authorization", "Basic " + base64.b64encode(b"me:tg_x").decode()),)
    assert "Basic" not in repr(found)


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("", "is required and missing"),
        ('[prometheus]\nurl = "http://p:9090/api/v1"\n', "before /api/v1"),
        ('[prometheus]\nurl = "http://p"\nheaders = { Authorization = "x" }\n', "is a secret"),
        ('[prometheus]\nurl = "http://p"\nheaders = { Host = "x" }\n', "is set by the request itself"),
        ('[prometheus]\nurl = "http://p"\nusername = "x"\n', "a user and a password go together"),
        ('[prometheus]\nurl = "http://p"\nmatchers = { "a-b" = "x" }\n', "the name of a label"),
        ('[prometheus]\nurl = "http://p"\ntimeout_seconds = 0\n', "0.5 to 60 seconds"),
        ('[prometheus]\nurl = "http://p"\nca_file = "nowhere.pem"\n', "cannot be read"),
        ('[[prometheus]]\nurl = "http://p"\n', "stands once"),
    ],
)
def test_what_cannot_work_is_refused(rest: str, words: str) -> None:
    assert any(words in complaint for complaint in complaints(READ + rest))


def test_two_ways_to_sign_on_are_one_too_many() -> None:
    signed = 'token_file = "/s/token"\nheader_files = { authorization = "/s/token" }\n'
    text = READ + '[prometheus]\nurl = "https://p"\n' + signed
    assert any("signs on in two ways" in complaint for complaint in complaints(text))


def test_a_table_that_is_not_read_and_a_password_in_the_clear_are_noted() -> None:
    assert any("is not read" in note for note in notes('[controller]\n[prometheus]\nurl = "http://p"\n'))
    text = READ + '[prometheus]\nurl = "http://p"\ntoken_file = "/s/token"\n'
    assert any("in the clear" in note for note in notes(text))
