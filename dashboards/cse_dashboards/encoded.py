"""Vectors of sentences under kept models, and the measures and projections computed from them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from cse_methods.data.dev_sets import load_dev_set
from cse_methods.data.pairs import PairSet
from cse_methods.encoders.devices import default_device
from cse_methods.encoders.encoder import Encoder
from cse_methods.encoders.loading import load_sentence_encoder
from cse_methods.encoders.sentence_encoder import SentenceEncoder
from cse_methods.encoders.whitening import whiten
from cse_methods.encoders.word_pieces import batched_by_length
from cse_methods.evaluation.embeddings import OnProgress
from cse_methods.evaluation.embeddings import StoredEmbeddings as EncodedOnce
from cse_methods.evaluation.measures.ranking import queries
from cse_methods.evaluation.models import model_of
from cse_methods.metrics import uniformity
from cse_platform.errors import QueryError
from cse_platform.export.kept_model import data_setting_of, kept_model
from cse_platform.leaderboard.api import Leaderboard
from cse_platform.leaderboard.trial_details import TrialDetails

TARGETS = 8
"""Most targets that a case study ranks."""
RANKED_PAIRS = 6
"""Most pairs that it ranks; each takes two lines."""
FEWEST = 3
"""Fewest targets that make a ranking."""


@dataclass(frozen=True)
class Case:
    """Graded pairs to rank: the targets of one sentence, or pairs of different sentences."""

    query: str | None
    """The sentence that all pairs share; None if they share none."""
    pairs: tuple[tuple[str, str], ...]
    """Pairs by gold, highest first; the query comes first in its pairs."""
    gold: tuple[float, ...]


def case_of(dev: PairSet, query: str | None = None) -> Case | None:
    """Choose what to rank: at most 8 targets of a query, spread over their gold, or 6 pairs.

    The default query is the sentence in most pairs, if it is in more than three; otherwise, pairs
    of different sentences are ranked. None if the given query has fewer than 3 targets.
    """
    by_default = queries(dev.first, dev.second)
    if query is None and not by_default:
        places = spread_by_gold(dev, differing_pairs(dev), RANKED_PAIRS)
        return _make_case(None, [(dev.first[n], dev.second[n]) for n in places], dev, places)
    chosen = query or max(by_default, key=lambda sentence: len(by_default[sentence]))
    chosen = " ".join(chosen.split())
    targets: dict[str, int] = {}
    for place, (first, second) in enumerate(zip(dev.first, dev.second, strict=True)):
        if chosen in (first, second) and first != second:
            targets.setdefault(second if chosen == first else first, place)
    if len(targets) < FEWEST:
        return None
    sentence = {place: target for target, place in targets.items()}
    places = spread_by_gold(dev, list(sentence), TARGETS)
    return _make_case(chosen, [(chosen, sentence[place]) for place in places], dev, places)


def differing_pairs(dev: PairSet) -> list[int]:
    """Return the indices of the pairs whose sentences differ in more than case and punctuation."""
    words = [
        [re.findall(r"\w+", sentence.lower()) for sentence in side]
        for side in (dev.first, dev.second)
    ]
    return [place for place, (a, b) in enumerate(zip(*words, strict=True)) if a != b]


def spread_by_gold(dev: PairSet, places: Sequence[int], count: int) -> list[int]:
    """Choose `count` of these pairs at even steps of gold, preferring short ones.

    Returns their indices, highest gold first.
    """
    left = sorted(places, key=lambda n: (len(dev.first[n]) + len(dev.second[n]), n))
    gold = {place: float(dev.gold[place]) for place in left}
    chosen: list[int] = []
    for wanted in np.linspace(max(gold.values()), min(gold.values()), min(count, len(left))):
        nearest = min(left, key=lambda place: abs(gold[place] - wanted))
        left.remove(nearest)
        chosen.append(nearest)
    return sorted(chosen, key=lambda place: -gold[place])


def some_of(sentences: Sequence[str], most: int) -> list[str]:
    """Return all sentences, or `most` of them at even distances."""
    count = min(most, len(sentences))
    return [sentences[place * len(sentences) // count] for place in range(count)]


def _make_case(
    query: str | None, pairs: Sequence[tuple[str, str]], dev: PairSet, places: Sequence[int]
) -> Case:
    return Case(query, tuple(pairs), tuple(float(dev.gold[place]) for place in places))


Vectors = NDArray[np.float32]
AT_ONCE = 4096
"""Word pieces per batch under dropout, padding included."""


class Embeddings:
    """Opens models when they are needed, and caches the vector of every sentence.

    Only the model that was used last is in memory. Sentences are those of dev sets, or a user's
    own; no test set is opened. It is a context manager, which clears the cache at the end.
    `progress` is called with a description, and the numbers of sentences done and in total. Methods
    raise QueryError if a reference does not name exactly one trial or the trial has no model, and
    BackboneError if the model cannot be loaded.
    """

    def __init__(self, reader: Leaderboard, *, progress: OnProgress = lambda *_: None) -> None:
        self._reader, self._progress = reader, progress
        self._details: dict[str, TrialDetails] = {}
        self._vectors: dict[str, dict[str, Vectors]] = {}
        self._opened: tuple[str, SentenceEncoder] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._opened = None
        self._vectors.clear()

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
            raise QueryError(f"trial {details.key[:8]} is of static word vectors without dropout")
        views = []
        with torch.random.fork_rng():
            torch.manual_seed(0)
            for done in range(times):
                self._progress(f"encoding {details.key[:8]} under dropout", done, times)
                views.append(_encode_under_dropout(encoder, sentences))
        return np.stack(views)

    def _open_encoder(self, details: TrialDetails) -> SentenceEncoder:
        if self._opened is None or self._opened[0] != details.key:
            self._opened = None  # frees the memory before the next model takes it
            with kept_model(details) as folder:
                encoder = load_sentence_encoder(str(folder))
            encoder.to(default_device())
            self._opened = details.key, encoder
        return self._opened[1]


def _encode_under_dropout(encoder: Encoder, sentences: Sequence[str]) -> Vectors:
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


Array = NDArray[Any]


class Plane(NamedTuple):
    """Vectors projected to two dimensions."""

    points: NDArray[np.float64]
    """Shape (N, 2)."""
    axes: tuple[str, str]
    """The names of the two dimensions."""


class Diversity(NamedTuple):
    """How far apart vectors are, as mean cosine distance (1 - cosine, in [0, 2])."""

    positives: NDArray[np.float64]
    """Mean distance between a sentence's positives, by sentence, shape (N,)."""
    others: float
    """Mean distance between different sentences."""


