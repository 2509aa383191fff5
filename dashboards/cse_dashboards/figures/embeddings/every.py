"""All figures of embeddings, with each model opened as seldom as can be."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec

from cse_dashboards.encoded.models import Embeddings
from cse_dashboards.figures.embeddings.case_study import case_study
from cse_dashboards.figures.embeddings.dev_buckets import dev_buckets
from cse_dashboards.figures.embeddings.diversity import diversity
from cse_dashboards.figures.embeddings.heat_map import heat_map
from cse_dashboards.figures.embeddings.projection import projection
from cse_dashboards.figures.embeddings.sentences import Trials, dev_of, vectors_of
from cse_dashboards.figures.embeddings.spread import spread
from cse_dashboards.figures.picture import Picture
from cse_methods.errors import CseError


def embeddings_pictures(
    embeddings: Embeddings,
    trials: Trials,
    *,
    sentences: Sequence[str] = (),
    query: str | None = None,
) -> Iterator[Picture]:
    """All of them, by UMAP where it is installed; each model is opened once, the first twice.

    `sentences` are those of the heat map, `query` that of the case study; each chooses itself where
    it is left out.
    """
    with suppress(CseError):  # each picture says so itself
        dev = dev_of(embeddings, trials)
        vectors_of(embeddings, trials, [*dev.first, *dev.second, *sentences])
    yield heat_map(embeddings, trials, sentences)
    yield projection(embeddings, trials, by="umap" if find_spec("umap") else "pca")
    yield spread(embeddings, trials)
    yield diversity(embeddings, trials)
    yield dev_buckets(embeddings, trials)
    yield case_study(embeddings, trials, query)
