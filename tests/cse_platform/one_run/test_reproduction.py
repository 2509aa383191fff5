import json
from pathlib import Path
from typing import Any

from one_trial import FACTS, KEY, began, evaluated, life, one_run
from own_tasks import write_folder

from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.own.reading import load_own_pairs, with_checksum
from cse_methods.own_pairs import OwnPairs
from cse_methods.referenced_tasks.snapshots import find_snapshot
from cse_methods.registry import get_method
from cse_platform.export.sweep_file import sweep_text
from cse_platform.leaderboard import open_leaderboard
from cse_platform.sweep.file import load_sweep
from cse_platform.sweep.identity import DevData, Identity
from cse_platform.sweep.yaml_file import read_yaml

FOLDER = Path("reproduce-0a1b2c3d")


def test_a_sweep_file_means_its_values() -> None:
    words = ["no", "1e5", "~", "null", "0x1f", "2030-01-01", "'", "", "x: y", "# c", " a ", "- b"]
    words.append("é ∑")
    fixed = {"words": words, "numbers": [1, 1.0, 5e-324, -(2**53), True, None], "none": [{}, []]}
    sweep = {"sweep": "reproduce-0a1b2c3d", "fixed": fixed, "seeds": {"search": 42}}
    source = read_yaml(sweep_text(sweep, comment="one\ntwo: 3"))
    assert source.problems == []
    assert source.data == sweep
    assert json.dumps(source.data) == json.dumps(sweep)  # and 1.0 is no 1


def test_the_folder_of_a_trial(fill, runs) -> None:
    fill(began(), *life(seed=7), *evaluated())
    one_run("reproduce", KEY[:8])
    assert {path.name for path in FOLDER.iterdir()} == {
        *("sweep.yaml", "requirements.txt", "trial.json", "README.md")
    }
    (spec,) = load_sweep(FOLDER / "sweep.yaml").stages
    with open_leaderboard(runs) as board:
        story = board.trial(KEY)
    assert (spec.sweep, spec.budget) == ("reproduce-0a1b2c3d", 1)
    assert (spec.seeds.search, spec.seeds.confirm, spec.evaluate) == (7, None, None)
    config = spec.config({})
    assert config.hyperparameters() == story.configuration.values
    assert config == get_method("simcse").config.model_validate(
        {"backbone": "mini", "corpus": "builtin", "data": "builtin", "dev": spec.dev}
        | story.configuration.values
    )
    assert Identity(spec, get_method("simcse"), DevData(spec)).dev["search"] == "stsb"
    head = (FOLDER / "sweep.yaml").read_text()
    assert f"# Trial {KEY}" in head and "# Expected: dev stsb 0.75 at step 20." in head
    assert (FOLDER / "requirements.txt").read_text() == (
        "numpy==2.1.0\ntorch==2.9.0  # it was 2.9.0+cpu\n"
    )
    assert json.loads((FOLDER / "trial.json").read_text())["key"] == KEY
    readme = (FOLDER / "README.md").read_text()
    assert "venv/bin/cse-leaderboard show 0a1b2c3d --runs runs\n" in readme
    assert "venv/bin/pip install -r requirements.txt\n" in readme


def test_a_checkout_is_asked_for_by_its_commit_and_the_trials_own_threads(fill) -> None:
    diff = "-one\r\n+two\r\n"
    for remote, address in (
        ("git@host:lab/cse.git", "git+ssh://git@host/lab/cse.git"),
        ("https://host/cse", "git+https://host/cse"),
        ("/srv/cse", "git+file:///srv/cse"),
    ):
        facts = {"package_commit": "c0ffee", "package_dirty": "true", "package_remote": remote}
        fill(began(provenance=facts, diffs={"package": diff}), *life())
        folder = Path(remote.replace("/", "-"))
        said = one_run("reproduce", KEY, "--to", folder).stderr
        assert f"cse-platform @ {address}@c0ffee\n" in (folder / "requirements.txt").read_text()
        assert (folder / "package.diff").read_bytes() == diff.encode()
        told = f"cse-platform was at commit c0ffee of {remote}, with changes (package.diff)."
        assert told in said
    # The budget of a sweep may be edited while it runs.
    fill(began(), *life(provenance={"threads": "3", "device": "cpu"}))
    one_run("reproduce", KEY)
    (spec,) = load_sweep(FOLDER / "sweep.yaml").stages
    assert (spec.resources.cpu, spec.resources.gpu) == (3, 0)


