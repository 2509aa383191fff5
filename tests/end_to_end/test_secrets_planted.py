import gzip
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from outside_methods import lay_metadata, with_outside_methods
from processes import git, run_command
from sweeps import Sweep

from cse_platform.tracking.events import TrialFinished

pytestmark = pytest.mark.slow

KINDS = (
    *("origin_user", "origin_key", "package_origin"),
    *("diff_store", "diff_literal", "diff_dotenv", "diff_aws", "diff_url_key", "diff_json"),
    *("env_hf", "env_store", "env_password", "env_pass", "env_lines"),
    *("command_url", "command_option"),
    *("raised_url", "raised_bearer", "raised_key", "raised_cause", "raised_source", "raised_env"),
    *("raised_basic", "raised_digest", "raised_cookie", "raised_own"),
    *("printed", "printed_basic", "warned", "raised_shape"),
)
SECRET = {kind: f"Zq{place:02d}x7Kp9Lm{place:02d}Wd4" for place, kind in enumerate(KINDS)}
SECRET["raised_shape"] = "ghp_Zq99x7Kp9Lm99Wd4Zq99x7"

METHOD = """
import os
import warnings

from cheap import CheapConfig, train as train_cheaply
from cse_methods.contract import Paper
from cse_methods.registry import register

PASSWORD = "nothing yet"


@register("leaky", config=CheapConfig, paper=Paper("Leaky", "https://a.org", 2020), revision=1)
def train(config, run):
    os.environ["OWN_AUTH"] = "{raised_own}"  # which the driver's environment lacks
    print("logs in with password={printed}")
    print({"Authorization": "Basic {printed_basic}"}, "as " + os.environ["LAB_PASS"])
    warnings.warn("https://lab:{warned}@hub.example/model is slow")
    if config.kind == "b":
        try:
            raise ConnectionError("client_secret: {raised_cause}")
        except ConnectionError as error:
            wrong = "https://hub.example/m?api_key={raised_key} says {raised_shape} is not valid"
            secret_of_line = dict(token="{raised_source}")
            raise RuntimeError(
                "postgresql://lab:{raised_url}@db/board, Authorization: Bearer {raised_bearer}, "
                + wrong + " HF_TOKEN=" + os.environ["HF_TOKEN"]
                + " " + os.environ["LAB_STORE"]
                + " as " + os.environ["LAB_PASS"] + os.environ["LAB_CREDENTIAL"]
                + " or " + os.environ["OWN_AUTH"] + ", Authorization: Basic {raised_basic}"
                + ", Proxy-Authorization: Digest username=lab, response={raised_digest}"
                + ", Cookie: theme=dark; session={raised_cookie}"
            ) from error
    return train_cheaply(config, run)
"""

UNCOMMITTED = {
    "other.yaml": "stores: {{leaderboard: postgresql+psycopg://lab:{diff_store}@db/board}}\n",
    "fetch.py": "PASSWORD = '{diff_literal}'\nget('https://x.example/?token={diff_url_key}')\n",
    ".env": "WANDB_API_KEY={diff_dotenv}\nexport AWS_SECRET_ACCESS_KEY={diff_aws}\n",
    "hub.json": '{{"hub": {{"access_token": "{diff_json}"}}}}\n',
}


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose path is short enough for Ray."""
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def planted(tmp_path: Path, short_folder: Path, new_sweep: Callable[..., Sweep]) -> Iterator[Sweep]:
    """A sweep of a method of one's own, in a repository; a trial of it fails."""
    folder = tmp_path / "lab"
    folder.mkdir()
    sweep = new_sweep(
        folder, sweep="planted", method="leaky", space={"kind": ["a", "b"]}, fixed={},
        search={"sampler": "grid", "seed": 1},
    )  # fmt: skip
    for name in UNCOMMITTED:
        (folder / name).write_text("nothing yet\n")
    (folder / "leaky.py").write_text("# nothing yet\n")
    (folder / ".gitignore").write_text("runs\n")
    origin = "https://{origin_user}@git.example/lab/code.git?api_key={origin_key}"
    git(folder, "init", "--quiet")
    git(folder, "remote", "add", "origin", origin.format(**SECRET))
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    for name, text in UNCOMMITTED.items():
        (folder / name).write_text(text.format(**SECRET))
    method = METHOD
    for kind, secret in SECRET.items():
        method = method.replace(f"{{{kind}}}", secret)
    (folder / "leaky.py").write_text(method)
    lay_metadata(folder, "leaky", {"leaky": "leaky"})
    paths = [str(folder), with_outside_methods()["PYTHONPATH"]]
    yield replace(
        sweep,
        surroundings={
            "PYTHONPATH": os.pathsep.join(paths),
            "HF_TOKEN": SECRET["env_hf"],
            "LAB_STORE": f"postgresql://lab:{SECRET['env_store']}@db/board",
            "PGPASSWORD": SECRET["env_password"],
            "LAB_PASS": SECRET["env_pass"],
            "LAB_CREDENTIAL": f"a credential of\n{SECRET['env_lines']}\n",
            "RAY_TMPDIR": str(short_folder),
        },
    )


