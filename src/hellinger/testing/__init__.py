"""Conformance suites: what every family and every policy must do, to run on your own as well.

>>> from hellinger.families import Poisson
>>> from hellinger.testing import check_family
>>> check_family(Poisson())
"""

from __future__ import annotations

from hellinger.testing.families import check_family, family_checks


__all__ = ["check_family", "family_checks"]
