"""Random numbers by counter: one 64-bit word per reward, and samplers that grow what they need from it.

Word j of a stream is a function of (stream, j), so the j-th reward of an arm is the same whatever was
played before it, by whom and on which thread. Words come from SplitMix64 (Steele, Lea & Flood 2014),
whose state is itself a counter. A sampler that needs more than one word takes its word as the seed of a
stream of its own and returns that stream's state beside its value.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hellinger._jit import helper, inline

__all__ = ["binomial", "gamma", "geometric", "normal", "poisson", "scramble", "stream", "uniform", "word"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_TINY = 2.0**-53


@inline
def mix(z: np.uint64) -> np.uint64:
    """SplitMix64's finaliser: a bijection of 64-bit words without structure."""
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


@helper
def scramble(key: Any) -> Any:
    """A number as a word of its own, zero included; not inlined, for use outside hot loops."""
    return mix(np.uint64(key) + _GOLDEN)


@inline
def word(state: np.uint64, counter: np.uint64) -> np.uint64:
    """Word number ``counter`` of a stream."""
    return mix(state + counter * _GOLDEN)


@inline
def stream(state: np.uint64, name: np.uint64) -> np.uint64:
    """A stream within a stream: independent for every ``name``."""
    return mix(mix(state + _GOLDEN) ^ mix(name * _GOLDEN + _MIX1))


@inline
def following(state: np.uint64) -> np.uint64:
    """The state after one more word has been taken."""
    return state + _GOLDEN


@inline
def uniform(z: np.uint64) -> float:
    """A word as a number in [0, 1) with 53 random bits."""
    return np.float64(z >> np.uint64(11)) * _TINY


@inline
def positive(z: np.uint64) -> float:
    """A word as a number in (0, 1]."""
    return np.float64((z >> np.uint64(11)) + np.uint64(1)) * _TINY


@helper
def normal(state: np.uint64) -> tuple[float, np.uint64]:
    """Standard normal, by Marsaglia's polar method."""
    while True:
        a = 2.0 * uniform(mix(state)) - 1.0
        state = following(state)
        b = 2.0 * uniform(mix(state)) - 1.0
        state = following(state)
        square = a * a + b * b
        if 0.0 < square < 1.0:
            return a * math.sqrt(-2.0 * math.log(square) / square), state


@helper
def log_gamma_variate(shape: float, state: np.uint64) -> tuple[float, np.uint64]:
    """Logarithm of a standard gamma variate (Marsaglia & Tsang 2000), sound for the smallest shapes."""
    boost = 0.0
    if shape < 1.0:
        boost = math.log(positive(mix(state))) / shape
        state = following(state)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x, state = normal(state)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = positive(mix(state))
        state = following(state)
        if math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
            return math.log(d * v) + boost, state


@helper
def gamma(shape: float, state: np.uint64) -> tuple[float, np.uint64]:
    """Standard gamma variate."""
    value, state = log_gamma_variate(shape, state)
    return math.exp(value), state


@helper
def binomial(n: float, p: float, state: np.uint64) -> tuple[float, np.uint64]:
    """Binomial variate, by splitting at the median order statistic (Ahrens & Dieter 1974)."""
    count = 0.0
    while n > 20.0 and 0.0 < p < 1.0:
        i = 1.0 + math.floor(n / 2.0)
        low, state = gamma(i, state)
        high, state = gamma(n + 1.0 - i, state)
        split = low / (low + high)
        if split <= p:
            count += i
            n -= i
            p = (p - split) / (1.0 - split)
        else:
            n = i - 1.0
            p /= split
    for _ in range(int(n)):
        count += 1.0 if uniform(mix(state)) < p else 0.0
        state = following(state)
    return count, state


@helper
def poisson(mean: float, state: np.uint64) -> tuple[float, np.uint64]:
    """Poisson variate: by inversion, after gamma waiting times have brought the mean down (same paper)."""
    count = 0.0
    while mean > 12.0:
        events = math.floor(0.875 * mean)
        time, state = gamma(events, state)
        if time > mean:
            fewer, state = binomial(events - 1.0, mean / time, state)
            return count + fewer, state
        count += events
        mean -= time
    u = uniform(mix(state))
    state = following(state)
    mass = math.exp(-mean)
    k = 0.0
    while u >= mass and mass > 0.0:
        u -= mass
        k += 1.0
        mass *= mean / k
    return count + k, state


@inline
def geometric(mean: float, z: np.uint64) -> float:
    """Failures before the first success, by inversion."""
    return 0.0 if mean == 0.0 else math.floor(-math.log(positive(z)) / math.log1p(1.0 / mean))
