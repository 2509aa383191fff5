"""What is measured and drawn of vectors: cosines, the plane that shows most, positives."""

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from cse_methods.encoders.whitening import whiten
from cse_methods.metrics import uniformity

Array = NDArray[Any]


class Plane(NamedTuple):
    """Vectors brought to two numbers each."""

    points: NDArray[np.float64]
    """Shape (N, 2)."""
    axes: tuple[str, str]
    """What the two numbers are."""


class Diversity(NamedTuple):
    """How far apart, in mean cosine distance (1 - cosine, in [0, 2])."""

    positives: NDArray[np.float64]
    """The positives of one sentence from each other, shape (N,): by sentence."""
    others: float
    """Two different sentences."""


def all_cosines(vectors: Array) -> NDArray[np.float64]:
    """Cosine of every row with every other, shape (N, N); a zero vector has cosine 0 with all."""
    points = unit(vectors)
    cosines: NDArray[np.float64] = np.clip(points @ points.T, -1, 1)
    return cosines


def paired_cosines(first: Array, second: Array) -> NDArray[np.float64]:
    """Cosine of each row with its partner, shape (N,); a zero vector has cosine 0."""
    cosines: NDArray[np.float64] = np.clip((unit(first) * unit(second)).sum(axis=1), -1, 1)
    return cosines


def unit(vectors: Array) -> NDArray[np.float64]:
    """Rows of length 1, float64; a zero row stays zero."""
    exact = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(exact, axis=-1, keepdims=True)
    return exact / np.where(lengths > 0, lengths, 1)


def by_pca(vectors: Array) -> Plane:
    """The two directions in which the vectors, brought to length 1, differ most.

    Vectors have shape (N, D), N >= 2, D >= 2; axes are named with their share of the variance.
    """
    from sklearn.decomposition import PCA

    fitted = PCA(n_components=2, svd_solver="full")
    points = fitted.fit_transform(unit(vectors))
    first, second = (f"PC {n}, {r:.1%}" for n, r in enumerate(fitted.explained_variance_ratio_, 1))
    return Plane(points, (f"{first} of variance", f"{second} of variance"))


def uniformity_of(vectors: Array) -> float:
    """How evenly the vectors cover the unit sphere, in [-8, 0]; less is better."""
    return uniformity(torch.from_numpy(np.asarray(vectors, dtype=np.float32)))


def by_direction(vectors: Array) -> Plane:
    """The two directions in which the vectors, brought to length 1, lie most: nothing is centred.

    They are the first axes of the second moments, the first with the mean on its positive side.
    Points lie in the unit circle. Vectors have shape (N, D), D >= 2.
    """
    lengths_one = unit(vectors)
    shares, axes = np.linalg.eigh(lengths_one.T @ lengths_one / len(lengths_one))
    points = lengths_one @ axes[:, [-1, -2]]
    points *= np.where(points.mean(axis=0) < 0, -1, 1)
    first, second = (f"direction {n}, {shares[-n]:.1%} of length²" for n in (1, 2))
    return Plane(points, (first, second))


def by_umap(vectors: Array) -> Plane:
    """A plane in which neighbours by cosine stay neighbours; the same for the same vectors.

    Its axes have no meaning of their own. N is well above the 15 neighbours that it looks at.

    Raises:
        ImportError: if `umap-learn` is not installed.

    Source:
        McInnes et al. 2018, with the library's own settings.
    """
    from umap import UMAP

    # One job: with more, UMAP would not repeat itself, whatever the seed.
    points = UMAP(metric="cosine", random_state=0, n_jobs=1).fit_transform(unit(vectors))
    return Plane(np.asarray(points, dtype=np.float64), ("UMAP 1, no unit", "UMAP 2, no unit"))


def shuffled_whitening(views: Array, *, groups: int) -> NDArray[np.float32]:
    """Each view whitened by itself, in groups of coordinates drawn anew; always the same draws.

    Views have shape (m, N, D), N > D / groups; groups divide D.

    Raises:
        ValueError: as `whiten`.

    Source:
        Zhuo et al. 2023 (WhitenedCSE), eq. 6.
    """
    drawn = torch.Generator().manual_seed(0)
    white = []
    for view in torch.from_numpy(np.asarray(views, dtype=np.float32)):
        order = torch.randperm(view.shape[1], generator=drawn)
        white.append(whiten(view, groups=groups, permutation=order))
    return torch.stack(white).numpy()


def diversity_of(views: Array) -> Diversity:
    """How far apart the positives of a sentence are, and how far different sentences.

    Views have shape (m, N, D), m >= 2, N >= 2.
    """
    points = unit(views)
    pairs = list(combinations(range(len(points)), 2))
    same = np.mean([1 - (points[a] * points[b]).sum(axis=1) for a, b in pairs], axis=0)
    count = points.shape[1]
    # |sum of the points|^2 is the sum over all ordered pairs, each point with itself included.
    sums = np.square(points.sum(axis=1)).sum(axis=1) - np.square(points).sum(axis=(1, 2))
    return Diversity(same, float(1 - sums.mean() / (count * (count - 1))))
