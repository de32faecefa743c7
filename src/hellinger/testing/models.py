"""What every model must do. Each check takes a model and raises ``AssertionError`` where it fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hellinger.models import Model, ModelLike, Regression, get
from hellinger.testing._suite import close, found_in, refused

__all__ = ["check_model", "model_checks"]

_PEOPLE: list[dict[str, Any]] = [
    {"age": 20.0 + 3 * j, "gender": "FM"[j % 2], "likes": ["art", "news", "war"][: j % 4]} for j in range(12)
]
_ITEMS: list[dict[str, Any]] = [
    {"genre": ["drama", "war"][j % 2], "length": float(j), "title": f"a story of {j}"} for j in range(9)
]


def check_model(model: ModelLike) -> None:
    """Run the whole suite on a model: one of the library's, or one of your own.

    >>> check_model("logistic(per_item=true)")
    """
    made = get(model)
    for check in model_checks().values():
        check(made)


check_model.suite = True  # type: ignore[attr-defined]


def model_checks() -> dict[str, Callable[[Model], None]]:
    """Return every check by name."""
    return found_in(globals())


def _with(model: Model, **arguments: Any) -> Model:
    return type(model)(**(model.arguments | arguments))


def _rewards(model: Model, seed: int) -> Iterator[float]:
    """Rewards such as the model's family gives."""
    rng = np.random.default_rng(seed)
    low, high = model.family.mean_bounds
    mean = min(max(0.1, low), high)
    while True:
        yield float(model.family.sample(mean, rng))


def _lived(model: Model, *, events: int = 150, seed: int = 0) -> Regression:
    posterior = Regression(model)
    posterior.add(len(_ITEMS), _ITEMS)
    rng = np.random.default_rng(seed)
    for step, reward in zip(range(events), _rewards(model, seed), strict=False):
        z = posterior.learn_context(_PEOPLE[step % 12])
        slot = int(rng.integers(len(_ITEMS)))
        posterior.observe(slot, z, 1.0, 0.0 if step % 3 == 0 else reward)
        if step % 3 == 0:
            posterior.observe(slot, z, 0.0, reward)
    return posterior


def check_spec(model: Model) -> None:
    """The spec makes the model again; a model equals its like and no other."""
    again = _with(model)
    assert again == model, f"{model!r} must equal its like"
    assert again.spec == model.spec
    assert hash(again) == hash(model)
    assert _with(model, scale=2.0 * model.scale) != model
    refused(lambda: _with(model, scale=-1.0), "0 < scale", "-1")
    refused(lambda: _with(model, strength=0.0), "0 < strength")


def check_link(model: Model) -> None:
    """The variance rises with the mean up to the peak, and is positive at every mean that the model may give."""
    low, high = max(model.low, -30.0), min(model.high, 30.0)
    means = np.linspace(low, high, 400)
    variance = np.asarray(model.family.variance(means))
    assert (variance > 0).all(), "the variance of a reward must be positive"
    rising = variance[means <= model.peak]
    assert (np.diff(rising) >= -1e-12).all(), "the variance must rise up to the peak"
    assert (variance <= variance[means <= model.peak].max() * (1 + 1e-9)).all(), "it must not rise beyond the peak"
    close(model.family.mean(model.family.natural(means)), means, 1e-9 * (1 + np.abs(means)), "mean of natural")


def check_pseudo_counts(model: Model) -> None:
    """Without features the mean is (s + λm)/(n + λ), the pulls are n + λ, rewards late or not."""
    start = min(max(0.03, model.low), model.high)
    posterior = Regression(_with(model, strength=37.0, mean=start))
    posterior.add(3)
    nobody, n, s = posterior.context(None), np.zeros(3), np.zeros(3)
    for step, reward in zip(range(200), _rewards(model, 1), strict=False):
        slot = step * step % 3
        posterior.observe(slot, nobody, 1.0, 0.0 if step % 2 else reward)
        if step % 2:
            posterior.observe(slot, nobody, 0.0, reward)
        n[slot] += 1.0
        s[slot] += reward
    means, pulls = posterior.predict(None)
    close(means, (s + 37.0 * start) / (n + 37.0), 1e-10, "mean of pseudo-counts")
    close(pulls, n + 37.0, 1e-9 * pulls, "pulls of pseudo-counts")


