"""What must hold between keys: each relation broken alone, told once, with its place; and what is only noted."""

from __future__ import annotations

from datetime import time, timedelta
from decimal import Decimal

import pytest
from fakes.configuration import KEY, FakeSecrets, complaints, notes, read

from tidegate.model.policy import Budget, PolicyName, SloPolicy

SERVICE = '[[service]]\nname = "s"\n'
POOL = SERVICE + '[[pool]]\nname = "p"\nmax = 2\n'
HOST = '[[host]]\nname = "g"\ngpus = 4\n'
SCHEDULE = '[[pool.schedule]]\nstart = "08:00"\nend = "20:00"\ntime_zone = "Asia/Shanghai"\n'
PAIR = (
    SERVICE
    + "[service.ratio]\nRATIO\n"
    + "[[pool]]\nname = 'a'\nrole = 'prefill'\nmin = 1\nmax = 4\n"
    + "[[pool]]\nname = 'b'\nrole = 'decode'\nmin = 1\nmax = 4\n"
)
FLAVOUR = '[[pool.flavour]]\ntemplate = "t"\n'
TEMPLATE = '[[template]]\nname = "t"\nkind = "systemd"\nunit = "t@{slot}.service"\n'
CHANNEL = '[[channel]]\nkind = "webhook"\nname = "c"\n'
ALERT = '[[alert]]\nkind = "kv_cache_hit_rate_drop"\n'
ENGINE = '[[engine]]\nname = "e"\nurl = "http://127.0.0.1:8000"\n'

