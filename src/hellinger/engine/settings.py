"""Every setting of the service: what it means, its limits, and where its value came from.

A value comes from its default, a TOML file, the environment (``HELLINGER_`` and the name in capitals) or a flag of
``hellinger serve``; the later in this list wins. Flags, variables and the file's keys bear the same names, and where a
value is text (a variable, a flag) one grammar reads it: ``none`` for no value, ``a=1, b=2`` for a table.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializationInfo,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
)
from pydantic.fields import FieldInfo

from hellinger._spec import split_specs
from hellinger.engine._setting_text import (
    PREFIX,
    Origin,
    check_variant,
    json_or,
    masked,
    named_spec,
    pairs,
    place,
    sentence,
    toml,
    unknown,
)
from hellinger.errors import InputError, require, warn

__all__ = ["Settings", "Shown", "masked", "named_specs"]


def named_specs(text: str) -> dict[str, str]:
    """Variants as one line: policies, or name = policy, with commas between.

    >>> named_specs("cold-start, new = kl-ucb(c=3)")
    {'cold-start': 'cold-start', 'new': 'kl-ucb(c=3)'}
    """
    return _by_name(split_specs(text))


def _by_name(specs: Sequence[Any]) -> dict[str, str]:
    found = [named_spec(each) for each in specs]
    names = [name for name, _ in found]
    require(len(set(names)) == len(names), "variants differ in name", variants=names)
    return dict(found)


class Shown(NamedTuple):
    """One setting as ``--show-config`` shows it."""

    name: str
    value: Any
    origin: Origin
    default: Any
    description: str
    group: str


def _setting(group: str, default: Any, description: str, **limits: Any) -> Any:
    if isinstance(default, dict):
        limits["default_factory"] = default.copy
    else:
        limits["default"] = default
    return Field(description=description, json_schema_extra={"group": group}, validate_default=True, **limits)


class Settings(BaseModel):
    """How the service is to run. ``Settings(port=9000)`` checks and keeps; :meth:`load` reads file and environment."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    # Address ----------------------------------------------------------------------------------------
    database: str = _setting(
        "Address", "sqlite:///hellinger.db", "Where the log is kept: sqlite:///file.db or postgresql://user@host/name."
    )
    host: str = _setting(
        "Address", "127.0.0.1", "Address to listen on; any but this machine's own needs keys.", min_length=1
    )
    port: int = _setting("Address", 8000, "Port to listen on; 0 takes a free one.", ge=0, le=65535)
    workers: int = _setting(
        "Address", 1, "Processes behind the port, to use several cores; each has all items in memory.", ge=1, le=256
    )
    title: str = _setting("Address", "Hellinger", "Name shown on the page and in the reference.", min_length=1)

    # Experiment -------------------------------------------------------------------------------------
    variants: dict[str, str] = _setting(
        "Experiment",
        {"cold-start": "cold-start"},
        "Algorithm that ranks, or several that share the traffic: specs, or name = spec. See `hellinger policies`.",
    )
    variant_weights: dict[str, float] = _setting(
        "Experiment", {}, "Share of the traffic for each variant, in proportion; 1 where none is given."
    )
    control: str = _setting("Experiment", "", "Variant the others are compared with; the last where none is given.")
    split: Literal["random", "sticky"] = _setting(
        "Experiment", "random", "Who gets which variant: 'random' for each request, or 'sticky' for each user."
    )
    learning: Literal["isolated", "shared"] = _setting(
        "Experiment", "isolated", "What a variant learns from: its own traffic ('isolated') or everyone's ('shared')."
    )
    counting: Literal["served", "confirmed"] = _setting(
        "Experiment", "served", "What is an impression: an item 'served', or one 'confirmed' as seen by the caller."
    )
    attribution_hours: float = _setting(
        "Experiment", 24.0, "Hours after a ranking in which its feedback is learned; later it is only stored.", gt=0
    )
    weights: dict[str, float] = _setting(
        "Experiment", {}, "Points for each kind of feedback; 1 for a kind not named, and 0 or less is not rewarded."
    )
    guardrail: str = _setting(
        "Experiment",
        "",
        "Kind of feedback that no variant should have more of than the control, as `hide`; give it weight 0.",
        max_length=64,
    )
    random_share: float = _setting(
        "Experiment", 0.0, "Share of rankings in uniformly random order, for evaluation offline.", ge=0, le=1
    )
    near_ties: float = _setting(
        "Experiment",
        0.0,
        "Items whose index is within this share of the last place's take its places in random order.",
        ge=0,
        le=1,
    )
    next_share: float = _setting(
        "Experiment", 0.0, "Share of rankings in which one place is given to one of the items that follow.", ge=0, le=1
    )
    next_items: int = _setting(
        "Experiment", 20, "How many items that follow the last place near_ties and next_share draw from.", ge=1, le=1000
    )
    positions: Literal["learned", "none"] | tuple[float, ...] = _setting(
        "Experiment",
        "learned",
        "What an impression is worth by its position: 'learned' once known well enough, 'none' for 1 each, or a list.",
    )
    lifetimes: bool = _setting(
        "Experiment",
        False,
        "Whether cold-start explores items less that soon expire (`expires_at`, max_age_hours), by past traffic.",
    )
    seed: int | None = _setting("Experiment", None, "Seed of random choices; none: a new one at each start.", ge=0)

    # Pool -------------------------------------------------------------------------------------------
    graduate_after: float | None = _setting(
        "Pool", None, "Impressions after which an item leaves a variant's pool; none: never.", ge=1
    )
    retire_share: float | None = _setting(
        "Pool",
        None,
        "An item leaves a variant's pool once its upper bound is below this share of the best mean; none: never.",
        gt=0,
        le=1,
    )
    max_age_hours: float | None = _setting(
        "Pool", None, "Hours after which an item leaves every pool; none: never.", gt=0
    )
    forget_hours: float | None = _setting(
        "Pool",
        48.0,
        "Hours after which an expired or deleted item leaves memory, more than attribution_hours; none: never.",
        gt=0,
    )
    segment_enough: float | None = _setting(
        "Pool",
        None,
        "Where a policy learns no prior: impressions before a segment's own counts rank it; none: ten for each item.",
        ge=0,
    )
    segment_mb: int = _setting(
        "Pool", 1024, "Memory for the pools of segments, in MiB: about 100 bytes an item; the busiest have one.", ge=0
    )

    # Access -----------------------------------------------------------------------------------------
    keys_file: Path | None = _setting(
        "Access", None, "File of API keys, made by `hellinger keys new`; none: no keys, this machine only."
    )
    rate_limit: float = _setting(
        "Access",
        0.0,
        "Requests a second allowed to each key; 0: any number. Each of several workers allows an equal share.",
        ge=0,
    )
    rate_burst: int | None = _setting(
        "Access", None, "Requests a key may make at once; none: those of two seconds at rate_limit.", ge=1
    )
    export_contexts: bool = _setting("Access", True, "Whether exports have the `context` of rankings.")

    # Limits -----------------------------------------------------------------------------------------
    max_body_bytes: int = _setting("Limits", 4 * 1024 * 1024, "Largest body of a request, in bytes.", ge=1024)
    max_header_bytes: int = _setting(
        "Limits", 64 * 1024, "Largest request line and headers together, in bytes.", ge=1024
    )
    header_seconds: float = _setting(
        "Limits",
        10.0,
        "Seconds in which a request's line and headers must arrive; then the connection is closed.",
        gt=0,
    )
    body_seconds: float = _setting(
        "Limits", 60.0, "Seconds in which a request's body must arrive; then the connection is closed.", gt=0
    )
    answer_seconds: float = _setting(
        "Limits", 60.0, "Seconds in which a client must read some of its answer; then the connection is closed.", gt=0
    )
    max_batch: int = _setting("Limits", 10_000, "Most items, events or rows in one request.", ge=1)
    max_k: int = _setting("Limits", 1000, "Most items in one ranking.", ge=1)
    max_id_length: int = _setting("Limits", 256, "Longest id of an item, user or segment, in characters.", ge=8, le=480)
    max_segments: int = _setting(
        "Limits", 100, "Most segments: each that is ranked by itself gets a pool of its own in every variant.", ge=0
    )
    max_kinds: int = _setting(
        "Limits", 16, "Most kinds of feedback that one ranking can have; more are `rejected`.", ge=1
    )
    max_exclude: int = _setting("Limits", 10_000, "Most ids in `exclude` or `among`.", ge=0)
    max_exports: int = _setting(
        "Limits", 1, "Most exports at the same time, each in a process of its own; beyond, 429.", ge=1
    )
    max_tags: int = _setting("Limits", 100, "Most tags of an item, or in `tags` of a ranking's body.", ge=0)
    max_group_levels: int = _setting("Limits", 8, "Most levels of an item's `group`, from broad to narrow.", ge=0, le=8)
    max_features: int = _setting(
        "Limits", 64, "Most fields in the `features` of an item, or a ranking's `context`.", ge=0, le=1000
    )
    max_features_bytes: int = _setting(
        "Limits", 4096, "Largest `features` of an item, or `context` of a ranking, in bytes of JSON.", ge=2
    )
    max_streams_per_key: int = _setting(
        "Limits", 10, "Most pages or programs that may follow `/v1/stream` at the same time with one key.", ge=1
    )
    queue_limit: int = _setting(
        "Limits", 100_000, "Events that may wait to be written; beyond, requests are answered 503.", ge=1
    )

    # Durability -------------------------------------------------------------------------------------
    request_cache: int = _setting(
        "Durability", 100_000, "Rankings kept in memory, so that their feedback needs no reading of the log.", ge=0
    )
    request_cache_mb: int = _setting(
        "Durability", 256, "Memory that these rankings may take, in MiB: about 1 kB each and 20 bytes an item.", ge=1
    )
    snapshot_every_events: int = _setting(
        "Durability", 250_000, "Events after which a snapshot is taken; a start reads the log from there.", ge=1000
    )
    snapshot_every_minutes: float = _setting(
        "Durability", 15.0, "Minutes after which a snapshot is taken, if anything happened.", gt=0
    )
    retention_days: float | None = _setting(
        "Durability", None, "Days after which events are compacted into counts; none: kept for good.", gt=0
    )
    poll_ms: int = _setting(
        "Durability", 250, "Milliseconds between two looks at what other replicas have logged.", ge=10, le=60_000
    )
    drain_seconds: int = _setting(
        "Durability", 10, "Seconds that requests under way have to finish when the service is stopped.", ge=0
    )

    # Logs -------------------------------------------------------------------------------------------
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "Logs", "info", "Least important messages to log."
    )
    log_format: Literal["json", "text"] = _setting("Logs", "json", "One JSON object a line, or text for a terminal.")
    access_log: bool = _setting("Logs", False, "Log every request, not only those that failed.")

    _origins: dict[str, Origin] = PrivateAttr(default_factory=dict)

    # Reading ----------------------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        file: Path | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        flags: Mapping[str, Any] | None = None,
    ) -> Self:
        """Settings from a TOML file, then the environment, then flags; what is wrong is reported in one line.

        Parameters
        ----------
        file
            A TOML file with a key for each setting it sets.
        environ
            The environment; that of this process if not given.
        flags
            Settings by name, as text or as values.
        """
        sources: dict[Origin, Mapping[str, Any]] = {
            "file": _from_file(cls, file) if file is not None else {},
            "environment": _from_environment(cls, os.environ if environ is None else environ),
            "flag": flags or {},
        }
        values: dict[str, Any] = {}
        origins: dict[str, Origin] = {}
        for origin, given in sources.items():
            for name, value in given.items():
                if name not in cls.model_fields:
                    raise InputError(unknown(cls.model_fields, name, place(origin, name, file)))
                is_none = isinstance(value, str) and value.strip().lower() == "none"
                values[name] = None if is_none else value
                origins[name] = origin
        try:
            settings = cls(**values)
        except ValidationError as error:
            problems = [
                sentence(cls.model_fields, each, values, origins, file) for each in error.errors(include_url=False)
            ]
            raise InputError("; ".join(dict.fromkeys(problems))) from None
        settings._origins.update(origins)
        return settings

    @field_validator("variants", mode="before")
    @classmethod
    def _read_variants(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = json_or(value, split_specs)
        if isinstance(value, (list, tuple)):
            return _by_name(value)
        return value

    @field_validator("variants")
    @classmethod
    def _check_variants(cls, value: dict[str, str]) -> dict[str, str]:
        from hellinger.engine.specs import check_new  # numba takes a while to load: a list of settings does without

        require(len(value) >= 1, "1 <= number of variants", variants=value)
        for name, spec in value.items():
            check_variant(name)
            check_new(spec)
        return value

    @field_validator("variant_weights", "weights", mode="before")
    @classmethod
    def _read_table(cls, value: Any) -> Any:
        return json_or(value, pairs) if isinstance(value, str) else value

    @field_validator("positions", mode="before")
    @classmethod
    def _read_positions(cls, value: Any) -> Any:
        if value is None:
            return "none"
        if isinstance(value, str) and value not in ("learned", "none"):
            given = json_or(value, lambda text: text.split(","))
            require(isinstance(given, list), "positions is learned, none or a list of numbers", positions=value)
            value = given
        if isinstance(value, (list, tuple)):
            try:
                figures = tuple(float(each) for each in value)
            except (TypeError, ValueError):
                figures = ()
            good = bool(figures) and figures[0] == 1 and all(0 < each <= 1 for each in figures)
            require(good, "positions is learned, none or numbers from 1 on, 0 < each <= 1", positions=value)
            return figures
        return value

    @field_validator("variant_weights")
    @classmethod
    def _check_variant_weights(cls, value: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        variants = info.data.get("variants")
        if variants is None:  # wrong itself, and reported by itself
            return value
        strangers = sorted(value.keys() - variants.keys())
        require(not strangers, f"variant_weights names variants ({', '.join(variants)})", unknown=strangers)
        whole = {name: value.get(name, 1.0) for name in variants}
        good = all(weight >= 0 for weight in whole.values()) and sum(whole.values()) > 0
        require(good, "0 <= weight, and some weight is above 0", variant_weights=value)
        return whole

    @field_validator("control")
    @classmethod
    def _check_control(cls, value: str, info: ValidationInfo) -> str:
        variants = info.data.get("variants")
        if variants is None:
            return value
        require(not value or value in variants, f"control is a variant ({', '.join(variants)})", control=value)
        return value or list(variants)[-1]

    @field_validator("forget_hours")
    @classmethod
    def _check_forget_hours(cls, value: float | None, info: ValidationInfo) -> float | None:
        window = info.data.get("attribution_hours")
        if value is not None and window is not None:  # while feedback is learned, its item has to be there
            rule = "attribution_hours < forget_hours"
            require(window < value, rule, attribution_hours=window, forget_hours=value)
        return value

    @field_validator("database")
    @classmethod
    def _check_database(cls, value: str) -> str:
        scheme, separator, rest = value.partition("://")
        good = bool(separator and scheme and rest)
        require(good, "database reads sqlite:///file.db or postgresql://user@host/name", database=masked(value))
        return value

    # Showing ----------------------------------------------------------------------------------------

    @field_serializer("database")
    def _hide_password(self, value: str, info: SerializationInfo) -> str:
        return masked(value)

    def __repr_args__(self) -> Any:
        """Keep the password out of logs and of pytest's output."""
        return [(name, masked(value) if name == "database" else value) for name, value in super().__repr_args__()]

    def show(self) -> list[Shown]:
        """Every setting with its value, where it came from, and what it means; no passwords.

        >>> Settings(port=9000).show()[2][:3]
        ('port', 9000, 'default')
        """
        values = self.model_dump(mode="json")
        return [
            Shown(
                name,
                values[name],
                self._origins.get(name, "default"),
                field.get_default(call_default_factory=True),
                field.description or "",
                group_of(field),
            )
            for name, field in type(self).model_fields.items()
        ]

    def as_environment(self) -> dict[str, str]:
        """All that is not as by default, but for the database, as variables that :meth:`load` reads back.

        >>> found = Settings(port=9000, random_share=0.1, forget_hours=None).as_environment()
        >>> [found[f"HELLINGER_{name}"] for name in ("PORT", "RANDOM_SHARE", "FORGET_HOURS", "CONTROL")]
        ['9000', '0.1', 'none', 'cold-start']
        """
        found = {}
        for shown in self.show():
            if shown.name != "database" and shown.value != shown.default:
                value = shown.value
                text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
                found[f"{PREFIX}{shown.name.upper()}"] = text
        return found

    def as_toml(self) -> str:
        """Every setting as a commented file that :meth:`load` reads back (but for a password, which is masked)."""
        lines: list[str] = []
        group = ""
        for shown in self.show():
            if shown.group != group:
                group = shown.group
                lines += [f"# {group} ".ljust(100, "-"), ""]
            lines += [f"# {shown.description} [{shown.origin}]"]
            lines += [f"{shown.name} = {toml(shown.value)}" if shown.value is not None else f"# {shown.name} =", ""]
        return "\n".join(lines)


def group_of(field: FieldInfo) -> str:
    """Heading under which a setting is listed."""
    extra = field.json_schema_extra
    return str(extra["group"]) if isinstance(extra, dict) else ""


# Sources ---------------------------------------------------------------------------------------------


def _from_file(cls: type[Settings], file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no such file: {file}") from None
    except OSError as error:
        raise InputError(f"the settings file must be readable, but {str(file)!r}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the settings file must be TOML, but {str(file)!r}: {error}") from None
    for name in values:
        if name not in cls.model_fields:
            raise InputError(unknown(cls.model_fields, name, f"in the file {file}"))
    return values


def _from_environment(cls: type[Settings], environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that are settings; one that only looks like a setting may be a slip, and is reported."""
    values = {}
    for variable, text in environ.items():
        name = variable.removeprefix(PREFIX).lower()
        if name == variable.lower() or not text:
            continue
        if name in cls.model_fields:
            values[name] = text
        elif difflib.get_close_matches(name, cls.model_fields, n=1, cutoff=0.8) and variable != f"{PREFIX}KEYS":
            warn(unknown(cls.model_fields, name, f"in the variable {variable}: not used"))
    return values
