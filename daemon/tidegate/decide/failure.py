"""What kind of trouble a replica that did not come to be had: its actuator's word, else the words of its host."""

from __future__ import annotations

from tidegate.model.fleet import FailureClass, Replica, ReplicaState

_WORDS: tuple[tuple[FailureClass, tuple[str, ...]], ...] = (
    (FailureClass.QUOTA, ("quota", "limit exceeded", "limitexceeded")),
    (
        FailureClass.SOLD_OUT,
        (
            "sold out",
            "sold_out",
            "soldout",
            "insufficient capacity",
            "insufficientinstancecapacity",
            "stockout",
            "out of capacity",
            "no capacity",
            "unschedulable",
        ),
    ),
    (
        FailureClass.AUTHENTICATION,
        ("authentication", "unauthorized", "unauthorised", "forbidden", "401", "403", "credential", "permission"),
    ),
    (
        FailureClass.IMAGE,
        (
            "image",
            "imagepull",
            "errimage",
            "model load",
            "load the model",
            "loading model",
            "checkpoint",
            "weights",
            "no such file",
            "out of memory",
        ),
    ),
    (FailureClass.TIME_OUT, ("time-out", "time_out", "timeout", "timed out", "deadline")),
)


def failure_class(replica: Replica) -> FailureClass:
    """The class of a lost replica's failure; what nothing tells apart is a failure of its health."""
    if replica.failure is not None:
        return replica.failure
    said = replica.why.lower()
    for kind, words in _WORDS:
        if any(word in said for word in words):
            return kind
    return FailureClass.HEALTH if replica.state is ReplicaState.FAILED else FailureClass.TIME_OUT
