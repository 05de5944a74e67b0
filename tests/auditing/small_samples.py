"""Small samples of people, to work out their numbers by hand."""

import numpy as np

from propcal.auditing.statistics.sample import Sample


def sample_of(*cells, weight=1.0, cluster=None):
    """People by (score, people, events), each of the same weight; `cluster` has the
    cluster of each of these cells.
    """
    score, people, events = (np.array(column, float) for column in zip(*cells))
    return Sample(
        score=score,
        people=people.astype(np.int64),
        weight=weight * people,
        weight_sq=weight**2 * people,
        positives=weight * events,
        positives_sq=weight**2 * events,
        cluster=None if cluster is None else np.array(cluster),
    )


def rows_of(*cells):
    """Scores and outcomes, one for each person of (score, people, events)."""
    score = np.concatenate([np.full(people, score) for score, people, _ in cells])
    outcome = np.concatenate([np.arange(n) < events for _, n, events in cells])
    return score, outcome.astype(int)