def all_cosines(vectors: Array) -> NDArray[np.float64]:
    """Compute the cosine of every pair of rows, shape (N, N); 0 with a zero vector."""
    points = unit(vectors)
    cosines: NDArray[np.float64] = np.clip(points @ points.T, -1, 1)
    return cosines


def paired_cosines(first: Array, second: Array) -> NDArray[np.float64]:
    """Compute the cosine of each row with its partner, shape (N,); 0 with a zero vector."""
    cosines: NDArray[np.float64] = np.clip((unit(first) * unit(second)).sum(axis=1), -1, 1)
    return cosines


def unit(vectors: Array) -> NDArray[np.float64]:
    """Scale rows to length 1, in float64; a zero row stays zero."""
    exact = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(exact, axis=-1, keepdims=True)
    return exact / np.where(lengths > 0, lengths, 1)


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


def by_direction(vectors: Array) -> Plane:
    """Project normalised vectors onto the two main axes of their second moments, without centring.

    The mean is on the positive side of both axes, and points lie in the unit circle. Vectors have
    shape (N, D), D >= 2.
    """
    lengths_one = unit(vectors)
    shares, axes = np.linalg.eigh(lengths_one.T @ lengths_one / len(lengths_one))
    points = lengths_one @ axes[:, [-1, -2]]
    points *= np.where(points.mean(axis=0) < 0, -1, 1)
    first, second = (f"direction {n}, {shares[-n]:.1%} of length²" for n in (1, 2))
    return Plane(points, (first, second))


def by_umap(vectors: Array) -> Plane:
    """Project vectors to a plane with UMAP, which keeps neighbours by cosine; deterministic.

    The axes have no meaning of their own. N must be well above UMAP's 15 neighbours.

    Raises:
        ImportError: if `umap-learn` is not installed.

    Source:
        McInnes et al. 2018, with the library's own settings.
    """
    from umap import UMAP

    # One job: with more, UMAP is not deterministic, whatever the seed.
    points = UMAP(metric="cosine", random_state=0, n_jobs=1).fit_transform(unit(vectors))
    return Plane(np.asarray(points, dtype=np.float64), ("UMAP 1, no unit", "UMAP 2, no unit"))


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


def diversity_of(views: Array) -> Diversity:
    """Measure how far apart the positives of a sentence are, and different sentences.

    Views have shape (m, N, D), m >= 2, N >= 2.
    """
    points = unit(views)
    pairs = list(combinations(range(len(points)), 2))
    same = np.mean([1 - (points[a] * points[b]).sum(axis=1) for a, b in pairs], axis=0)
    count = points.shape[1]
    # |sum of the points|^2 sums the products of all ordered pairs, including those of a point
    # with itself.
    sums = np.square(points.sum(axis=1)).sum(axis=1) - np.square(points).sum(axis=(1, 2))
    return Diversity(same, float(1 - sums.mean() / (count * (count - 1))))
