"""Other libraries as players of a contextual problem; run by contextual.py in an environment of its own.

Speaks pickles on standard input and output: first what is played, then a page to fill or feedback to learn from at a
time. Times are of the library's own calls, on this process's thread.
"""

from __future__ import annotations

import pickle
import re
import sys
import time
import warnings
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

warnings.simplefilter("ignore")


class Columns:
    """Features as columns: a number is one, a word one of its own, text is hashed into some."""

    def __init__(self, rows: list[dict[str, Any]], text: int) -> None:
        self.text = text
        pairs = [pair for row in rows for pair in row.items()]
        named = {(key, value) for key, value in pairs if isinstance(value, str) and " " not in value}
        numbers = {key for key, value in pairs if not isinstance(value, str)}
        self.place = {name: i for i, name in enumerate([*sorted(numbers), *sorted(named)])}
        self.long = any(isinstance(value, str) and " " in value for _, value in pairs)
        self.size = len(self.place) + (text if self.long else 0)

    def row(self, features: dict[str, Any]) -> np.ndarray:
        out = np.zeros(self.size)
        for key, value in features.items():
            if not isinstance(value, str):
                out[self.place[key]] = value
            elif " " not in value:
                out[self.place[key, value]] = 1.0
            else:
                for word in words(value):
                    out[len(self.place) + crc32(word.encode()) % self.text] += 0.3
        return out


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


class Peer:
    """Who fills pages; ``rest`` are the settings of the one to be made."""

    def __init__(
        self, contexts: list[dict[str, Any]], features: list[dict[str, Any]], items: int, rest: dict[str, Any]
    ) -> None:
        self.contexts, self.features, self.items = contexts, features, items
        columns = Columns(contexts, 0)
        self.people = np.array([np.concatenate([[1.0], columns.row(each)]) for each in contexts])
        columns = Columns(features, 32)
        self.things = np.array([np.concatenate([[1.0], columns.row(each)]) for each in features])
        self.here = np.arange(items)
        self.make(**rest)

    def make(self, **settings: Any) -> None: ...

    def fill(self, person: int, slots: int, free: np.ndarray) -> Any: ...

    def learn(self, person: int, places: np.ndarray, rewards: np.ndarray) -> None: ...

    def renew(self, places: np.ndarray, items: np.ndarray) -> None:
        self.here[places] = items


class MabwiserLinUCB(Peer):
    """A ridge regression an item on the person's features."""

    def make(self, **settings: Any) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        self.mab = MAB(list(range(self.items)), LearningPolicy.LinUCB(**settings))
        self.mab.fit([0], [0], [[0.0] * self.people.shape[1]])  # tells it how many features there are, and nothing else

    def fill(self, person: int, slots: int, free: np.ndarray) -> Any:
        scores = self.mab.predict_expectations([self.people[person].tolist()])
        values = np.array([scores[place] for place in free.tolist()])
        return free[np.argsort(-values, kind="stable")[:slots]]

    def learn(self, person: int, places: np.ndarray, rewards: np.ndarray) -> None:
        self.mab.partial_fit(places.tolist(), rewards.tolist(), [self.people[person].tolist()] * places.size)

    def renew(self, places: np.ndarray, items: np.ndarray) -> None:
        super().renew(places, items)
        for place in places.tolist():
            self.mab.remove_arm(place)
            self.mab.add_arm(place)


class BayesianThompson(Peer):
    """bayesianbandits: a learner an item on the person's features, Thompson sampling, as in its first example."""

    def make(self, **settings: Any) -> None:
        import bayesianbandits as bb  # type: ignore[import-not-found]

        def new(place: int) -> Any:
            return bb.Arm(place, learner=bb.NormalInverseGammaRegressor())

        self.new = new
        arms = [new(place) for place in range(self.items)]
        self.agent = bb.ContextualAgent(arms, bb.ThompsonSampling(), random_seed=0)

    def fill(self, person: int, slots: int, free: np.ndarray) -> Any:
        wanted = min(self.items, slots + self.items - free.size)
        allowed = set(free.tolist())
        (ranked,) = self.agent.pull(self.people[[person]], top_k=wanted)
        return np.array([place for place in ranked if place in allowed][:slots])

    def learn(self, person: int, places: np.ndarray, rewards: np.ndarray) -> None:
        for place, reward in zip(places.tolist(), rewards.tolist(), strict=True):
            self.agent.select_for_update(place).update(self.people[[person]], np.array([reward]))

    def renew(self, places: np.ndarray, items: np.ndarray) -> None:
        super().renew(places, items)
        for place in places.tolist():
            self.agent.remove_arm(place)
            self.agent.add_arm(self.new(place))


