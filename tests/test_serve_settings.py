"""Settings: which source wins, what is refused and in which words, and what is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import ValidationError

from hellinger import cli
from hellinger.engine.settings import Settings, masked
from hellinger.errors import HellingerWarning

PORT = {"file": 1001, "environment": 1002, "flag": 1003}


def refused(**flags: Any) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        Settings.load(environ={}, flags=flags)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_documented_defaults() -> None:
    settings = Settings()
    assert settings.database == "sqlite:///hellinger.db"
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.variants == {"cold-start": "cold-start"}
    assert settings.variant_weights == {"cold-start": 1.0}
    assert settings.control == "cold-start"
    assert (settings.split, settings.learning, settings.counting) == ("random", "isolated", "served")
    assert settings.attribution_hours == 24
    assert settings.random_share == 0
    assert settings.max_body_bytes == 4 * 1024 * 1024
    assert (settings.max_batch, settings.max_k, settings.max_id_length) == (10_000, 1000, 256)
    assert (settings.request_cache, settings.poll_ms) == (100_000, 250)


@pytest.mark.parametrize("sources", [[], ["file"], ["environment", "file"], ["flag", "environment"], list(PORT)])
def test_the_later_source_wins(sources: list[str], tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"port = {PORT['file']}\n", encoding="utf-8")
    settings = Settings.load(
        file if "file" in sources else None,
        environ={"HELLINGER_PORT": str(PORT["environment"])} if "environment" in sources else {},
        flags={"port": str(PORT["flag"])} if "flag" in sources else {},
    )
    winner = next((name for name in ("flag", "environment", "file") if name in sources), "default")
    assert settings.port == PORT.get(winner, 8000)
    shown = {each.name: each for each in settings.show()}
    assert shown["port"].origin == winner
    assert shown["host"].origin == "default"


def test_settings_made_in_code_do_not_look_at_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELLINGER_PORT", "1")
    assert Settings().port == 8000
    assert Settings.load().port == 1


def test_text_and_toml_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        'variants = {ours = "hellinger-ucb(c=0.3)", kl-ucb = "kl-ucb"}\nweights = {like = 1.5, view = -1}\n'
        "retention_days = 30\naccess_log = true\n",
        encoding="utf-8",
    )
    text = {
        "HELLINGER_VARIANTS": "ours=hellinger-ucb(c=0.3), kl-ucb",
        "HELLINGER_WEIGHTS": "like=1.5, view=-1",
        "HELLINGER_RETENTION_DAYS": "30",
        "HELLINGER_ACCESS_LOG": "yes",
    }
    as_json = text | {
        "HELLINGER_VARIANTS": '{"ours": "hellinger-ucb(c=0.3)", "kl-ucb": "kl-ucb"}',
        "HELLINGER_WEIGHTS": '{"like": 1.5, "view": -1}',
    }
    from_file = Settings.load(file, environ={})
    assert from_file.variants == {"ours": "hellinger-ucb(c=0.3)", "kl-ucb": "kl-ucb"}
    assert from_file.weights == {"like": 1.5, "view": -1.0}
    assert Settings.load(environ=text).model_dump() == from_file.model_dump()
    assert Settings.load(environ=as_json).model_dump() == from_file.model_dump()


def test_none_takes_back_what_the_file_says(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("retention_days = 30\n", encoding="utf-8")
    assert Settings.load(file, environ={"HELLINGER_RETENTION_DAYS": "none"}).retention_days is None


def test_variants_with_weights_and_control() -> None:
    settings = Settings.load(environ={}, flags={"variants": ["ucb1", "kl-ucb(c=3)"], "variant_weights": "ucb1=3"})
    assert settings.variants == {"ucb1": "ucb1", "kl-ucb(c=3)": "kl-ucb(c=3)"}
    assert settings.variant_weights == {"ucb1": 3.0, "kl-ucb(c=3)": 1.0}
    assert settings.control == list(settings.variants)[-1]
    assert Settings(variants={"kl-ucb": "kl-ucb", "ucb1": "ucb1"}, control="kl-ucb").control == "kl-ucb"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"port": "70000"}, "`0 <= port <= 65535` must hold, but got port='70000' (from --port)"),
        ({"port": "many"}, "`port` must be a whole number, but got 'many' (from --port)"),
        ({"port": "none"}, "`port` must be a whole number, but got None (from --port)"),
        ({"retire_share": 2}, "`0 < retire_share <= 1` must hold, but got retire_share=2 (from --retire-share)"),
        ({"split": "even"}, "`split` must be 'random' or 'sticky', but got 'even' (from --split)"),
        ({"access_log": "maybe"}, "`access_log` must be true or false, but got 'maybe' (from --access-log)"),
        ({"attribution_hours": "inf"}, "`attribution_hours` must be a finite number, but got 'inf'"),
        (
            {"forget_hours": 24},
            "forget_hours: `attribution_hours < forget_hours` must hold, but got attribution_hours=24.0, forget_",
        ),
        ({"attribution_hours": 72}, "must hold, but got attribution_hours=72.0, forget_hours=48.0"),
        ({"weights": "like=much"}, "`weights.like` must be a number, but got 'much' (from --weights)"),
        ({"weights": "like"}, "weights: `a table reads name=number, name=number` must hold, but got part='like'"),
        ({"weights": '{"like": '}, "weights: a value that begins with { or [ must be JSON"),
        ({"variants": "ucb9"}, "variants: unknown policy 'ucb9': it must be one of ada-ucb, "),
        ({"variants": "moss"}, "variants: moss needs the horizon"),
        ({"variants": "ucb1, ucb1"}, "`variants differ in name` must hold"),
        ({"variants": "a/b=ucb1"}, "no slash and no colon` must hold, but got name='a/b'"),
        ({"variants": []}, "`1 <= number of variants` must hold"),
        ({"variants": [1]}, "`a variant is a spec, as text` must hold, but got variant=1"),
        ({"variant_weights": "ucb9=1"}, "variant_weights names variants (cold-start)` must hold, but got unknown="),
        ({"variant_weights": {"cold-start": -1}}, "`0 <= weight, and some weight is above 0` must hold"),
        (
            {"variants": "kl-ucb, ucb1", "control": "ucb9"},
            "control: `control is a variant (kl-ucb, ucb1)` must hold",
        ),
        ({"host": ""}, "`host`: String should have at least 1 character"),
        ({"prot": "1"}, "unknown setting 'prot' from --prot; did you mean port?"),
        ({"zzz": "1"}, "unknown setting 'zzz' from --zzz; `hellinger serve --show-config` lists them all"),
    ],
)
def test_what_is_refused(flags: dict[str, Any], message: str) -> None:
    assert message in refused(**flags)


def test_several_mistakes_in_one_line() -> None:
    message = refused(port="70000", split="even")
    assert "port" in message
    assert "split" in message


def test_unknown_keys_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("databse = 'sqlite:///a.db'\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"unknown setting 'databse' in the file .*; did you mean database\?"):
        Settings.load(file, environ={})


@pytest.mark.parametrize(
    ("content", "rule"), [(b"port = ", "must be TOML"), (b"\xff", "must be TOML"), (None, "no such file")]
)
def test_files_that_are_none(content: bytes | None, rule: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=rule):
        Settings.load(file, environ={})


def test_a_variable_that_looks_like_a_setting_is_told_of() -> None:
    with pytest.warns(HellingerWarning, match=r"unknown setting 'databse' .*HELLINGER_DATABSE.*database"):
        Settings.load(environ={"HELLINGER_DATABSE": "x"})
    assert Settings.load(environ={"HELLINGER_KEYS": "a:read:b", "HELLINGER_PORT": "", "PATH": "x"}) == Settings()


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1


# Passwords -------------------------------------------------------------------------------------------

URLS = [
    "postgresql://me:hush-hush@host/name",
    "postgresql://me:hush-hush@with/slash@host/name",
    "postgresql://:hush-hush@host/name",
    "postgresql://host/name?user=me&password=hush-hush",
    "me:hush-hush@host",
]


@pytest.mark.parametrize("url", URLS)
def test_passwords_are_not_shown(url: str) -> None:
    assert "hush" not in masked(url)
    assert "host" in masked(url)
    if "://" not in url:
        assert "hush" not in refused(database=url)
        return
    settings = Settings(database=url)
    assert settings.database == url
    everything = [repr(settings), str(settings), settings.as_toml(), str(settings.show()), settings.model_dump_json()]
    assert not any("hush" in text for text in everything)
    assert "hush" not in refused(database=url, port="x")


@pytest.mark.parametrize("url", ["sqlite:///hellinger.db", "sqlite:////var/lib/a.db", "postgresql://me@host:5432/name"])
def test_addresses_without_a_password_stay(url: str) -> None:
    assert masked(url) == url


# Showing ---------------------------------------------------------------------------------------------


def test_every_setting_is_described_and_has_a_group() -> None:
    for shown in Settings().show():
        assert shown.description.endswith("."), shown.name
        assert shown.group, shown.name


def test_what_is_shown_can_be_read_back(tmp_path: Path) -> None:
    settings = Settings(
        variants={"a b": "hellinger-ucb(c=0.3)", 'q"': "ucb1"}, weights={"like": 0.5}, title="„Ünï“ \\", port=0
    )
    file = tmp_path / "shown.toml"
    file.write_text(settings.as_toml(), encoding="utf-8")
    assert Settings.load(file, environ={}).model_dump() == settings.model_dump()


def _run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hellinger", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environ or None,
    )


def test_show_config() -> None:
    done = _run("serve", "--show-config", "--json", "--port", "9000", "--access-log", "--split=sticky")
    shown = {each["name"]: each for each in json.loads(done.stdout)["settings"]}
    assert list(shown) == list(Settings.model_fields)
    assert (shown["port"]["value"], shown["port"]["origin"]) == (9000, "flag")
    assert (shown["access_log"]["value"], shown["access_log"]["origin"]) == (True, "flag")
    assert (shown["split"]["value"], shown["split"]["default"]) == ("sticky", "random")
    text = _run("serve", "--show-config").stdout
    assert all(f"\n{name} = " in text or f"\n# {name} =" in text for name in Settings.model_fields)


def test_every_setting_is_a_flag() -> None:
    command = getattr(typer.main.get_command(cli.app), "commands")["serve"]  # noqa: B009 - typed as a plain command
    context = command.make_context("serve", ["--no-access-log", "--title", "x"])
    names = {option.name: option for option in command.get_params(context)}
    assert names.keys() >= Settings.model_fields.keys()
    for name, field in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in names[name].opts
        assert (field.description or "") in names[name].help
    assert (context.params["access_log"], context.params["title"], context.params["port"]) == (False, "x", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "70000"], "0 <= port <= 65535"),
        (["--config", "nowhere.toml"], "no such file: nowhere.toml"),
        (["--host", "0.0.0.0"], "hellinger keys new"),
        (["--keys-file", "nowhere.toml"], "no such file: nowhere.toml"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments: list[str], message: str) -> None:
    done = _run("serve", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_without_the_extra_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None; from hellinger.cli import main; "
        "sys.argv = ['hellinger', 'serve']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "pip install 'hellinger[serve]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
