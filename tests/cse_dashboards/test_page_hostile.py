"""Addresses and sweeps of somebody else: whatever they contain, the answer is a page."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
import waitress
from flask import Flask
from flask.testing import FlaskClient
from sweep_events import sweep_started, trial_life

from cse_dashboards.errors import ServeError
from cse_dashboards.page.app import create_app, serve
from cse_dashboards.page.control import Control
from cse_platform.tracking.events import Event

VALUES = (
    0.1, 0.02, "high", "", "1e400", None, True, 0, 3, -0.5, 1e308, 5e-324, 10**30, 10**400,
    [1, 2], [], [[[1]]], {}, {"a": {"b": 1}},
)  # fmt: skip
"""What a journal may say under a name whose values were numbers elsewhere."""


def mixed_sweep() -> Iterator[Event]:
    space = {"tau2": {"low": 0.001, "high": 1.0, "log": True}, "rank_loss": ["listnet", "listmle"],
             "tau3": {"low": 0, "high": 9}}  # fmt: skip
    yield sweep_started("mixed", spec={"space": space})
    for number, value in enumerate(VALUES):
        values = {"tau2": value, "tau3": VALUES[-1 - number], "rank_loss": value}
        yield from trial_life(
            number, {0: 0.5, 5: 0.5 + number / 100}, sweep="mixed", values=values,
            searched=("tau2", "rank_loss", "tau3"), configuration=f"{number + 16:x}" * 32,
            measured={"dev/alignment": number / 9, "perf/speed": 1e300 * number},
        )  # fmt: skip


@pytest.fixture(scope="module")
def client(
    filled_with: Callable[..., str], two_methods: list[Event],
    tmp_path_factory: pytest.TempPathFactory,
) -> FlaskClient:  # fmt: skip
    control = Control(tmp_path_factory.mktemp("runs"))
    url = filled_with(*two_methods, *mixed_sweep())
    client = create_app(url, control=control).test_client()
    client.set_cookie(control.cookie, control.token)
    return client


ROWS = "rows=hicl,simcse"
VIEWS = {
    "/": "backbone method sweep tag hardware identity since tasks sort every against search",
    "/parts/standing/": "since against search sort", "/as/csv/": "since sort", "/as/json/": "since",
    "/papers/rankcse/table4": "since backbone", "/sweeps": "page", "/stamp/sweeps": "",
    "/parts/listed/sweeps": "page", "/compare": "rows tasks backbone identity task x y metric",
    f"/compare?{ROWS}": "task metric x", f"/parts/differences/compare?{ROWS}": "task",
    f"/parts/curves/compare?{ROWS}": "metric", f"/parts/pairs/compare?{ROWS}": "task x y",
    "/geometry": "show sentences by query since", "/parts/numbers/geometry": "since tag",
    "/sweeps/mixed": "metric x y where narrow state sort page columns",
    "/sweeps/mixed?narrow=tau2": "to", "/parts/live/sweeps/mixed": "", "/stamp/sweeps/mixed": "",
    "/parts/trials/sweeps/mixed": "where sort page columns",
    "/as/csv/sweeps/mixed": "where sort columns", "/parts/best/sweeps/mixed": "metric where",
    "/parts/running/sweeps/mixed": "metric", "/parts/search/sweeps/mixed": "where",
    "/parts/hyperparameters/sweeps/mixed": "where", "/parts/pair/sweeps/mixed": "where x y",
    "/parts/pair/sweeps/mixed?x=tau2&y=tau3": "", "/sweeps/mixed/stop": "trial",
    f"/trials/{'1a' * 32}-42": "metric", f"/csv/dev_curve/trials/{'1a' * 32}-42": "metric",
}  # fmt: skip
"""The views, each with its parameters."""
FAILED_BEFORE = {
    "/?since=0001-01-01": 200, "/?since=9999-12-31": 200, "/?since=0001-01-01T00:00%2B14:00": 400,
    "/as/csv/sweeps/mixed?sort=x": 404, f"/?hardware={'x' * 60_000}": 400,
    **{
        f"/parts/search/sweeps/mixed?{urlencode({'where': where})}": status
        for where, status in {
            r'tau2 = "\ud800"': 400, f"tau2 in [{', '.join(map(str, range(20_000)))}]": 400,
            f"tau2 = {'[' * 900}{']' * 900}": 400, "error = null": 200,
            f"tau2 in [{', '.join(map(str, range(500)))}]": 200,
            " and ".join(f"tau2 >= {n}" for n in range(3000)): 400,
        }.items()
    },
}  # fmt: skip
"""Addresses with the status of their answer."""


def fails(client: FlaskClient, address: str) -> str | None:
    """What goes wrong; None if the answer is a page, and quickly made."""
    try:
        answer = client.get(address)
    except Exception as error:  # of a file that is being sent
        return f"{address[:150]}: {error!r:.150}"
    return None if answer.status_code in (200, 400, 404) else f"{address[:150]}: {answer.status}"


def test_sweeps_and_addresses_of_somebody_else_are_pages(client) -> None:
    found = [fails(client, address) for address in VIEWS]
    assert list(filter(None, found)) == []
    for address, status in FAILED_BEFORE.items():
        assert client.get(address).status_code == status, address[:150]


@pytest.mark.slow
def test_no_value_of_any_parameter_is_a_bug(client) -> None:
    hostile = (
        "0001-01-01", "9999-12-31T23:59-14:00", "2026-13-45", "-1", "0", "9" * 40, "9" * 5000,
        "1e400", "nan", "inf", "\0", "\ufffd", "%", "'", '"', "\\", "x" * 60_000, "１", "tau2",
        "-tau2", "-number", "--", "dev/alignment", "/", "#", "mixed#1", f"mixed#{'9' * 30}",
        "hicl@", ",".join(map(str, range(17))), "tau2 in [1, [1, 2], high, null, true]",
        "tau2 >= 1e308 and number = 1e300", "number in [9223372036854775807, [1], {}]", "[1] = 2",
    )  # fmt: skip
    found = [
        fails(client, f"{view}{'&' if '?' in view else '?'}{urlencode({name: value})}")
        for view, names in VIEWS.items()
        for name in names.split()
        for value in hostile
    ]
    assert list(filter(None, found)) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "LOCALHOST", "127.1", "[::1]"])
def test_the_page_answers_to_the_names_of_this_machine_alone(host, lab_url, monkeypatch) -> None:
    served: list[Flask] = []

    def take(app: Flask, **_how: Any) -> SimpleNamespace:
        return SimpleNamespace(run=lambda: served.append(app))

    monkeypatch.setattr(waitress, "create_server", take)
    try:
        serve(lab_url, host=host, port=0)
    except Exception as error:
        pytest.skip(f"this machine has no {host}: {error}")
    with pytest.raises(ServeError, match="empty"):
        serve(lab_url, host="", port=0)
    client = served[0].test_client()
    for named, status in {
        "localhost:8913": 200, "127.0.0.1": 200, "[::1]:8913": 200, "[::1]": 200, "LOCALHOST": 200,
        "evil.example": 400, "localhost.evil.example:80": 400, "[::1": 400, "[::2]": 400, "": 400,
    }.items():  # fmt: skip
        assert client.get("/sweeps", headers={"Host": named}).status_code == status, named
