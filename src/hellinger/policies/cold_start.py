"""Cold start: many arms, little traffic, and a prior learned from the arms themselves."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hellinger._jit import helper, jit
from hellinger._numerics import bhattacharyya_trials
from hellinger.families import Bernoulli, Family
from hellinger.policies import _dispatch as d
from hellinger.policies import balls, levels
from hellinger.policies._registry import named
from hellinger.policies._rule import Floats, Rule
from hellinger.policies.ucb import Ucb

__all__ = ["ColdStart", "Learned", "fit_prior", "learn"]

_SCALE = 0.27


@helper
def _digamma_pair(x: float) -> tuple[float, float]:
    """ψ(x) and ψ′(x) for x > 0: recurrence up to 6, then the asymptotic series."""
    first, second = 0.0, 0.0
    while x < 6.0:
        first -= 1.0 / x
        second += 1.0 / (x * x)
        x += 1.0
    y = 1.0 / (x * x)
    first += math.log(x) - 0.5 / x - y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    second += 1.0 / x + 0.5 * y + y / x * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * 5 / 66))))
    return first, second


# A weak hyperprior keeps the fit in place while there is little to learn from: log(a + b) has mean log 50 and
# variance 1, which some dozens of arms outweigh.
_LOG_STRENGTH, _WEIGHT = math.log(50.0), 1.0


@jit
def fit_prior(s: Floats, n: Floats, weight: Floats, a: float, b: float) -> tuple[float, float]:
    """Most likely Beta(a, b) of which so many arms of each (s, n) are draws, by Newton's method from a start.

    The likelihood is beta-binomial, Π Γ(a+s)Γ(b+n−s)Γ(a+b) / (Γ(a)Γ(b)Γ(a+b+n)); how a policy came to give
    each arm its n does not enter it, so that adaptive sampling does no harm. Steps are taken in log a and
    log b, with curvature damped until it is negative definite, and are at most a factor e.
    """
    u, v = math.log(a), math.log(b)
    for _ in range(50):
        a, b = math.exp(u), math.exp(v)
        da, ta = _digamma_pair(a)
        db, tb = _digamma_pair(b)
        dm, tm = _digamma_pair(a + b)
        ga, gb, haa, hbb, hab = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(s.size):
            if n[i] > 0.0:
                w = weight[i]
                xa, ya = _digamma_pair(a + s[i])
                xb, yb = _digamma_pair(b + max(n[i] - s[i], 0.0))
                xm, ym = _digamma_pair(a + b + n[i])
                ga += w * (xa - da - xm + dm)
                gb += w * (xb - db - xm + dm)
                haa += w * (ya - ta)
                hbb += w * (yb - tb)
                hab += w * (tm - ym)
        # to log scale, with the hyperprior −½·weight·(log(a + b) − log strength)²
        m = a + b
        pull = -_WEIGHT * (math.log(m) - _LOG_STRENGTH) / m
        bend = -_WEIGHT / (m * m) - pull / m
        ga, gb = ga + pull, gb + pull
        gu, gv = a * ga, b * gb
        huu = a * a * (haa + hab + bend) + gu
        hvv = b * b * (hbb + hab + bend) + gv
        huv = a * b * (hab + bend)
        damp = 0.0
        while True:
            p, q = huu - damp, hvv - damp
            determinant = p * q - huv * huv
            if p < 0.0 and q < 0.0 and determinant > 1e-12 * p * q:
                break
            damp = max(2.0 * damp, 1e-3 * (abs(huu) + abs(hvv) + abs(huv)) + 1e-12)
        du = -(q * gu - huv * gv) / determinant
        dv = -(p * gv - huv * gu) / determinant
        longest = max(abs(du), abs(dv))
        if longest > 1.0:
            du, dv = du / longest, dv / longest
        u = min(max(u + du, -7.0), 14.0)
        v = min(max(v + dv, -7.0), 14.0)
        if longest < 1e-7:
            break
    return math.exp(u), math.exp(v)


@helper
def _counted(sums: Floats, pulls: Floats) -> tuple[Floats, Floats, Floats]:
    """Counts that occur, in order, and how many arms have them: the same to the last bit for arms in any order."""
    order = np.argsort(sums)
    order = order[np.argsort(pulls[order], kind="mergesort")]
    s, n, weight = np.empty(sums.size), np.empty(sums.size), np.zeros(sums.size)
    size = 0
    for i in order:
        if size == 0 or s[size - 1] != sums[i] or n[size - 1] != pulls[i]:
            s[size], n[size] = sums[i], pulls[i]
            size += 1
        weight[size - 1] += 1.0
    return s[:size], n[:size], weight[:size]


class Learned(NamedTuple):
    """What the counts of all arms tell about each.

    Attributes
    ----------
    a, strength
        Pseudo-counts: a, and a + b.
    focus
        ∛(K/M): the cube root of how many times fewer arms are in rotation than there are.
    """

    a: float
    strength: float
    focus: float


@helper
def _best_mean(s: Floats, n: Floats, weight: Floats, a: float, strength: float, rank: float) -> float:
    """The posterior mean of the arm of this rank, the best having rank 1."""
    means = (s + a) / (n + strength)
    passed, best = 0.0, a / strength
    for i in np.argsort(-means):
        passed += weight[i]
        best = means[i]
        if passed >= rank:
            break
    return best


@jit
def learn(s: Floats, n: Floats, weight: Floats, a: float, b: float) -> Learned:
    """Beta(a, b) fitted from a start, no stronger than the best arms allow, and how focused the plays are.

    M = (Σn)²/Σn² arms are in rotation: as many would have this Σn² if they shared all plays alike. A Beta law is
    too light-tailed for some pools, and would make arms like the best ones found look impossible. Of K draws, some
    M/5 are as far out as the M/5-th best, so that (a + b)·B(prior mean, that arm's mean) is at most 0.27·log(5K/M).
    """
    a, b = fit_prior(s, n, weight, a, b)
    strength, arms, plays = a + b, weight.sum(), (weight * n).sum()
    if plays == 0.0:
        return Learned(a, strength, 1.0)
    rotating = plays * plays / (weight * n * n).sum()
    rank = max(1.0, np.rint(rotating / 5.0))
    if 2.0 * rank <= arms:
        far = bhattacharyya_trials(a / strength, _best_mean(s, n, weight, a, strength, rank), 1.0)
        most = _SCALE * math.log(arms / rank)
        if strength * far > most:
            a, strength = a * most / (strength * far), most / far
    return Learned(a, strength, (arms / rotating) ** (1.0 / 3.0))


class ColdStart(Ucb):
    """The largest q in the Hellinger ball around (s + a)/(n + a + b), with Beta(a, b) learned from all arms.

    t is the number of plays that the present arms have had: those of arms since removed tell nothing about how
    well these are known.
    """

    __slots__ = ()
    relative = True
    learns_prior = True

    @property
    def rising(self) -> bool:
        """No: the prior may move either way."""
        return False

    def _fill(self, sums: Floats, pulls: Floats, t: float, arms: float, rng: Any, out: Floats) -> None:
        count = int(arms)
        s, n, weight = _counted(sums[:count], pulls[:count])
        prior = learn(s, n, weight, 1.0, 50.0)
        t = (n * weight).sum() * prior.focus + 1.0
        for i in range(sums.size):
            out[i] = d.score(self, sums[i] + prior.a, pulls[i] + prior.strength, t, arms)


@named("cold-start")
def cold_start(family: Family) -> Rule:
    """For many arms and little traffic: a level that knows their number, a prior learned from them.

    Formula: max{q : B((s + a)/n′, q) ≤ 0.27·log(e² + t/(∛(K²M)·n′))/n′}, n′ = n + a + b, Beta(a, b) fitted to all arms,
    M = (Σn)²/Σn² of them in rotation.
    Reference: Hellinger-UCB, eq. 3.3, with a level after MOSS (Audibert & Bubeck 2009) and an empirical-Bayes prior.
    """
    if not isinstance(family, Bernoulli):
        raise ValueError(f"cold-start learns a Beta prior, so it needs the Bernoulli family, but got {family}")
    return ColdStart(family, balls.Hellinger(), levels.get("sparse", scale=_SCALE, anytime=True))
