"""A report's vector on the wire."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tidegate.wire import Report

FIELDS = {"boot_id": "b", "sequence": 1, "at": 1.0, "layout": "0" * 32}


@given(st.binary(max_size=400).map(lambda data: data[: len(data) // 8 * 8]))
def test_a_vector_travels_as_base64_in_the_alphabet_that_every_version_reads(vector: bytes) -> None:
    text = Report(**FIELDS, values=vector).model_dump_json()
    assert base64.b64decode(json.loads(text)["values"], validate=True) == vector
    assert Report.model_validate_json(text).values == vector


@pytest.mark.parametrize("values", ["AAAA", "!", "AAAAAAAA 8D8=", 5, None])
def test_what_is_no_vector_is_refused(values: object) -> None:
    with pytest.raises(ValidationError, match="values"):
        Report.model_validate_json(json.dumps({**FIELDS, "values": values}))


def test_text_is_not_taken_for_a_vector() -> None:
    with pytest.raises(ValidationError, match="values"):
        Report(**FIELDS, values="AAAAAAAA")
