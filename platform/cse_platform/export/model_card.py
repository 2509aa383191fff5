"""Writes the README of an exported model: metadata for the model hub, and text for readers."""

import json
from contextlib import suppress
from typing import Any

from cse_methods.data.corpora import KNOWN
from cse_methods.encoders.backbones import resolve_backbone
from cse_methods.errors import BackboneError, UnknownMethodError
from cse_methods.registry import get_method
from cse_platform.export.kept_model import COMMON_POOLERS
from cse_platform.leaderboard.trial_details import TrialDetails
from cse_platform.numbers import HASH_DIGITS, percent
from cse_platform.presentation.formats import render_template, to_markdown
from cse_platform.presentation.trial import make_facts_table, scores_table, settings_table
from cse_platform.tracking.provenance import SWEEP_PACKAGES

_OF_THE_START = ("git_commit", "package_commit", "python", *SWEEP_PACKAGES)
"""Facts of the sweep's start to publish; host, folder and command line stay in the lab."""

_OF_THE_WORKER = ("device", "gpu", "cpu", "threads", "precision", "attention")


def model_card(trial: TrialDetails, *, pooler: str) -> str:
    """Make the card in Markdown. The pooler decides which library the card names."""
    over_seeds, paper = trial.over_seeds, None
    with suppress(UnknownMethodError):
        paper = get_method(trial.method).paper
    facts = {
        "trial": trial.key,
        "configuration": trial.configuration.hash,
        "dev identity": trial.dev.identity,
        "marks": ", ".join(trial.marks) or None,
        "finished": None if trial.finished is None else trial.finished.date().isoformat(),
        **{name: trial.start_facts.get(name) for name in _OF_THE_START},
        **{name: trial.provenance.get(name) for name in _OF_THE_WORKER},
    }
    return render_template(
        "cse_platform.export",
        "model_card.md.j2",
        filters={"json": json.dumps, "percent": percent},
        head=_build_hub_metadata(trial, pooler),
        trial=trial,
        paper=paper,
        pooler=pooler,
        settings=to_markdown([settings_table(trial)]),
        scores=to_markdown([scores_table(trial.main_scores, digits=HASH_DIGITS)]),
        over_seeds=over_seeds if over_seeds is not None and over_seeds.n > 1 else None,
        provenance=to_markdown([make_facts_table(facts)]),
    )


def _build_hub_metadata(trial: TrialDetails, pooler: str) -> dict[str, Any]:
    """Build the metadata block that the hub reads."""
    library = "sentence-transformers"
    fields: dict[str, Any] = {"library_name": library} if pooler in COMMON_POOLERS else {}
    fields["pipeline_tag"] = "sentence-similarity"
    fields["tags"] = [*fields.values(), "feature-extraction", trial.method]
    with suppress(BackboneError):
        base = resolve_backbone(trial.backbone).model
        if isinstance(base, str):  # of the hub
            fields["base_model"] = base
    names = [name for name in trial.corpus.split("+") if name in KNOWN]
    datasets = dict.fromkeys(file.repository for name in names for file in KNOWN[name].hub)
    if datasets:
        fields["datasets"] = list(datasets)
    return fields
