"""What every plan must keep, asserted in every simulated tick."""

from __future__ import annotations

from tidegate.simulate.observation import Answer, Observation, PoolAnswer, SeenPool


class BrokenPromise(AssertionError):  # noqa: N818 - named for what happened
    """A plan that no plan may be; the message names the pool, the moment and the figures."""


def checked(answer: Answer, seen: Observation) -> Answer:
    """The answer; raises `BrokenPromise` when it names what is not there, leaves the bounds or the budget."""
    for name, pool in seen.pools.items():
        if name not in answer.pools:
            raise BrokenPromise(f"at {seen.now:.0f}: no answer for pool {name}")
        problem = _problem(answer.pools[name], pool)
        if problem:
            raise BrokenPromise(f"at {seen.now:.0f}, pool {name}: {problem}")
    spent = sum(_gpus(answer.pools[name], pool) for name, pool in seen.pools.items())
    held = sum(
        len(pool.in_state("starting", "ready", "draining")) * pool.gpus_per_replica for pool in seen.pools.values()
    )
    if seen.budget_gpus is not None and spent > max(seen.budget_gpus, held):
        raise BrokenPromise(f"at {seen.now:.0f}: {spent} GPUs at once, over the budget of {seen.budget_gpus}")
    return answer


def _problem(answer: PoolAnswer, pool: SeenPool) -> str:
    gone = {replica.id for replica in pool.in_state("starting", "ready", "draining")}
    draining = {replica.id for replica in pool.in_state("draining")}
    if not pool.min <= answer.target <= pool.max:
        return f"target {answer.target} outside {pool.min}..{pool.max}"
    if len(set(answer.victims)) != len(answer.victims) or set(answer.victims) & set(answer.uncordon):
        return f"victims {answer.victims} and uncordon {answer.uncordon} overlap or repeat"
    if not set(answer.victims) <= gone:
        return f"victims {answer.victims} are not all replicas of the pool"
    if not set(answer.uncordon) <= draining:
        return f"uncordon {answer.uncordon} are not all draining"
    return ""


def _gpus(answer: PoolAnswer, pool: SeenPool) -> int:
    """GPUs held the moment after the answer was carried out: a drained replica holds its own until it has stopped."""
    starting = {replica.id for replica in pool.in_state("starting")}
    supply = len(pool.in_state("starting", "ready")) + len(answer.uncordon)
    left = supply - sum(replica.id in answer.victims for replica in pool.in_state("starting", "ready"))
    draining = len(pool.in_state("draining")) - len(answer.uncordon)
    drained = sum(name not in starting for name in answer.victims)
    return (max(answer.target, left) + draining + drained) * pool.gpus_per_replica