BROKEN = {
    "an unknown table": ("[pols]\n", '1: pols: is not known; did you mean "pool"?'),
    "a table for many written once": ("[pool]\nname = 'p'\n", "1: pool: may stand more than once: write [[pool]]"),
    "a table for one written twice": ("[[agent]]\n[[agent]]\n", "1: agent: stands once: write [agent]"),
    "a value where a table belongs": ("agent = 3\n", "1: agent: must be a table of key = value"),
    "a value where tables belong": ("pool = 3\n", "1: pool: must be a table, [[pool]]"),
    "values among tables": ("pool = [3]\n", "1: pool[#1]: must be a table of key = value"),
    "min above max": (
        POOL + "min = 3\n",
        "5: pool[p].max: the smallest number of replicas (3) is above the largest (2)",
    ),
    "min above the default max": (SERVICE + '[[pool]]\nname = "p"\nmin = 2\n', "above the largest (1, its default)"),
    "out below in": (
        SERVICE + "[service.threshold]\nscale_out_threshold_gpu_util = 0.2\n",
        "4: service[s].threshold.scale_out_threshold_gpu_util: is 0.2, but must be above",
    ),
    "out equal to in": (
        SERVICE + "[service.threshold]\nscale_out_threshold_gpu_util = 0.3\nscale_in_threshold_gpu_util = 0.3\n",
        "4: service[s].threshold.scale_out_threshold_gpu_util: is 0.3, but must be above",
    ),
    "a pool without any service": ('[[pool]]\nname = "p"\n', "this file has no [[service]] yet: add one"),
    "a pool that must choose": (
        '[[service]]\nname = "a"\n[[service]]\nname = "b"\n[[pool]]\nname = "p"\n',
        "5: pool[p].service: is required and missing; one of a, b",
    ),
    "a router in a pool": (
        POOL + ENGINE + 'kind = "sglang-router"\npool = "p"\n',
        "engine[e].pool: is given to a sglang-router, which stands in front of replicas and is none",
    ),
    "an unknown service": (POOL + 'service = "t"\n', '6: pool[p].service: there is no [[service]] "t"'),
    "two flavours of one name": (
        POOL + FLAVOUR + FLAVOUR + HOST,
        '8: pool[p].flavour[#2].name: two flavours of this pool are called "default"',
    ),
    "a second flavour that starts nothing": (
        POOL + FLAVOUR + "[[pool.flavour]]\nname = 'other'\n" + HOST,
        "8: pool[p].flavour[other].template: is required and missing: of several flavours",
    ),
    "a start longer than its deadline": (
        POOL + FLAVOUR + "start_seconds = 600\n" + HOST,
        "8: pool[p].flavour[#1].start_seconds: is 600, but must be below start_deadline_seconds (600)",
    ),
    "a quota below one replica": (
        POOL + "gpus_per_replica = 4\n" + FLAVOUR + "gpu_limit = 3\n" + HOST,
        "9: pool[p].flavour[#1].gpu_limit: is 3, but a replica takes 4 GPUs",
    ),
    "a threshold that no GPU passes": (
        SERVICE + "[service.threshold]\nscale_out_threshold_gpu_util = 1\n",
        "4: service[s].threshold.scale_out_threshold_gpu_util: must be below 1",
    ),
    "a schedule without a day": (POOL + SCHEDULE + "days = []\nmin = 1\n", "days: names no day: leave it out"),
    "a schedule that changes nothing": (POOL + SCHEDULE, "6: pool[p].schedule[#1]: changes nothing: give min or max"),
    "a schedule that never begins": (
        POOL + SCHEDULE.replace("20:00", "08:00") + "min = 1\n",
        "8: pool[p].schedule[#1].end: is 08:00 like start: the window would never begin",
    ),
    "a schedule upside down": (POOL + SCHEDULE + "min = 2\nmax = 1\n", "10: pool[p].schedule[#1].min: is 2, above max"),
    "a schedule above the pool": (POOL + SCHEDULE + "min = 3\n", "min: is 3, above the pool's max (2)"),
    "a schedule below the pool": (POOL + "min = 1\n" + SCHEDULE + "max = 0\n", "max: is 0, below the pool's min (1)"),
    "an unknown time zone": (
        POOL + SCHEDULE.replace("Asia/Shanghai", "Asia/Shanghia") + "min = 1\n",
        '9: pool[p].schedule[#1].time_zone: must be a time zone such as "Asia/Shanghai", not "Asia/Shanghia"',
    ),
    "a city without its continent": (POOL + SCHEDULE.replace("Asia/", "") + "min = 1\n", 'such as "Asia/Shanghai"'),
    "an offset for a zone": (POOL + SCHEDULE.replace("Asia/Shanghai", "+08:00") + "min = 1\n", "must be a time zone"),
    "a time that is none": (POOL + SCHEDULE.replace("20:00", "24:00") + "min = 1\n", 'midnight is "00:00"'),
    "a time with seconds": (
        POOL + SCHEDULE.replace('"20:00"', "20:00:30") + "min = 1\n",
        "must be a time to the minute",
    ),
    "overlapping schedules without a size": (
        POOL + SCHEDULE + "min = 2\n" + SCHEDULE.replace("08:00", "19:00").replace("20:00", "02:00") + "max = 1\n",
        "11: pool[p].schedule[#2]: overlaps the one in line 6, and together they leave no size: at least 2, at most 1",
    ),
    "an overlap beyond midnight at the week's end": (
        POOL
        + SCHEDULE.replace("20:00", "01:00").replace("08:00", "23:00")
        + "days = ['sun']\nmin = 2\n"
        + SCHEDULE.replace("08:00", "00:30").replace("20:00", "02:00")
        + "days = ['mon']\nmax = 1\n",
        "together they leave no size",
    ),
    "a budget below the minima": (
        POOL + "min = 2\ngpus_per_replica = 4\n[budget]\ngpus = 7\n",
        "9: budget.gpus: is 7, but the pools' min alone take 8 GPUs",
    ),
    "money below the minima": (
        POOL + "min = 2\nprice_per_gpu_hour = 3\n[budget]\nper_hour = 5.99\n",
        "9: budget.per_hour: is 5.99, but the pools' min alone cost 6 an hour",
    ),
    "a money budget without prices": (
        POOL + FLAVOUR + HOST + "[budget]\nper_hour = 5\n",
        "12: budget.per_hour: needs prices, and p has none",
    ),
    "a schedule of more than fits": (
        POOL.replace('"s"', '"s"\nschedule = { replicas = 3 }'),
        "service[s].schedule.replicas: is 3, but the pools of this service have room for 2 (max)",
    ),
    "a fallback of more than fits": (
        POOL.replace('"s"', '"s"\nexternal = { fallback = 3 }'),
        "service[s].external.fallback: is 3, but the pools of this service have room for 2 (max)",
    ),
    "a ratio upside down": (PAIR.replace("RATIO", "min = 2\nmax = 1"), "4: service[s].ratio.min: is 2, above max (1)"),
    "a ratio that no size meets": (
        PAIR.replace("RATIO", "min = 5"),
        "3: service[s].ratio: leaves no size: 1 to 4 prefill and 1 to 4 decode replicas",
    ),
    "a template without a host": (
        POOL + FLAVOUR,
        "7: pool[p].flavour[#1].template: has no place to run: add a [[host]]",
    ),
    "hosts without a template": (POOL + "[[pool.flavour]]\nhosts = ['g']\n" + HOST, "hosts: needs a template"),
    "an unknown host": (POOL + FLAVOUR + "hosts = ['h']\n" + HOST, '.hosts[#1]: there is no [[host]] "h"; known: g'),
    "a host twice": (
        POOL + FLAVOUR + "hosts = ['g', 'g']\n" + HOST,
        '.hosts[#2]: the host "g" stands twice in this list',
    ),
    "an unknown template": (
        POOL + FLAVOUR + HOST + TEMPLATE.replace('"t"', '"tt"'),
        'flavour[#1].template: there is no [[template]] "t"; did you mean "tt"?',
    ),
    "a replica larger than its host": (
        POOL + "gpus_per_replica = 8\n" + FLAVOUR + HOST,
        "6: pool[p].gpus_per_replica: is 8, but host g has 4 GPUs: no replica fits there",
    ),
    "two currencies": (
        '[cost]\ncurrency = "EUR"\n' + POOL + 'currency = "USD"\n',
        "8: pool[p].currency: is USD, but line 2 says EUR: amounts of two currencies are never added",
    ),
    "ports beyond the last": ('[[host]]\nname = "g"\ngpus = 4\nfirst_port = 65533\n', "at most 65532"),
    "a name twice": (HOST + HOST, '5: host[g].name: the host "g" stands twice, first in line 2'),
    "controllers without a token": (
        '[agent]\ncontrollers = ["https://c.example"]\n',
        "1: agent.token_file: is required and missing",
    ),
    "a token in the clear": (
        '[agent]\ntoken_file = "/s/token"\ncontrollers = ["http://10.0.0.1:9092"]\n',
        "3: agent.controllers[#1]: must be https:// beyond loopback",
    ),
    "an unreadable token": (
        '[agent]\ntoken_file = "/s/none"\n',
        "2: agent.token_file: the host's token cannot be read",
    ),
    "a token instead of its file": (
        '[agent]\ntoken_file = "tgh_0123456789abcdef0123456789abcdef"\n',
        "2: agent.token_file: looks like the host's token itself; name the file that holds it",
    ),
    "a window too short for a rate": (
        "[agent]\ninterval_seconds = 30\nwindow_seconds = 45\n",
        "3: agent.window_seconds: must be at least 60",
    ),
    "a view too short for a rate": (
        "[agent]\ninterval_seconds = 30\n[controller]\nview_window_seconds = 45\n",
        "4: controller.view_window_seconds: must be at least 60",
    ),
    "a timeout beyond the interval": (
        "[agent]\ninterval_seconds = 5\nscrape_timeout_seconds = 6\n",
        "3: agent.scrape_timeout_seconds: must be at most the interval between two readings, 5 seconds",
    ),
    "an http source without its address": ('[agent]\ngpu_source = "http"\n', "gpu_url: is required and missing"),
    "an address without the http source": ('[agent]\ngpu_url = "http://h"\n', "2: agent.gpu_url: is read only with"),
    "a host name of no use": ("[agent]\nname = 'a b'\n", "2: agent.name: must be letters, digits"),
    "database twice": (
        '[controller]\ndatabase = "embedded"\ndatabase_file = "/s/dsn"\n',
        "3: controller.database_file: says the same as database: keep one of the two",
    ),
    "a database address of another kind": (
        '[controller]\ndatabase_file = "/s/key"\n',
        '2: controller.database_file: the address in that file must be "embedded" or an address such as',
    ),
    "a password in the database address": (
        '[controller]\ndatabase = "postgresql://u@h/d?password=x"\n',
        "2: controller.database: holds a password: put the whole address into a file",
    ),
    "an engine twice": (
        ENGINE + ENGINE.replace('"e"', '"f"'),
        "6: engine[f].url: is the address of the engine in line 3",
    ),
    "an engine of an unknown pool": (POOL + ENGINE + 'pool = "q"\n', '9: engine[e].pool: there is no [[pool]] "q"'),
    "an engine of an unknown service": (
        POOL + ENGINE + 'service = "q"\n',
        "9: engine[e].service: there is no [[service]]",
    ),
    "an engine between two services": (
        POOL.replace('name = "p"', 'name = "p"\nservice = "s"')
        + '[[service]]\nname = "r"\n'
        + ENGINE
        + 'pool = "p"\nservice = "r"\n',
        "13: engine[e].service: is r, but its pool p belongs to s",
    ),
    "GPUs counted wrong": (
        ENGINE + "gpus = 3\ngpu_indices = [0, 1]\n",
        "4: engine[e].gpus: is 3, but gpu_indices names 2",
    ),
    "a GPU twice": (ENGINE + "gpu_indices = [1, 1]\n", "4: engine[e].gpu_indices: names a GPU twice"),
    "systemd without a unit": ('[[template]]\nname = "t"\nkind = "systemd"\n', "1: template[t].unit: is required"),
    "a process without a command": (
        '[[template]]\nname = "t"\nkind = "process"\n',
        "1: template[t].command: is required",
    ),
    "a unit that is no service": (
        TEMPLATE.replace(".service", ".socket"),
        "4: template[t].unit: must be the name of a unit",
    ),
    "an unknown placeholder": (
        '[[template]]\nname = "t"\nkind = "process"\ncommand = ["x", "{prot}"]\n',
        '4: template[t].command[#2]: {prot} is no placeholder; did you mean "port"?',
    ),
    "an unknown placeholder in a variable": (
        TEMPLATE + 'environment = { A = "{gpu}" }\n',
        '5: template[t].environment.A: {gpu} is no placeholder; did you mean "gpus"?',
    ),
    "a metrics address that is none": (
        TEMPLATE + 'metrics_url = "127.0.0.1:{port}"\n',
        "5: template[t].metrics_url: must be",
    ),
    "one unit for many slots": (
        POOL + FLAVOUR + HOST + TEMPLATE.replace("@{slot}", ""),
        "14: template[t].unit: must hold {slot}: host g has room for more than one",
    ),
    "a drain shorter than the grace": (
        POOL + FLAVOUR + "drain_deadline_seconds = 10\n" + HOST + TEMPLATE + "drain_grace_seconds = 10\n",
        "16: template[t].drain_grace_seconds: must be below drain_deadline_seconds of the pool p (10)",
    ),
    "recover above drop": (
        ALERT + "drop = 0.2\nrecover = 0.2\n",
        "4: alert[#1].recover: recover (0.2) must be below drop",
    ),
    "drop below the default recover": (
        ALERT + "drop = 0.1\n",
        "3: alert[#1].drop: recover (0.15) must be below drop (0.1)",
    ),
    "a window as long as the baseline": (
        ALERT + "window_seconds = 3600\nbaseline_hours = 1\n",
        "3: alert[#1].window_seconds: the window must be shorter than the baseline",
    ),
    "an unknown channel": (
        ALERT + 'channels = ["d"]\n' + CHANNEL + 'url = "https://h"\n',
        'no [[channel]] "d"; known: c',
    ),
    "a channel without an address": (CHANNEL, "1: channel[c].url: is required and missing (or url_file"),
    "a channel with two addresses": (
        CHANNEL + 'url = "https://h"\nurl_file = "/s/key"\n',
        "5: channel[c].url_file: says the same as url",
    ),
    "a channel with two secrets": (
        CHANNEL + 'url = "https://h"\nsecret_file = "/s/key"\nsecret_env = "KEY"\n',
        "6: channel[c].secret_env: says the same as secret_file",
    ),
    "a private address": (CHANNEL + 'url = "http://10.1.2.3/x"\n', "4: channel[c].url: is a private address"),
    "a metadata address": (
        CHANNEL + 'url = "http://169.254.169.254/x"\nallow_private = true\n',
        "4: channel[c].url: is a link-local or multicast address",
    ),
    "a secret that is no key": (
        CHANNEL + 'url = "https://h"\nsecret_file = "/s/dsn"\n',
        "5: channel[c].secret_file: must be whsec_",
    ),
    "a variable that is not set": (
        CHANNEL + 'url = "https://h"\nsecret_env = "NO"\n',
        "the environment variable NO is not set",
    ),
    "one port for both daemons": (
        '[controller]\n[agent]\nlisten = "127.0.0.1:9092"\n',
        "3: agent.listen: the agent and the controller (line 1) both want port 9092",
    ),
    "a slot on the agent's port": (
        POOL + FLAVOUR + HOST.replace("4", "4\nfirst_port = 9088") + '[agent]\nname = "g"\n',
        "a replica on g and the agent (line 12) both want port 9091",
    ),
    "an engine on a slot's port": (
        POOL + FLAVOUR + HOST + '[agent]\nname = "g"\n' + ENGINE.replace("8000", "8102"),
        "15: engine[e].url: the engine e and a replica on g (line 8) both want port 8102",
    ),
    "an unknown figure": ('[observability]\nmetrics = ["qps"]\n', '"qps" is no figure of ours; known: tokens_per_gpu'),
}


