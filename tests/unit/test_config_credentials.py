"""`credential:NAME` is the same secret under the unit and by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tidegate.config.credentials import SOURCE, credential_name, read_credential
from tidegate.config.secret_files import SecretsElsewhere


class SecretsOf:
    """Files and variables out of two tables."""

    def __init__(self, files: Mapping[str, str], folder: str = "") -> None:
        self._files, self._folder = files, folder

    def file(self, path: Path) -> str | None:
        if str(path) not in self._files:
            raise FileNotFoundError(2, "No such file or directory")
        return self._files[str(path)]

    def variable(self, name: str) -> str | None:
        return self._folder if name == "CREDENTIALS_DIRECTORY" else ""


def test_a_path_is_no_credential() -> None:
    assert credential_name(Path("credential:agent.token")) == "agent.token"
    assert credential_name(Path("/etc/credential:agent.token")) is None


def test_under_the_unit_it_is_what_systemd_hands_over() -> None:
    """Loaded one by one, or as the folder that the units of this package load."""
    assert read_credential(SecretsOf({"/run/c/a": "one"}, "/run/c"), "a") == "one"
    assert read_credential(SecretsOf({"/run/c/secret_a": "two"}, "/run/c"), "a") == "two"


def test_by_hand_it_is_read_where_systemd_would_take_it_from() -> None:
    """So that root may check the file, look once and migrate with the very file that the unit reads."""
    assert read_credential(SecretsOf({f"{SOURCE}/a": "three"}), "a") == "three"


def test_by_hand_and_not_there_the_message_says_where_it_would_be() -> None:
    with pytest.raises(OSError, match=r"No such file or directory in /etc/tidegate/credentials .*--skip-secrets"):
        read_credential(SecretsOf({}), "a")


@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_a_credential_is_a_name_and_no_path(name: str) -> None:
    with pytest.raises(OSError, match="no name of a credential"):
        read_credential(SecretsOf({}), name)


def test_where_secrets_are_not_looked_at_it_is_none() -> None:
    assert read_credential(SecretsElsewhere(), "a") is None
