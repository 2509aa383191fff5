"""Vectors of sentences under the models that trials kept."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from cse_methods.data.dev_sets import load_dev_set
from cse_methods.data.pairs import PairSet
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_encoder
from cse_methods.encoders.word_pieces import batched_by_length
from cse_methods.evaluation.embeddings import OnProgress
from cse_methods.evaluation.embeddings import StoredEmbeddings as EncodedOnce
from cse_methods.evaluation.models import OwnModel
from cse_platform.export.dev_pairs import data_setting_of
from cse_platform.export.kept_model import kept_model
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.query.trials.details_record import TrialDetails

Vectors = NDArray[np.float32]
AT_ONCE = 4096
"""Word pieces of a batch under dropout, padding included."""


class Embeddings:
    """Opens models when they are asked for, and remembers the vector of every sentence.

    One model is in memory at a time: the last that was used. Sentences are those of dev sets, or a
    user's own; no test set is opened. A context manager, which in the end forgets them all.
    `progress` is called with what is going on, and how many of how many sentences are done. Methods
    raise a QueryError for what is not one trial, or has no model, and a BackboneError if the model
    cannot be loaded.
    """

    def __init__(self, reader: Leaderboard, *, progress: OnProgress = lambda *_: None) -> None:
        self._reader, self._progress = reader, progress
        self._details: dict[str, TrialDetails] = {}
        self._vectors: dict[str, dict[str, Vectors]] = {}
        self._opened: tuple[str, Encoder] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._opened = None
        self._vectors.clear()

    def details(self, trial: str) -> TrialDetails:
        """What the leaderboard knows of a trial, by its key or the first 6 or more digits of it."""
        if trial not in self._details:
            self._details[trial] = self._reader.trial(trial)
        return self._details[trial]

    def dev(self, trial: str) -> PairSet:
        """The STS-B dev pairs, from where the trial had its data; a DataError if that is gone."""
        return load_dev_set("stsb", data_setting_of(self.details(trial)))

    def vectors(self, trial: str, sentences: Sequence[str]) -> Vectors:
        """Vectors as at test time, shape (N, D); an EvaluationError if one is not finite."""
        details = self.details(trial)
        known = self._vectors.setdefault(details.key, {})
        missing = [one for one in dict.fromkeys(sentences) if one not in known]
        if missing:
            model, doing = OwnModel(self._encoder(details)), f"encoding {details.key[:8]}"
            with TemporaryDirectory(prefix="cse-vectors-") as folder:
                encoded = EncodedOnce(
                    model,
                    missing,
                    folder=Path(folder),
                    progress=lambda _, done, total: self._progress(doing, done, total),
                )
                known.update(zip(missing, encoded(missing).numpy(), strict=True))
        return np.stack([known[sentence] for sentence in sentences])

    def under_dropout(self, trial: str, sentences: Sequence[str], *, times: int) -> Vectors:
        """Vectors as in training, shape (times, N, D); the dropout masks are always the same."""
        details = self.details(trial)
        encoder = self._encoder(details)
        views = []
        with torch.random.fork_rng():
            torch.manual_seed(0)
            for done in range(times):
                self._progress(f"encoding {details.key[:8]} under dropout", done, times)
                views.append(_under_dropout(encoder, sentences))
        return np.stack(views)

    def _encoder(self, details: TrialDetails) -> Encoder:
        if self._opened is None or self._opened[0] != details.key:
            self._opened = None  # gives the memory back before the next one takes it
            with kept_model(details) as folder:
                encoder = load_encoder(str(folder))
            encoder.to("cuda" if torch.cuda.is_available() else "cpu").eval()
            self._opened = details.key, encoder
        return self._opened[1]


def _under_dropout(encoder: Encoder, sentences: Sequence[str]) -> Vectors:
    rows = encoder.rows(sentences)
    vectors = torch.empty(len(rows), encoder.width)
    encoder.train()
    try:
        with torch.no_grad():
            for places in batched_by_length([len(row) for row in rows], at_once=AT_ONCE):
                vectors[places] = encoder(encoder.pad([rows[place] for place in places])).cpu()
    finally:
        encoder.eval()
    return vectors.numpy()