@pytest.mark.parametrize(("text", "expected"), BROKEN.values(), ids=BROKEN)
def test_each_broken_relation_is_told_once_at_its_place(text: str, expected: str) -> None:
    (found,) = complaints(text)
    assert expected in found


SOUND = {
    "two engines behind one port": ENGINE + ENGINE.replace('"e"', '"f"').replace("8000", "8000/f/metrics"),
    "two flavours": POOL + FLAVOUR + "name = 'a'\n" + FLAVOUR + "name = 'b'\n" + HOST + TEMPLATE,
    "schedules side by side": (
        POOL
        + SCHEDULE
        + "min = 2\n"
        + SCHEDULE.replace('"20:00"', '"08:00"').replace('"08:00"', '"20:00"', 1)
        + "max = 1\n"
    ),
    "a local time of TOML": POOL + SCHEDULE.replace('"08:00"', "08:00:00") + "min = 1\n",
    "UTC": POOL + SCHEDULE.replace("Asia/Shanghai", "UTC") + "min = 1\n",
    "a ratio that fits": PAIR.replace("RATIO", "min = 0.5\nmax = 2"),
    "a budget as large as the minima": POOL + "min = 2\n[budget]\ngpus = 2\n",
    "threshold above threshold": SERVICE + "[service.threshold]\nscale_in_threshold_gpu_util = 0.5\n",
    "the only service": POOL,
    "every host by default": POOL + FLAVOUR + HOST + TEMPLATE,
    "a controller's file knows no templates": POOL + FLAVOUR + HOST,
    "an agent's file knows no pools": ENGINE + 'pool = "anything"\nservice = "any"\n',
    "plain http on loopback": '[agent]\ntoken_file = "/s/token"\ncontrollers = ["http://localhost:9092/"]\n',
    "JSON on a command line": (
        '[[template]]\nname = "t"\nkind = "process"\ncommand = ["vllm", \'{"kv_connector":"X","n":{}}\', "{port}"]\n'
    ),
    "one unit where one replica fits": POOL.replace("2", "1") + FLAVOUR + HOST + TEMPLATE.replace("@{slot}", ""),
    "a port beyond the only slot": (
        POOL + "gpus_per_replica = 4\n" + FLAVOUR + HOST + '[agent]\nname = "g"\n' + ENGINE.replace("8000", "8101")
    ),
    "free ports": '[controller]\nlisten = "127.0.0.1:0"\n[agent]\nlisten = "127.0.0.1:0"\n',
    "the same port on two addresses": '[controller]\nlisten = "10.0.0.1:9091"\n[agent]\nlisten = "10.0.0.2:9091"\n',
    "a private address that is meant": CHANNEL + 'url = "http://10.1.2.3/x"\nallow_private = true\n',
}


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND)
def test_what_is_sound_is_not_complained_of(text: str) -> None:
    assert complaints(text) == []


