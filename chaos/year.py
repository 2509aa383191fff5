"""Simulate a lab's year of sweeps, and of commands that maintain its stores: `make year`.

The leaderboard starts with the first schema and is upgraded. Each month brings sweeps of mixed
sizes, run by two users in turn. No trial is trained: scores are made up, but planner, journal,
search store, leaderboard and MLflow are real. Every month, a mistaken sweep is deleted, the sweeps
of two months ago are archived, old messages are removed, and everything is backed up; some sweeps
are unarchived again. In the middle of the year the leaderboard is lost, restored from the last
backup and caught up. At the end the last backup is restored into new stores. After each command the
board, comparisons and findings must be unchanged. On PostgreSQL users have their own roles, and a
reader looks, too.

    python chaos/year.py [--sweeps 200] [--months 12] [--database sqlite]
"""

import json
import os
import shutil
import statistics
import sys
import time
from argparse import ArgumentParser, Namespace
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import MagicMock, patch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fixtures"))

import cheap as _registers_it  # noqa: F401
import numpy as np
from click.testing import CliRunner
from first_schema import go_back_to_first_schema
from in_process import InProcessExecutor
from scipy.stats import spearmanr
from servers import Postgres, new_folder, say
from sqlalchemy import create_engine, make_url

from cse_methods.evaluation.results import Evaluation, Score, Similarities
from cse_methods.tasks import AVG_STS, STS_TASKS
from cse_platform.cli.leaderboard import main as cse_leaderboard
from cse_platform.cli.sweep import main as cse_sweep
from cse_platform.leaderboard.api import open_leaderboard
from cse_platform.leaderboard.store import open_store
from cse_platform.runner.confirmation import chosen_trials
from cse_platform.runner.publishing import Publisher
from cse_platform.runner.stages import Stage, StageDisplay, run_stage
from cse_platform.runner.state import SweepState
from cse_platform.search.storage import open_search_store
from cse_platform.sweep.spec import SweepSpec
from cse_platform.sweep.stores import sweep_stores
from cse_platform.tracking.packing import evaluation_event
from cse_platform.upkeep.held_sweep import folder_size

METHODS = ("simcse", "esimcse", "cheap")
TRIALS, POINTS = (3, 5, 8, 12, 20, 60), (3, 8, 20, 60)
"""Sizes of sweeps, drawn at random: trials, and dev points per trial."""
FAILING = 0.05
"""The share of trials that diverge."""
PAIRS = 300
"""The number of pairs of a test set."""
KEPT_MONTHS = 2
"""The age in months at which a sweep is archived."""
LEADERBOARD_ALONE = ("--json", "--compare", "search", "upgrade")
"""The first words of commands that need no runs folder."""
DRIVERS, READER, OWNER = ("ann", "ben"), "rae", "cse_owner"


class Executor(InProcessExecutor):
    """Runs trials with made-up curves; some diverge, and the best get made-up test scores.

    Args:
        points: number of dev points of a trial.
    """

    def __init__(self, points: int) -> None:
        steps = range(0, 125 * points, 125)
        super().__init__(score=self._score_step, capacity=4, steps=steps)

    def _score_step(self, values: Mapping[str, Any], seed: int, step: int) -> float:
        share = step / self.steps[-1]
        luck = Random(f"{sorted(values.items())} {seed} {step}").gauss(0, 0.003)
        height = 0.8 - 0.03 * abs(np.log10(values["temperature"] / 0.05))
        return float(0.6 + (height - 0.6) * share**0.5 + luck)

    def advance(self, key: str) -> None:
        """Report once more, or diverge after the first report."""
        trial = self.state.history.trials[key]
        if len(trial.curve) == 1 and Random(key).random() < FAILING:
            self.fail(key, "the loss is not finite", crashed=False)
        else:
            super().advance(key)

    def score_models(self, state: SweepState, *, heed: Any) -> None:
        """Record test access and an evaluation for each trial that is selected on dev."""
        wanted = state.spec.evaluate
        if wanted is None:
            return
        for trial in chosen_trials(state.history, state.spec, top=wanted.top):
            if not trial.evaluated:
                state.record_test_access(trial.key, wanted.asked)
                about = {"sweep": state.spec.sweep, "trial": trial.key, "source": "builtin"}
                scored = evaluate(trial.key, float(trial.best_value or 0.0))
                state.record(evaluation_event(evaluation=scored, **about))