def test_a_folder_with_something_in_it_is_refused(fill) -> None:
    fill(began(), *life())
    FOLDER.mkdir()
    one_run("reproduce", KEY)
    done = one_run("reproduce", KEY, code=1)
    assert "the folder reproduce-0a1b2c3d is not empty" in done.stderr
    one_run("reproduce", KEY, "--to", "other")
    Path("file").touch()
    done = one_run("reproduce", KEY, "--to", "file", code=1)
    assert "cannot create the folder file: " in done.stderr


def test_the_same_curve_is_promised_only_where_code_data_and_machine_are_known(fill) -> None:
    bare, *rest, end = life()
    started = bare.model_copy(update={"code": "c0de" * 16})
    nowhere = end.model_copy(update={"provenance": {}})
    on_gpu = end.model_copy(update={"provenance": FACTS | {"device": "cuda:0"}})
    cases = {
        "known": [began(), started, *rest, end],
        "GPU": [began(), started, *rest, on_gpu],
        "no code": [began(), bare, *rest, end],
        "no machine": [began(), started, *rest, nowhere],
        "no Python": [began(provenance={}), started, *rest, end],
        "no packages": [began(packages={}), started, *rest, end],
        "no file": [began(spec={}), started, *rest, end],
    }
    for name, events in cases.items():
        fill(*events)
        one_run("reproduce", KEY, "--to", name)
        readme = Path(name, "README.md").read_text()
        assert ("bit for bit" in readme) == (name == "known"), name
        assert ("It ran on a GPU" in readme) == (name == "GPU"), name
        assert ("so the dev curve may differ" in readme) == name.startswith("no "), name


def test_what_ran_elsewhere_is_completed_by_hand(fill) -> None:
    started, *rest, end = life()
    best = {"best_value": 0.8290000000000001, "best_step": None}
    dev = {"source": "imported", "corpus": "imported", "checkpoint": "stsb", "search": "stsb"}
    of_lab = {"method": "labcse", "dev": dev | {"identity": "d" * 64}}
    for origin in ("imported_from", "recorded_from"):
        for method in ("simcse", "labcse"):
            ran = started.model_copy(update=of_lab | {"method": method})
            spec = {"source": origin, "dev": {"checkpoint": "stsb", "search": "stsb"}}
            start = began(spec=spec, method=method, provenance={origin: "a log"}, packages={})
            fill(start, ran, *rest, end.model_copy(update=best | {"provenance": {}}))
            folder = Path(f"{origin}-{method}")
            said = one_run("reproduce", KEY, "--to", folder).stderr
            readme = (folder / "README.md").read_text()
            assert "bit for bit" not in readme and "filled in by hand" in readme
            assert "Expected: dev stsb 0.829.\n" in readme
            for told in (
                "Its corpus is not known: write it into sweep.yaml as corpus: NAME.",
                f"The code of the method '{method}' is not known: ",
            ):
                assert f"note: {told}" in said and f"- {told}" in readme
            assert ("install a package with it into venv" in readme) == (method == "labcse")
            assert "the key 'corpus' is missing" in said
            if method == "simcse":
                with (folder / "sweep.yaml").open("a") as file:
                    file.write("corpus: builtin\n")
                load_sweep(folder / "sweep.yaml")


