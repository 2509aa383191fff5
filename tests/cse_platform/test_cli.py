"""What all commands share: help with an example, no heavy library for it, and exit codes."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version

import click
from click.testing import CliRunner

from cse_platform.cli.common import shows_errors

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
        told = CliRunner().invoke(main, ["--version"], prog_name=program)
        assert (told.exit_code, told.output) == (0, f"{program} {version('cse-platform')}\n")
        for command in ([], *([one] for one in getattr(main, "commands", ()))):
            helped = CliRunner().invoke(main, [*command, "-h"])
            assert (helped.exit_code, f"{program} " in helped.output) == (0, True), command


def test_help_reads_no_heavy_library() -> None:
    command = [sys.executable, "-c", HELP, *PROGRAMS.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("\n", "")


def test_a_log_has_a_line_before_heavy_libraries_are_read() -> None:
    for command, stream in (("sweep", "stdout"), ("evaluate", "stderr")):
        code = (
            "import sys; sys.modules.update(dict.fromkeys(['torch', 'pydantic', 'ray']))\n"
            f"from cse_platform.cli.{command} import main; main(['something'])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert "ModuleNotFoundError" in done.stderr  # it reads them next
        assert getattr(done, stream).startswith("reading something")


def test_ctrl_c_is_exit_code_130() -> None:
    @click.command()
    @shows_errors
    def interrupted() -> None:
        raise KeyboardInterrupt

    assert CliRunner().invoke(interrupted, []).exit_code == 130
