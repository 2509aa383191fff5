"""Distribution of STS-B dev cosines within buckets of gold scores (RankCSE, figure 5)."""

import numpy as np

from cse_dashboards.encoded import Embeddings, paired_cosines
from cse_dashboards.figures.board.buckets import draw_buckets
from cse_dashboards.figures.embeddings.sentences import Trials, dev_name, dev_of, vectors_of
from cse_dashboards.figures.labels import styles_in_order
from cse_dashboards.figures.picture import Drawn


def dev_buckets(embeddings: Embeddings, trials: Trials) -> tuple[Drawn, str]:
    """Draw the distribution of STS-B dev cosines by gold score, with a panel per model."""
    dev = dev_of(embeddings, trials)
    encoded, absent = vectors_of(embeddings, trials, [*dev.first, *dev.second])
    pairs = {
        label: (paired_cosines(*np.split(vectors, 2)), dev.gold)
        for label, vectors in encoded.items()
    }
    title = "Cosines by gold score, STS-B dev"
    return draw_buckets(pairs, styles_in_order(pairs), title=title), (
        f"Density of the cosines of the pairs of {dev_name(dev)} whose gold score lies between two "
        f"grades, with their mean (after RankCSE, figure 5).{absent}"
    )
