import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, BertModel

from cse_methods.config import TrainingConfig
from cse_methods.data.corpus import Corpus
from cse_methods.encoders.backbones import (
    _KNOWN,
    Backbone,
    locate_backbone,
    resolve_backbone,
    weights_sha256,
)
from cse_methods.encoders.encoder_check import check_encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.errors import BackboneError
from cse_methods.evaluation.evaluate import evaluate
from cse_methods.evaluation.models import Model, OwnModel, open_model
from cse_methods.papers.pcl import PCLConfig, _make_peer
from cse_methods.tasks import parse_tasks
from cse_methods.training.student import Student
from cse_methods.training.teachers import TeacherSpec, teacher_vectors

PAIRS = [
    ("A cook stirs the soup.", "A chef is stirring soup.", 4.6),
    ("Two boys kick a ball.", "Children play football.", 3.8),
    ("The train left at noon.", "A cat sleeps on the roof.", 0.0),
    ("Rain falls on the hills.", "It is raining in the hills.", 4.9),
    ("A man plays the guitar.", "A man plays the trumpet.", 2.4),
    ("The nurse thanks the pilot.", "The pilot thanks the nurse.", 3.1),
    ("She reads an old letter.", "The dog runs over the grass.", 0.3),
    ("The king lost the war.", "The king was beaten.", 3.5),
    ("Bread is baked at dawn.", "They bake bread each morning.", 4.2),
    ("A plane is landing.", "A plane takes off.", 1.6),
    ("He paints the wall red.", "The bank closes at five.", 0.1),
]
SENTENCES = [sentence for *both, _ in PAIRS for sentence in both]
QUERY = {"prompts": {"query": "query: ", "other": "x"}, "default_prompt_name": "query"}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of `mini`, with a trained head on [CLS] as supervised SimCSE's."""
    source, folder = locate_backbone(resolve_backbone("mini")), tmp_path_factory.mktemp("bert")
    assert source is not None
    torch.manual_seed(0)
    model = BertModel.from_pretrained(source, dtype=torch.float32)
    torch.nn.init.normal_(model.pooler.dense.weight, std=0.1)
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / name, folder)
    return folder


def saved(
    bert: Path, folder: Path, *, below: str = "", options: Any = None, **pooling: Any
) -> Path:
    """A folder as releases of sentence-transformers write it; the transformer lies in `below`."""
    shutil.copytree(bert, folder / below)
    kind = "BERT" if below == "0_BERT" else "Transformer"
    steps = [(below, kind), ("1_Pooling", "Pooling")]
    (folder / "1_Pooling").mkdir()
    flags = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 192} | flags | pooling)
    write(folder / "config_sentence_transformers.json", options or {})
    write_modules(folder, steps)
    return folder


def write(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content))


def write_modules(folder: Path, steps: list[tuple[str, str]]) -> None:
    types = "sentence_transformers.models."
    listed = [{"name": str(n), "path": at, "type": types + k} for n, (at, k) in enumerate(steps)]
    write(folder / "modules.json", listed)


@cache
def outputs(bert: Path, prompt: str) -> list[Any]:
    """What transformers gives for each sentence after the prompt, one by one."""
    model, tokenizer = AutoModel.from_pretrained(bert).eval(), AutoTokenizer.from_pretrained(bert)
    with torch.no_grad():
        return [model(**tokenizer(prompt + one, return_tensors="pt")) for one in SENTENCES]


def by_hand(
    bert: Path, read: Callable[[Tensor], Tensor], *, prompt: str = "", head: bool = False
) -> Tensor:
    """The vectors of all sentences: `read` makes one of a sentence's token vectors."""
    found = outputs(bert, prompt)
    if head:
        return torch.cat([one.pooler_output for one in found])
    return torch.stack([read(one.last_hidden_state[0]).detach() for one in found])


def score(vectors: Tensor) -> float:
    first, second = vectors[::2], vectors[1::2]
    found = torch.cosine_similarity(first.double(), second.double())
    return float(spearmanr(found, [gold for *_, gold in PAIRS]).statistic)


def scored(model: Model, pairs: Path) -> float:
    found = evaluate(model, parse_tasks([str(pairs)]), data="builtin")
    return next(one.value for one in found.scores if one.metric == "spearman")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    file = tmp_path / "own.jsonl"
    rows = [{"sentence1": a, "sentence2": b, "score": gold} for a, b, gold in PAIRS]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def mean(tokens: Tensor) -> Tensor:
    return tokens.mean(dim=0)


