"""Test sets stay shut in a process that trains. A hook cannot be taken off: each in its own."""

from pathlib import Path

import pytest
from processes import python

from cse_methods.guard import is_test_file

TESTS = [
    "downstream/STS/STS12-en-test/STS.gs.MSRpar.txt",
    "downstream/STS/STSBenchmark/sts-test.csv",
    "downstream/SICK/SICK_test_annotated.txt",
    "downstream/SST/binary/sentiment-test",
    "downstream/TREC/TREC_10.label",
    "downstream/MRPC/msr_paraphrase_test.txt",
]
FOLDED = [
    "downstream/MR/rt-polarity.pos",
    "downstream/CR/custrev.neg",
    "downstream/SUBJ/subj.objective",
    "downstream/MPQA/mpqa.pos",
]
SEEN_IN_TRAINING = ["corpus/wiki1m.txt", "runs/mlruns/latest-test/metrics.json"]


def test_test_files_are_recognised_by_name_and_training_files_are_not() -> None:
    for path in TESTS:
        for packed in ("", ".gz", ".bz2", ".xz", ".zst"):
            assert is_test_file(path + packed)
            assert is_test_file(f"/data/{path}{packed}", transfer_dev=True)
    for path in FOLDED:  # shut unless their dev accuracy is climbed
        for packed in ("", ".gz"):
            assert is_test_file(path + packed)
            assert not is_test_file(path + packed, transfer_dev=True)
    for path in SEEN_IN_TRAINING:
        assert not is_test_file(path)


def test_the_guard_recognises_every_test_file_of_the_manifest() -> None:
    from cse_methods.data.manifest import manifest

    shut = {path for path in manifest() if is_test_file(path)}
    assert len([path for path in shut if "/STS/STS1" in path]) == 2 * (5 + 3 + 6 + 5 + 5)
    assert {path for path in manifest() if path not in shut} == {
        "downstream/MRPC/msr_paraphrase_train.txt",
        "downstream/SICK/SICK_train.txt",
        "downstream/SICK/SICK_trial.txt",
        "downstream/SST/binary/sentiment-dev",
        "downstream/SST/binary/sentiment-train",
        "downstream/STS/STSBenchmark/sts-dev.csv",
        "downstream/STS/STSBenchmark/sts-train.csv",
        "downstream/TREC/train_5500.label",
    }


CHEATS = {
    "open": "open(test)",
    "pathlib": "pathlib.Path(test).read_text()",
    "bytes": "open(os.fsencode(test), 'rb')",
    "descriptor": "os.open(test, os.O_RDONLY)",
    "numpy": "numpy.genfromtxt(test, dtype=str)",
    "link": "os.symlink(test, folder / 'corpus.txt')",
    "copy": "shutil.copy(test, folder / 'corpus.txt')",
    "rename": "os.rename(test, folder / 'corpus.txt')",
    "old link": "open(folder / 'innocent.txt')",
    "other program": "subprocess.run(['cat', test])",
    "shell": "subprocess.run(f'cat {test}|head', shell=True)",
    "system": "os.system(f'cat \\'{test}\\'')",
    "spawn": "os.posix_spawn('/bin/cat', ['cat', test], os.environ)",
    "other case": "open(test.replace('sts-test', 'STS-Test'))",
    "our reader": "import cse_methods.evaluation.test_sets.pairs",
    "our package": "importlib.import_module('cse_methods.evaluation')",
    "caught and again": "suppressed(test) or open(test)",
}
PROGRAM = """
import contextlib, importlib, numpy, os, pathlib, shutil, subprocess, sys
from cse_methods.errors import GuardError
from cse_methods.guard import guard

def suppressed(path):
    with contextlib.suppress(Exception):
        open(path)

test, folder = sys.argv[1], pathlib.Path(sys.argv[2])
guard(transfer_dev=sys.argv[3] == "transfer_dev")
assert open(folder / "sts-dev.csv").read() == "dev"
for cheat in sys.argv[4:]:
    try:
        exec(cheat)
        print("nothing was refused")
    except GuardError as error:
        print(str(error).replace(chr(10), " "))
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "STSBenchmark"
    folder.mkdir()
    for name in ("sts-dev.csv", "sts-test.csv"):
        (folder / name).write_text(name.removeprefix("sts-").removesuffix(".csv"))
    (folder / "innocent.txt").symlink_to(folder / "sts-test.csv")
    (folder / "custrev.pos").write_text("good")
    return folder


def cheated(test: Path, climbed: str, *cheats: str) -> list[str]:
    """What a guarded process says to each of some cheats, a line each."""
    told: str = python(PROGRAM, str(test), str(test.parent), climbed, *cheats).stdout
    return told.splitlines()


def test_a_guarded_process_cannot_open_test_sets(data: Path) -> None:
    test = data / "sts-test.csv"
    told = cheated(test, "sts", *CHEATS.values(), "open(folder / 'custrev.pos')")
    found = dict(zip([*CHEATS, "folded"], told, strict=True))
    refused = {
        name for name, line in found.items() if "a trial may not" in line and "test set" in line
    }
    assert refused == found.keys(), found
    assert test.read_text() == "test"
    assert not (data / "corpus.txt").exists()


def test_transfer_dev_may_open_sets_without_a_test_split(data: Path) -> None:
    told = cheated(data / "custrev.pos", "transfer_dev", "print(open(test).read())")
    assert told == ["good", "nothing was refused"]
