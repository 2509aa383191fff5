"""All figures of embeddings, with each model opened as seldom as can be."""

from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec

from cse_dashboards.encoded.models import Embeddings
from cse_dashboards.figures.embeddings.case_study import case_study
from cse_dashboards.figures.embeddings.diversity import diversity
from cse_dashboards.figures.embeddings.heat_map import heat_map
from cse_dashboards.figures.embeddings.projection import projection
from cse_dashboards.figures.embeddings.sentences import (
    Trials,
    dev_of,
    ranked_case,
    sentences_in_plane,
    sentences_of,
    usual_pairs,
    vectors_of,
)
from cse_dashboards.figures.picture import Picture
from cse_methods.errors import CseError


def embeddings_pictures(embeddings: Embeddings, trials: Trials) -> Iterator[Picture]:
    """All four, by UMAP where it is installed; each model is opened once, the first twice."""
    with suppress(CseError):  # each picture says so itself
        dev = dev_of(embeddings, trials)
        ranked = [one for pair in ranked_case(dev, None).pairs for one in pair]
        every = [*sentences_in_plane(dev), *sentences_of(dev, usual_pairs(dev)), *ranked]
        vectors_of(embeddings, trials, every)
    yield heat_map(embeddings, trials)
    yield projection(embeddings, trials, by="umap" if find_spec("umap") else "pca")
    yield diversity(embeddings, trials)
    yield case_study(embeddings, trials)
