"""What a family of rewards is: a small required core, closed forms where they exist, defaults elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt

from hellinger._jit import Component, explained, is_own
from hellinger._spec import format_spec
from hellinger.errors import InputError, require
from hellinger.families import _dispatch as d
from hellinger.families import _kernels as kernels
from hellinger.families._solver import distance, solve_natural, theta_bound

__all__ = ["ArrayLike", "Family", "Floats"]

Floats = npt.NDArray[np.float64]
ArrayLike = npt.ArrayLike


class Family(Component):
    """A one-parameter exponential family, indexed by its mean.

    A family is an immutable NamedTuple of its parameters. Public methods take scalars or arrays and
    broadcast; each calls, element by element in compiled code, the private method of the same name.
    A new family writes ``_log_partition`` and ``_mean``, ψ and ψ′, and whatever closed forms it has;
    everything else follows from these two.
    """

    __slots__ = ()

    name: ClassVar[str]
    reference: ClassVar[str]
    integer: ClassVar[bool] = False
    """Rewards are non-negative integers, so that arms can be grouped by their reward sum."""
    posterior: ClassVar[str | None] = None
    """The conjugate posterior of the mean, in words; None where Thompson sampling is not offered."""
    posterior_quantile: ClassVar[bool] = False
    """Whether the posterior's quantile is offered too, as Bayes-UCB needs."""

    @property
    def mean_bounds(self) -> tuple[float, float]:
        """Ends of the closed interval of means."""
        return (self._infimum(), self._supremum())

    @property
    def spec(self) -> str:
        """The text that makes this family again: ``families.get(f.spec)``."""
        return format_spec(self.name, self._asdict())  # type: ignore[attr-defined]

    @classmethod
    def cases(cls) -> Iterator[Self]:
        """Instances for the conformance suite: the default and, with parameters, some others."""
        yield cls()

    def typical_means(self) -> Floats:
        """Means over the whole domain, ends included, for the conformance suite."""
        return np.array([0.0, 1e-9, 1e-6, 1e-3, 0.03, 0.5, 1.0, 2.5, 40.0, 1e3, 1e6, 1e9])

    # Mathematics of one scalar, compiled ------------------------------------------------------------

    def _infimum(self) -> float:
        return 0.0

    def _supremum(self) -> float:
        return math.inf

    def _natural_bounds(self) -> tuple[float, float]:
        return (-math.inf, math.inf)

    def _log_partition(self, theta: Any) -> Any:
        raise NotImplementedError

    def _mean(self, theta: float) -> float:
        raise NotImplementedError

    def _natural(self, m: float) -> float:
        return solve_natural(self, m)

    def _variance(self, m: float) -> float:
        if m == d.infimum(self) or m == d.supremum(self):
            return 0.0
        theta = d.natural(self, m)
        bottom, top = d.natural_bounds(self)
        h = min(1e-3 * max(1.0, abs(theta)), 0.02 * min(theta - bottom, top - theta))
        near = d.mean(self, theta + h) - d.mean(self, theta - h)
        far = d.mean(self, theta + 2.0 * h) - d.mean(self, theta - 2.0 * h)
        return (8.0 * near - far) / (12.0 * h)

    def _kl(self, p: float, q: float) -> float:
        return distance(self, p, q, False)

    def _bhattacharyya(self, p: float, q: float) -> float:
        return distance(self, p, q, True)

    def _hellinger2(self, p: float, q: float) -> float:
        return -math.expm1(-d.bhattacharyya(self, p, q))

    def _hellinger_upper(self, m: float, x: float) -> float:
        return theta_bound(self, m, x, True, 1.0)

    def _kl_upper(self, m: float, x: float) -> float:
        return theta_bound(self, m, x, False, 1.0)

    def _hellinger_lower(self, m: float, x: float) -> float:
        return theta_bound(self, m, x, True, -1.0)

    def _kl_lower(self, m: float, x: float) -> float:
        return theta_bound(self, m, x, False, -1.0)

    def _draw(self, m: float, z: np.uint64) -> float:
        raise NotImplementedError

    def _proper_prior(self) -> bool:
        return False

    def _posterior_draw(self, rng: np.random.Generator, s: float, n: float) -> float:
        raise NotImplementedError

    def _posterior_upper(self, s: float, n: float, tail: float) -> float:
        raise NotImplementedError

    # Public, for scalars and arrays -----------------------------------------------------------------

    def kl(self, p: ArrayLike, q: ArrayLike) -> Any:
        """Kullback–Leibler divergence KL(p ‖ q) between the members with means p and q."""
        return self._pairwise(kernels.kl, self._check_mean(p, "p"), self._check_mean(q, "q", closed=True))

    def bhattacharyya(self, p: ArrayLike, q: ArrayLike) -> Any:
        """Bhattacharyya distance B(p, q) = −log(1 − H²(p, q))."""
        p, q = self._check_mean(p, "p"), self._check_mean(q, "q", closed=True)
        return self._pairwise(kernels.bhattacharyya, p, q)

    def hellinger2(self, p: ArrayLike, q: ArrayLike) -> Any:
        """Squared Hellinger distance H²(p, q) = 1 − ∫√(dP dQ)."""
        p, q = self._check_mean(p, "p"), self._check_mean(q, "q", closed=True)
        return self._pairwise(kernels.hellinger2, p, q)

    def hellinger_upper(self, mean: ArrayLike, radius: ArrayLike) -> Any:
        """Largest q with B(mean, q) ≤ radius; the Hellinger-UCB index at radius = level/pulls."""
        return self._pairwise(kernels.hellinger_upper, self._check_mean(mean, "mean"), _check_radius(radius))

    def kl_upper(self, mean: ArrayLike, radius: ArrayLike) -> Any:
        """Largest q with KL(mean ‖ q) ≤ radius; the KL-UCB index at radius = level/pulls."""
        return self._pairwise(kernels.kl_upper, self._check_mean(mean, "mean"), _check_radius(radius))

    def hellinger_lower(self, mean: ArrayLike, radius: ArrayLike) -> Any:
        """Smallest q with B(mean, q) ≤ radius."""
        return self._pairwise(kernels.hellinger_lower, self._check_mean(mean, "mean"), _check_radius(radius))

    def kl_lower(self, mean: ArrayLike, radius: ArrayLike) -> Any:
        """Smallest q with KL(mean ‖ q) ≤ radius."""
        return self._pairwise(kernels.kl_lower, self._check_mean(mean, "mean"), _check_radius(radius))

    def natural(self, mean: ArrayLike) -> Any:
        """Natural parameter θ of the member with this mean."""
        return self._elementwise(kernels.natural, self._check_mean(mean, "mean"))

    def mean(self, natural: ArrayLike) -> Any:
        """Mean ψ′(θ) of the member with natural parameter θ."""
        return self._elementwise(kernels.mean, _floats(natural, "natural"))

    def log_partition(self, natural: ArrayLike) -> Any:
        """Log-partition function ψ(θ)."""
        return self._elementwise(kernels.log_partition, _floats(natural, "natural"))

    def variance(self, mean: ArrayLike) -> Any:
        """Variance of a reward of the member with this mean."""
        return self._elementwise(kernels.variance, self._check_mean(mean, "mean"))

    def sample(self, mean: ArrayLike, rng: np.random.Generator, size: int | tuple[int, ...] | None = None) -> Any:
        """Draw rewards of the members with these means."""
        drawn = np.asarray(self._sample(self._check_mean(mean, "mean"), rng, size), np.float64)
        return drawn if drawn.ndim else float(drawn)

    def _sample(self, mean: Floats, rng: np.random.Generator, size: int | tuple[int, ...] | None) -> Any:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------

    def _check_mean(self, value: ArrayLike, name: str, *, closed: bool = False) -> Floats:
        array = _floats(value, name)
        low, high = self.mean_bounds
        outside = (array < low) | (array > high)
        if not closed:
            outside |= np.isinf(array)
        if outside.any():
            relation = f"{low:g} <= {name} <= {high:g}" if closed or high < math.inf else f"{low:g} <= {name} < inf"
            raise InputError(f"`{relation}` must hold for {self}, but got {name}={float(array[outside][0])!r}")
        return array

    def _pairwise(self, kernel: Any, a: Floats, b: Floats) -> Any:
        if a.shape != b.shape:
            try:
                a, b = (np.array(each) for each in np.broadcast_arrays(a, b))
            except ValueError:
                raise InputError(f"the shapes must broadcast, but got {a.shape} and {b.shape}") from None
        out = np.empty(a.shape)
        self._run(kernel, np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1), out.reshape(-1))
        return out if out.ndim else float(out)

    def _elementwise(self, kernel: Any, a: Floats) -> Any:
        out = np.empty(a.shape)
        self._run(kernel, np.ascontiguousarray(a).reshape(-1), out.reshape(-1))
        return out if out.ndim else float(out)

    def _run(self, kernel: Any, *arrays: Floats) -> None:
        if is_own(self):
            kernel(self, *arrays)
        else:
            with explained(f"the family {self}"):
                kernel(self, *arrays)

    # A family is a tuple of parameters for numba only; for everyone else it is its class and parameters.

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple.__eq__(
            cast("tuple[float, ...]", self), cast("tuple[float, ...]", other)
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), tuple.__hash__(cast("tuple[float, ...]", self))))

    def __bool__(self) -> bool:
        return True


def _floats(value: ArrayLike, name: str) -> Floats:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"`{name}` must be a number or an array of numbers, but got {value!r}") from None


def _check_radius(radius: ArrayLike) -> Floats:
    array = _floats(radius, "radius")
    require(not (array < 0).any(), "0 <= radius", radius=array[array < 0][:1].tolist())
    return array
