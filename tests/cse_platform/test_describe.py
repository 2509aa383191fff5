"""`cse-sweep describe`: its pages and JSON."""

import json

from click.testing import CliRunner, Result
from outside_methods import lay_metadata

from cse_methods.registry import available_methods, get_method
from cse_platform.cli.sweep import main


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["describe", *arguments])


def test_json_has_every_setting_and_a_page_shows_departures_last() -> None:
    written = {each["name"]: each for each in json.loads(typed("--json").stdout)}
    for name in available_methods():
        shown = [row["name"] for group in written[name]["groups"] for row in group["rows"]]
        assert sorted(shown) == sorted(get_method(name).config.model_fields)
    page = typed("rankcse").stdout
    table = page[page.index("setting ") : page.index("Published settings")]
    assert max(map(len, table.splitlines())) <= 100  # in a pipe, too
    places = [page.index(text) for text in ("tau3 (τ3)", "batch_size ", "Departs from it: every")]
    assert places == sorted(places)


def test_without_a_method_there_is_a_line_for_each() -> None:
    _, _, *lines = typed().stdout.rstrip().splitlines()
    assert [line.split()[0] for line in lines] == available_methods()
    result = typed("simsce", "rankcse")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: no method 'simsce'. Did you mean 'simcse'? Known: ")


def test_broken_packages_break_no_listing_and_no_other_command(tmp_path, monkeypatch) -> None:
    sources = {"brokencse": "x = (", "exitcse": "raise SystemExit(0)", "simcse": "1 / 0"}
    for name, source in sources.items():
        lay_metadata(tmp_path, f"lab_{name}", {name: f"lab_{name}"})
        (tmp_path / f"lab_{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    listing = typed()
    assert listing.exit_code == 0
    listed = {line.split()[0] for line in listing.stdout.rstrip().splitlines()[2:]}
    assert listed == set(available_methods()) - {"brokencse", "exitcse"}
    warnings = listing.stderr.splitlines()
    assert [f"{tmp_path}/lab_{name}.py, line 1" in line for name, line in zip(
        ("brokencse", "exitcse"), warnings, strict=False)] == [True, True]  # fmt: skip
    assert "'lab_simcse' of lab_simcse 1.0" in warnings[2]
    used = typed("simcse")
    assert (used.exit_code, used.stderr.splitlines()) == (0, [warnings[2]])
    assert typed("rankcse").stderr == ""
    refused = typed("exitcse")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "SystemExit: 0" in refused.stderr
    monkeypatch.chdir(tmp_path)
    sweep = {"method": "brokencse", "backbone": "mini", "corpus": "builtin", "data": "builtin"}
    sweep |= {"sweep": "s", "search": {"trials": 1}}
    (tmp_path / "s.yaml").write_text(json.dumps(sweep))
    broken = CliRunner().invoke(main, ["s.yaml", "--dry-run"])
    assert (broken.exit_code, "lab_brokencse.py, line 1" in broken.stderr) == (1, True)
    (tmp_path / "s.yaml").write_text(json.dumps(sweep | {"method": "simcse"}))
    shadowed = CliRunner().invoke(main, ["s.yaml", "--dry-run"])
    assert (shadowed.exit_code, warnings[2] in shadowed.stderr) == (0, True), shadowed
