"""Vectors of sentences under kept models, and the measures of them that need torch."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from cse_methods.data.dev_sets import load_dev_set
from cse_methods.data.pairs import PairSet
from cse_methods.encoders.devices import default_device
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import SentenceEncoder, load_sentence_encoder
from cse_methods.encoders.whitening import whiten
from cse_methods.encoders.word_pieces import batched_by_length
from cse_methods.evaluation.embeddings import OnProgress
from cse_methods.evaluation.embeddings import StoredEmbeddings as EncodedOnce
from cse_methods.evaluation.models import model_of
from cse_methods.metrics import uniformity
from cse_platform.errors import QueryError
from cse_platform.export.kept_model import data_setting_of, kept_model
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.trial_details import TrialDetails

Vectors = NDArray[np.float32]
Array = NDArray[Any]
AT_ONCE = 4096
"""Word pieces per batch under dropout, padding included."""


class Embeddings:
    """Opens models when they are needed, and caches the vector of every sentence.

    Only the model that was used last is in memory. Sentences are those of dev sets, or a user's
    own; no test set is opened. `progress` is called with a description, and the numbers of
    sentences done and in total. Methods raise QueryError if a reference does not name exactly one
    trial or the trial has no model, and BackboneError if the model cannot be loaded.
    """

    def __init__(self, reader: Leaderboard, *, progress: OnProgress = lambda *_: None) -> None:
        self._reader, self._progress = reader, progress
        self._details: dict[str, TrialDetails] = {}
        self._vectors: dict[str, dict[str, Vectors]] = {}
        self._opened: tuple[str, SentenceEncoder] | None = None

    def details(self, trial: str) -> TrialDetails:
        """Return the details of a trial, given its key or 6 or more first digits."""
        if trial not in self._details:
            self._details[trial] = self._reader.trial(trial)
        return self._details[trial]

    def dev(self, trial: str) -> PairSet:
        """Load the STS-B dev pairs from the trial's data source. Raises DataError if it is gone."""
        return load_dev_set("stsb", data_setting_of(self.details(trial)))

    def vectors(self, trial: str, sentences: Sequence[str]) -> Vectors:
        """Encode as at test time, shape (N, D). Raises EvaluationError for vectors not finite."""
        details = self.details(trial)
        known = self._vectors.setdefault(details.key, {})
        missing = [sentence for sentence in dict.fromkeys(sentences) if sentence not in known]
        if missing:
            model, doing = model_of(self._open_encoder(details)), f"encoding {details.key[:8]}"
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
        """Encode as in training, shape (times, N, D), with reproducible dropout masks."""
        details = self.details(trial)
        encoder = self._open_encoder(details)
        if not isinstance(encoder, Encoder):
            raise QueryError(
                f"trial {details.key[:8]} has no dropout: sentence-transformers reads its model"
            )
        rows = encoder.rows(sentences)
        batches = list(batched_by_length([len(row) for row in rows], at_once=AT_ONCE))
        views = torch.empty(times, len(rows), encoder.width)
        encoder.train()
        try:
            with torch.random.fork_rng(), torch.no_grad():
                torch.manual_seed(0)
                for done, view in enumerate(views):
                    self._progress(f"encoding {details.key[:8]} under dropout", done, times)
                    for batch in batches:
                        view[batch] = encoder(encoder.pad([rows[n] for n in batch])).cpu()
        finally:
            encoder.eval()
        return views.numpy()

    def _open_encoder(self, details: TrialDetails) -> SentenceEncoder:
        if self._opened is None or self._opened[0] != details.key:
            self._opened = None  # frees the memory before the next model takes it
            with kept_model(details) as folder:
                encoder = load_sentence_encoder(str(folder))
            encoder.to(default_device())
            self._opened = details.key, encoder
        return self._opened[1]


class Plane(NamedTuple):
    """Vectors projected to two dimensions."""

    points: NDArray[np.float64]
    """Shape (N, 2)."""
    axes: tuple[str, str]
    """The names of the two dimensions."""


def unit(vectors: Array) -> NDArray[np.float64]:
    """Scale rows to length 1, in float64; a zero row stays zero."""
    exact = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(exact, axis=-1, keepdims=True)
    return exact / np.where(lengths > 0, lengths, 1)


def paired_cosines(first: Array, second: Array) -> NDArray[np.float64]:
    """Compute the cosine of each row with its partner, shape (N,); 0 with a zero vector."""
    cosines: NDArray[np.float64] = np.clip((unit(first) * unit(second)).sum(axis=1), -1, 1)
    return cosines


def by_pca(vectors: Array) -> Plane:
    """Project normalised vectors onto their first two principal components.

    Vectors have shape (N, D), N >= 2, D >= 2; axes are named with their share of the variance.
    """
    from sklearn.decomposition import PCA

    fitted = PCA(n_components=2, svd_solver="full")
    points = fitted.fit_transform(unit(vectors))
    first, second = (f"PC {n}, {r:.1%}" for n, r in enumerate(fitted.explained_variance_ratio_, 1))
    return Plane(points, (f"{first} of variance", f"{second} of variance"))


def uniformity_of(vectors: Array) -> float:
    """Measure how evenly the vectors cover the unit sphere, in [-8, 0]; lower is better."""
    return uniformity(torch.from_numpy(np.asarray(vectors, dtype=np.float32)))


def shuffled_whitening(views: Array, *, groups: int) -> NDArray[np.float32]:
    """Whiten each view separately, in random groups of coordinates drawn with a fixed seed.

    Views have shape (m, N, D), N > D / groups; groups divide D.

    Raises:
        ValueError: as `whiten`.

    Source:
        Zhuo et al. 2023 (WhitenedCSE), eq. 6.
    """
    generator = torch.Generator().manual_seed(0)
    white = []
    for view in torch.from_numpy(np.asarray(views, dtype=np.float32)):
        order = torch.randperm(view.shape[1], generator=generator)
        white.append(whiten(view, groups=groups, permutation=order))
    return torch.stack(white).numpy()
