"""Keys: made once, kept as hashes, known again, revoked; and no door open without them."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hellinger.engine.settings import Settings
from hellinger.serve import keys as module
from hellinger.serve.keys import Key, Keys, check_binding, new_key, read_keys, revoke_key


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


@pytest.fixture
def always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.0)


def test_a_key_is_known_again_and_not_kept(file: Path) -> None:
    token, key = new_key(file, name="web", role="write")
    assert len(token) >= 43
    assert token not in file.read_text(encoding="utf-8")
    assert key.hash == hashlib.sha256(token.encode()).hexdigest()
    assert key.created
    assert read_keys(file) == [key]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == [file.name]
    keys = Keys(file=file)
    assert keys.required
    assert len(keys) == 1
    assert keys.find(token.encode()) == key
    assert keys.find(token[:-1].encode()) is None
    assert keys.find(key.hash.encode()) is None
    assert keys.find(b"") is None


def test_keys_differ(file: Path) -> None:
    tokens = [new_key(file, name=f"k{i}", role=role)[0] for i, role in enumerate(module.ROLES)]
    assert len(set(tokens)) == 3
    keys = Keys(file=file)
    found = [keys.find(token.encode()) for token in tokens]
    assert [key.level for key in found if key is not None] == [1, 2, 3]


def test_keys_with_one_prefix_of_their_digest_are_told_apart() -> None:
    digest = hashlib.sha256(b"right").hexdigest()
    twin = digest[:8] + hashlib.sha256(b"other").hexdigest()[8:]
    keys = Keys([Key("twin", "admin", twin), Key("right", "read", digest)])
    found = keys.find(b"right")
    assert found is not None
    assert found.name == "right"


def test_the_file_is_read_again(file: Path, always_look: None) -> None:
    first, _ = new_key(file, name="first", role="read")
    keys = Keys(file=file)
    second, _ = new_key(file, name="second", role="admin")
    assert keys.find(second.encode()) is not None
    revoke_key(file, "first")
    assert keys.find(first.encode()) is None
    revoke_key(file, "second")
    assert keys.find(second.encode()) is None
    assert keys.required  # nobody may pass now, not everybody


def test_a_broken_file_leaves_keys_in_force(file: Path, always_look: None, caplog: pytest.LogCaptureFixture) -> None:
    token, _ = new_key(file, name="web", role="read")
    keys = Keys(file=file)
    file.write_text("[[key]]\nname = 'x'\n", encoding="utf-8")
    with caplog.at_level(logging.ERROR, "hellinger.keys"):
        assert keys.find(token.encode()) is not None
    assert "stay in force" in caplog.text


def test_a_file_that_is_gone_has_no_keys(file: Path, always_look: None, caplog: pytest.LogCaptureFixture) -> None:
    token, key = new_key(file, name="web", role="read")
    other = hashlib.sha256(b"other").hexdigest()
    keys = Keys([Key("other", "read", other)], file=file)
    assert keys.find(token.encode()) == key
    content = file.read_bytes()
    file.unlink()
    with caplog.at_level(logging.WARNING, "hellinger.keys"):
        assert keys.find(token.encode()) is None
        assert keys.find(token.encode()) is None
    assert caplog.text.count("no longer in force") == 1
    assert keys.required
    assert keys.find(b"other") is not None  # of the environment
    file.write_bytes(content)
    assert keys.find(token.encode()) == key


def test_keys_from_the_environment(file: Path) -> None:
    token, key = new_key(file, name="web", role="write")
    keys = Keys.load(Settings(), environ={"HELLINGER_KEYS": f"web:write:{key.hash}, spare:read:{'0' * 64}"})
    assert len(keys) == 2
    found = keys.find(token.encode())
    assert found is not None
    assert found.role == "write"
    both = Settings(keys_file=file)
    with pytest.raises(ValueError, match="keys differ in name"):
        Keys.load(both, environ={"HELLINGER_KEYS": f"web:write:{key.hash}"})
    assert not Keys.load(Settings(), environ={}).required


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("web:write", "reads name:role:hash"),
        (f"web:owner:{'0' * 64}", "role is one of read, write, admin"),
        ("web:read:123", "SHA-256"),
        (f"w b:read:{'0' * 64}", "a key's name has"),
    ],
)
def test_wrong_environments(text: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule) as caught:
        Keys.load(Settings(), environ={"HELLINGER_KEYS": text})
    assert "123" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("key = 3", "made of"),
        ("[[key]]\nname = 'a'\nrole = 'read'", "a key has name, role, hash"),
        (f"[[key]]\nname = 'a'\nrole = 'read'\nhash = '{'0' * 64}'\nextra = '1'", "a key has name, role, hash"),
        ("[[key]]\nname = 'a'\nrole = 'read'\nhash = 3", "as text"),
        ("nonsense", "must be TOML"),
    ],
)
def test_wrong_files(file: Path, text: str, rule: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rule):
        Keys(file=file)


def test_names_are_taken_once_and_revoked_once(file: Path) -> None:
    new_key(file, name="web", role="read")
    before = file.read_bytes()
    for name, role, rule in (("web", "read", "differ in name"), ("x", "root", "role is"), ("", "read", "name has")):
        with pytest.raises(ValueError, match=rule):
            new_key(file, name=name, role=role)
    assert file.read_bytes() == before
    revoke_key(file, "web")
    with pytest.raises(ValueError, match=r"the key to revoke must be in .*\(none\), but got 'web'"):
        revoke_key(file, "web")


# Where it may listen ---------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_without_keys_on_this_machine(host: str) -> None:
    check_binding(Settings(host=host), Keys())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "2001:db8::1"])
def test_without_keys_nowhere_else(host: str, file: Path) -> None:
    with pytest.raises(ValueError, match=r"without keys .* but got host=.*`hellinger keys new --role admin"):
        check_binding(Settings(host=host), Keys())
    new_key(file, name="web", role="read")
    check_binding(Settings(host=host, keys_file=file), Keys(file=file))


def test_a_keys_file_must_hold_one(file: Path) -> None:
    file.write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match=r"must hold a key, but .* holds none: make one with `hellinger keys new"):
        check_binding(Settings(keys_file=file), Keys(file=file))


# The command -----------------------------------------------------------------------------------------


def _run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hellinger", "keys", *arguments]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HELLINGER_")}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=cwd, env=environ)


def test_the_command(tmp_path: Path) -> None:
    made = _run("new", "--name", "web", "--role", "write", cwd=tmp_path)
    (token,) = made.stdout.splitlines()
    file = tmp_path / "hellinger-keys.toml"
    found = Keys(file=file).find(token.encode())
    assert found is not None
    assert found.role == "write"
    spare = json.loads(_run("new", "--name", "spare", "--json", cwd=tmp_path).stdout)
    assert spare["role"] == "read"
    assert Keys(file=file).find(spare["key"].encode()) is not None
    listed = _run("list", "--json", cwd=tmp_path).stdout
    assert [each["name"] for each in json.loads(listed)["keys"]] == ["web", "spare"]
    assert token not in listed
    assert "web" in _run("list", cwd=tmp_path).stdout
    variable, _, text = _run("list", "--variable", cwd=tmp_path).stdout.strip().partition("=")
    assert variable == "HELLINGER_KEYS"
    assert Keys.load(Settings(), environ={variable: text}).find(token.encode()) == found._replace(created="")
    assert json.loads(_run("list", "--variable", "--json", cwd=tmp_path).stdout) == {variable: text}
    assert json.loads(_run("revoke", "web", "--json", cwd=tmp_path).stdout) == {"revoked": "web", "role": "write"}
    again = _run("revoke", "web", cwd=tmp_path)
    assert again.returncode == 2
    assert "must be in" in again.stderr
