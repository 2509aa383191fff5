"""What a setting takes, in words, and values as YAML reads them back."""

from typing import Annotated, Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model
from ruamel.yaml import YAML

from cse_methods.contract import MethodConfig
from cse_methods.setting_text import kind_of, yaml_text
from cse_methods.settings import Settings

Setting = tuple[type[BaseModel], str]


class Named(Settings):
    name: str
    size: int = 1


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.sampled_from([0.05, 3e-5, 1.0])
    | st.from_regex(r"[ -~]{0,20}", fullmatch=True),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.from_regex("[a-z][a-z_]{0,5}", fullmatch=True), inner, max_size=3)
)  # fmt: skip


def field(annotation: Any, **told: Any) -> Setting:
    return create_model("Model", x=(annotation, Field(**told))), "x"


def test_kinds_by_hand() -> None:
    table: list[tuple[Setting, str]] = [
        *((field(float, gt=0), "number > 0"), (field(float, ge=0, lt=1), "number >= 0, < 1")),
        (field(int | None, ge=4, le=512, default=None), "whole number >= 4, <= 512 or null"),
        *((field(bool), "true or false"), (field(str, min_length=1), "text")),
        (field(Literal["cls", "avg", "mask"]), "cls, avg or mask"),
        (field(Literal["z+"] | int), "z+ or whole number"),
        (field(tuple[str, str]), "[text, text]"),
        (field(tuple[Annotated[float, Field(ge=0)], ...] | None), "[number >= 0, …] or null"),
        (
            field(Literal["a"] | dict[int, Annotated[float, Field(ge=0)]]),
            "a or a mapping to number >= 0",
        ),
        (field(list[Named], min_length=2), "[{name, size}, …], 2 or more"),
        (
            (MethodConfig, "corpus"),
            "text or [{format, separator, where, name, drop_empty, split_at, first, transductive, "
            "column, columns}, …], 1 or more",
        ),
        ((MethodConfig, "dev"), "{checkpoint, search, also}"),
    ]
    for kind, words in table:
        assert kind_of(*kind) == words


def test_values_by_hand() -> None:
    table: list[tuple[Any, str]] = [
        *((None, "null"), (True, "true"), (3e-5, "3e-05"), (1.0, "1"), (1 / 3, "0.333333")),
        *(("z+", "z+"), ("null", "'null'"), ("it's", "'it''s'"), ("3", "'3'"), ("", "''")),
        ((0.05, "avg"), "[0.05, avg]"),
        ({"low": 16, "high": None}, "{low: 16, high: null}"),
        (Named(name="a"), "{name: a, size: 1}"),
    ]
    for value, text in table:
        assert yaml_text(value) == text


@settings(max_examples=30)
@given(VALUES)
def test_yaml_reads_a_value_back(value: Any) -> None:
    assert YAML(typ="safe", pure=True).load(yaml_text(value)) == value
