"""Scores of ranked documents from vectors, by trec_eval as in mteb, in a fraction of its time."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Embed = Callable[[Sequence[str]], Tensor]
"""Gives the vectors of N texts, shape (N, D)."""
Rows = Sequence[Mapping[str, Any]]
_MEASURES = {"ndcg": "ndcg_cut", "map": "map_cut", "precision": "P", "hit_rate": "success"}
_MEASURES |= {"recall": "recall"}


def find_measure(metric: str) -> tuple[str, int] | None:
    """Return what trec_eval calls a metric of mteb, such as `ndcg_at_10`, and its depth.

    None if it has no such measure.
    """
    found = re.fullmatch(r"(\w+)_at_(\d+)", metric)
    return (_MEASURES[found[1]], int(found[2])) if found and found[1] in _MEASURES else None


class RankedDocuments:
    """Queries, the documents that they are to find, and those among which they find them.

    Args:
        corpus: `id`, `title`, which may be left out, and `text` of each document.
        queries: `id` and `text` of each query.
        relevant: `query` and `documents`, the relevance of documents by their ids.
        candidates: `query` and `documents`, the ids among which the query finds; None for all.
        measure: of trec_eval, and its depth.
        ignore_identical: whether a query does not find the document of its own id.
    """

    def __init__(
        self,
        corpus: Rows,
        queries: Rows,
        relevant: Rows,
        candidates: Rows | None,
        measure: tuple[str, int],
        *,
        ignore_identical: bool = False,
    ) -> None:
        from pytrec_eval import RelevanceEvaluator

        judged = {row["query"]: row["documents"] for row in relevant if row["documents"]}
        self._queries = {row["id"]: row["text"] for row in queries if row["id"] in judged}
        self._ids = [row["id"] for row in corpus]
        self._documents = [f"{row.get('title') or ''} {row['text']}".strip() for row in corpus]
        self._candidates: dict[str, list[int]] | None = None
        if candidates is not None:
            column = {own: number for number, own in enumerate(self._ids)}
            self._candidates = {
                row["query"]: [column[one] for one in row["documents"]] for row in candidates
            }
        name, self._depth = measure
        self._name, self._ignore_identical = f"{name}_{self._depth}", ignore_identical
        self._judge = RelevanceEvaluator(judged, {f"{name}.{self._depth}"})

    @property
    def texts(self) -> list[str]:
        """All texts that an encoder reads."""
        return [*self._queries.values(), *self._documents]

    def score(self, embed: Embed) -> float:
        """Compute the mean over queries in [0, 1]; nan if a vector is not finite."""
        queries = F.normalize(embed(list(self._queries.values())).float(), dim=1)
        documents = F.normalize(embed(self._documents).float(), dim=1)
        if not (queries.isfinite().all() and documents.isfinite().all()):
            return math.nan
        found = {
            own: self._rank_documents(own, documents @ query)
            for own, query in zip(self._queries, queries, strict=True)
        }
        values = [one[self._name] for one in self._judge.evaluate(found).values()]
        return sum(values) / len(values)

    def _rank_documents(self, query: str, similarities: Tensor) -> dict[str, float]:
        """Return the similarities of the documents that a query may find at this depth."""
        if self._candidates is not None:
            columns = torch.tensor(self._candidates[query])
        else:
            depth = min(self._depth + self._ignore_identical, len(similarities))
            # Of equally similar documents trec_eval chooses by their ids.
            columns = (similarities >= similarities.topk(depth).values[-1]).nonzero()[:, 0]
        pairs = zip(columns.tolist(), similarities[columns].tolist(), strict=True)
        ranked = {self._ids[column]: similarity for column, similarity in pairs}
        if self._ignore_identical:
            ranked.pop(query, None)
        return ranked