def evaluate(key: str, quality: float) -> Evaluation:
    """Make up an evaluation on the STS tasks, with cosines nearer to gold for a better trial."""
    scores, similarities, identities = [], [], dict[str, dict[str, Any]]()
    for task in STS_TASKS:
        gold = np.random.default_rng([1, *task.encode()]).uniform(0, 5, PAIRS)
        rng = np.random.default_rng([*key.encode()[:8], *task.encode()])
        cosines = ((gold + rng.normal(0, 4 * (1 - quality), PAIRS)) / 20).astype(np.float32)
        name = f"of-{task}"
        identities[name] = {"task": task, "protocol": {"similarity": "cosine"}}
        value = float(spearmanr(cosines, gold).statistic)
        scores.append(Score(task, "test", "spearman", value, name))
        subsets = {task: PAIRS}
        similarities.append(Similarities(task, "test", name, cosines, gold, subsets, task))
    members = {"mean over": sorted(identities)}
    identities["of-mean"] = {"task": AVG_STS, "protocol": members}
    mean = statistics.fmean(score.value for score in scores)
    scores.append(Score(AVG_STS, "test", "spearman", mean, "of-mean"))
    return Evaluation(
        frozenset(STS_TASKS), tuple(scores), similarities=tuple(similarities), identities=identities
    )


@dataclass
class Lab:
    """The stores of a lab, and the seconds that its commands took."""

    folder: Path
    server: Postgres | None
    runs: Path = field(init=False)
    databases: dict[str, str] = field(init=False)
    """The PostgreSQL databases of leaderboard and search store; empty on SQLite."""
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.runs = self.folder / "runs"
        names = ("leaderboard", "search")
        self.databases = dict(zip(names, names, strict=True)) if self.server else {}

    def url(self, store: str, user: str = OWNER) -> str:
        """Return the URL of a store for a user."""
        if self.server is None:
            return f"sqlite:///{self.runs / store}.db"
        place = make_url(self.server.url(self.databases[store])).set(username=user)
        return place.render_as_string(hide_password=False)

    def environment(self, user: str = OWNER) -> dict[str, str]:
        """Return the environment variables that locate the stores for a user's commands."""
        own = {"CSE_CACHE": str(self.folder / "cache"), "RAY_TMPDIR": str(self.folder)}
        if self.server is None:
            return own
        names = {"CSE_STORE": "leaderboard", "CSE_SEARCH_STORE": "search"}
        return own | {variable: self.url(store, user) for variable, store in names.items()}

    def give(self, command: Any, *words: object, user: str = OWNER, fails: bool = False) -> str:
        """Run a command, and return its output; SystemExit unless it succeeds, or fails as told."""
        given = [*map(str, words), "--store", self.url("leaderboard", user)]
        if words[0] not in LEADERBOARD_ALONE:
            given += ["--runs", str(self.runs)]
        began = time.monotonic()
        done = CliRunner().invoke(command, given, env=self.environment(user))
        self.seconds[str(words[0])].append(time.monotonic() - began)
        if (done.exit_code != 0) != fails:
            raise SystemExit(f"{' '.join(given)} ended with {done.exit_code}: {done.output}")
        return done.stdout

    def run(self, sweep: str, user: str, dice: Random, *, evaluated: bool) -> None:
        """Run a sweep of a random size."""
        method, trials = dice.choice(METHODS), dice.choice(TRIALS)
        spec = {
            "sweep": sweep, "method": method, "backbone": "mini", "corpus": "builtin",
            "data": "builtin", "space": {"temperature": {"low": 0.01, "high": 0.5, "log": True}},
            "search": {"sampler": "random", "trials": trials, "seed": dice.randrange(10**6)},
            "seeds": {"confirm": {"top": 1, "seeds": [1, 2]}} if evaluated else {},
            **({"evaluate": {"top": 1, "tasks": ["sts"]}} if evaluated else {}),
        }  # fmt: skip
        planned = SweepSpec.model_validate(spec)
        stores = sweep_stores(planned, runs=self.runs, environment=self.environment(user))
        silent = Publisher(sweep, stores, command="")
        began = time.monotonic()
        executor = Executor(dice.choice(POINTS))
        display = MagicMock(spec=StageDisplay)
        run_stage(Stage(planned, stores), executor, display, silent, reuse="same code")
        self.seconds["a sweep"].append(time.monotonic() - began)

    def look(self, user: str = OWNER, *, sweeps: Sequence[str] = ()) -> dict[str, Any]:
        """Return what people see: the board, a comparison, and the findings of these sweeps."""
        seen = {"rows": json.loads(self.give(cse_leaderboard, "--json", "--all", user=user))}
        scored = {row["method"] for row in seen["rows"] if "avg_sts" in (row["test"] or {})}
        if scored >= {"simcse", "esimcse"}:
            compared = self.give(
                cse_leaderboard, "--compare", "simcse", "esimcse", "--json", user=user
            )
            seen["comparison"] = json.loads(compared)
        for sweep in sweeps:
            told = self.give(cse_leaderboard, "search", sweep, "--json", user=user)
            seen[sweep] = json.loads(told)
        return seen

    def curves(self, sweep: str) -> dict[str, dict[int, float]]:
        """Return the dev curve of each trial of a sweep."""
        with open_leaderboard(self.url("leaderboard")) as board:
            keys = [trial.key for trial in board.search(sweep).trials]
            return {
                key: {point.step: point.value for point in board.dev_curve(key)} for key in keys
            }

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each store, and of the journals with the files beside them."""
        files = {name: self.runs / f"{name}.db" for name in ("leaderboard", "search", "mlflow")}
        sizes = {name: file.stat().st_size for name, file in files.items() if file.exists()}
        if self.server is not None:
            with self.server.connect() as connection:
                for store, name in self.databases.items():
                    asked = connection.execute("SELECT pg_database_size(%s)", [name]).fetchone()
                    sizes[store] = int(str(asked[0])) if asked else 0
        return sizes | {"journals": folder_size(self.runs / "sweeps")}

    def create(self) -> None:
        """Create the stores: a leaderboard with the first schema, which the owner upgrades."""
        self.runs.mkdir(parents=True)
        self.grant()
        open_store(self.url("leaderboard")).close()
        engine = create_engine(self.url("leaderboard"))
        go_back_to_first_schema(engine)
        engine.dispose()
        backed_up = ["--backed-up"] if self.server else []
        said = self.give(cse_leaderboard, "upgrade", *backed_up)
        if "was of schema 0001" not in said:
            raise SystemExit(said)
        if self.server is not None:
            open_search_store(self.url("search")).engine.dispose()

    def grant(self) -> None:
        """Grant the roles of the databases, and create people's logins."""
        if self.server is None:
            return
        said = CliRunner().invoke(cse_leaderboard, ["grants"]).output
        for name in self.databases.values():
            with self.server.connect(name) as connection:
                connection.execute(said.encode())
        with self.server.connect() as connection:
            for user in (*DRIVERS, READER):
                group = "cse_reader" if user == READER else "cse_driver"
                known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [user])
                if known.fetchone() is None:
                    connection.execute(f"CREATE ROLE {user} LOGIN IN ROLE {group}".encode())

    def move_to_fresh_stores(self, runs: str) -> None:
        """Switch to stores that do not exist yet or, on PostgreSQL, to empty databases."""
        self.runs = self.folder / runs
        if self.server is not None:
            self.databases = {store: f"{store}_{runs}" for store in self.databases}
            for name in self.databases.values():
                self.server.execute(f"CREATE DATABASE {name}")
            self.grant()

    def lose_leaderboard(self) -> None:
        """Delete the leaderboard only."""
        if self.server is None:
            for file in self.runs.glob("leaderboard.db*"):
                file.unlink()
            return
        self.server.execute("DROP DATABASE leaderboard WITH (FORCE)")
        self.server.execute("CREATE DATABASE leaderboard")
        self.grant()


