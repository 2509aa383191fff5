"""The README of an exported model: a head for the model hub, then what a reader wants to know."""

import json
import statistics
from collections.abc import Iterator
from typing import Any

from cse_methods.data.corpora import KNOWN
from cse_methods.encoders.backbones import resolve_backbone
from cse_methods.errors import BackboneError, UnknownMethodError
from cse_methods.registry import get_method
from cse_platform.export.kept_model import COMMON_POOLERS
from cse_platform.leaderboard.query.trials.details_record import TrialDetails
from cse_platform.leaderboard.render.trial_page import score_text, settings_table
from cse_platform.render.formats import HASH_DIGITS, percent
from cse_platform.render.page import Block, Heading, Paragraph
from cse_platform.render.table import Table, text_table
from cse_platform.render.text import to_markdown
from cse_platform.tracking.provenance import SWEEP_PACKAGES

_OF_THE_START = ("git_commit", "package_commit", "python", *SWEEP_PACKAGES)
"""Of the sweep's start; host, folder and command line are nobody's business outside the lab."""

_OF_THE_WORKER = ("device", "gpu", "cpu", "threads", "precision", "attention")


def model_card(trial: TrialDetails, *, pooler: str) -> str:
    """The card, as Markdown.

    Args:
        trial: whose model it is.
        pooler: of the model; which library can load it depends on that.
    """
    return f"---\n{_head(trial, pooler)}---\n\n" + to_markdown(
        [
            Heading(f"{trial.method} on {trial.backbone}", 1),
            *_what(trial),
            *_loading(pooler),
            Heading("Settings", 2),
            settings_table(trial),
            *_scores(trial),
            *_seeds(trial),
            Heading("Provenance", 2),
            _provenance(trial),
            Heading("Licence", 2),
            Paragraph(
                "Not stated: it is for whoever publishes the model to choose, within what backbone "
                "and data allow, as `license:` in the head of this file."
            ),
        ]
    )


def _head(trial: TrialDetails, pooler: str) -> str:
    """What the hub reads: YAML, with JSON values."""
    library = "sentence-transformers"
    fields: dict[str, Any] = {"library_name": library} if pooler in COMMON_POOLERS else {}
    fields["pipeline_tag"] = "sentence-similarity"
    fields["tags"] = [*fields.values(), "feature-extraction", trial.method]
    if base := _base_model(trial):
        fields["base_model"] = base
    if datasets := _datasets(trial):
        fields["datasets"] = datasets
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items())


def _base_model(trial: TrialDetails) -> str | None:
    """The backbone's id on the hub; None for one that is not there."""
    try:
        model = resolve_backbone(trial.backbone).model
    except BackboneError:
        return None
    return model if isinstance(model, str) else None


def _datasets(trial: TrialDetails) -> list[str]:
    """The hub's ids of the corpora that it has."""
    names = [name for name in trial.corpus.split("+") if name in KNOWN]
    return list(dict.fromkeys(file.repository for name in names for file in KNOWN[name].hub))


def _what(trial: TrialDetails) -> Iterator[Block]:
    yield Paragraph(
        f"Sentence embeddings by {trial.method} (revision {trial.revision}), trained from "
        f"{trial.backbone} on {trial.corpus} with seed {trial.seed}. The checkpoint was picked on "
        f"dev {trial.dev.checkpoint}, at step {trial.best_step}."
    )
    try:
        paper = get_method(trial.method).paper
    except UnknownMethodError:
        return
    yield Paragraph(f"Method: [{paper.title}]({paper.url}), {paper.year}.")


def _loading(pooler: str) -> Iterator[Block]:
    yield Heading("Use", 2)
    if pooler in COMMON_POOLERS:
        lines = [
            "from sentence_transformers import SentenceTransformer",
            "",
            'model = SentenceTransformer("FOLDER")',
            'vectors = model.encode(["A man plays a guitar.", "Someone makes music."])',
        ]
    else:
        yield Paragraph(
            f"The pooler `{pooler}` is not one that sentence-transformers has; the package that "
            "trained the model loads it."
        )
        lines = [
            "from cse_methods.encoders.loading import load_encoder",
            "",
            'encoder = load_encoder("FOLDER")',
            'vectors = encoder.encode(["A man plays a guitar.", "Someone makes music."])',
        ]
    yield Paragraph("\n".join(["```python", *lines, "```"]))


def _scores(trial: TrialDetails) -> Iterator[Block]:
    if not trial.main_scores:
        return
    rows = [
        (
            one.task,
            one.split,
            one.metric,
            score_text(one.metric, one.value),
            one.identity[:HASH_DIGITS],
        )
        for one in trial.main_scores
    ]
    yield Heading("Scores, x 100", 2)
    yield text_table(("task", "split", "metric", "value", "identity"), rows)
    yield Paragraph("Scores can be compared where their identities are equal.")


def _seeds(trial: TrialDetails) -> Iterator[Block]:
    values = trial.complete_values
    if len(values) < 2:
        return
    mean, spread = statistics.fmean(values.values()), statistics.stdev(values.values())
    yield Paragraph(
        f"Dev {trial.dev.search} over the seeds {', '.join(map(str, values))} of these settings: "
        f"{percent(mean)} ± {percent(spread)}."
    )


def _provenance(trial: TrialDetails) -> Table:
    start = trial.starts[0].provenance if trial.starts else {}
    facts = {
        "trial": trial.key,
        "configuration": trial.configuration.hash,
        "dev identity": trial.dev.identity,
        "finished": None if trial.finished is None else trial.finished.date().isoformat(),
        **{name: start.get(name) for name in _OF_THE_START},
        **{name: trial.provenance.get(name) for name in _OF_THE_WORKER},
    }
    return text_table(("", ""), [(name, value) for name, value in facts.items() if value])
