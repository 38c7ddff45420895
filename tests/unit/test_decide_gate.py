"""The gate: a change to the decision core may not make it miss the SLO, cost more or swing, on a trace of our own.

A slim version of `make bench-decide`: two hours of a made-up morning through the lines of `plan --stdio`, every
request and every engine step played, once as it is and once with all that goes wrong at once. The clairvoyant hours
were found by `simulate/clairvoyant.py` (seed 1).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.cli.core_planner import CorePlanner
from tidegate.simulate.baselines.catalogue import baseline
from tidegate.simulate.outcome import Outcome
from tidegate.simulate.run import run
from tidegate.simulate.traces import drawn
from tidegate.simulate.world import Faults, Span, World
from tidegate.simulate.worlds import small_morning

MORNING = World("morning", drawn(small_morning().windows, 1.0), 2 * 3600.0, initial=3)
STORM = Faults(
    outage=Span(3000.0, 600.0), silent_share=0.2, failed_start_share=0.3, restart_every=3600.0, dropped_share=0.05
)
CLAIRVOYANT_GPU_HOURS = 24.0
USUAL = "hpa-16"


@pytest.fixture(scope="module")
def calm() -> Outcome:
    return run(MORNING, CorePlanner(), 1)


def kept(outcome: Outcome, attainment: float) -> None:
    assert outcome.attainment >= attainment, outcome.worst(5)
    assert (outcome.lost_in_drain, outcome.unfinished) == (0, 0)
    assert (outcome.blind_shrinks, outcome.blind_growths) == (0, 0)


def test_the_objective_is_kept_near_the_bound_and_without_swinging(calm: Outcome) -> None:
    """Two to five replicas: one more or less is a third of the bound, which is therefore wide here."""
    kept(calm, 0.99)
    assert calm.gpu_hours <= 1.6 * CLAIRVOYANT_GPU_HOURS
    assert calm.reversals <= 8
    assert calm.wasted_starts <= 2


def test_the_target_that_teams_choose_for_an_hpa_is_dearer(calm: Outcome) -> None:
    usual = run(MORNING, baseline(USUAL), 1)
    assert calm.gpu_hours <= 0.9 * usual.gpu_hours
    assert calm.reversals < usual.reversals


def test_all_that_goes_wrong_at_once_loses_no_request_and_never_shrinks_blindly(calm: Outcome) -> None:
    """Nearly half of the starts fail here, with a fifth of replicas silent and an outage at the worst moment."""
    storm = run(replace(MORNING, faults=STORM), CorePlanner(), 1)
    kept(storm, 0.97)
    assert storm.gpu_hours <= 1.35 * calm.gpu_hours