NOTED = {
    "a flap at the smallest size": (
        SERVICE.replace('"s"', '"s"\npolicy = "threshold"\nthreshold = { scale_in_threshold_gpu_util = 0.4 }')
        + "[[pool]]\nname = 'p'\nmin = 1\nmax = 4\n",
        "a load just below 0.4 on 2 replicas is 0.80 on 1, above scale_out_threshold_gpu_util (0.75)",
    ),
    "knobs of another policy": (
        SERVICE + 'policy = "slo"\n[service.threshold]\n',
        'is not used: the policy is "slo" (policy = "threshold" uses it)',
    ),
    "a policy by its table": (SERVICE + "[service.target]\n", 'has no policy: "target", because [service.target]'),
    "a window shorter than a look back": (
        SERVICE + "[service.target]\nscale_in_window_seconds = 30\n",
        "is 30, shorter than the time that a reading looks back ([controller] view_window_seconds, 60)",
    ),
    "a cooldown shorter than a look back": (
        SERVICE + "[service.threshold]\ncooldown_seconds = 30\n",
        "4: service[s].threshold.cooldown_seconds: is 30, shorter than",
    ),
    "a ratio of no pair": (
        SERVICE + "[service.ratio]\nmin = 1\n[[pool]]\nname = 'p'\n",
        "is not used: the service has no pair",
    ),
    "a service without a pool": (SERVICE, "has no pool: nothing is sized for it"),
    "no price": (POOL, "no price_per_gpu_hour for p: their cost is not known"),
    "only observed": (POOL, "replicas of p are observed, never started or stopped; a [[pool.flavour]] with a template"),
    "more wanted than fits": (POOL.replace("2", "9") + FLAVOUR + HOST, "is 9, but its hosts have room for 4 replicas"),
    "an alert for nobody": (ALERT, "has no channels: it shows on the status page and tells nobody"),
    "a window of odd length": (ALERT + "window_seconds = 700\n", "is taken in whole five minutes, rounded down"),
    "a channel for nothing": (CHANNEL + 'url = "https://h"\n', "is named by no [[alert]]"),
    "a channel without a key": (CHANNEL + 'url = "https://h"\n', "has no secret"),
    "a token for nobody": ('[agent]\ntoken_file = "/s/token"\n', "is not used: no controllers are named"),
    "an agent that no host names": (HOST + '[agent]\nname = "h"\n', "no [[host]] is called h"),
    "one unit, hosts unknown": (TEMPLATE.replace("@{slot}", ""), "serves for one replica on this host"),
    "GPUs of an engine unknown": (ENGINE + TEMPLATE, "has no gpu_indices: on a host where it is not known"),
    "no window to shrink in": (
        SERVICE + "[service.target]\nscale_in_window_seconds = 0\n",
        "is 0: one quiet moment closes replicas at once",
    ),
}


