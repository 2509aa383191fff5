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
from cse_platform.leaderboard.render.trial_page import score, settings
from cse_platform.pages import Block, Heading, Paragraph, Table, markdown
from cse_platform.tracking.provenance import SWEEP_PACKAGES

_TOLD = ("git_commit", "package_commit", "python", *SWEEP_PACKAGES)
"""Of the sweep's start; host, folder and command line are nobody's business outside the lab."""

_OF_THE_WORKER = ("device", "gpu", "cpu", "threads", "precision", "attention")


def model_card(story: TrialDetails, *, pooler: str) -> str:
    """The card, as Markdown.

    Args:
        story: of the trial.
        pooler: of the model; which library can load it depends on that.
    """
    return f"---\n{_head(story, pooler)}---\n\n" + markdown(
        [
            Heading(f"{story.method} on {story.backbone}", 1),
            *_what(story),
            *_loading(pooler),
            Heading("Settings", 2),
            settings(story),
            *_scores(story),
            *_seeds(story),
            Heading("Provenance", 2),
            _provenance(story),
            Heading("Licence", 2),
            Paragraph(
                "Not stated: it is for whoever publishes the model to choose, within what backbone "
                "and data allow, as `license:` in the head of this file."
            ),
        ]
    )


def _head(story: TrialDetails, pooler: str) -> str:
    """What the hub reads: YAML, with JSON values."""
    library = "sentence-transformers"
    fields: dict[str, Any] = {"library_name": library} if pooler in COMMON_POOLERS else {}
    fields["pipeline_tag"] = "sentence-similarity"
    fields["tags"] = [*fields.values(), "feature-extraction", story.method]
    if base := _base_model(story):
        fields["base_model"] = base
    if datasets := _datasets(story):
        fields["datasets"] = datasets
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in fields.items())


def _base_model(story: TrialDetails) -> str | None:
    """The backbone's id on the hub; None for one that is not there."""
    try:
        model = resolve_backbone(story.backbone).model
    except BackboneError:
        return None
    return model if isinstance(model, str) else None


def _datasets(story: TrialDetails) -> list[str]:
    """The hub's ids of the corpora that it has."""
    names = [name for name in story.corpus.split("+") if name in KNOWN]
    return list(dict.fromkeys(file.repository for name in names for file in KNOWN[name].hub))


def _what(story: TrialDetails) -> Iterator[Block]:
    yield Paragraph(
        f"Sentence embeddings by {story.method} (revision {story.revision}), trained from "
        f"{story.backbone} on {story.corpus} with seed {story.seed}. The checkpoint was picked on "
        f"dev {story.dev.checkpoint}, at step {story.best_step}."
    )
    try:
        paper = get_method(story.method).paper
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


def _scores(story: TrialDetails) -> Iterator[Block]:
    if not story.main_scores:
        return
    rows = [
        (one.task, one.split, one.metric, score(one.metric, one.value), one.identity[:8])
        for one in story.main_scores
    ]
    yield Heading("Scores, x 100", 2)
    yield Table(("task", "split", "metric", "value", "identity"), tuple(rows))
    yield Paragraph("Scores can be compared where their identities are equal.")


def _seeds(story: TrialDetails) -> Iterator[Block]:
    values = story.complete_values
    if len(values) < 2:
        return
    mean, spread = statistics.fmean(values.values()), statistics.stdev(values.values())
    yield Paragraph(
        f"Dev {story.dev.search} over the seeds {', '.join(map(str, values))} of these settings: "
        f"{100 * mean:.2f} ± {100 * spread:.2f}."
    )


def _provenance(story: TrialDetails) -> Table:
    start = story.starts[0].provenance if story.starts else {}
    facts = {
        "trial": story.key,
        "configuration": story.configuration.hash,
        "dev identity": story.dev.identity,
        "finished": None if story.finished is None else story.finished.date().isoformat(),
        **{name: start.get(name) for name in _TOLD},
        **{name: story.provenance.get(name) for name in _OF_THE_WORKER},
    }
    rows = tuple((name, value) for name, value in facts.items() if value)
    return Table(("", ""), rows)
