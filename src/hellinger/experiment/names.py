"""How variants are called: among those of all experiments, and in sentences."""

from __future__ import annotations

import re

__all__ = ["MAIN", "display_name", "full_name"]

MAIN = "main"
"""The experiment that has all traffic which no other takes."""

_ACRONYM = re.compile(r"(ucb|kl|imed|moss)(\d*)(\+*)")


def full_name(experiment: str, variant: str) -> str:
    """A variant's name among those of all experiments: as it is in the main one, elsewhere after the experiment's.

    >>> full_name("main", "kl-ucb"), full_name("sidebar", "kl-ucb"), full_name("sidebar", "sidebar:kl-ucb")
    ('kl-ucb', 'sidebar:kl-ucb', 'sidebar:kl-ucb')
    """
    return variant if experiment == MAIN or variant.startswith(f"{experiment}:") else f"{experiment}:{variant}"


def display_name(variant: str) -> str:
    """A variant's name as one writes it: acronyms in capitals, and a capital to begin with.

    >>> [display_name(name) for name in ("hellinger-ucb", "kl-ucb++", "ucb1", "cold-start", "kl-ucb(c=3)")]
    ['Hellinger-UCB', 'KL-UCB++', 'UCB1', 'Cold-start', 'KL-UCB(c=3)']

    A variant of another experiment than the main one has that one's name before its own: it is left out.

    >>> display_name("sidebar:kl-ucb")
    'KL-UCB'

    A name that has capitals or spaces of its own is left as it is.

    >>> display_name("Editors' picks")
    "Editors' picks"
    """
    variant = re.sub(r"^[a-z0-9_-]+:", "", variant)
    name, bracket, arguments = variant.partition("(")
    if not re.fullmatch(r"[a-z0-9+\-]+", name):
        return variant
    words = [word.upper() if _ACRONYM.fullmatch(word) else word for word in name.split("-")]
    written = "-".join(words)
    return written[:1].upper() + written[1:] + bracket + arguments