DIRTY = {"provenance": {"package_commit": "c0ffee", "package_dirty": "true"}}
CUT = {"diffs": {"package": "diff\n### not whole: cut\n"}}
FOLDER_DIRTY = {"provenance": {"git_commit": "abc", "git_dirty": "true", "git_remote": "ssh://h/r"}}
UNKNOWN: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"packages": {}}, {}, "No version of any package is known"),
    ({"packages": {}, "provenance": {"torch": "2.9.0"}}, {}, "Only the versions of a few packages"),
    ({"packages": {"numpy": "1"}, "provenance": {}}, {}, "Neither commit nor version of cse-pla"),
    ({}, {}, "cse-platform was at commit c0ffee."),
    ({}, {}, "Special builds: torch 2.9.0+cpu."),
    (DIRTY, {}, "cse-platform was at commit c0ffee, with changes (that nobody recorded)."),
    (DIRTY | CUT, {}, "package.diff is incomplete and cannot be applied"),
    (FOLDER_DIRTY, {}, "The folder of the sweep was at commit abc of ssh://h/r, with changes (tha"),
    ({}, {"state": "PRUNED"}, "It was pruned after step 30; here it runs to its end."),
    ({}, {"state": None, "curve": {}}, "It is not finished; on the leaderboard it is before its"),
    ({}, {"state": None}, "It is not finished; on the leaderboard it is after step 30."),
    ({}, {"state": "FAIL", "error": "no memory"}, "It failed after step 30: no memory"),
    ({"spec": {}}, {}, "Its sweep file is not known (corpus, dev, resources are missing)"),
    ({"spec": {"corpus": ["/no/where.txt"]}}, {}, "It reads /no/where.txt, which is not here"),
    ({"spec": {"corpus": ["hf://datasets/a/b/c.csv", "gone.csv.gz"]}}, {}, "It reads gone.csv.gz"),
]


def test_what_is_unknown_and_code_that_changed_under_way_are_said(fill) -> None:
    for number, (start, end, told) in enumerate(UNKNOWN):
        folder = Path(f"reproduce-{number}")
        fill(began(**start), *life(**end))
        done = one_run("reproduce", KEY, "--to", folder)
        assert f"note: {told}" in done.stderr
        assert f"- {told}" in (folder / "README.md").read_text()
        if end.get("state", "") is None:  # its best so far is no result
            assert "no dev value; the trial is RUNNING" in (folder / "sweep.yaml").read_text()
    first, *_ = events = life(begin=1)
    again = began(3, diffs={"package": "a diff"})
    fill(began(0), *events[:3], again, first.model_copy(update={"resumed_from": 10}), *events[3:])
    assert "continued with other code" in one_run("reproduce", KEY).stderr


def test_a_method_of_another_revision_or_of_none_or_gone(fill) -> None:
    old, *rest = life()
    fill(began(), old.model_copy(update={"revision": 99}), *rest)
    told = "is at revision 1 here, but the trial ran revision 99: only"
    assert told in one_run("reproduce", KEY).stderr
    fill(began(), old.model_copy(update={"method": "lost"}), *rest)
    told = "sweep.yaml is not valid here: other/sweep.yaml is not a"
    assert told in one_run("reproduce", KEY, "--to", "other").stderr
    start = began(spec={}, provenance={"imported_from": "a log"})
    fill(start, old.model_copy(update={"revision": 0}), *rest)
    said = one_run("reproduce", KEY, "--to", "imported").stderr
    assert "note: It was imported from a log: sweep.yaml has what the lea" in said
    assert "revision" not in said


def test_relative_places_are_of_the_folder_of_the_command(runs, fill) -> None:
    there = runs.parent / "there"
    there.mkdir()
    (there / "lines.txt").write_text("a sentence\nanother one\n")
    facts = {"folder": str(there), "package_commit": "c0ffee"}
    spec = began().spec | {"corpus": [{"name": "lines.txt"}]}
    fill(began(spec=spec, provenance=facts), *life())
    done = one_run("reproduce", KEY)
    (read,) = load_sweep(FOLDER / "sweep.yaml").stages
    assert read.corpus[0].name == str(there / "lines.txt")
    assert f"It reads {there / 'lines.txt'}, which must have the same content." in done.stderr