def test_folders_of_all_layouts_give_the_expected_vectors(
    bert: Path, pairs: Path, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    linear = torch.nn.Linear(192, 48)
    older = saved(bert, tmp_path / "older", below="0_Transformer")
    (older / "2_Dense").mkdir()
    activation = {"activation_function": "torch.nn.modules.activation.Tanh"}
    layer = {"in_features": 192, "out_features": 48, "bias": True} | activation
    write(older / "2_Dense" / "config.json", layer)
    torch.save(
        {f"linear.{k}": v for k, v in linear.state_dict().items()},
        older / "2_Dense/pytorch_model.bin",
    )
    write_modules(
        older, [("0_Transformer", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense")]
    )
    cls = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    oldest = saved(bert, tmp_path / "oldest", below="0_BERT", **cls)
    asked = saved(bert, tmp_path / "asked", options=QUERY)
    left_out = saved(bert, tmp_path / "out", options=QUERY, include_prompt=False)
    cut = saved(bert, tmp_path / "cut", options={"truncate_dim": 40})
    prompted = len(AutoTokenizer.from_pretrained(bert)("query: ")["input_ids"]) - 1  # no [SEP]
    table: list[tuple[Path, dict[str, Any], Tensor]] = [
        (bert, {}, by_hand(bert, mean)),
        (bert, {"head": True}, by_hand(bert, mean, head=True)),
        (bert, {"prompt": "query: "}, by_hand(bert, mean, prompt="query: ")),
        (older, {}, by_hand(bert, lambda tokens: linear(tokens.mean(dim=0)).tanh())),
        (oldest, {}, by_hand(bert, lambda tokens: tokens[0])),
        (asked, {}, by_hand(bert, mean, prompt="query: ")),
        (asked, {"prompt": ""}, by_hand(bert, mean)),
        (asked, {"prompt": "passage: "}, by_hand(bert, mean, prompt="passage: ")),
        (
            left_out,
            {},
            by_hand(bert, lambda tokens: tokens[prompted:].mean(dim=0), prompt="query: "),
        ),
        (cut, {}, by_hand(bert, lambda tokens: tokens.mean(dim=0)[:40])),
    ]
    again = tmp_path / "again"
    for folder, settings, vectors in table:
        model = open_model(str(folder), **settings)
        assert isinstance(model, OwnModel)
        assert scored(model, pairs) == pytest.approx(score(vectors), abs=1e-9)
        if not settings and folder != bert:
            model.encoder.save(again)
            found = load_encoder(str(again)).encode(SENTENCES)
            torch.testing.assert_close(found, vectors, rtol=1e-4, atol=1e-5)
            shutil.rmtree(again)
    # What changes the vectors of a folder changes its hash.
    plain = saved(bert, tmp_path / "plain")
    assert len({weights_sha256(folder) for folder in (plain, asked, left_out, cut, older)}) == 5
    assert len({score(vectors) for *_, vectors in table}) > 4


def test_an_evaluation_scores_the_first_coordinates_too(bert: Path, pairs: Path) -> None:
    widths = (8, 64, 192)
    tasks = parse_tasks([str(pairs)])
    found = evaluate(open_model(str(bert)), tasks, data="builtin", dims=widths)
    vectors = by_hand(bert, mean)
    expected = {kept: pytest.approx(score(vectors[:, :kept])) for kept in widths}
    assert found.by_width == {"own": expected}


def test_a_warning_names_unused_weights(bert: Path, caplog: pytest.LogCaptureFixture) -> None:
    load_encoder(str(bert))
    assert "depend on none of these weights: pooler.dense; a head that was" in caplog.text
    caplog.clear()
    load_encoder(str(bert), head=True)
    load_encoder("mini")
    assert not caplog.text
    check_encoder(str(bert), head=True)
    for read in (load_encoder, check_encoder):
        with pytest.raises(BackboneError, match=r"weights have no pooler\.dense; leave head out"):
            read("mini", head=True)


def test_the_head_of_a_known_encoder_follows_cls_once(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_KNOWN, "sup", Backbone("sup", bert, None, "cls", head=True))
    heads = by_hand(bert, mean, head=True)
    for given, expected in (
        ({}, heads),
        ({"pooler": "cls"}, heads),
        ({"pooler": "avg"}, by_hand(bert, mean)),
        ({"head": False}, by_hand(bert, lambda tokens: tokens[0])),
    ):
        found = load_encoder("sup", **given).encode(SENTENCES)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert not Student.from_config(
        TrainingConfig(backbone="sup", corpus="builtin")
    ).encoder.post_pooling
    peer = _make_peer(
        PCLConfig(backbone="sup", corpus="builtin", peer="fixed", fixed_peer="sup"),
        load_encoder("sup"),
    )
    torch.testing.assert_close(peer.encode(SENTENCES), heads, rtol=1e-4, atol=1e-5)


def test_a_configuration_without_a_family_is_refused(bert: Path, tmp_path: Path) -> None:
    folder = saved(bert, tmp_path / "old", below="0_Transformer")
    file = folder / "0_Transformer" / "config.json"
    stored = json.loads(file.read_text())
    write(file, {name: value for name, value in stored.items() if name != "model_type"})
    for read in (load_encoder, check_encoder, open_model):
        with pytest.raises(BackboneError, match=r'0_Transformer/config\.json .*"model_type": "b'):
            read(str(folder))


def test_a_teacher_may_have_a_prompt_and_a_head(bert: Path, tmp_path: Path) -> None:
    corpus = Corpus("few", SENTENCES, "few")
    for given in ({"prompt": "query: "}, {"head": True}, {}):
        spec = TeacherSpec(model=str(bert), **given)
        found = torch.tensor(teacher_vectors(spec, corpus, max_length=32, cache=tmp_path))
        expected = by_hand(bert, mean, **given)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_prompts_with_a_placeholder_or_without_a_space_are_refused(bert: Path) -> None:
    for prompt, problem in (
        ("query: {}", r"it stands before each sentence, without \{\}"),
        ("query {.} x", r"it stands before each sentence, without \{\.\}"),
        ("query", "joins its end"),
    ):
        with pytest.raises(BackboneError, match=problem):
            check_encoder(str(bert), prompt=prompt)
