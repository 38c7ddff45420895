"""The other systems' algorithms do what their sources say, so that the comparison is fair."""

from __future__ import annotations

import pytest

from tidegate.simulate.baselines.aibrix import Aibrix
from tidegate.simulate.baselines.catalogue import baseline
from tidegate.simulate.baselines.dynamo import Dynamo
from tidegate.simulate.baselines.hpa import Hpa
from tidegate.simulate.baselines.knative import Knative
from tidegate.simulate.baselines.rayserve import RayServe
from tidegate.simulate.baselines.skyserve import SkyServe
from tidegate.simulate.baselines.utilisation import Utilisation
from tidegate.simulate.baselines.wva import Wva
from tidegate.simulate.observation import Observation, SeenPool, SeenReplica, Signals
from tidegate.simulate.world import Planner


def seen(
    now: float, *loads: Signals | None, starting: int = 0, rps: float | None = 1.0, waiting: int = 0
) -> Observation:
    replicas = [SeenReplica(f"r{index}", "ready", 0.0, load) for index, load in enumerate(loads)]
    replicas += [SeenReplica(f"s{index}", "starting", 0.0) for index in range(starting)]
    pools = {
        "base": SeenPool("base", 1, 4, 1, 1.0, tuple(replicas[:4])),
        "burst": SeenPool("burst", 0, 20, 1, 2.0, tuple(replicas[4:])),
    }
    return Observation(now, 2.0, 0.06, waiting, rps, pools)


def busy(running: float, waiting: float = 0.0, **more: float) -> Signals:
    return Signals(running=running, waiting=waiting, kv_usage=more.pop("kv", 0.2), **more)


def total(planner: Planner, observation: Observation) -> int:
    return sum(pool.target for pool in planner.plan(observation).pools.values())


def test_hpa_follows_its_formula() -> None:
    assert total(Hpa(10), seen(0, busy(20), busy(25))) == 5
    assert total(Hpa(10), seen(0, busy(10), busy(11))) == 2, "within the tolerance"
    assert total(Hpa(10), seen(0, busy(200))) == 5, "at most four more, or double"
    assert total(Hpa(10), seen(0, busy(30), starting=2)) == 3, "starting ones count as idle when growing"
    assert total(Hpa(10), seen(0, busy(3), None)) == 2, "a missing one is at the target when shrinking"
    assert total(Hpa(10), seen(0, None)) == 1


def test_hpa_shrinks_to_the_highest_of_five_minutes() -> None:
    hpa = Hpa(10)
    loaded = [busy(10)] * 4
    assert total(hpa, seen(0, *loaded)) == 4
    assert total(hpa, seen(285, *[busy(1)] * 4)) == 4
    assert total(hpa, seen(315, *[busy(1)] * 4)) == 1


def test_knative_panics_and_holds() -> None:
    kpa = Knative(10)
    for tick in range(30):
        assert total(kpa, seen(tick * 2, busy(6))) == 1
    for tick in range(30, 33):
        panicking = total(kpa, seen(tick * 2, busy(40)))
    assert panicking == 6, "40 / 7 over the panic window"
    assert total(kpa, seen(66, busy(1))) == 6, "never below its maximum while it panics"
    assert total(Knative(10), seen(0, busy(1), busy(1), busy(1), busy(1))) == 2, "at most half down"
    assert total(kpa, seen(68, None, rps=None)) > 0


def test_ray_waits_before_it_acts() -> None:
    ray = RayServe(2)
    assert total(ray, seen(0, busy(8))) == 1
    assert total(ray, seen(25, busy(8))) == 1
    assert total(ray, seen(30, busy(8))) == 4
    idle = [busy(0)] * 4
    assert total(ray, seen(100, *idle)) == 4
    assert total(ray, seen(640, *idle)) == 4
    assert total(ray, seen(720, *idle)) == 1


def test_skyserve_needs_fifteen_higher_ticks() -> None:
    sky = SkyServe(1.0)
    targets = [total(sky, seen(tick * 20, busy(1), rps=3.0)) for tick in range(15)]
    assert targets == [1] * 14 + [3]
    assert total(sky, seen(400, busy(1), rps=None)) == 1


def test_aibrix_doubles_at_most_and_waits_to_shrink() -> None:
    assert total(Aibrix(10), seen(0, busy(90))) == 2
    assert total(Aibrix(10), seen(0, busy(15))) == 2
    apa = Aibrix(10)
    assert total(apa, seen(0, busy(1), busy(1))) == 2
    assert total(apa, seen(301, busy(1), busy(1))) == 1


def test_wva_adds_one_when_the_spare_queue_is_short() -> None:
    assert total(Wva(), seen(0, busy(5, 3), busy(5, 2))) == 3
    assert total(Wva(), seen(0, busy(5, 9), busy(5, 9))) == 3, "all saturated"
    assert total(Wva(), seen(0, busy(1), busy(1))) == 1
    assert total(Wva(), seen(0, busy(5, kv=0.45), busy(5, kv=0.45))) == 2, "0.9 on one would be too full"
    assert total(Wva(), seen(0, busy(5, 9), starting=1)) == 2, "frozen while one is on its way"
    assert total(Wva(), seen(0, busy(1), None)) == 2


def test_dynamo_moves_when_all_are_over_or_all_would_hold() -> None:
    planner = Dynamo()
    for tick in range(6):
        total(planner, seen(tick * 5, busy(10 + tick, tpot_p95_s=0.02 + tick / 1000, ttft_p95_s=0.2), busy(10)))
    assert total(planner, seen(40, busy(80), busy(80))) == 3
    assert total(planner, seen(45, busy(80), busy(10))) == 2
    assert total(planner, seen(50, busy(5), busy(5))) == 1
    assert total(planner, seen(55, busy(80), busy(80), starting=1)) == 3, "holds while one is starting"
    assert total(Dynamo(), seen(0, busy(80))) == 1, "has learned nothing yet"


def test_a_utilisation_threshold_with_its_cooldown() -> None:
    planner = Utilisation()
    assert total(planner, seen(0, busy(1, gpu_utilization=0.9))) == 2
    assert total(planner, seen(60, busy(1, gpu_utilization=0.9))) == 1, "cooling down"
    assert total(planner, seen(180, busy(1, gpu_utilization=0.1), busy(1, gpu_utilization=0.1))) == 1


def test_a_baseline_has_a_name() -> None:
    for name in ("static-3", "hpa", "hpa-12", "kpa", "kpa-8", "ray-4", "skyserve-2", "apa", "wva", "dynamo"):
        planner = baseline(name)
        planner.plan(seen(0, busy(1)))
        planner.restart(memory_lost=True)
        planner.restart(memory_lost=False)
        assert planner.plan(seen(900, busy(1))).pools["base"].target >= 1
    assert baseline("gpu-utilisation").name == "gpu-utilisation"
    for wrong in ("hpa-many", "magic", "magic-3"):
        with pytest.raises(ValueError, match=f"no policy '{wrong}'; there are hpa,"):
            baseline(wrong)
