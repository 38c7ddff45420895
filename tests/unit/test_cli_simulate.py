"""`tidegate simulate`: a trace in, a scorecard out, and what is wrong said with its remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.runtime.errors import Permanent

LINES = ["t_s,rate_rps,cv,mean_input_tokens,mean_output_tokens", *(f"{n * 200},57,1.5,900,180" for n in range(2))]
CONFIG = """
[[service]]
name = "chat"
slo = { ttft_seconds = 3.0, tpot_seconds = 0.08 }
[[pool]]
name = "steady"
service = "chat"
min = 1
max = 3
gpus_per_replica = 2
[[pool]]
name = "peaks"
service = "chat"
kind = "burst"
max = 4
gpus_per_replica = 2
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "trace.csv"
    file.write_text("\n".join(LINES))
    return file


def scores(*words: object) -> list[dict[str, object]]:
    result = CliRunner().invoke(app, ["simulate", *map(str, words), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: list[dict[str, object]] = json.loads(result.stdout)
    return found


def test_policies_faults_and_seeds_make_rows(trace: Path) -> None:
    rows = scores(
        trace, "--policy", "hpa-12", "--policy", "slo", "--faults", "none", "--faults", "silent", "--no-bound"
    )
    assert [(row["policy"], row["faults"]) for row in rows] == [
        ("hpa-12", "none"),
        ("slo", "none"),
        ("hpa-12", "silent"),
        ("slo", "silent"),
    ]
    assert all(row["attainment"] > 0.9 for row in rows)  # type: ignore[operator]
    (twice,) = scores(trace, "--seeds", 2, "--no-bound", "--fluid")
    assert len(twice["runs"]) == 2  # type: ignore[arg-type]


def test_the_bound_comes_first(trace: Path) -> None:
    bound, row = scores(trace, "--policy", "static-4", "--fluid")
    assert (bound["policy"], bound["ratio_to_bound"]) == ("clairvoyant", 1.0)
    assert row["ratio_to_bound"] > 1.0  # type: ignore[operator]


def test_a_configuration_brings_its_pools_and_goals(trace: Path, tmp_path: Path) -> None:
    config = tmp_path / "tidegate.toml"
    config.write_text(CONFIG)
    (row,) = scores(trace, "--config", config, "--no-bound", "--fluid", "--initial", 3)
    (run,) = row["runs"]  # type: ignore[misc]
    assert run["peak_gpus"] % 2 == 0
    assert run["peak_gpus"] <= 2 * (3 + 4)


def test_a_table_for_people(trace: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", str(trace), "--policy", "static-4", "--no-bound", "--fluid"])
    assert "static-4" in result.output
    assert "wasted" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policy", "magic"], "no policy 'magic'"),
        (["--faults", "flood"], "no fault 'flood'"),
        (["--days", "3-2"], "--days 3-2: say FROM-TO"),
        (["--days", "three"], "--days three: say FROM-TO"),
        (["--days", "5-6"], "cannot be cut to days 5 to 6: it lasts 0.0"),
    ],
)
def test_what_is_wrong_is_said(trace: Path, words: list[str], said: str) -> None:
    with pytest.raises(Permanent, match=said):
        CliRunner().invoke(app, ["simulate", str(trace), *words], catch_exceptions=False)


def test_an_hour_of_azure_has_no_days_to_cut(tmp_path: Path) -> None:
    file = tmp_path / "azure.csv"
    lines = [f"2023-11-16 18:1{n}:46.6805900,374,44" for n in range(3)]
    file.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines]))
    with pytest.raises(Permanent, match="leave the days out"):
        CliRunner().invoke(app, ["simulate", str(file), "--days", "0-1"], catch_exceptions=False)


def test_a_fleet_that_begins_with_nothing_holds_less(trace: Path) -> None:
    """Zero is a number of replicas, not the lack of one."""
    none, many = (scores(trace, "--no-bound", "--fluid", "--initial", n)[0]["runs"][0] for n in (0, 8))  # type: ignore[index]
    assert none["gpu_hours"] < many["gpu_hours"]


def test_a_file_that_is_no_trace(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello")
    packed = tmp_path / "broken.gz"
    packed.write_bytes(b"no gzip")
    for path, said in (
        (file, "notes.txt: line 1: neither"),
        (packed, "cannot be read"),
        (tmp_path / "no", "cannot be"),
    ):
        with pytest.raises(Permanent, match=said):
            CliRunner().invoke(app, ["simulate", str(path)], catch_exceptions=False)
