"""Fill the placeholders of a template with what the controller said of a replica. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.runtime.errors import Permanent
from tidegate.wire import DesiredReplica

PLACEHOLDERS = ("replica_id", "slot", "port", "gpus", "pool", "service")


def words(replica: DesiredReplica) -> dict[str, str]:
    """What each placeholder stands for; raises Permanent when a value carries control characters."""
    values = {
        "replica_id": replica.replica_id,
        "slot": str(replica.slot),
        "port": str(replica.port),
        "gpus": ",".join(str(gpu) for gpu in replica.gpus),
        "pool": replica.pool,
        "service": replica.service,
    }
    for name, value in values.items():
        # A line break in an environment file would begin another variable.
        if not value.isprintable():
            raise Permanent(f"replica {replica.replica_id}: its {name} {value!r} holds control characters; refused")
    return values


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace {replica_id} and its like; every other brace stays, since engines take JSON on their command lines."""
    for name in PLACEHOLDERS:
        text = text.replace("{" + name + "}", values[name])
    return text


def fill_command(command: Sequence[str], replica: DesiredReplica) -> tuple[str, ...]:
    """The command line of a replica, argument by argument: no shell ever sees it."""
    values = words(replica)
    return tuple(fill(argument, values) for argument in command)


def fill_environment(environment: Mapping[str, str], replica: DesiredReplica) -> dict[str, str]:
    """The variables of a replica: the template's own over those that every replica gets.

    CUDA_VISIBLE_DEVICES is among the latter, so that a template that forgets it does not put every replica on GPU 0.
    """
    values = words(replica)
    given = {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": values["gpus"],
        "TIDEGATE_REPLICA_ID": values["replica_id"],
        "TIDEGATE_SLOT": values["slot"],
        "TIDEGATE_PORT": values["port"],
        "TIDEGATE_GPUS": values["gpus"],
        "TIDEGATE_POOL": values["pool"],
        "TIDEGATE_SERVICE": values["service"],
    }
    return given | {name: fill(value, values) for name, value in environment.items()}


def fill_url(url: str, replica: DesiredReplica) -> str:
    """The metrics address of a replica."""
    return fill(url, words(replica))