def check_numbers(model: Model) -> None:
    """Means are the model's, pulls are positive, whoever asks and whatever happened."""
    strange: list[dict[str, Any]] = [{}, {"age": math.nan}, {"age": 1e99}, {"gender": "?"}, {"new": ["a"]}, *_PEOPLE]
    posterior = _lived(model)
    for _ in range(30):  # one item that always earns, one that never does
        posterior.observe(0, posterior.context(_PEOPLE[0]), 5.0, 5.0 * min(1.0, model.high))
        posterior.observe(1, posterior.context(_PEOPLE[0]), 1e4, 0.0)
    for context in strange:
        means, pulls = posterior.predict(context)
        assert np.isfinite(means).all(), f"means must be numbers, but for {context} they are {means}"
        assert ((means >= model.low) & (means <= model.high)).all(), f"means must be the model's, but are {means}"
        assert (np.isfinite(pulls) & (pulls > 0)).all(), f"pulls must be positive, but for {context} they are {pulls}"


def check_learning(model: Model) -> None:
    """More impressions of an item are more pulls, and a reward raises its mean."""
    for context in (None, _PEOPLE[3]):
        posterior = _lived(_with(model, learn=False))
        z = posterior.context(context)
        for _ in range(5):
            mean, pulls = (float(value[2]) for value in posterior.predict(z))
            posterior.observe(2, z, 1.0, mean)  # no surprise
            after, more = (float(value[2]) for value in posterior.predict(z))
            close(after, mean, 1e-6 + 0.02 * abs(mean), "an expected reward moves no mean")
            assert more > pulls, f"pulls must grow, but {pulls} become {more}"
            posterior.observe(2, z, 0.0, 1.0)
            assert float(posterior.predict(z)[0][2]) > after, "a reward must raise the mean"


def check_function_of_events(model: Model) -> None:
    """The same events give the same numbers, to the bit; a question changes nothing; a state goes on alike."""
    one, two = _lived(model), _lived(model)
    two.predict({"nobody": "known"})
    two.context({"age": 3.0, "other": "x"})
    two.explain(0, _PEOPLE[1])
    three = Regression.from_state(model, *one.state())
    for each in (one, two, three):
        each.observe(4, each.learn_context({"age": 77, "gender": "X"}), 1.0, 1.0)
    for context in _PEOPLE:
        for other in (two, three):
            for a, b in zip(one.predict(context), other.predict(context), strict=True):
                np.testing.assert_array_equal(a, b)


def check_explanation(model: Model) -> None:
    """What explains an item adds up to the natural parameter of its mean."""
    posterior = _lived(model)
    for slot in range(3):
        mean = float(posterior.predict(_PEOPLE[5])[0][slot])
        total = sum(part.effect for part in posterior.explain(slot, _PEOPLE[5]))
        close(total, model.family.natural(mean), 1e-6, "the sum of effects")


def check_places(model: Model) -> None:
    """Taking items out leaves what is known of the others; a place that is used again begins anew."""
    posterior = _lived(model)
    before = posterior.predict(_PEOPLE[2])
    posterior.remove(np.array([7, 0]))
    left = [8, 1, 2, 3, 4, 5, 6]  # the last one goes to the place left
    for a, b in zip(before, posterior.predict(_PEOPLE[2]), strict=True):
        np.testing.assert_array_equal(a[left], b)
    posterior.put(3, _ITEMS[0])
    fresh = _lived(_with(model), events=0)
    assert posterior.adjusted[0][3] == fresh.adjusted[0][3] == 0.0
    posterior.put(40, _ITEMS[1])
    assert posterior.count == 41
    assert np.isfinite(posterior.predict(_PEOPLE[2])[1]).all()
