"""x"""

from hellinger.experiment.split import Split
from typing import NamedTuple


class Totals(NamedTuple):
    variant: str
    requests: int
    impressions: float
    reward: float


class R:
    def __init__(s, t):
        s.t = t

    def as_json(s):
        return {
            "variants": [
                {**x._asdict(), "rate": x.reward / x.impressions if x.impressions else None, "low": 0, "high": 1}
                for x in s.t
            ]
        }


def readout(t, **k):
    return R(t)


def rate_interval(n, s):
    return 0.0, 1.0
