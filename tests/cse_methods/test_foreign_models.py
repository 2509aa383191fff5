import json
from pathlib import Path
from typing import Any

import pytest
import torch

from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.post_pooling import TrainingHead
from cse_methods.errors import BackboneError, EvaluationError
from cse_methods.evaluation.embeddings import StoredEmbeddings
from cse_methods.evaluation.models import ForeignModel, open_model

pytestmark = pytest.mark.real
SENTENCES = ["The nurse thanks the pilot.", "", "rain!", "Rain!", "A cat sleeps in the library."]


@pytest.fixture
def library() -> Any:
    """sentence-transformers, where it is installed."""
    return pytest.importorskip("sentence_transformers")


def as_they_encode(
    library: Any, folder: Path, vectors: Path, *, max_length: int | None = None
) -> ForeignModel:
    """The model of a folder, once its vectors are those of the library itself."""
    model = open_model(str(folder), max_length=max_length)
    assert isinstance(model, ForeignModel)
    theirs = library.SentenceTransformer(str(folder), device="cpu")
    if max_length is not None:
        theirs.max_seq_length = max_length
    expected = torch.tensor(theirs.encode(SENTENCES))
    vectors.mkdir()
    found = StoredEmbeddings(model, SENTENCES, folder=vectors, progress=lambda *_: None)
    torch.testing.assert_close(found(SENTENCES), expected, rtol=1e-4, atol=1e-5)
    assert model.width == expected.shape[1]
    json.dumps(model.reading, allow_nan=False)
    return model


def test_a_pooling_of_another_make(library: Any, tiny_bert: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    load_encoder(str(tiny_bert), pooler="avg").save(folder)
    (folder / "1_Pooling" / "config.json").write_text(
        '{"word_embedding_dimension": 32, "pooling_mode_max_tokens": true, '
        '"pooling_mode_mean_tokens": false}'
    )
    reading = as_they_encode(library, folder, tmp_path / "whole").reading
    assert reading["library"] == "sentence-transformers"
    assert (reading["max_length"], reading["lower_cased"]) == (64, True)
    cut = as_they_encode(library, folder, tmp_path / "cut", max_length=5)
    assert cut.reading["max_length"] == 5
    assert open_model(str(folder), max_length=99_999).reading["max_length"] == 64
    with pytest.raises(EvaluationError, match="without pooler, head or slicing"):
        open_model(str(folder), pooler="cls")


def test_texts_in_lower_case(library: Any, tiny_roberta: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    load_encoder(str(tiny_roberta), pooler="avg").save(folder)
    texts = {"max_seq_length": 64, "do_lower_case": True}
    (folder / "sentence_bert_config.json").write_text(json.dumps(texts))
    assert as_they_encode(library, folder, tmp_path / "vectors").reading["lower_cased"]


def test_static_embeddings(library: Any, tiny_bert: Path, tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    folder = tmp_path / "model"
    tokenizer = load_encoder(str(tiny_bert), pooler="avg").tokenizer
    static = StaticEmbedding(tokenizer, embedding_dim=12)
    library.SentenceTransformer(modules=[static], device="cpu").save(str(folder))
    model = as_they_encode(library, folder, tmp_path / "vectors")
    assert model.width == 12
    assert (model.reading["max_length"], model.reading["lower_cased"]) == (None, None)
    with pytest.raises(
        EvaluationError, match="max_length 9 has no effect on a model that truncates"
    ):
        open_model(str(folder), max_length=9)


def test_what_the_library_cannot_load_either(library: Any, tiny_bert: Path, tmp_path: Path) -> None:
    load_encoder(str(tiny_bert), pooler="avg").with_post_pooling(TrainingHead(32)).save(tmp_path)
    layer = tmp_path / "2_Dense"
    (layer / "model.safetensors").unlink()
    (layer / "pytorch_model.bin").write_text("rubbish")
    with pytest.raises(BackboneError, match=r"pytorch_model\.bin is no file of"):
        open_model(str(tmp_path))
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[2]["type"] = "sentence_transformers.models.NoSuchModule"
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(BackboneError, match=r"NoSuchModule in 2_Dense.+, and sentence-transf"):
        open_model(str(tmp_path))
