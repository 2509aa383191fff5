from pathlib import Path

import pytest
from letter_models import Letters
from processes import python
from pydantic import ValidationError

from cse_methods.data.corpora import handed_out_texts, load_corpus, missing_corpora
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.overlap import TrainingData
from cse_methods.errors import DataError
from cse_methods.evaluation.evaluate import evaluate
from cse_methods.evaluation.test_sets.pairs import hand_out_texts, load_pair_set
from cse_methods.tasks import AVG_STS, STS_TASKS, parse_tasks

SICKR = CorpusSpec(name="sickr", transductive=True)
ALL = CorpusSpec(name="sts", transductive=True)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CSE_CACHE", str(tmp_path))


def texts_of(*tasks: str) -> list[str]:
    sets = [load_pair_set(task, "builtin") for task in tasks]
    return [text for s in sets for pair in zip(s.first, s.second, strict=True) for text in pair]


def test_handed_out_texts_are_both_sentences_of_every_pair() -> None:
    assert missing_corpora([SICKR], "builtin") == []
    with pytest.raises(DataError, match="the texts of the test set 'sickr'"):
        load_corpus([SICKR], "builtin")
    file = handed_out_texts(SICKR, "builtin")
    file.parent.mkdir(parents=True)
    file.write_text("old\n")  # a file that holds something else is replaced
    hand_out_texts([CorpusSpec(name="builtin"), SICKR, ALL], "builtin")
    assert list(load_corpus([SICKR], "builtin").sentences) == texts_of("sickr")
    both = load_corpus([CorpusSpec(name="builtin"), ALL], "builtin")
    assert list(both.sentences[-2 * 7 * 120 :]) == texts_of(*STS_TASKS)
    assert both.name == "builtin+sts (transductive)"
    assert file.read_text().splitlines() == texts_of("sickr")


def test_a_guarded_process_reads_handed_out_texts() -> None:
    code = """
from cse_methods.data.corpora import load_corpus
from cse_methods.data.corpus_spec import CorpusSpec
from cse_methods.guard import guard

guard()
print(len(load_corpus([CorpusSpec(name="sickr", transductive=True)], "builtin").sentences))
"""
    hand_out_texts([SICKR], "builtin")
    done = python(code)
    assert (done.stdout, done.stderr) == ("240\n", "")


def test_a_transductive_corpus_must_be_a_test_set() -> None:
    for fields, why in (
        ({"name": "wiki1m"}, "no test set 'wiki1m'"),
        ({"name": "sts", "column": "a"}, "not a table"),
    ):
        with pytest.raises(ValidationError, match=why):
            CorpusSpec.model_validate({**fields, "transductive": True})
    assert [*SICKR.test_sets, *CorpusSpec(name="sts").test_sets] == ["sickr"]


def test_scores_of_an_encoder_trained_on_test_texts_have_another_identity() -> None:
    def score(*corpora: CorpusSpec) -> dict[str, str]:
        training = TrainingData(
            dev=DevSelection(), chosen_on=("stsb",), corpora=corpora, data="builtin"
        )
        found = evaluate(Letters(), parse_tasks(["sts"]), data="builtin", training=training)
        return {one.task: one.identity for one in found.scores if one.metric == "spearman"}

    clean, knowing = score(CorpusSpec(name="builtin")), score(CorpusSpec(name="builtin"), SICKR)
    assert clean.keys() == knowing.keys() == {*STS_TASKS, AVG_STS}
    assert not set(clean.values()) & set(knowing.values())
