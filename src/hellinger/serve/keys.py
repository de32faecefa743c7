"""API keys: who may read, write, and administer.

A key is 256 random bits, and only its SHA-256 is kept. A slow hash (bcrypt, argon2) protects what people choose, which
can be guessed; 2²⁵⁶ random keys cannot, however fast the hash, and a slow one would cost every request some 100 ms.

Keys come from a file, which is read again when it changes, or from the variable ``HELLINGER_KEYS``, as
``name:role:hash`` with commas between.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import logging
import os
import re
import secrets
import socket
import time
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from hellinger.engine.settings import Settings
from hellinger.errors import InputError, require

__all__ = ["CALLER", "ROLE", "Key", "Keys", "check_binding", "new_key", "read_keys", "revoke_key"]

ROLES = ("read", "write", "admin")
"""Each may do what those before it may."""

CALLER = "hellinger.caller"
"""Where a request's scope has the name of the key it came with; nothing where there are no keys."""

ROLE = "hellinger.role"
"""Where a request's scope has the role it came with: without keys everybody on this machine is ``admin``."""

_LEVELS = {role: level for level, role in enumerate(ROLES, start=1)}
VARIABLE = "HELLINGER_KEYS"
_PREFIX = "hk_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_HASH = re.compile(r"[0-9a-f]{64}")
_LOG = logging.getLogger("hellinger.keys")
_LOOK_EVERY = 1.0
"""Seconds between two looks at whether the file has changed."""


class Key(NamedTuple):
    """What is kept of a key: enough to know it again, not enough to use it."""

    name: str
    role: str
    hash: str
    created: str = ""

    def check(self) -> Key:
        """Return this, or raise where a part makes no sense."""
        good = bool(_NAME.fullmatch(self.name))
        require(good, "a key's name has 1 to 64 letters, digits, dots, dashes, @ or underscores", name=self.name)
        require(self.role in ROLES, f"role is one of {', '.join(ROLES)}", role=self.role, key=self.name)
        require(bool(_HASH.fullmatch(self.hash)), "hash is a SHA-256 in 64 hexadecimal digits", key=self.name)
        return self

    @property
    def level(self) -> int:
        """1 for read, 2 for write, 3 for admin."""
        return _LEVELS[self.role]


class Keys:
    """The keys in force; :meth:`find` tells whose a token is.

    Whether keys are asked for is settled at the start: a file that later holds none locks everybody out, it does not
    let everybody in.
    """

    def __init__(self, keys: Iterable[Key] = (), *, file: Path | None = None) -> None:
        self._fixed = list(keys)
        self._file = file
        self._stamp: tuple[int, int, int] | None = None
        self._look_at = 0.0
        self._by_prefix: dict[bytes, list[tuple[bytes, Key]]] = {}
        self._by_name: dict[str, Key] = {}
        if file is not None:
            self._stamp = _stamp(file)
        self._index(read_keys(file) if file is not None else [])
        self.required = file is not None or bool(self._fixed)

    @classmethod
    def load(cls, settings: Settings, *, environ: Mapping[str, str] | None = None) -> Keys:
        """Keys of the settings' file and of the environment."""
        text = (os.environ if environ is None else environ).get(VARIABLE, "")
        return cls(_from_text(text), file=settings.keys_file)

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, token: bytes) -> Key | None:
        """The key that this token is, if it is one.

        The digest's first four bytes choose whom to compare with, in constant time. How long that takes tells a
        stranger something about the digest of a token of his own making, which says nothing about any key.
        """
        if self._file is not None and time.monotonic() >= self._look_at:
            self.refresh()
        digest = hashlib.sha256(token).digest()
        found = None
        for known, key in self._by_prefix.get(digest[:4], ()):
            if hmac.compare_digest(known, digest):
                found = key
        return found

    def _index(self, more: list[Key]) -> None:
        keys = [*self._fixed, *more]
        names = [key.check().name for key in keys]
        require(len(set(names)) == len(names), "keys differ in name", names=names)
        index: dict[bytes, list[tuple[bytes, Key]]] = {}
        for key in keys:
            digest = bytes.fromhex(key.hash)
            index.setdefault(digest[:4], []).append((digest, key))
        self._by_prefix, self._by_name = index, {key.name: key for key in keys}

    def named(self, name: str) -> Key | None:
        """The key of this name, as of the last look at the file."""
        return self._by_name.get(name)

    def in_force(self, key: Key | None) -> bool:
        """Whether somebody who came with this key, None where there are none, could come again."""
        return key is None or self.named(key.name) == key

    def refresh(self) -> None:
        """Read the file again if it has changed; where it is gone, so are its keys.

        While it is there and cannot be read, what was read before stays in force.
        """
        if self._file is None:
            return
        self._look_at = time.monotonic() + _LOOK_EVERY
        try:
            stamp = _stamp(self._file)
            if stamp == self._stamp:
                return
            self._index([] if stamp is None else read_keys(self._file))
        except (OSError, ValueError) as error:
            _LOG.error("the keys file cannot be read, those read before stay in force: %s", error)
        else:
            self._stamp = stamp
            if stamp is None:
                _LOG.warning("the keys file is gone, and its keys are no longer in force: %s", self._file)
            else:
                _LOG.info("keys read again: %d", len(self))


