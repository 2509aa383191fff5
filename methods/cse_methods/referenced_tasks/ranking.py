"""Scores of ranked documents, as trec_eval and thus mteb compute them, from vectors alone."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

Embed = Callable[[Sequence[str]], Tensor]
"""Gives the vectors of N texts, shape (N, D)."""
_METRIC = re.compile(r"(ndcg|map)_at_(\d+)")
_MOST_SIMILARITIES = 2**24
"""Similarities that are held at the same time."""

Rows = Sequence[Mapping[str, Any]]


def can_rank(metric: str) -> bool:
    """Whether `RankedDocuments` has this metric of mteb."""
    return _METRIC.fullmatch(metric) is not None


class RankedDocuments:
    """Queries, the documents that they are to find, and those among which they find them.

    Args:
        corpus: `id`, `title`, which may be left out, and `text` of each document.
        queries: `id` and `text` of each query.
        relevant: `query` and `documents`, the relevance of documents by their ids.
        candidates: `query` and `documents`, the ids among which the query finds; None for all.
        metric: `ndcg_at_K` or `map_at_K`.
        ignore_identical: whether a query does not find the document of its own id.
    """

    def __init__(
        self,
        corpus: Rows,
        queries: Rows,
        relevant: Rows,
        candidates: Rows | None,
        metric: str,
        *,
        ignore_identical: bool = False,
    ) -> None:
        # Of equally similar documents, trec_eval ranks that with the greatest id first.
        corpus = sorted(corpus, key=lambda row: str(row["id"]).encode(), reverse=True)
        column = {row["id"]: number for number, row in enumerate(corpus)}
        judged = {row["query"]: row["documents"] for row in relevant if row["documents"]}
        queries = [row for row in queries if row["id"] in judged]
        self.queries = [row["text"] for row in queries]
        self.documents = [_join_title(row) for row in corpus]
        match = _METRIC.fullmatch(metric)
        assert match is not None
        self.gain_is_graded, self.depth = match[1] == "ndcg", int(match[2])
        found = [
            (number * len(corpus) + column[document], relevance)
            for number, row in enumerate(queries)
            for document, relevance in judged[row["id"]].items()
            if relevance > 0 and document in column
        ]
        cells, gains = zip(*sorted(found), strict=True) if found else ((), ())
        self._cells, self._gains = np.array(cells, np.int64), np.array(gains, np.float64)
        self._best = np.array([self._find_best(judged[row["id"]].values()) for row in queries])
        self._allowed: Tensor | None = None
        if candidates is not None:
            listed = {row["query"]: row["documents"] for row in candidates}
            self._allowed = torch.zeros(len(queries), len(corpus), dtype=torch.bool)
            for number, row in enumerate(queries):
                self._allowed[number, [column[one] for one in listed.get(row["id"], ())]] = True
        elif ignore_identical:
            self._allowed = torch.ones(len(queries), len(corpus), dtype=torch.bool)
            for number, row in enumerate(queries):
                if row["id"] in column:
                    self._allowed[number, column[row["id"]]] = False

    def score(self, embed: Embed) -> float:
        """Compute the mean over queries in [0, 1]; nan if a vector is not finite."""
        queries = F.normalize(embed(self.queries).float(), dim=1)
        documents = F.normalize(embed(self.documents).float(), dim=1)
        if not (queries.isfinite().all() and documents.isfinite().all()):
            return math.nan
        size = max(1, _MOST_SIMILARITIES // len(documents))
        sums = [
            self._rank(queries[first : first + size] @ documents.T, first)
            for first in range(0, len(queries), size)
        ]
        return float(np.mean(np.concatenate(sums) / self._best))

    def _rank(self, similarities: Tensor, first: int) -> NDArray[np.float64]:
        """Sum up the gains of the ranked documents of each query, the first of which is `first`."""
        count, documents = similarities.shape
        if self._allowed is not None:
            allowed = self._allowed[first : first + count]
            similarities = similarities.masked_fill(~allowed, -math.inf)
        depth = min(self.depth, documents)
        lowest = similarities.topk(depth).values[:, -1:]
        high = (similarities >= lowest) & (similarities > -math.inf)
        row, column = (indices.numpy() for indices in high.nonzero(as_tuple=True))
        # Rows and columns ascend, and the sort is stable, so that the order of ids decides ties.
        order = np.lexsort((-similarities[high].numpy(), row))
        row, column = row[order], column[order]
        place = np.arange(len(row)) - np.searchsorted(row, row)
        row, column, place = (part[place < depth] for part in (row, column, place))
        gain = self._look_up((row + first) * documents + column)
        if self.gain_is_graded:
            return _add_up(row, gain / np.log2(place + 2), count)
        hits = np.cumsum(gain > 0)
        before = np.concatenate([[0], hits])[np.searchsorted(row, row)]
        precision = (gain > 0) * (hits - before) / (place + 1)
        return _add_up(row, precision, count)

    def _look_up(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        if not len(self._cells):
            return np.zeros(len(cells))
        at = np.minimum(np.searchsorted(self._cells, cells), len(self._cells) - 1)
        return np.where(self._cells[at] == cells, self._gains[at], 0.0)

    def _find_best(self, relevances: Any) -> float:
        """Return the greatest sum of gains that a query can have."""
        gains = sorted((gain for gain in relevances if gain > 0), reverse=True)
        if not gains:
            return math.inf
        if not self.gain_is_graded:
            return float(len(gains))
        ranked = enumerate(gains[: self.depth], start=2)
        return float(sum(gain / math.log2(place) for place, gain in ranked))


def _add_up(row: NDArray[np.int64], values: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    return np.bincount(row, values, minlength=rows).astype(np.float64)


def _join_title(row: Mapping[str, Any]) -> str:
    """Return the text of a document as mteb has encoders read it."""
    return f"{row.get('title') or ''} {row['text']}".strip()
