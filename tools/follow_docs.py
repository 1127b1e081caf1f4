"""Follow README and the site as a new user would: an empty virtual environment, and every command in order.

    python tools/follow_docs.py [--page NAME ...] [--keep FOLDER]

Each page has an environment with komd, and of its extras those that the page says to install. Its Python blocks, cells,
commands, and requests to the service that it starts run in a folder of its own. A command that fails ends the run with
its output. What takes minutes is made smaller (SMALLER); what needs another machine is left out with a reason
(LEFT_OUT). Needs Python and curl.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = "Scripts" if os.name == "nt" else "bin"

# The pages in the order of a reader, and which files a reader of the page has beside it (see PREPARED).
PAGES = {
    "README.md": "own",
    "docs/index.md": "own",
    "docs/tutorials/five-minutes.md": "",
    "docs/tutorials/choosing-a-model.md": "generated",
    "docs/tutorials/how-sparse.md": "generated",
    "docs/tutorials/notebook-to-service.md": "",
    "docs/tutorials/million-users.md": "",
    "docs/tutorials/coming-from.md": "",
    "docs/guide/reading.md": "own",
    "docs/guide/choosing.md": "own",
    "docs/guide/tuning.md": "own",
    "docs/guide/histories.md": "own",
    "docs/guide/updating.md": "own",
    "docs/guide/serving.md": "own",
    "docs/guide/operations.md": "own",
}
NOT_FOLLOWED = {
    "docs/tutorials/on-spark.md": "needs Java: executed by `make docs`",
    "docs/guide/spark.md": "needs Java and frames of a cluster: tests/spark",
}
SMALLER = (
    (r"--budget \d+m", "--budget 15s"),
    (r'budget="\d+m"', 'budget="15s"'),
    (r"--like msd", "--like msd --users 6000 --items 2000"),
)
LEFT_OUT = {
    r"^make ": "runs in the clone: CI does",
    r"^docker ": "needs Docker: deploy/run_dockerfile.py takes its steps",
    r"\$KOMD_DATA": "needs MovieLens 1M",
    r"postgresql://": "needs PostgreSQL: tests/serve has one",
    r"--public-url": "needs a proxy: tests/serve starts nginx and Caddy with these lines",
}
# What a reader has before the page begins: `own` is their own data, `generated` that of the first tutorial.
PREPARED = {
    "": "",
    "generated": """
import komd
from pyarrow import csv
csv.write_csv(komd.generate(users=1500, items=400, activity=25, tastes=8, rng=1).to_arrow(), "plays.csv")
""",
    "own": """
import komd
import pyarrow as pa, pyarrow.parquet as pq
from pyarrow import csv