def check_binding(settings: Settings, keys: Keys) -> None:
    """Refuse to be reached from other machines without keys."""
    if keys.required:
        if not len(keys):
            raise InputError(
                f"a keys file must hold a key, but {str(settings.keys_file)!r} holds none: make one with "
                f"`hellinger keys new --role admin --name NAME --keys-file {settings.keys_file}`"
            )
        return
    if not is_loopback(settings.host):
        raise InputError(
            f"without keys the service listens only on this machine (127.0.0.1), but got host={settings.host!r}: make "
            "a key with `hellinger keys new --role admin --name NAME --keys-file hellinger-keys.toml` and start "
            "with `--keys-file hellinger-keys.toml`"
        )


def is_loopback(host: str) -> bool:
    """Whether an address, or every address of a name, is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"`host` must be an address or a name with one, but got {host!r}: {error.strerror}") from None
    return all(ipaddress.ip_address(str(each[4][0]).partition("%")[0]).is_loopback for each in found)


# The file --------------------------------------------------------------------------------------------


def read_keys(file: Path) -> list[Key]:
    """Keys of a file."""
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8")).get("key", [])
    except FileNotFoundError:
        raise InputError(f"no such file: {file}; `hellinger keys new --name NAME` makes it") from None
    except OSError as error:
        raise InputError(f"the keys file must be readable, but {str(file)!r}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the keys file must be TOML, but {str(file)!r}: {error}") from None
    good = isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)
    require(good, "a keys file is made of [[key]] tables", file=str(file))
    keys = []
    for entry in entries:
        missing = {"name", "role", "hash"} - entry.keys()
        strange = entry.keys() - set(Key._fields)
        good = not missing and not strange and all(isinstance(value, str) for value in entry.values())
        require(good, "a key has name, role, hash and created, as text", file=str(file), got=sorted(entry))
        keys.append(Key(**entry).check())
    return keys


def new_key(file: Path, *, name: str, role: str) -> tuple[str, Key]:
    """Make a key, add it to the file, and return it with what is kept of it: it cannot be had again."""
    keys = read_keys(file) if file.exists() else []
    token = _PREFIX + secrets.token_urlsafe(32)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    key = Key(name, role, hashlib.sha256(token.encode()).hexdigest(), created).check()
    require(name not in {each.name for each in keys}, "keys differ in name", name=name)
    _write(file, [*keys, key])
    return token, key


def revoke_key(file: Path, name: str) -> Key:
    """Take a key out of the file; a running service notices within a second."""
    keys = read_keys(file)
    gone = [key for key in keys if key.name == name]
    known = ", ".join(key.name for key in keys) or "none"
    if not gone:
        raise InputError(f"the key to revoke must be in {str(file)!r} ({known}), but got {name!r}")
    _write(file, [key for key in keys if key.name != name])
    return gone[0]


def _write(file: Path, keys: list[Key]) -> None:
    text = "# API keys: only their SHA-256 is kept. `hellinger keys new`, `list`, `revoke`.\n"
    for key in keys:
        text += "\n[[key]]\n" + "".join(f'{field} = "{value}"\n' for field, value in key._asdict().items())
    part = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
            with contextlib.suppress(OSError):  # made by root for a service that is not: it must still be able to read
                owner = file.stat()
                os.fchown(out.fileno(), owner.st_uid, owner.st_gid)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"the keys file must be writable, but {str(file)!r}: {error.strerror}") from None


def _from_text(text: str) -> list[Key]:
    keys = []
    for part in filter(None, (each.strip() for each in re.split(r"[,\n]", text))):
        pieces = part.split(":")
        require(len(pieces) == 3, f"{VARIABLE} reads name:role:hash with commas between", parts=len(pieces))
        keys.append(Key(*pieces).check())
    return keys


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """What changes whenever a file is replaced or rewritten; None where there is no file."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"the keys file must be readable, but {str(file)!r}: {error.strerror}") from None
    return found.st_ino, found.st_mtime_ns, found.st_size
