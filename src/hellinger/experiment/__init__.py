"""The experiment: how traffic is split between variants, and what the figures say."""

from __future__ import annotations

from hellinger.experiment.best import probability_best
from hellinger.experiment.names import display_name
from hellinger.experiment.ratio import SampleRatio, sample_ratio
from hellinger.experiment.readout import Readout, Row, readout
from hellinger.experiment.sequences import lift_bounds, order_evidence, rate_bounds
from hellinger.experiment.split import Split
from hellinger.experiment.totals import Clusters, Pages, Phase, Totals
from hellinger.experiment.verdict import Verdict

__all__ = [
    "Clusters",
    "Pages",
    "Phase",
    "Readout",
    "Row",
    "SampleRatio",
    "Split",
    "Totals",
    "Verdict",
    "display_name",
    "lift_bounds",
    "order_evidence",
    "probability_best",
    "rate_bounds",
    "readout",
    "sample_ratio",
]
