"""What is shipped to run the service: the Dockerfile and its script, compose, systemd, the dashboard."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="no fastapi: the extra serve")

from komd.serve.prometheus import ServiceMetrics
from komd.serve.serve_config import read_config, settings_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def script(name):
    spec = importlib.util.spec_from_file_location(name, DEPLOY / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_dockerfile_has_no_known_mistakes():
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        pytest.skip("no hadolint")
    found = subprocess.run([linter, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_image_runs_as_it_should():
    found = script("run_dockerfile").instructions((ROOT / "Dockerfile").read_text())
    names = [name for name, _ in found]
    assert names.count("FROM") == 2, "tools that build stay out of the image"
    said = dict(found)
    assert said["USER"].isdecimal() and said["USER"] != "0"
    assert "/v1/health" in said["HEALTHCHECK"]
    copied = [word for name, rest in found if name == "COPY" and "--from" not in rest for word in rest.split()[:-1]]
    for word in copied:
        assert word.startswith("--") or (ROOT / word).exists(), f"the Dockerfile copies {word}"


def test_instructions_of_a_dockerfile():
    read = script("run_dockerfile").instructions
    assert read("FROM a AS b\n# c\nRUN x \\\n && y\n\nUSER 1\n") == [
        ("FROM", "a AS b"),
        ("RUN", "x && y"),
        ("USER", "1"),
    ]


@pytest.mark.parametrize("file", ["entrypoint.sh"])
def test_shell_scripts_parse(file):
    subprocess.run(["sh", "-n", DEPLOY / file], check=True)


@pytest.mark.parametrize(("given", "said"), [({}, "-"), ({"NUMBA_CPU_NAME": ""}, "-"), ({"NUMBA_CPU_NAME": "a"}, "a")])
def test_the_image_compiles_for_the_processor_it_was_built_for(tmp_path, given, said):
    """Without a build argument, ENV sets the variable to nothing, and that is another processor to Numba."""
    (tmp_path / "komd").write_text('#!/bin/sh\necho "${NUMBA_CPU_NAME--} $*"\n')
    (tmp_path / "komd").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "NUMBA_CACHE_DIR": str(tmp_path)} | given
    words = ["sh", DEPLOY / "entrypoint.sh", "serve", "a b"]
    assert subprocess.run(words, env=environment, capture_output=True, text=True).stdout == f"{said} serve a b\n"


def test_compose_is_consistent():
    yaml = pytest.importorskip("yaml")
    said = yaml.safe_load((ROOT / "compose.yaml").read_text())
    komd = said["services"]["komd"]
    assert komd["read_only"] and komd["cap_drop"] == ["ALL"] and komd["ports"] == ["127.0.0.1:8000:8000"]
    for service in said["services"].values():
        assert set(service.get("secrets", [])) <= set(said["secrets"])
        for volume in service["volumes"]:
            assert volume.startswith("./") or volume.split(":")[0] in said["volumes"]
    assert (ROOT / said["configs"]["komd"]["file"]).is_file()


def test_the_configuration_is_one():
    settings = settings_of(read_config(DEPLOY / "komd.toml"))
    assert settings.events["purchase"].weight == 3
    assert settings.limits.address_rate == 50


def test_systemd_knows_the_unit(tmp_path):
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze")
    unit = (DEPLOY / "komd.service").read_text().replace("/opt/komd/bin/komd", "/bin/true")
    (tmp_path / "komd.service").write_text(unit)
    found = subprocess.run(["systemd-analyze", "verify", tmp_path / "komd.service"], capture_output=True, text=True)
    complaints = [line for line in found.stderr.splitlines() if "komd.service" in line]
    assert not complaints, complaints


def metric_names():
    """The names as Prometheus has them."""
    text = ServiceMetrics().text().decode()
    return set(re.findall(r"^# TYPE (\w+) ", text, re.M)) | set(re.findall(r"^(komd_\w+)[ {]", text, re.M))


def test_the_dashboard_asks_for_metrics_that_exist():
    board = json.loads((DEPLOY / "grafana.json").read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel.get("targets", [])
        for name in re.findall(r"\bkomd_\w+", target["expr"])
    }
    known = metric_names()
    assert len(asked) >= 10
    for name in asked:
        assert name in known or re.sub(r"_(total|bucket|count|sum)$", "", name) in known, f"no metric {name}"
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places)


def test_the_operations_page_explains_every_metric():
    text = (ROOT / "docs" / "guide" / "operations.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(komd_\w+)`", text))
    families = {
        re.sub(r"_(total|created|bucket|count|sum)$", "", name) for name in metric_names() if name.startswith("komd_")
    }
    assert families <= {re.sub(r"_total$", "", name) for name in named}, families - named
