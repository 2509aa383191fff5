import json
import re
from functools import partial
from importlib import import_module
from importlib.metadata import version

import click
from click.testing import CliRunner
from commands import invoke
from outside_methods import lay_metadata
from processes import python

from cse_methods.registry import available_methods, get_method
from cse_platform.cli.common import shows_errors
from cse_platform.cli.sweep import main

PROGRAMS = {
    name: f"cse_platform.cli.{name}" for name in ("sweep", "leaderboard", "data", "evaluate")
}
PROGRAMS["dashboard"] = "cse_dashboards.cli"
HELP = """
import contextlib, io, sys
from importlib import import_module
with contextlib.redirect_stdout(io.StringIO()):
    for module in sys.argv[1:]:
        main = import_module(module).main
        for command in ([], *([name] for name in getattr(main, "commands", ()))):
            main([*command, "--help"], standalone_mode=False)
heavy = "torch ray mlflow optuna sqlalchemy transformers pydantic numpy scipy sklearn rich jinja2"
print(*(name for name in heavy.split() if name in sys.modules))
"""


def test_every_program_has_a_version_and_every_command_help_with_an_example() -> None:
    for name, module in PROGRAMS.items():
        main, program = import_module(module).main, f"cse-{name}"
        told = invoke(main, "--version", prog_name=program)
        assert told.output == f"{program} {version('cse-platform')}\n"
        for command in ([], *([one] for one in getattr(main, "commands", ()))):
            shown = invoke(main, *command, "-h").output
            assert f"{program} " in shown and not re.search(r"\w\.\.\.$", shown, re.M), command


def test_an_option_of_one_value_is_refused_if_it_is_given_twice() -> None:
    refused, accepted = [], []
    for program, module in PROGRAMS.items():
        main = import_module(module).main
        for command in (main, *getattr(main, "commands", {}).values()):
            for option in command.params:
                is_single = isinstance(option, click.Option) and not option.multiple
                if is_single and not (option.is_flag or option.count):
                    name, said = option.opts[0], ""
                    try:
                        command.make_context(program, [name, "A", name, "B"])
                    except click.UsageError as error:
                        said = error.message
                    as_meant = said == f"{name} is given twice (A, B); it takes one value"
                    (refused if as_meant else accepted).append((program, command.name, name))
    assert not accepted
    assert len(refused) > 50


def test_help_reads_no_heavy_library_and_a_log_has_a_line_before() -> None:
    done = python(HELP, *PROGRAMS.values())
    assert (done.stdout, done.stderr) == ("\n", "")
    for command, stream in (("sweep", "stdout"), ("evaluate", "stderr")):
        code = (
            "import sys; sys.modules.update(dict.fromkeys(['torch', 'pydantic', 'ray']))\n"
            f"from cse_platform.cli.{command} import main; main(['something'])"
        )
        done = python(code, check=False)
        assert "ModuleNotFoundError" in done.stderr  # it reads them next
        assert getattr(done, stream).startswith("reading something")


def test_ctrl_c_is_exit_code_130() -> None:
    @click.command()
    @shows_errors
    def interrupted() -> None:
        raise KeyboardInterrupt

    assert CliRunner().invoke(interrupted, []).exit_code == 130


typed = partial(invoke, main, "describe")


def test_json_has_every_setting() -> None:
    written = {each["name"]: each for each in json.loads(typed("--json").stdout)}
    for name in available_methods():
        shown = [row["name"] for group in written[name]["groups"] for row in group["rows"]]
        assert sorted(shown) == sorted(get_method(name).config.model_fields)


def test_broken_packages_break_no_listing_and_no_other_command(tmp_path, monkeypatch) -> None:
    sources = {"brokencse": "x = (", "exitcse": "raise SystemExit(0)", "simcse": "1 / 0"}
    for name, source in sources.items():
        lay_metadata(tmp_path, f"lab_{name}", {name: f"lab_{name}"})
        (tmp_path / f"lab_{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    listing = typed()
    listed = {line.split()[0] for line in listing.stdout.rstrip().splitlines()[2:]}
    assert listed == set(available_methods()) - {"brokencse", "exitcse"}
    warnings = listing.stderr.splitlines()
    assert [f"{tmp_path}/lab_{name}.py, line 1" in line for name, line in zip(
        ("brokencse", "exitcse"), warnings, strict=False)] == [True, True]  # fmt: skip
    assert "'lab_simcse' of lab_simcse 1.0" in warnings[2]
    used = typed("simcse")
    assert used.stderr.splitlines() == [warnings[2]]
    assert typed("rankcse").stderr == ""
    refused = typed("exitcse", code=1)
    assert refused.stdout == ""
    assert "SystemExit: 0" in refused.stderr
    monkeypatch.chdir(tmp_path)
    sweep = {"method": "brokencse", "backbone": "mini", "corpus": "builtin", "data": "builtin"}
    sweep |= {"sweep": "s", "search": {"trials": 1}}
    (tmp_path / "s.yaml").write_text(json.dumps(sweep))
    broken = invoke(main, "s.yaml", "--dry-run", code=1)
    assert "lab_brokencse.py, line 1" in broken.stderr
    (tmp_path / "s.yaml").write_text(json.dumps(sweep | {"method": "simcse"}))
    assert warnings[2] in invoke(main, "s.yaml", "--dry-run").stderr
