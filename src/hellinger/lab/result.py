"""What came of an experiment: regret, plays and rewards, to look at, compare, keep and draw."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hellinger import theory
from hellinger.errors import InputError, MissingExtraError, needs_extra, require
from hellinger.lab._block import Setting
from hellinger.lab._folder import whole_folder

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hellinger.figures import Curve, Line

__all__ = ["Difference", "Result"]

_FORMAT = 1
_ARRAYS = ("regret", "pulls", "reward")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """Final regret of one policy minus another's, run by run on the same rewards."""

    policy: str
    other: str
    mean: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the 95 % interval excludes zero."""
        return self.low > 0.0 or self.high < 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The outcome of :func:`hellinger.simulate`.

    Attributes
    ----------
    policies, family, means, setting, runs
        What was played.
    checkpoints
        Rounds at which the rest was noted; the last is the horizon.
    regret
        By policy, run and checkpoint.
    pulls
        Mean plays by policy, checkpoint and arm.
    reward
        Sum of rewards by policy and run.
    wall_s
        Seconds it took, kept parts not counted.
    problem
        The contextual problem that was played; empty where arms have means.
    changes
        Rounds at which the means changed; ``means`` are then their averages, and regret is against the best arm of the
        moment.
    """

    policies: list[str]
    family: str
    means: Floats
    setting: Setting
    runs: int
    checkpoints: npt.NDArray[np.int64]
    regret: Floats
    pulls: Floats
    reward: Floats
    wall_s: float
    problem: str = ""
    changes: Sequence[int] = ()

    @property
    def final(self) -> Floats:
        """Regret at the horizon, by policy and run."""
        return self.regret[:, :, -1]

    @property
    def steps(self) -> int:
        """Rounds played in all."""
        return len(self.policies) * self.runs * self.setting.horizon

    def position(self, policy: str) -> int:
        """Where a policy stands, by its spec or, if that is unique, its name."""
        for found in (
            [i for i, spec in enumerate(self.policies) if spec == policy],
            [i for i, spec in enumerate(self.policies) if spec.partition("(")[0] == policy],
        ):
            if len(found) == 1:
                return found[0]
        raise InputError(f"`policy` must be one of {', '.join(self.policies)}, but got {policy!r}")

    def summary(self) -> list[dict[str, Any]]:
        """Final regret of each policy: mean, standard error, quantiles; and its mean reward."""
        rows = []
        for i, spec in enumerate(self.policies):
            final = self.final[i]
            q25, median, q75, q99 = np.quantile(final, [0.25, 0.5, 0.75, 0.99])
            rows.append(
                {
                    "policy": spec,
                    "mean_regret": float(final.mean()),
                    "sem": _sem(final),
                    "q25": float(q25),
                    "median": float(median),
                    "q75": float(q75),
                    "q99": float(q99),
                    "mean_reward": float(self.reward[i].mean()),
                }
            )
        return rows

    def difference(self, policy: str, other: str) -> Difference:
        """Compare final regrets run by run, with a 95 % interval."""
        a, b = self.position(policy), self.position(other)
        gaps = self.final[a] - self.final[b]
        half = 1.959963984540054 * _sem(gaps)
        mean = float(gaps.mean())
        return Difference(self.policies[a], self.policies[b], mean, mean - half, mean + half)

    def to_frame(self) -> pl.DataFrame:
        """Regret by policy and checkpoint: mean, standard error and quantiles over runs."""
        with needs_extra("lab"):
            import polars as pl
        frames = []
        for i, spec in enumerate(self.policies):
            quantiles = np.quantile(self.regret[i], [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
            columns = {"t": self.checkpoints, "mean": self.regret[i].mean(axis=0)}
            columns["sem"] = np.array([_sem(column) for column in self.regret[i].T])
            columns |= dict(zip(("q05", "q25", "median", "q75", "q95"), quantiles, strict=True))
            frames.append(pl.DataFrame({"policy": [spec] * self.checkpoints.size, **columns}))
        return pl.concat(frames)

    def to_pandas(self) -> Any:
        """:meth:`to_frame` as a DataFrame of pandas, which must be installed."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise MissingExtraError("`to_pandas` needs pandas: pip install pandas") from None
        return pd.DataFrame(self.to_frame().to_dict(as_series=False))

    def __repr__(self) -> str:
        return (
            f"Result({', '.join(self.policies)}; {self.problem or self.family}, {self.means.size:,} arms, "
            f"{int(self.checkpoints[-1]):,} rounds, {self.runs:,} runs)"
        )

    def _repr_html_(self) -> str:
        """The summary as a table, for notebooks."""
        head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in self.summary()[0])
        rows = "".join(
            "<tr>"
            + "".join(f"<td>{escape(v) if isinstance(v, str) else format(v, ',.4g')}</td>" for v in row.values())
            + "</tr>"
            for row in self.summary()
        )
        return f"<p>{escape(repr(self))}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    # Drawing ------------------------------------------------------------------------------------------

    def curves(self) -> list[Curve]:
        """Mean regret of each policy at the checkpoints, with the middle half of runs."""
        from hellinger.figures import Curve  # matplotlib is loaded only when something is drawn

        low, high = np.quantile(self.regret, [0.25, 0.75], axis=1)
        return [
            Curve(spec, self.checkpoints, self.regret[i].mean(axis=0), low[i], high[i])
            for i, spec in enumerate(self.policies)
        ]

    def plot_regret(
        self,
        *,
        bounds: Sequence[Line] = (),
        lai_robbins: bool = True,
        focus: Sequence[str] = (),
        title: str | None = None,
        path: str | Path | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """Draw mean regret on a logarithmic time axis, with the middle half of runs.

        Parameters
        ----------
        bounds
            Lines to draw dashed.
        lai_robbins
            Whether to draw Σ Δᵢ/KL(μᵢ ‖ μ*)·log t, the least slope of a uniformly consistent policy; not
            drawn in any case where several arms are played a round, arms are chosen for a person, or means change.
        focus
            Policies the regret axis is made for, by spec; all if empty.
        title, path
            A title instead of the family's, and where to save: ``.png``, ``.svg`` or ``.pdf``; without a
            suffix PNG and SVG.
        ax
            Axes to draw in; a figure of its own if not given.
        """
        from hellinger import figures

        lower = None
        if lai_robbins and self.setting.slots == 1 and not self.problem and not self.changes:
            slope = theory.lai_robbins(self.means, family=self.family)
            lower = figures.Line("Lai–Robbins slope", self.checkpoints, slope * np.log(self.checkpoints))
        title = self._title("regret") if title is None else title
        drawn = figures.draw_regret(self.curves(), bounds=bounds, lower=lower, focus=focus, title=title, ax=ax)
        return self._drawn(drawn, path)

    def plot_average(
        self, *, title: str | None = None, path: str | Path | None = None, ax: Axes | None = None
    ) -> Figure:
        """Draw mean regret per round, from the first round on in which policies choose, on a logarithmic axis."""
        from hellinger import figures

        start = max(1, self.setting.init * self.means.size // self.setting.slots)
        title = self._title("average regret") if title is None else title
        return self._drawn(figures.draw_average(self.curves(), start=start, title=title, ax=ax), path)

    def plot_final(self, *, title: str | None = None, path: str | Path | None = None, ax: Axes | None = None) -> Figure:
        """Draw the runs' regrets at the horizon as box plots."""
        from hellinger import figures

        title = self._title("regret at the last round") if title is None else title
        finals = dict(zip(self.policies, self.final, strict=True))
        return self._drawn(figures.draw_final(finals, title=title, ax=ax), path)

    def _title(self, what: str) -> str:
        rewards = self.problem.capitalize() or f"{self.family.partition('(')[0].capitalize()} rewards"
        return f"{rewards}, {self.means.size:,} arms: {what}"

    @staticmethod
    def _drawn(figure: Figure, path: str | Path | None) -> Figure:
        from hellinger import figures

        if path is not None:
            figures.save(figure, path)
        return figure

    # Keeping ------------------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> Path:
        """Write the result as Parquet beside its metadata, in one folder; whole or not at all.

        The metadata name the contents of the rest, so that a mixture of two results is not taken for one.
        """
        with whole_folder(folder) as partial:
            self._write(partial)
        return Path(folder)

    def _write(self, folder: Path) -> None:
        with needs_extra("lab"):
            import polars as pl
        policies, runs, marks = self.regret.shape
        pl.DataFrame(
            {
                "policy": np.repeat(np.arange(policies), runs * marks),
                "run": np.tile(np.repeat(np.arange(runs), marks), policies),
                "t": np.tile(self.checkpoints, policies * runs),
                "regret": self.regret.reshape(-1),
            }
        ).write_parquet(folder / "regret.parquet")
        pl.DataFrame(
            {
                "policy": np.repeat(np.arange(policies), marks * self.means.size),
                "t": np.tile(np.repeat(self.checkpoints, self.means.size), policies),
                "arm": np.tile(np.arange(self.means.size), policies * marks),
                "pulls": self.pulls.reshape(-1),
            }
        ).write_parquet(folder / "pulls.parquet")
        pl.DataFrame(
            {
                "policy": np.repeat(np.arange(policies), runs),
                "run": np.tile(np.arange(runs), policies),
                "reward": self.reward.reshape(-1),
            }
        ).write_parquet(folder / "reward.parquet")
        metadata = {
            "format": _FORMAT,
            "versions": {name: version(name) for name in ("hellinger", "numpy", "numba", "polars")},
            "policies": self.policies,
            "family": self.family,
            "means": self.means.tolist(),
            "setting": self.setting._asdict(),
            "runs": self.runs,
            "checkpoints": self.checkpoints.tolist(),
            "wall_s": self.wall_s,
            "problem": self.problem,
            "changes": list(self.changes),
            "sha256": {name: _sha256(folder / f"{name}.parquet") for name in _ARRAYS},
        }
        (folder / "result.json").write_text(json.dumps(metadata, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read what :meth:`save` wrote."""
        with needs_extra("lab"):
            import polars as pl
        path = Path(folder)
        if not path.exists():
            raise InputError(f"no such folder: {path}")
        try:
            metadata = json.loads((path / "result.json").read_text(encoding="utf-8"))
            require(metadata["format"] == _FORMAT, f"format == {_FORMAT}", format=metadata["format"])
            policies, runs, means = metadata["policies"], metadata["runs"], np.array(metadata["means"])
            marks = np.array(metadata["checkpoints"], np.int64)
            arrays = {}
            for name in _ARRAYS:
                file = path / f"{name}.parquet"
                require(_sha256(file) == metadata["sha256"][name], "the file is the one that was saved", file=file.name)
                arrays[name] = pl.read_parquet(file)[name].to_numpy()
            return cls(
                policies=policies,
                family=metadata["family"],
                means=means,
                setting=Setting(**metadata["setting"]),
                runs=runs,
                checkpoints=marks,
                regret=arrays["regret"].reshape(len(policies), runs, marks.size),
                pulls=arrays["pulls"].reshape(len(policies), marks.size, means.size),
                reward=arrays["reward"].reshape(len(policies), runs),
                wall_s=metadata["wall_s"],
                problem=metadata.get("problem", ""),
                changes=metadata.get("changes", []),
            )
        except (OSError, KeyError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
            raise InputError(f"{path} must hold a result that Result.save wrote, but: {error}") from None


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _sem(values: Floats) -> float:
    return float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else 0.0