def live_through(lab: Lab, *, sweeps: int, months: int, dice: Random) -> None:
    """Live through the year; SystemExit if a command fails or changes what people see."""
    lab.create()
    first = lab.look()
    archived, lasting = list[str](), list[str]()
    by_month: list[list[str]] = []
    whole: dict[str, dict[str, dict[int, float]]] = {}
    seen, backup = first, lab.folder
    for month in range(months):
        names = [
            f"m{month:02}-{n}"
            for n in range(sweeps * month // months, sweeps * (month + 1) // months)
        ]
        by_month.append(names)
        for n, name in enumerate(names):
            lab.run(name, DRIVERS[n % 2], dice, evaluated=n % 3 == 0)
            whole[name] = lab.curves(name)
        write_note(lab, names[0], DRIVERS[month % 2])
        lasting = archived[:1]
        seen = lab.look(sweeps=lasting)
        if month == months // 2:
            lab.lose_leaderboard()
            lab.give(cse_leaderboard, "restore", backup, "--only", "leaderboard")
            require_same(lab.look(sweeps=lasting), seen, "after the leaderboard was lost")
        lab.run("mistake", DRIVERS[month % 2], dice, evaluated=month % 2 == 0)
        lab.give(cse_sweep, "delete", "mistake", "--yes")
        require_same(lab.look(sweeps=lasting), seen, "after a sweep was deleted")
        for name in by_month[month - KEPT_MONTHS] if month >= KEPT_MONTHS else []:
            lab.give(cse_sweep, "archive", name)
            archived.append(name)
        if month % 4 == 3:
            lab.give(cse_sweep, "unarchive", archived[-1])
            require_same(lab.curves(archived[-1]), whole[archived[-1]], "after unarchive")
            lab.give(cse_sweep, "archive", archived[-1])
        for name in archived[-1:]:
            check_thinned(lab.curves(name), whole[name], name)
        lab.give(cse_sweep, "clean", "--older-than", "1s")
        require_same(lab.look(sweeps=lasting), seen, "after archive and clean")
        if lab.server is not None:
            require_same(lab.look(READER, sweeps=lasting), seen, "for a reader")
            lab.give(cse_leaderboard, "annotate", names[0], "--star", user=READER, fails=True)
        backup = lab.folder / "backups" / f"{month:02}"
        lab.give(cse_leaderboard, "backup", backup)
        say(month_line(lab, month, backup))
    [old] = [row for row in seen["rows"] if row["method"] == "rankcse"]
    for key in ("configuration", "seeds", "keys", "dev_mean", "trials", "finished"):
        require_same(old[key], first["rows"][0][key], f"in the row of the first schema, {key}")
    lab.move_to_fresh_stores("restored")
    lab.give(cse_leaderboard, "restore", backup)
    require_same(lab.look(sweeps=lasting), seen, "in the restored stores")


def write_note(lab: Lab, sweep: str, user: str) -> None:
    """Write a note, which on PostgreSQL must carry the user's login."""
    lab.give(cse_leaderboard, "annotate", sweep, "--note", f"by {user}", user=user)
    with open_leaderboard(lab.url("leaderboard")) as board:
        note = board.annotations("sweep", [sweep])[sweep].note
    if note is None or (lab.server is not None and note.who != user):
        raise SystemExit(f"the note of {user} on {sweep} is {note}")


def require_same(found: Any, expected: Any, when: str) -> None:
    """Raise SystemExit with the first difference unless both are equal."""
    for path, one, other in differences(found, expected):
        raise SystemExit(f"{when}, {path} is {one!r} and was {other!r}")


def differences(found: Any, expected: Any, path: str = "all") -> Iterator[tuple[str, Any, Any]]:
    """Yield where two nested values differ; floats may differ in their last digits."""
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        for key, value in found.items():
            yield from differences(value, expected[key], f"{path}/{key}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, f"{path}/{place}")
    elif isinstance(found, float) and isinstance(expected, float):
        if abs(found - expected) > 1e-9:
            yield path, found, expected
    elif found != expected:
        yield path, found, expected


def check_thinned(
    found: Mapping[str, Mapping[int, float]], whole: Mapping[str, Mapping[int, float]], sweep: str
) -> None:
    """Raise SystemExit unless thinned curves keep their first, last and highest points."""
    for key, curve in whole.items():
        highest = max(curve, key=lambda step: curve[step])
        for step in {min(curve), max(curve), highest}:
            if found[key].get(step) != curve[step]:
                raise SystemExit(f"archived {sweep} lacks step {step} of trial {key}")


def month_line(lab: Lab, month: int, backup: Path) -> str:
    """Format the number of sweeps and the sizes at the end of a month."""
    sizes = lab.sizes() | {"backup": folder_size(backup)}
    told = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items())
    return f"month {month + 1}: {len(lab.seconds['a sweep'])} sweeps; {told}"


@contextmanager
def opened_lab(database: str) -> Iterator[Lab]:
    """Open an empty lab in a new folder, which is removed at the end."""
    with ExitStack() as opened:
        folder = new_folder()
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        server = None
        if database == "postgres":
            server = Postgres(folder / "postgres")
            opened.callback(server.stop)
        lab = Lab(folder, server)
        opened.enter_context(patch.dict(os.environ, lab.environment()))
        yield lab


def main() -> None:
    """Live through a year, and print how long the commands took."""
    asked = arguments()
    say(f"{asked.sweeps} sweeps in {asked.months} months on {asked.database}, seed {asked.seed}")
    with opened_lab(asked.database) as lab:
        live_through(lab, sweeps=asked.sweeps, months=asked.months, dice=Random(asked.seed))
        say("restored into fresh stores, all is what it was")
        for command, seconds in lab.seconds.items():
            middle, most = statistics.median(seconds), max(seconds)
            say(f"{command:12} {len(seconds):4} times, median {middle:.2f} s, most {most:.2f} s")


def arguments() -> Namespace:
    """Parse the command line."""
    parser = ArgumentParser(
        description=__doc__.partition("\n")[0] if __doc__ else None,
        epilog="Example: python chaos/year.py --sweeps 20 --months 3",
    )
    parser.add_argument(
        "--sweeps", type=int, default=200, help="number of sweeps (default: %(default)s)"
    )
    parser.add_argument(
        "--months", type=int, default=12, help="number of months (default: %(default)s)"
    )
    parser.add_argument(
        "--database",
        choices=("sqlite", "postgres"),
        default="sqlite",
        help="kind of the stores (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the simulation (default: %(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
