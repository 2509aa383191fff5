from datetime import UTC, date, datetime
from typing import get_args
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cse_dashboards.errors import AddressError
from cse_dashboards.figures.labels import Encoded
from cse_dashboards.page.address import (
    Address,
    BoardAddress,
    CompareAddress,
    GeometryAddress,
    SweepAddress,
    TrialAddress,
)
from cse_platform.leaderboard.ranking import ORDERS

TEXTS = st.none() | st.text(min_size=1)
NAMES = st.lists(st.text(min_size=1).filter(lambda name: "," not in name), max_size=16).map(tuple)
DAYS = st.none() | st.dates().map(str)
FAMILIES = st.sampled_from(("sts", "transfer", "ranking", "long"))
FILTERS = {
    **dict.fromkeys(("backbone", "method", "sweep", "tag", "hardware", "identity"), TEXTS),
    "since": DAYS,
}
ADDRESSES = st.one_of(
    st.builds(
        BoardAddress, **FILTERS, tasks=st.none() | FAMILIES,
        sort=st.sampled_from(sorted(ORDERS)), every=st.booleans(), published=st.booleans(),
    ),
    st.builds(
        SweepAddress, name=st.text(min_size=1), metric=TEXTS, x=TEXTS, y=TEXTS,
        where=st.sampled_from(("", "a >= 1 and b in [x, y]", '"b c" = "%" and d < 3')),
        state=st.sampled_from((None, "FAIL")), sort=st.text(min_size=1),
        page=st.integers(1, 9), columns=NAMES,
    ),
    st.builds(TrialAddress, key=st.text("0123456789abcdef", min_size=6)),
    st.builds(
        CompareAddress, rows=NAMES, tasks=FAMILIES, backbone=TEXTS, identity=TEXTS, task=TEXTS,
        x=TEXTS, y=TEXTS,
    ),
    st.builds(
        GeometryAddress, **FILTERS, show=st.sampled_from((None, *get_args(Encoded))),
        sentences=TEXTS, by=st.sampled_from(("pca", "umap")), query=TEXTS,
    ),
)  # fmt: skip


@settings(max_examples=50)
@given(ADDRESSES)
def test_a_link_is_read_back_as_what_it_was_made_of(address: Address) -> None:
    url = urlsplit(address.link())
    of_path = {name for name in type(address).model_fields if f"{{{name}}}" in address.PATH}
    path = {name: unquote(url.path.rpartition("/")[2]) for name in of_path}
    query = parse_qsl(url.query, keep_blank_values=True)
    assert type(address).read(query, **path) == address


def test_links_name_what_is_chosen_and_forms_may_repeat_it() -> None:
    address = BoardAddress(backbone="bert-base", since="2026-01-02")
    assert address.link() == "/?backbone=bert-base&since=2026-01-02"
    changed = address.link(backbone=None, sort="rank", every=True)
    assert changed == "/?since=2026-01-02&sort=rank&every=yes"
    assert SweepAddress(name="a/b c").link(x="tau2") == "/sweeps/a%2Fb%20c?x=tau2"
    assert SweepAddress(name="s").part_link("/parts/live") == "/parts/live/sweeps/s"
    query = [("rows", "a"), ("rows", "b,c"), ("rows", "a"), ("rows", "")]
    address = CompareAddress.read(query)
    assert address.rows == ("a", "b", "c")
    assert address.link() == "/compare?rows=a,b,c"
    assert address.link_against("c") == "/compare?rows=c,a,b"
    assert address.link_without("b") == "/compare?rows=a,c"
    # A control that nothing was chosen in comes without a value.
    query = [("backbone", ""), ("method", "hicl"), ("since", ""), ("sort", "")]
    assert BoardAddress.read(query) == BoardAddress(method="hicl")


def test_filters_are_those_of_the_leaderboard() -> None:
    filters = BoardAddress(method="hicl", since="2026-01-02", tag="paper").filters
    assert (filters.method, filters.tag, filters.backbone) == ("hicl", "paper", None)
    assert filters.since is not None and filters.since.tzinfo is UTC
    assert (filters.since.date(), filters.since.hour) == (date(2026, 1, 2), 0)
    at = BoardAddress.read([("since", "2026-01-02 10:36")])
    assert (at.filters.since, at.link()) == (
        datetime(2026, 1, 2, 10, 36, tzinfo=UTC), "/?since=2026-01-02+10:36",
    )  # fmt: skip


def test_what_means_nothing_is_named() -> None:
    for query, sentence in (
        ("format=json", r"^format: no such key; did you mean 'sort'\?$"),
        ("nsgaii=1", "^nsgaii: no such key; known: against, .*, tasks$"),
        ("hyperband=1", "^hyperband: no such key; known: against, .*, tasks$"),
        ("bakbone=x", r"^bakbone: no such key; did you mean 'backbone'\?$"),
        ("tasks=tst", r"^tasks: expected 'sts', 'transfer', .* got 'tst'; did you mean 'sts'\?$"),
        ("every=perhaps", r"^every: expected true or false, got 'perhaps'$"),
        ("since=monday", r"^since: expected .*date.*, got 'monday'$"),
        ("method=a&method=b", r"^the address names 'method' twice; once is enough$"),
        ("every=perhaps&x=1", r"x: no such key.*every: expected|every: expected.*x: no such key"),
    ):
        with pytest.raises(AddressError, match=sentence):
            BoardAddress.read(parse_qsl(query))
    with pytest.raises(AddressError, match="names 'name' twice"):
        SweepAddress.read([("name", "other")], name="sweep")