def test_no_secret_is_written_or_printed(
    planted: Sweep, tmp_path: Path, short_folder: Path
) -> None:
    said = [run(planted, "--set", "tags=[first]")]
    ended = {event.state: event for event in planted.events(TrialFinished)}
    assert ended.keys() == {"COMPLETE", "FAIL"}, said
    runs = ("--runs", str(planted.runs))
    for trial in ended.values():
        again = tmp_path / f"again {trial.state}"
        said.append(command(planted, "cse-leaderboard", "show", trial.trial[:12], "--json", *runs))
        said.append(command(planted, "cse-leaderboard", "show", trial.trial[:12], *runs))
        to = ("--to", str(again))
        said.append(command(planted, "cse-leaderboard", "reproduce", trial.trial[:12], *to, *runs))
    down = f"postgresql+psycopg://lab:{SECRET['command_url']}@127.0.0.1:1/board"
    said.append(run(planted, "--set", f"stores.leaderboard={down}"))
    said.append(run(planted, "--dry-run", "--set", f"stores.leaderboard={down}"))
    said.append(
        run(planted, "--set", f"stores.search=sqlite:///x?token={SECRET['command_option']}")
    )
    leaks = {"what was said": found("\n".join(said).encode())}
    for folder in (planted.runs, short_folder, *tmp_path.glob("again *")):
        for file in folder.rglob("*"):
            if file.is_file():
                content = file.read_bytes()
                text = gzip.decompress(content) if file.suffix == ".gz" else content
                leaks[str(file.relative_to(folder.parent))] = found(text)
    assert "\n".join(f"{place}: {kinds}" for place, kinds in leaks.items() if kinds) == ""
    # The sweep did write down what held them, and Ray where only its user can read.
    assert [*short_folder.rglob("driver_artifacts/experiment_state-*.json")]
    assert [folder.stat().st_mode & 0o777 for folder in short_folder.iterdir()] == [0o700]
    [diff] = [event.diffs["git"] for event in planted.events() if event.kind == "sweep_started"][:1]
    assert "WANDB_API_KEY=***" in diff and "lab:***@db/board" in diff
    errors = "".join(f.read_text() for f in planted.runs.glob("sweeps/planted/errors/*"))
    assert "hub.example" in errors
    said_by_trial = command(planted, "cse-sweep", "logs", "planted", "--trial", "0", *runs)
    assert "logs in with password=***" in said_by_trial and "lab:***@hub" in said_by_trial


def found(content: bytes) -> list[str]:
    return [kind for kind, secret in SECRET.items() if secret.encode() in content]


def run(sweep: Sweep, *arguments: str) -> str:
    ended = sweep.run(*arguments)
    return ended.stdout + ended.stderr


def command(sweep: Sweep, name: str, *arguments: str) -> str:
    done = run_command(name, *arguments, **sweep.surroundings)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
