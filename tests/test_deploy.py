"""Files for deployment: they parse, and name only settings, flags, commands, routes and files that there are."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from hellinger import cli
from hellinger.engine.settings import Settings
from hellinger.serve.keys import VARIABLE
from hellinger.serve.metrics import Metrics

ROOT = Path(__file__).parent.parent
FILES = [
    ROOT / name
    for name in (
        "Dockerfile",
        "compose.yaml",
        "deploy/nginx.conf",
        "deploy/prometheus.yml",
        "deploy/hellinger.service",
    )
]
VARIABLES = {f"HELLINGER_{name.upper()}" for name in Settings.model_fields} | {VARIABLE, "HELLINGER_CONFIG"}


def _command(*names: str) -> Any:
    command: Any = typer.main.get_command(cli.app)
    for name in names:
        command = command.commands[name]
    return command


def _flags(*names: str) -> set[str]:
    command = _command(*names)
    parameters = command.get_params(command.make_context(names[-1], [], resilient_parsing=True))
    return {flag for parameter in parameters for flag in (*parameter.opts, *parameter.secondary_opts)}


def _yaml(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def _unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((ROOT / "deploy/hellinger.service").read_text(encoding="utf-8"))
    return unit


def _docker() -> list[list[str]]:
    """Instructions of the Dockerfile, each as its words."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [line.split() for line in lines if line.strip()]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_variable_is_a_setting(file: Path) -> None:
    named = set(re.findall(r"\bHELLINGER_[A-Z_]+", file.read_text(encoding="utf-8")))
    assert named <= VARIABLES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_command_and_flag_exists(file: Path) -> None:
    text = re.sub(r"\\\n", " ", file.read_text(encoding="utf-8"))
    for call in re.findall(r"(?:^|[\s/(])hellinger ((?:serve|keys \w+)[^>|)&\n#]*)", text, re.MULTILINE):
        words = shlex.split(call)
        names = words[:2] if words[0] == "keys" else words[:1]
        assert {word for word in words if word.startswith("--")} <= _flags(*names), call


def test_the_image_runs_the_service_without_root() -> None:
    instructions = _docker()
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
    assert {words[0] for words in instructions} == known | {"ENTRYPOINT", "CMD"}
    last = {words[0]: " ".join(words[1:]) for words in instructions}
    assert last["USER"] not in ("0", "root")
    assert json.loads(last["ENTRYPOINT"]) == ["hellinger"]
    assert json.loads(last["CMD"]) == ["serve"]
    environment = dict(word.split("=", 1) for words in instructions if words[0] == "ENV" for word in words[1:])
    given = {name: value for name, value in environment.items() if name.startswith("HELLINGER_")}
    settings = Settings.load(environ=given)
    assert settings.port == int(last["EXPOSE"])
    assert f"http://127.0.0.1:{settings.port}/health/live" in last["HEALTHCHECK"]
    compile(json.loads(last["HEALTHCHECK"].partition("CMD ")[2])[2], "healthcheck", "exec")
    ours = [words for words in instructions if words[0] == "COPY" and not words[1].startswith("--")]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    for source in (source for words in ours for source in words[1:-1]):
        assert (ROOT / source).exists()
        assert f"!{source.removeprefix('./')}\n" in ignored


def test_the_versions_of_the_image_are_those_tested() -> None:
    (script,) = (match for words in _docker() for match in re.findall(r"sed -n '(.*?)' requirements", " ".join(words)))
    sed = shutil.which("sed")
    assert sed is not None
    done = subprocess.run(
        [sed, "-n", script, "requirements.txt"], capture_output=True, text=True, check=True, cwd=ROOT, timeout=60
    )
    names = {line.partition("==")[0] for line in done.stdout.splitlines()}
    assert {"numba", "numpy"} <= names
    assert all(re.fullmatch(r"[\w.-]+==[\w.+!]+", line) for line in done.stdout.splitlines())


def test_the_composition() -> None:
    services = _yaml("compose.yaml")["services"]
    assert services["hellinger"]["deploy"]["replicas"] == 2
    secrets = {"POSTGRES_PASSWORD": "p", "HELLINGER_KEYS": "k"}
    environment = {
        name: re.sub(r"\$\{(\w+)[^}]*\}", lambda match: secrets[match[1]], value)
        for name, value in services["hellinger"]["environment"].items()
    }
    settings = Settings.load(environ=environment)
    assert settings.database == "postgresql://hellinger:p@postgres/hellinger"
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("./") and not source.endswith(".key"):
                assert (ROOT / source).is_file()
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"/deploy/*.key", "/deploy/keys.toml", "/.env"} <= set(ignored)
    published = [port for service in services.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_prometheus_asks_every_copy_with_a_key() -> None:
    (job,) = _yaml("deploy/prometheus.yml")["scrape_configs"]
    services = _yaml("compose.yaml")["services"]
    (lookup,) = job["dns_sd_configs"]
    assert set(lookup["names"]) <= services.keys()
    assert lookup["port"] == Settings().port
    assert job["metrics_path"] == "/metrics"
    key = job["authorization"]["credentials_file"]
    assert any(volume.split(":")[1] == key for volume in services["prometheus"]["volumes"])


def test_the_balancer_knows_the_copies_and_the_limit() -> None:
    text = (ROOT / "deploy/nginx.conf").read_text(encoding="utf-8")
    assert text.count("{") == text.count("}")
    assert f"server hellinger:{Settings().port} resolve" in text
    assert f"client_max_body_size {Settings().max_body_bytes // 1024**2}m;" in text


def test_the_unit() -> None:
    unit = _unit()
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    assert service["User"] not in ("", "root")
    assert service["KillSignal"] == "SIGTERM"
    assert int(service["TimeoutStopSec"]) > Settings().drain_seconds
    hardening = ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictNamespaces")
    assert all(service[key] == "yes" for key in hardening)
    assert service["ProtectSystem"] == "strict"
    assert "MemoryDenyWriteExecute" not in service
    words = shlex.split(service["ExecStart"])
    assert Path(words[0]).name == "hellinger"
    assert words[1] == "serve"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_finds_nothing_wrong_with_the_unit() -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", str(ROOT / "deploy/hellinger.service")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if "hellinger.service" in line]
    assert [line for line in complaints if "is not executable" not in line] == []


def test_alerts_and_dashboard_name_metrics_that_exist() -> None:
    metrics = Metrics()
    metrics.watch(pool_size=lambda: {"a": 1.0}, **dict.fromkeys(("pending", "store_lag_seconds"), lambda: 0.0))
    metrics.watch(**dict.fromkeys(("degraded", "snapshot_age_seconds"), lambda: 0.0))
    metrics.route("POST", "/v1/rank").observe(200, 0.01)
    known = set(re.findall(r"^(hellinger_\w+)", metrics.page()[0].decode(), re.MULTILINE))
    (rules,) = _yaml("deploy/alerts.yml")["groups"]
    board = json.loads((ROOT / "deploy/grafana.json").read_text(encoding="utf-8"))
    asked = [rule["expr"] for rule in rules["rules"]]
    asked += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = {name for expression in asked for name in re.findall(r"\bhellinger_\w+", expression)}
    assert named
    assert named <= known
    assert _yaml("deploy/prometheus.yml")["rule_files"] == ["/etc/prometheus/alerts.yml"]


def test_the_workflow_runs_what_the_project_runs() -> None:
    jobs = _yaml(".github/workflows/ci.yml")["jobs"]
    assert {"run": ".ci/run"} in jobs["test"]["steps"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = {line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line}
    assert set(jobs["test"]["strategy"]["matrix"]["python"]) == versions
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == project["version"]