made = komd.generate(users=300, items=80, activity=12, tastes=4, rng=0)
who = {"user-00000": "ana", "user-00001": "bo", "user-00002": "cy"}
what = dict(zip(made.history("user-00000") + made.history("user-00001"), ["i7", "i42"]))
what |= dict(zip([i for i in made.items.values.to_pylist() if i not in made.history("user-00000")], ["i99"]))
pairs = [(who.get(u, u), what.get(i, i)) for u, i in zip(*made.to_arrow().to_pydict().values())]
pairs = list(dict.fromkeys([*pairs, ("bo", "i7")]))
users, items = map(list, zip(*pairs))
plays = [1 + k % 7 for k in range(len(pairs))]
times = [1_700_000_000 + 86_400 * (k % 90) for k in range(len(pairs))]
table = pa.table({"user_id": users, "item_id": items, "plays": plays, "timestamp": times})
csv.write_csv(table, "plays.csv")
pq.write_table(table.select(["user_id", "item_id"]), "plays.parquet")
pq.write_table(table.select(["user_id", "item_id"]), "events.parquet")
csv.write_csv(pa.table({"user_id": users, "item_id": items, "stars": [1 + k % 5 for k in plays]}), "stars.csv")
csv.write_csv(pa.table({"user_id": users, "item_id": items, "day": [t // 86_400 for t in times]}), "days.csv")
csv.write_csv(pa.table({"user_id": ["ana", "new"], "item_id": ["i99", "i7"]}), "new.csv")
csv.write_csv(pa.table({"user_id": ["bo"], "item_id": ["i7"]}), "gone.csv")
csv.write_csv(pa.table({"item_id": sorted(set(items)), "name": sorted(set(items))}), "names.csv")
komd.CFKOMD().fit("plays.parquet").save("plays.komd")
komd.ECFOMD().fit("plays.parquet").save("new.komd")
""",
}
# The service that answers the requests of a page; that of operations.md has the reader's own plays.
SERVED = {
    "docs/guide/serving.md": ["komd", "demo", "--serve"],  # as the page says
    "docs/guide/operations.md": ["komd", "serve", "plays.komd"],
    "docs/guide/updating.md": ["komd", "serve", "plays.komd"],  # whose store it reads
}
NOTEBOOK = "docs/tutorials/notebook-to-service.md"  # its cells run once more, together: they start a service themselves
EVENT = """curl -s localhost:8000/v1/events -H 'content-type: application/json'
    -d '{"events": [{"user_id": "dee", "item_id": "i7"}, {"user_id": "bo", "item_id": "i99"}]}'"""
# Names that the Python blocks of a page take as given.
GIVEN = {
    "docs/guide/reading.md": "import komd, scipy.sparse\nmatrix = scipy.sparse.csr_array([[3.0, 0, 1], [0, 2, 0]])\n",
    "docs/guide/choosing.md": "import komd\ndata = komd.read('plays.parquet')\n",
    "docs/guide/tuning.md": "import komd\ntrain, test = next(komd.split.folds(komd.read('plays.parquet'), rng=0))\n",
}
IN_PLACE = {
    "docs/guide/reading.md": ('"plays.csv", time="day"', '"days.csv", time="day"')
}  # another file of the reader

# Runs the blocks of a page one after another, and shows the last expression of each as a notebook does.
RUNNER = """
import ast, json, sys
names = {"__name__": "__main__"}
for text in filter(str.strip, json.load(open(sys.argv[1], encoding="utf-8"))):
    print(">>>", text.strip().splitlines()[0][:100], flush=True)
    body = ast.parse(text).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "<page>", "exec"), names)
    if last is not None:
        shown = eval(compile(ast.Expression(last.value), "<page>", "eval"), names)
        getattr(shown, "_repr_html_", lambda: None)()
        print(repr(shown)[:400], flush=True)
"""


@dataclass(frozen=True)
class Step:
    """One thing that a page tells its reader to do."""

    kind: str  # "python" or "command"
    text: str

    @property
    def reason(self) -> str:
        """Why it is not done here; empty if it is."""
        return next((why for found, why in LEFT_OUT.items() if re.search(found, self.text)), "")


def steps(page: str) -> Iterator[Step]:
    """What a page tells its reader to type, in order; Python blocks whole, commands line by line."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / page).read_text(encoding="utf-8"))
    blocks = r"^```(?P<kind>[^\n]*)\n(?P<body>.*?)^```|^(?P<indented>(?: {4}\S[^\n]*\n)+)"
    for found in re.finditer(blocks, text, re.M | re.S):
        body = found["body"] if found["body"] is not None else re.sub(r"^ {4}", "", found["indented"], flags=re.M)
        first = body.strip().splitlines()[0] if body.strip() else ""
        indented = found["indented"] is not None
        if found["kind"] in ("{code-cell}", "python") or (indented and re.match(r"(komd\.|data = |model)", first)):
            if "from lenskit" not in body:  # the page says that it is not run
                yield Step("python", re.sub(r"\A:tags:.*\n", "", body))
        elif found["kind"] == "sh" or (indented and re.match(r"(komd|pip|make) ", first)):
            for line in body.splitlines():
                command = re.sub(r"\s+#.*", "", line).strip()
                if command:
                    yield Step("command", command)


# ---- running --------------------------------------------------------------------------------------------------------


class Reader:
    """Somebody who follows pages, in environments with nothing but what the pages install."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.base = home / "base"
        self.bin = self.base / SCRIPTS
        self.service: subprocess.Popen[bytes] | None = None
        self.served: list[str] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        subprocess.run([sys.executable, "-m", "venv", self.base], check=True)
        self.run(["python", "-m", "pip", "install", "--quiet", "."], ROOT)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the commands: the environment of the page first, nothing of the caller's Python."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KOMD", "VIRTUAL"))}
        path = os.pathsep.join((str(self.bin), os.environ.get("PATH", "")))
        return kept | {"PATH": path, "MPLBACKEND": "Agg", "NUMBA_CACHE_DIR": str(self.home / "cache")}

    def install(self, page: str, folder: Path) -> None:
        """An environment for a page: komd, and the extras that the page says to install."""
        made = folder / ".venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
        where = 'import sysconfig; print(sysconfig.get_path("purelib"))'
        base = subprocess.check_output([str(self.base / SCRIPTS / "python"), "-c", where], text=True).strip()
        own = subprocess.check_output([str(made / SCRIPTS / "python"), "-c", where], text=True).strip()
        (Path(own) / "base.pth").write_text(base + "\n")  # what `pip install .` installed is shared
        words = [str(self.base / SCRIPTS / "python"), "-m", "pip", "--python", str(made), "install", "--quiet", "."]
        asked = re.findall(r"pip install '(?:\.|komd)\[([\w,]+)\]'([\w ]*)", (ROOT / page).read_text(encoding="utf-8"))
        extras = sorted({extra for extras, _ in asked for extra in extras.split(",")})
        more = sorted({name for _, names in asked for name in names.split()})
        words[-1] += f"[{','.join(extras)}]" if extras else ""
        print("  $", shlex.join(["pip", "install", words[-1], *more]), flush=True)
        self.run([*words, *more], ROOT, 1800)
        self.bin = made / SCRIPTS

    def run(self, words: list[str], folder: Path, timeout: float = 600) -> str:
        """Run a command that must succeed; returns its output."""
        environment = self.environment
        done = subprocess.run(
            [shutil.which(words[0], path=environment["PATH"]) or words[0], *words[1:]],
            cwd=folder,
            env=environment,
            timeout=timeout,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        if done.returncode:
            shown = shlex.join([word if len(word) < 200 else "…" for word in words])
            raise SystemExit(f"{folder.name}: {shown} ended with {done.returncode}:\n{done.stdout[-3000:]}")
        return done.stdout

    def python(self, blocks: list[str], folder: Path) -> None:
        """Run blocks of Python in one process."""
        (folder / ".blocks.json").write_text(json.dumps(blocks), encoding="utf-8")
        self.run(["python", "-c", RUNNER, ".blocks.json"], folder)

    def follow(self, page: str) -> None:
        """Do what a page says."""
        folder = self.home / page.replace("/", "-").removesuffix(".md")
        folder.mkdir()
        self.install(page, folder)
        if prepared := PREPARED[PAGES[page]]:
            self.python([prepared], folder)
        blocks: list[str] = []
        try:
            if page in SERVED:
                self.serve(SERVED[page], folder)
            if page == "docs/guide/updating.md":  # somebody used the service before
                self.do(EVENT.replace(":8000", f":{self.port}"), folder)
            for step in steps(page):
                text = self.adapted(step.text, page)
                if step.reason:
                    print(f"  - {step.text.splitlines()[0]}  ({step.reason})")
                elif step.kind == "python":
                    blocks.append(text)
                elif not text.startswith("pip "):
                    if blocks and not (page == NOTEBOOK and self.service):
                        self.python([GIVEN.get(page, ""), *blocks], folder)
                        blocks = blocks if page == NOTEBOOK else []
                    if text.startswith("curl") and page in SERVED:
                        self.serve(SERVED[page], folder)
                    self.do(text, folder)
            self.stop()
            if blocks:
                if page == "docs/guide/operations.md":
                    self.serve(SERVED[page], folder)
                self.python([GIVEN.get(page, ""), *blocks], folder)
        finally:
            self.stop()

    def adapted(self, text: str, page: str) -> str:
        """The same on a free port, smaller, and with the reader's files."""
        for found, smaller in SMALLER:
            text = re.sub(found, smaller, text)
        text = text.replace(*IN_PLACE.get(page, ("", "")))
        return re.sub(r"(localhost|127\.0\.0\.1):8000", rf"\1:{self.port}", text)

    def do(self, command: str, folder: Path) -> None:
        """Run a command as the page has it; one that serves goes on in the background until another one does."""
        print(f"  $ {command}", flush=True)
        words = shlex.split(command)
        if words[0] == "curl":
            out = self.run([*words, "-w", "\n%{http_code}"], folder)
            if not out.strip().endswith(("200", "202", "204")):
                raise SystemExit(f"{command} was answered\n{out}")
        elif words[:2] == ["komd", "serve"]:
            self.serve(words, folder)
        else:
            self.run(words, folder)

    def serve(self, words: list[str], folder: Path) -> None:
        """Start a service in place of the one that runs, and wait until it answers."""
        if self.served == words:
            return
        self.stop()
        found = shutil.which(words[0], path=self.environment["PATH"]) or words[0]
        with (folder / "service.log").open("ab") as log:
            command = [found, *words[1:], "--port", str(self.port)]
            self.service = subprocess.Popen(command, cwd=folder, env=self.environment, stdout=log, stderr=log)
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/ready", timeout=5) as answer:
                    if answer.status == 200:
                        self.served = words
                        return
            except OSError:
                pass
            if self.service.poll() is not None:
                break
            time.sleep(0.2)
        said = (folder / "service.log").read_text(encoding="utf-8", errors="replace")
        raise SystemExit(f"{folder.name}: {shlex.join(words)} does not serve:\n{said[-3000:]}")

    def stop(self) -> None:
        """Stop the service, if one runs."""
        if self.service is not None:
            self.service.terminate()
            self.service.wait(60)
            self.service, self.served = None, []


def main() -> None:
    """Follow the pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", action="append", choices=PAGES, help="only this page; may be repeated")
    parser.add_argument("--keep", type=Path, help="work in this folder, which must not exist, and keep it")
    given = parser.parse_args()
    if given.keep:
        given.keep.mkdir(parents=True)
    home = given.keep.resolve() if given.keep else Path(tempfile.mkdtemp(prefix="komd-follow-"))
    try:
        reader = Reader(home)
        for page in given.page or PAGES:
            start = time.perf_counter()
            print(page, flush=True)
            reader.follow(page)
            print(f"  {time.perf_counter() - start:.0f} s", flush=True)
    finally:
        if not given.keep:
            shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