class BayesianHybrid(Peer):
    """bayesianbandits: one logistic learner of person, item and their crosses; few items have a weight each."""

    def make(self, **settings: Any) -> None:
        import bayesianbandits as bb
        from bayesianbandits.featurizers import FunctionArmFeaturizer  # type: ignore[import-not-found]

        self.own = self.items <= settings["own"]
        self.learner = bb.BayesianGLM(alpha=1.0, link="logit")
        arms, featurizer = [bb.Arm(place) for place in range(self.items)], FunctionArmFeaturizer(self.design)
        policy = bb.ThompsonSampling()
        self.agent = bb.LipschitzContextualAgent(arms, policy, featurizer, learner=self.learner, random_seed=0)

    def design(self, X: np.ndarray, tokens: list[int]) -> np.ndarray:
        """Contexts × columns × arms, as the library wants it."""
        things = self.things[self.here[np.asarray(tokens)]]
        crosses: np.ndarray = np.einsum("cp,tq->cpqt", X, things).reshape(len(X), -1, len(tokens))
        if not self.own:
            return crosses
        which = np.zeros((len(X), self.items, len(tokens)))
        which[:, tokens, np.arange(len(tokens))] = 1.0
        return np.concatenate([crosses, which], axis=1)

    fill = BayesianThompson.fill

    def learn(self, person: int, places: np.ndarray, rewards: np.ndarray) -> None:
        rows = self.design(self.people[[person]], places.tolist())[0].T
        self.learner.partial_fit(rows, rewards)  # the page at once: a call an item takes so many times longer


class VowpalWabbit(Peer):
    """Its conditional contextual bandit, made for pages of slots; items have their own name as a feature too."""

    def make(self, **settings: Any) -> None:
        from vowpalwabbit import Workspace  # type: ignore[import-not-found]

        self.vw = Workspace(f"--ccb_explore_adf --quiet --random_seed 0 {settings['options']}")
        self.askers = [f"ccb shared |U {self.line(each, 1)}" for each in self.contexts]
        self.lines = [f"ccb action |A id={i} {self.line(each, 0)}" for i, each in enumerate(self.features)]
        self.last: tuple[Any, ...] = ()

    @staticmethod
    def line(features: dict[str, Any], constant: int) -> str:
        out = ["one"] * constant
        for key, value in features.items():
            name = key.replace(" ", "_")
            if not isinstance(value, str):
                out.append(f"{name}:{value}")
            elif " " in value:
                out += words(value)
            else:
                out.append(f"{name}={value}".replace(":", "_"))
        return " ".join(out)

    def example(self, person: int, free: np.ndarray, slots: list[str]) -> list[str]:
        return [self.askers[person], *(self.lines[item] for item in self.here[free].tolist()), *slots]

    def fill(self, person: int, slots: int, free: np.ndarray) -> Any:
        chosen = self.vw.predict(self.example(person, free, ["ccb slot |S"] * slots))
        self.last = (free, [slot[0] for slot in chosen])
        return free[[action for action, _ in self.last[1]]]

    def learn(self, person: int, places: np.ndarray, rewards: np.ndarray) -> None:
        free, chosen = self.last
        slots = [
            f"ccb slot {action}:{-reward}:{chance} |S"
            for (action, chance), reward in zip(chosen, rewards.tolist(), strict=True)
        ]
        self.vw.learn(self.example(person, free, slots))


class Server:
    KINDS: ClassVar[dict[str, type[Peer]]] = {
        kind.__name__: kind for kind in (MabwiserLinUCB, BayesianThompson, BayesianHybrid, VowpalWabbit)
    }

    def run(self) -> None:
        inbox, outbox = sys.stdin.buffer, sys.stdout.buffer
        kind, *arguments = pickle.load(inbox)
        peer = self.KINDS[kind](*arguments)
        took: dict[str, list[float]] = {"fill": [], "learn": []}
        while True:
            word, *rest = pickle.load(inbox)
            if word == "end":
                pickle.dump(took, outbox)
                outbox.flush()
                return
            started = time.thread_time()
            answer = getattr(peer, word)(*rest)
            if word in took:
                took[word].append(time.thread_time() - started)
            if word == "fill":
                pickle.dump(np.asarray(answer, np.int64), outbox)
                outbox.flush()


if __name__ == "__main__":
    Server().run()