def test_an_own_dev_set_lies_there_or_has_its_hash(runs, fill) -> None:
    file = runs.parent / "there" / "my-dev.tsv"
    file.parent.mkdir()
    file.write_text("".join(f"a cat {n}\ta dog {n}\t{n / 4}\n" for n in range(21)))
    own = with_checksum(OwnPairs(file=str(file)))
    dev = {"checkpoint": "my-dev", "search": "my-dev", "also": []}
    dev["files"] = {"my-dev": own.model_dump(mode="json")}
    fill(began(spec=began().spec | {"dev": dev}), *life())
    said = one_run("reproduce", KEY).stderr
    (read,) = load_sweep(FOLDER / "sweep.yaml").stages
    carried = read.dev.files["my-dev"]
    assert (Path(carried.file), carried.sha256) == ((FOLDER / "my-dev.tsv").absolute(), own.sha256)
    assert load_own_pairs(carried).sha256 == own.sha256
    assert "my-dev" not in said
    file.write_text(file.read_text().replace("cat", "bird"))
    for happened in ("other", "gone"):
        said = one_run("reproduce", KEY, "--to", happened).stderr
        assert str(own.sha256) in said and "Put my-dev.tsv beside sweep.yaml" in said
        assert not Path(happened, "my-dev.tsv").exists()
        file.unlink(missing_ok=True)
    dev["files"] = {"my-dev": {"file": "my-dev.tsv"}}  # as an import names it, unseen
    fill(began(spec=began().spec | {"dev": dev}), *life())
    said = one_run("reproduce", KEY, "--to", "unseen").stderr
    assert "Put my-dev.tsv beside sweep.yaml.\n" in said


def test_own_files_of_a_task_lie_there(runs, fill) -> None:
    entry = {"retrieval": write_folder(runs.parent / "there" / "faq")}
    dev = DevSelection(checkpoint=entry, search=entry, also=()).with_files(find_snapshot)
    fill(began(spec=began().spec | {"dev": dev.model_dump(mode="json")}), *life())
    assert "retrieval:faq" not in one_run("reproduce", KEY).stderr
    (read,) = load_sweep(FOLDER / "sweep.yaml").stages
    carried = read.dev.references["retrieval:faq"]
    assert carried.paths[2] == str((FOLDER / "dev.tsv").absolute())
    assert find_snapshot(carried) == carried


def test_texts_of_a_journal_from_elsewhere_stay_texts(fill) -> None:
    """They are written into files that people run, install or read."""
    line, packages = "\n--index-url http://evil", {"numpy": "2.1.0", "torch": "2.9.0+cpu"}
    bad = {"a": f"1{line}", "b": '1"', "c": f"1+cpu{line}", f"d{line}": "1", "e": "1; x", "f": ""}
    bad |= {"g @ https://evil/g.zip": "1", "-r": "1", "h": "1 --hash=x", "i": "1,!=2"}
    started, *rest = life()
    provenance = {"package_commit": f"c0ffee{line}", "package_remote": "https://lab/cse"}
    python = {"python": "3\n```\nrm -r ~\n```"}
    fill(
        began(packages=packages | bad, provenance=provenance | python),
        started.model_copy(update={"values": started.values | {f"x: 1{line}": 2}}),
        *rest[:-1],
        rest[-1].model_copy(update={"provenance": FACTS | {"cpu": f"`{line}", "threads": "1"}}),
    )
    done = one_run("reproduce", KEY)
    assert (FOLDER / "requirements.txt").read_text() == (
        "numpy==2.1.0\ntorch==2.9.0  # it was 2.9.0+cpu\n"
    )
    assert done.stderr.count("is no requirement that pip reads") == 11
    sweep = read_yaml((FOLDER / "sweep.yaml").read_text()).data
    assert sweep["fixed"][f"x: 1{line}"] == 2
    readme = (FOLDER / "README.md").read_text()
    assert readme.count("\n```\n") == 2 and f"{line}\n" not in readme
    remotes = ("ext::sh -c x", "ext://sh", "-u./x", "fd::7", "https://lab/a b", "ssh://x\n-r y")
    for number, remote in enumerate(remotes):
        folder = Path(f"again-{number}")
        provenance |= {"package_commit": "c0ffee", "package_remote": remote}
        fill(began(packages=packages, provenance=provenance), *life())
        one_run("reproduce", KEY, "--to", folder)
        lines = (folder / "requirements.txt").read_text().splitlines()
        is_folder = "://" not in remote  # git takes no command of that form from a file: URL
        assert len(lines) == 2 + is_folder, remote
        assert all(" @ git+file:///" in line for line in lines[2:]), remote