@pytest.mark.parametrize(("text", "expected"), NOTED.values(), ids=NOTED)
def test_what_is_unwise_or_unused_is_noted_and_not_refused(text: str, expected: str) -> None:
    assert [note for note in notes(text) if expected in note]


def test_a_refused_value_raises_no_second_complaint_about_its_relations() -> None:
    text = POOL.replace("max = 2", 'max = "two"') + "min = 7\n"
    assert complaints(text) == ['5: pool[p].max: must be a number, 0 to 10000, not "two"; write it without quotes']


def test_a_reference_to_a_refused_table_is_not_unknown() -> None:
    text = POOL + FLAVOUR + "hosts = ['g']\n" + '[[host]]\nname = "g"\ngpus = "four"\n'
    assert complaints(text) == ['11: host[g].gpus: must be a number, 1 to 128, not "four"; write it without quotes']


def test_a_short_key_is_noted() -> None:
    short = FakeSecrets(variables={"KEY": "whsec_c2hvcnQ="})
    text = CHANNEL + 'url = "https://h"\nsecret_env = "KEY"\n'
    assert any("is a key of 5 bytes" in note for note in read(text, short).notes)
    assert not any("bytes" in note for note in read(text, FakeSecrets(variables={"KEY": KEY})).notes)


def test_the_default_policy_is_the_objective_and_a_schedule_keeps_its_zone() -> None:
    text = SERVICE + "[service.slo]\nttft_seconds = 1.5\nattainment = 0.995\n" + POOL.removeprefix(SERVICE) + SCHEDULE
    fleet = read(text + "days = ['sat', 'sun']\nmax = 1\n").fleet
    (service,), (pool,) = fleet.services.values(), fleet.pools.values()
    (schedule,) = pool.schedules

    assert (service.policy, service.slo) == (PolicyName.SLO, SloPolicy(1.5, 0.06, 0.995))
    assert (schedule.days, schedule.minimum, schedule.maximum) == (frozenset({5, 6}), None, 1)
    assert (schedule.start, schedule.end, str(schedule.zone)) == (time(8), time(20), "Asia/Shanghai")


def test_every_key_of_a_flavour_and_the_limits_arrive() -> None:
    text = (
        POOL
        + FLAVOUR
        + "name = 'reserved'\nstart_seconds = 90\nminimum_hold_seconds = 600\nbilling_increment_seconds = 3600\n"
        + "gpu_limit = 4\nprice_per_gpu_hour = 2\n"
        + FLAVOUR
        + "name = 'spot'\nhosts = ['g']\nprice_per_gpu_hour = 1\n"
        + HOST
        + "[budget]\ngpus = 4\nper_hour = 7.5\n"
    )
    fleet = read(text).fleet
    (pool,) = fleet.pools.values()
    first, second = pool.flavours

    assert (first.name, first.start_time, first.minimum_hold) == (
        "reserved",
        timedelta(seconds=90),
        timedelta(minutes=10),
    )
    assert (first.billing_increment, first.gpu_limit, first.price_per_gpu_hour) == (timedelta(hours=1), 4, Decimal(2))
    assert (second.name, second.hosts, second.price_per_gpu_hour) == ("spot", ("g",), Decimal(1))
    assert fleet.budget == Budget(4, Decimal("7.5"))
