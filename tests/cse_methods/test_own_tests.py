import shutil
from pathlib import Path

import pytest
from letter_models import Letters
from processes import python
from scipy.stats import spearmanr

from cse_methods.data.own.reading import (
    load_own_pairs,
    refuse_dev_as_test,
    refuse_test_as_dev,
    with_checksum,
)
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import DataError, EvaluationError
from cse_methods.evaluation.evaluate import evaluate
from cse_methods.evaluation.identity import groups_of_settings
from cse_methods.evaluation.models import OwnModel
from cse_methods.evaluation.test_sets.availability import missing_tests
from cse_methods.evaluation.test_sets.pairs import KNOWN_SHA256
from cse_methods.metrics import cosines
from cse_methods.own_pairs import OwnPairs
from cse_methods.tasks import SENTENCE_GROUPS, STS_TASKS, parse_tasks

ROWS = [f"the cat sees dog {n}\ta dog sees cat {n % 4}\t{1 + n % 5}\n" for n in range(12)]


@pytest.fixture
def own(tmp_path: Path) -> OwnPairs:
    path = tmp_path / "my-test.tsv"
    path.write_text("".join(ROWS))
    return OwnPairs(file=str(path))


def test_a_path_among_the_words_is_a_test_set(own: OwnPairs) -> None:
    tasks = parse_tasks(["sts", own.file])
    assert (tasks.sts, tasks.own, tasks.opens_tests) == (STS_TASKS, (own,), True)
    assert tasks.names == ("sts", own.file)
    assert parse_tasks(["my-test"], {"my-test": own}).own == (own,)
    for name in ("./stsb.tsv", "./avg_sts.csv", "a b/meine Sätze.tsv"):
        with pytest.raises(EvaluationError, match="rename the file"):
            parse_tasks([name])
    with pytest.raises(EvaluationError, match=r"b/x\.csv would both be called 'x'; rename one"):
        parse_tasks(["./a/x.tsv", "./b/x.csv"])
    assert len(parse_tasks(["./x.tsv", "././x.tsv"]).own) == 1
    with pytest.raises(DataError, match="x: File name too long; name a file that can be read"):
        parse_tasks([f"./{'x' * 300}.tsv"])
    assert parse_tasks(["~/x.tsv"]).own[0].file == str(Path.home() / "x.tsv")
    assert missing_tests(parse_tasks([own.file]), "builtin") == []
    Path(own.file).unlink()
    with pytest.raises(DataError, match=r"my-test\.tsv: no such file of pairs"):
        missing_tests(parse_tasks([own.file]), "builtin")


def test_a_file_with_other_pairs_is_another_task(own: OwnPairs) -> None:
    before = parse_tasks(["my-test"], {"my-test": with_checksum(own)})
    Path(own.file).write_text("".join(reversed(ROWS)))
    after = parse_tasks(["my-test"], {"my-test": with_checksum(own)})
    assert not before.parts <= after.parts


def test_a_test_file_is_scored_as_an_sts_set(own: OwnPairs) -> None:
    encoder = load_encoder("mini", pooler="avg")
    found = evaluate(OwnModel(encoder), parse_tasks([own.file]), data="builtin")
    pairs = load_own_pairs(own)
    first, second = encoder.encode(list(pairs.first)), encoder.encode(list(pairs.second))
    expected = spearmanr(cosines(first, second).numpy(), pairs.gold).statistic
    (score,) = (one for one in found.scores if one.metric == "spearman")
    assert (score.task, score.split) == ("my-test", "test")
    assert score.value == pytest.approx(expected, abs=1e-5)
    settings = found.identities[score.identity]
    assert (settings["source"], settings["data_sha256"]) == ("file", pairs.sha256)
    (kept,) = found.examples
    assert (kept.task, len(kept.values)) == ("my-test", 12)


def test_pairs_of_equal_sentences_tie_whatever_else_is_encoded(own: OwnPairs) -> None:
    rows = [f"the cat sees {n} dogs\tthe cat sees {n} dogs\t{n % 5}\n" for n in range(40)]
    Path(own.file).write_text("".join([*ROWS, *rows]))
    model = OwnModel(load_encoder("mini", pooler="avg"))
    for words in ([own.file], ["sickr", own.file]):
        found = evaluate(model, parse_tasks(words), data="builtin")
        (kept,) = (one for one in found.examples if one.task == "my-test")
        assert (kept.values[len(ROWS) :] == 1).all()


def test_the_settings_hold_the_groups_of_its_pairs(own: OwnPairs) -> None:
    found = evaluate(Letters(), parse_tasks(["sts12", own.file]), data="builtin")
    [told] = [one for one in found.scores if one.metric == SENTENCE_GROUPS]
    groups = groups_of_settings(found.identities[told.identity])
    assert groups.tolist() == [0, 1, 2, 3] * 3  # `a dog sees cat 0` is the second of three pairs
    assert (told.task, told.value) == ("my-test", 4 / 12)
    [kept] = [one for one in found.examples if one.task == "my-test"]
    assert found.identities[told.identity]["data_sha256"] == kept.data_sha256
    # The identity of a set of the package stays what it was.
    others = {one.identity for one in found.scores if one.task != "my-test"}
    assert others and all("source" not in found.identities[identity] for identity in others)


def test_a_test_file_with_the_pairs_of_a_dev_set_is_refused(own: OwnPairs, tmp_path: Path) -> None:
    copy = tmp_path / "other-name.csv"
    copy.write_text("".join(ROWS).replace("\t", ","))
    held = with_checksum(OwnPairs(file=str(copy)))
    with pytest.raises(DataError, match=r"other-name\.csv holds the same pairs .*my-test\.tsv"):
        refuse_dev_as_test([with_checksum(own)], [held])


OPENS = """
import sys
from cse_methods.guard import guard
guard(own=[sys.argv[1]])
open(sys.argv[2]).read()
"""


def test_a_guarded_process_cannot_open_a_test_file(own: OwnPairs, tmp_path: Path) -> None:
    link, other = tmp_path / "link.tsv", tmp_path / "other.tsv"
    link.symlink_to(own.file)
    other.write_text("fine")
    for path, refused in ((own.file, True), (link, True), (other, False)):
        ended = python(OPENS, own.file, str(path), check=False)
        assert ("GuardError: a trial may not open the test set" in ended.stderr) is refused


@pytest.mark.parametrize(
    ("task", "path", "columns"),
    [
        ("stsb", "STS/STSBenchmark/sts-test.csv", (6, 7, 5)),
        (
            "sickr",
            "SICK/SICK_test_annotated.txt",
            ("sentence_A", "sentence_B", "relatedness_score"),
        ),
    ],
)
def test_a_test_set_of_the_papers_is_refused_as_a_dev_set_under_any_name(
    shared, tmp_path, task, path, columns
) -> None:
    file = tmp_path / "gold.tsv"
    shutil.copy(shared / "data" / "downstream" / path, file)
    own = OwnPairs(file=str(file), format="unquoted", columns=columns)
    with pytest.raises(DataError, match=f"gold.tsv holds the pairs of the test set {task}: "):
        refuse_test_as_dev([own], KNOWN_SHA256)
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    refuse_test_as_dev([own], KNOWN_SHA256)  # a part of it is marked once it is scored
