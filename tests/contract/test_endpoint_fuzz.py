"""The API against its own description: whatever schemathesis makes of it, no answer is a 5xx or off its schema."""

from __future__ import annotations

from datetime import datetime

import schemathesis
from fakes.clock import ManualClock
from fakes.controller_world import H1, World, engine, host_state, own_engine, reading
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tidegate.expose.controller_pages import ControllerPages
from tidegate.link.application import build_app
from tidegate.link.bell import Bell
from tidegate.link.report_endpoint import ReportEndpoint
from tidegate.runtime.tokens import token_hash

NOON = datetime.fromisoformat("2026-11-25T12:00:00+00:00")
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


def application() -> object:
    """A controller with one host that has reported and one decision."""
    world = World(ManualClock(NOON))
    world.enroll(H1)
    world.store.users.add("ann", "operator", token_hash("operators"), NOON)
    seen = reading(H1, NOON, [engine("vllm-a", NOON, running=1.0, queue_depth=0.0)])
    world.report(H1, seen, state=host_state(2, [own_engine()]))
    world.run()
    rest = build_app(world.api, ControllerPages(world.clock, lambda: (True, "ready")))
    return ReportEndpoint(world.agents, Bell(), rest)


schema = schemathesis.openapi.from_asgi("/v1/openapi.json", application())


@schema.parametrize()
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_request_breaks_the_api(case: schemathesis.Case) -> None:
    """With the right tokens, so that what is made gets past the door."""
    token = f"token of {H1}" if "agent" in case.operation.tags else "operators"
    if case.path == "/v1/desired":
        case.query = {**(case.query or {}), "wait": 0}

    response = case.call(headers={"Authorization": f"Bearer {token}"})

    case.validate_response(response, checks=CHECKS)
