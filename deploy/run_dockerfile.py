"""Build and try the Dockerfile where no Docker engine runs: its steps, in a copy-on-write view of this machine.

    sudo python deploy/run_dockerfile.py [--build-arg NAME=VALUE]

Each stage starts from this machine's root file system under an overlay (so `FROM` is not what it says), steps run in a
chroot with an empty environment, and the result is started as the image says: its user, a read-only root, an own
network. It is healthy when the image's health check says so; then it is asked, and stopped. Nothing outside a
temporary folder is changed. Variables that tell pip where its index is (PIP_…) are passed on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_SECONDS = 90
NOT_POSSIBLE = 77
"""The exit code where it cannot be tried."""
ALONE = ("unshare", "--mount", "--propagation=private")
ASK = {"history": ["Hollow Lantern (choral)"], "n": 3}


def instructions(text: str) -> list[tuple[str, str]]:
    """(name, rest) of a Dockerfile's instructions, continued lines joined.

    >>> instructions("# a comment\\nRUN a \\\\\\n && b\\n")
    [('RUN', 'a && b')]
    """
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines).splitlines()
    return [(line.split(None, 1)[0].upper(), line.split(None, 1)[1].strip()) for line in joined if line.strip()]


class Stage:
    """One stage of the build: a root file system and what is set for its commands."""

    def __init__(self, folder: Path, arguments: dict[str, str]) -> None:
        self.root = folder / "root"
        self.arguments = dict(arguments)
        self.environment = {"PATH": PATH, "HOME": "/root"}
        self.directory, self.user = "/", ""
        self.volumes: list[str] = []
        self.health: list[str] = []
        self.entry: list[str] = []
        self.command: list[str] = []
        for name in ("root", "upper", "work"):
            (folder / name).mkdir(parents=True)
        overlay = f"lowerdir=/,upperdir={folder / 'upper'},workdir={folder / 'work'}"
        call("mount", "-t", "overlay", "overlay", "-o", overlay, self.root)
        call("mount", "--bind", "/proc", self.root / "proc")
        call("mount", "--bind", "/dev", self.root / "dev")
        call("mount", "-t", "tmpfs", "tmpfs", self.root / "tmp")

    def filled(self, text: str) -> str:
        """Text with ${NAME} and $NAME replaced."""
        known = self.arguments | self.environment
        return re.sub(r"\$\{?(\w+)\}?", lambda found: known.get(found[1], ""), text)

    def prefix(self) -> list[str]:
        """What comes before a command to run it inside."""
        passed = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        arguments = {name: value for name, value in self.arguments.items() if value}  # without a value they are not set
        given = [f"{name}={value}" for name, value in (passed | arguments | self.environment).items()]
        user = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"] if self.user else []
        inside = ["sh", "-c", 'cd "$0" && exec "$@"', self.directory]
        return ["chroot", str(self.root), "env", "-i", *given, *user, *inside]

    def copy(self, words: list[str], stages: dict[str, Stage]) -> None:
        options = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
        *sources, target = [self.filled(word) for word in words if not word.startswith("--")]
        base = stages[options["from"]].root if "from" in options else ROOT
        place = self.root / Path(self.directory, target).relative_to("/")
        for source in sources:
            origin = base / source.lstrip("/")
            if origin.is_dir():
                shutil.copytree(origin, place, symlinks=True, dirs_exist_ok=True)
                continue
            into = place / origin.name if target.endswith("/") else place
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(origin, into)
            if "chmod" in options:
                into.chmod(int(options["chmod"], 8))


def call(*words: object) -> None:
    subprocess.run([str(word) for word in words], check=True)


def build(folder: Path, given: dict[str, str]) -> Stage:
    """Run the instructions; returns the last stage."""
    stages: dict[str, Stage] = {}
    arguments: dict[str, str] = {}
    stage: Stage | None = None
    for name, rest in instructions((ROOT / "Dockerfile").read_text(encoding="utf-8")):
        print(f"{name} {rest[:100]}", flush=True)
        if name == "FROM":
            stage = Stage(folder / str(len(stages)), {})
            stages[rest.split()[-1]] = stage
        elif name == "ARG":
            key, _, default = rest.partition("=")
            (arguments if stage is None else stage.arguments)[key] = given.get(key, default)
        elif stage is None:
            raise SystemExit(f"{name} before FROM")
        elif name == "ENV":
            for word in shlex.split(rest):
                key, _, value = word.partition("=")
                stage.environment[key] = stage.filled(value)
        elif name == "RUN":
            call(*stage.prefix(), "sh", "-ec", rest)
        elif name == "COPY":
            stage.copy(rest.split(), stages)
        elif name == "WORKDIR":
            stage.directory = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "USER":
            stage.user = rest
        elif name == "VOLUME":
            stage.volumes = json.loads(rest)
        elif name == "HEALTHCHECK":
            stage.health = json.loads(rest[rest.index("[") :])
        elif name == "ENTRYPOINT":
            stage.entry = json.loads(rest)
        elif name == "CMD":
            stage.command = json.loads(rest)
        elif name not in ("EXPOSE", "STOPSIGNAL"):
            raise SystemExit(f"this script does not know {name}: teach it")
    assert stage is not None
    return stage


def attempt(stage: Stage, folder: Path) -> None:
    """Start the image as `docker run --read-only --tmpfs /tmp` does, ask it, and stop it."""
    for volume in stage.volumes:
        held = folder / "volumes" / volume.lstrip("/")
        shutil.copytree(stage.root / volume.lstrip("/"), held)
        call("chown", "-R", f"{stage.user}:{stage.user}", held)
        call("mount", "--bind", held, stage.root / volume.lstrip("/"))
    call(*stage.prefix(), *stage.entry, *["generate", "-o", "/tmp/plays.csv", "--users", "300", "--items", "100"])
    call(*stage.prefix(), *stage.entry, *["fit", "/tmp/plays.csv", "-o", "plays.komd"])
    call("mount", "-o", "remount,ro", stage.root)
    wrote = subprocess.run([*stage.prefix(), "touch", "/opt/komd/x"], capture_output=True, text=True)
    assert "Read-only file system" in wrote.stderr, wrote.stderr
    alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    command = [*alone, *stage.prefix(), *stage.entry, *stage.command]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    beside = ["nsenter", f"--target={process.pid}", "--net", *stage.prefix()]
    try:
        healthy(beside, stage.health, process)
        answer = asked(beside)
        assert len(answer["items"]) == ASK["n"], answer
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)
        said = (folder / "log").read_text()
        print(said, end="")
    assert code in (0, 128 + signal.SIGTERM, -signal.SIGTERM), f"it ended with code {code}"
    assert "compiling" not in said, "machine code was compiled again: the cache of the image is not used"
    print("the image is healthy, answers, and stops")


def healthy(beside: list[str], check: list[str], process: subprocess.Popen[bytes]) -> None:
    latest = time.monotonic() + START_SECONDS
    while subprocess.run([*beside, *check], capture_output=True).returncode:
        if process.poll() is not None or time.monotonic() > latest:
            raise SystemExit("the image does not become healthy")
        time.sleep(0.3)


def asked(beside: list[str]) -> Any:
    ask = (
        "import json, urllib.request as r; q = r.Request('http://127.0.0.1:8000/v1/recommend', "
        f"json.dumps({ASK!r}).encode(), {{'content-type': 'application/json'}}); print(r.urlopen(q).read().decode())"
    )
    return json.loads(subprocess.run([*beside, "python", "-c", ask], check=True, capture_output=True).stdout)


def possible() -> bool:
    """Whether an overlay can be mounted here."""
    with tempfile.TemporaryDirectory(prefix="komd-image-") as name:
        parts = f"mkdir {name}/u {name}/w {name}/m && mount -t overlay overlay -o lowerdir=/,upperdir={name}/u,workdir="
        attempted = f"mount -t tmpfs tmpfs {name} && {parts}{name}/w {name}/m"
        try:
            return subprocess.run([*ALONE, "sh", "-c", attempted], capture_output=True).returncode == 0
        except OSError:  # no unshare
            return False


def main() -> None:
    reader = argparse.ArgumentParser(description="Build and try the Dockerfile without a Docker engine.")
    reader.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    reader.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = reader.parse_args()
    if not options.inside:  # mounts stay in a namespace of their own, and end with it
        if not possible():
            print("not tried: that takes Linux, root, and the right to mount an overlay")
            raise SystemExit(NOT_POSSIBLE)
        words = [sys.executable, __file__, *sys.argv[1:], "--inside"]
        raise SystemExit(subprocess.run([*ALONE, *words]).returncode)
    with tempfile.TemporaryDirectory(prefix="komd-image-") as name:
        call("mount", "-t", "tmpfs", "tmpfs", name)  # an overlay cannot have its changes on another overlay
        folder = Path(name)
        try:
            attempt(build(folder, dict(each.split("=", 1) for each in options.build_arg)), folder)
        finally:
            subprocess.run(["umount", "--recursive", "--lazy", name], check=False)


if __name__ == "__main__":
    main()
