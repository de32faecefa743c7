"""What pools compute is compiled beforehand: rankings waited hundreds of milliseconds for it, once."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIFE = """
import gc, itertools
from numba.core.dispatcher import Dispatcher
from hellinger.engine.desk import Desk
from hellinger.engine.drafts import Draft, Query
from hellinger.engine.warming import warm_policies
from hellinger.ledger import Ledger
from hellinger.policies import Prior
from hellinger.policies.segments import SegmentLaw
from hellinger.pool import Leaving, _membership

def compiled():
    found = [d for d in gc.get_objects() if isinstance(d, Dispatcher) and d.py_func.__module__.startswith("hellinger")]
    return {d.py_func.__qualname__: len(d.overloads) for d in found}

spec = %r
_membership.CROWD = 20
warm_policies([spec])
before = compiled()
desk = Desk(Ledger(), {"a": spec}, seed=1, lifetimes=True, leaving=Leaving(impressions=10**5), forget_after=10)
places = itertools.count(1)

def commit(*drafts):
    desk.commit_own([(next(places), draft) for draft in drafts])

def add(first, count, **more):
    items = [{"id": f"i{n}", "tags": ["ab"[n %% 2]], "metadata": None, "expires_at": None} for n in range(first, count)]
    commit(*desk.describe([item | {name: of(n) for name, of in more.items()} for n, item in enumerate(items)], 0))

def live(at):
    for segment in (None, "x", "y"):
        made = desk.rank(Query(20, segment=segment), at)
        commit(made)
        clicks = [(made.event.key, item, "click", 1.0, None) for item in made.fields["items"][::3]]
        commit(*desk.sort(clicks, at).drafts)
    desk.rank(Query(5, exclude=["i1"], tags=["a"]), at)
    desk.rank(Query(5, among=["i1", "i2"]), at)
    desk.finish()

add(0, 200, group=lambda n: ["g", f"h{n %% 7}"], expires_at=lambda n: None if n %% 3 else 900)
add(200, 260, features=lambda n: {"kind": "xyz"[n %% 3], "length": n})
for segment in (None, "x", "y"):
    rows = [{"item": f"i{n}", "impressions": 60.0, "rewards": n %% 7, "from": None, "to": None} for n in range(150)]
    fields = {"batch": "b", "variant": None, "segment": segment, "rows": rows}
    commit(Draft.of(f"import/{segment}", "import", 0, fields))
desk.finish()
live(1)
if desk.pools.of("a").policy.rule.learns_prior:
    for shares, shifts in (((0.5,), (("x", 0.2), ("y", -0.1))), ((0.2, 0.3), (("x", 0.1),)), ((), (("x", 0.3),))):
        after = desk.ledger.prior_place("a")
        known = {"prior": Prior(2.0, 40.0, 1.0, 300.0, shares).state(), "rounds": 1.0, "curve": 0, "after": after}
        known |= {"variant": "a", "segment": "", "segments": SegmentLaw(0.05, 30.0, 0.5, shifts).state()}
        commit(Draft.of(f"prior/{after}", "prior", 1, known | {"writer": "0"}))
        desk.finish()
        live(2)
        first = 1000 * next(places)
        add(first, first + 60)  # of a tag alone, which becomes a large group
        live(3)
        add(first + 60, first + 90, group=lambda n: ["g", "h1"])
        live(3)
for at in (1000, 1001, 2000, 3000):
    for _ in range(4):
        commit(*desk.chores(at))
    live(at)
commit(desk.set_state("i1", "deleted", 3001), desk.set_state("i2", "hidden", 3001))
live(3002)
commit(*desk.learn(10**7))
desk.sweep()
live(10**7 + 1)
after = compiled()
print({name: (before.get(name, 0), count) for name, count in after.items() if before.get(name, 0) != count})
"""


@pytest.mark.parametrize("spec", ["cold-start", "hellinger-ucb(c=0.4)", "thompson"])
def test_all_that_a_desk_computes_is_compiled_beforehand(spec: str) -> None:
    """Groups that become large, segments with a law, dates, priors: nothing is compiled or read from disk for it."""
    done = subprocess.run([sys.executable, "-c", LIFE % spec], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("{}\n", 0), done.stderr
