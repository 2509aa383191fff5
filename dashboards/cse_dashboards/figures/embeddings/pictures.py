"""All figures of embeddings, by their names in addresses of the page."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec

from cse_dashboards.encoded import Embeddings
from cse_dashboards.figures.embeddings.case_study import case_study
from cse_dashboards.figures.embeddings.dev_buckets import dev_buckets
from cse_dashboards.figures.embeddings.diversity import diversity
from cse_dashboards.figures.embeddings.heat_map import heat_map
from cse_dashboards.figures.embeddings.projection import By, projection
from cse_dashboards.figures.embeddings.sentences import Trials, dev_of, vectors_of
from cse_dashboards.figures.embeddings.spread import spread
from cse_dashboards.figures.labels import ENCODED, Encoded
from cse_dashboards.figures.picture import Drawn, Picture
from cse_methods.errors import CseError


def embeddings_picture(
    name: Encoded,
    embeddings: Embeddings,
    trials: Trials,
    *,
    sentences: Sequence[str] = (),
    by: By = "pca",
    query: str | None = None,
) -> Picture:
    """Make one figure, or say why there is none.

    Args:
        name: a key of `ENCODED`.
        embeddings: encodes the sentences.
        trials: whose models are shown, by label.
        sentences: those of the heat map; by default, it chooses its own.
        by: how the projection is made; UMAP must be installed.
        query: of the case study; by default, it chooses its own.
    """
    draw: dict[Encoded, Callable[[Embeddings, Trials], tuple[Drawn, str]]] = {
        "heat_map": partial(heat_map, sentences=sentences),
        "projection": partial(projection, by=by),
        "spread": spread,
        "diversity": diversity,
        "buckets_stsb_dev": dev_buckets,
        "case_study": partial(case_study, query=query),
    }
    title, file = ENCODED[name], str(name)
    if name == "projection":
        title, file = f"{title}, {by.upper()}", f"{name}_{by}"
    try:
        drawn, caption = draw[name](embeddings, trials)
    except CseError as problem:
        return Picture(file, title, "", missing=str(problem))
    return Picture(file, title, caption, *drawn)


def embeddings_pictures(
    embeddings: Embeddings, trials: Trials, *, sentences: Sequence[str], query: str | None
) -> Iterator[Picture]:
    """Make all figures; each model is opened once, the first one twice.

    The projection uses UMAP if it is installed.
    """
    with suppress(CseError):  # each picture reports it
        dev = dev_of(embeddings, trials)
        vectors_of(embeddings, trials, [*dev.first, *dev.second, *sentences])
    by: By = "umap" if find_spec("umap") else "pca"
    for name in ENCODED:
        yield embeddings_picture(name, embeddings, trials, sentences=sentences, by=by, query=query)
