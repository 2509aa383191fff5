from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, create_model
from ruamel.yaml import YAML

from cse_methods.config import Above, MethodConfig, TrainingConfig
from cse_methods.contract import Method, PublishedSettings
from cse_methods.describe import Description, SearchedSetting, SettingRow, describe_method
from cse_methods.registry import available_methods, get_method
from cse_methods.setting_text import kind_of, yaml_text
from cse_methods.settings import Settings

Described = list[tuple[Method, Description]]


@pytest.fixture(scope="module")
def described() -> Described:
    """All methods, each with what is told of it."""
    methods = [get_method(name) for name in available_methods()]
    assert len(methods) >= 20
    return [(method, describe_method(method)) for method in methods]


def rows(description: Description) -> list[SettingRow]:
    return [row for group in description.groups for row in group.rows]


def validated(method: Method, setting: str, value: Any) -> Any:
    field = method.config.model_fields[setting]
    kind: Any = Annotated[field.annotation, field]
    return TypeAdapter(kind).validate_python(value)


def read(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def test_each_setting_is_described_once_with_symbol_and_source(described: Described) -> None:
    known = Counter[str]()
    for method, told in described:
        assert sorted(row.name for row in rows(told)) == sorted(method.config.model_fields)
        for row in rows(told):
            extra = method.config.model_fields[row.name].json_schema_extra or {}
            assert isinstance(extra, dict)
            assert (row.symbol, row.source) == (extra.get("symbol", ""), extra.get("source", ""))
            assert row.description
            known.update(symbol=bool(row.symbol), source=bool(row.source))
        assert told.groups[0].title == f"Settings of {method.name}"
    assert min(known["symbol"], known["source"]) > 20


def test_every_bound_is_described(described: Described) -> None:
    """By the JSON schema, which pydantic makes of the same class in its own way."""
    signs = {"minimum": ">=", "maximum": "<=", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
    found = Counter[str]()
    for method, told in described:
        properties = method.config.model_json_schema()["properties"]
        for row in rows(told):
            schema = properties[row.name]
            for part in (schema, *schema.get("anyOf", ())):
                found.update(part.keys() & {*signs, "enum"})
                for key in part.keys() & signs.keys():
                    assert f"{signs[key]} {part[key]:g}" in row.kind
                assert all(yaml_text(choice) in row.kind for choice in part.get("enum", ()))
    assert found.keys() == {*signs, "enum"}


def test_the_described_default_is_the_one_that_applies(described: Described) -> None:
    taken = Counter[str]()
    for method, told in described:
        alone = method.config.dependent_defaults({})
        for row in rows(told):
            field = method.config.model_fields[row.name]
            if field.is_required():
                assert row.default == "required"
                taken["required"] += 1
                continue
            value = validated(method, row.name, read(row.default.partition("; follows")[0]))
            assert value == alone.get(row.name, field.default)
            taken["dependent" if row.name in alone else "own"] += 1
    assert taken.keys() == {"required", "dependent", "own"}


def test_every_condition_can_be_met(described: Described) -> None:
    met = Counter[str]()
    for method, told in described:
        by_name = {row.name: row for row in rows(told)}
        assert method.config.conditions.keys() == {r.name for r in rows(told) if r.only_with}
        for name, condition in method.config.conditions.items():
            for other, allowed in condition.items():
                met[type(allowed).__name__] += 1
                if not isinstance(allowed, tuple):
                    assert by_name[name].only_with == f"{other}: {allowed}"
                    above = isinstance(allowed, Above)
                    some = allowed.bound + 1 if above else [[], [allowed.entry]]
                    assert validated(method, other, some) in allowed
                    continue
                assert f"{other}: {' or '.join(map(yaml_text, allowed))}" in by_name[name].only_with
                assert [validated(method, other, value) for value in allowed] == list(allowed)
    assert len(met) >= 3 and "tuple" in met


def test_every_published_value_and_search_is_described(described: Described) -> None:
    published_at_all = searched_at_all = 0
    for method, told in described:
        for column, published in zip(told.columns, method.published, strict=True):
            assert (column.backbone, column.source) == (published.backbone, published.source)
            variant = read(f"{{{column.variant}}}")
            here = {**told.throughout, **column.values}
            for name, value in published.settings.items():
                assert here[name] == yaml_text(value) if name in here else variant[name] == value
                published_at_all += 1
        searched = [space for p in method.published for space in p.searched.items()]
        expected = {(name, yaml_text(space)) for name, space in searched}
        assert {(s.name, s.space) for s in told.searched} == expected
        searched_at_all += len(expected)
    assert min(published_at_all, searched_at_all) > 10


class Widened(TrainingConfig):
    """Another default for a shared setting, and one that follows it."""

    max_length: int = 64

    @classmethod
    def dependent_defaults(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Fewer dev points at the published rate of a large encoder."""
        large = values.get("learning_rate") == 1e-5
        return {**super().dependent_defaults(values), "eval_steps": 250 if large else 200}


def test_a_shared_setting_that_a_method_changes_is_listed_as_its_own() -> None:
    published = tuple(
        PublishedSettings(backbone, {"learning_rate": rate}, "table 1", searched={"epochs": (1, 2)})
        for backbone, rate in [("bert-base", 3e-5), ("bert-large", 1e-5)]
    )
    simcse = get_method("simcse")
    changed = Method("widened", Widened, simcse.paper, 1, simcse.train, published)
    own = describe_method(changed).groups[0].rows
    assert [(row.name, row.default) for row in own] == [
        ("max_length", "64"), ("eval_steps", "200; follows learning_rate")
    ]  # fmt: skip
    assert describe_method(changed).searched == (SearchedSetting("epochs", "[1, 2]", "all"),)


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


def test_kinds_of_settings_are_described_in_words() -> None:
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


def test_values_are_written_as_in_a_sweep_file() -> None:
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
