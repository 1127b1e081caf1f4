"""Pictures of the page, taken in a real browser: `python docs/screenshots.py [FOLDER]` (make screenshots).

Serves a generated catalogue, picks some items and takes the page at several sizes, light and dark. Needs Playwright
and a Chromium on the path.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FIGURES = Path(__file__).parent / "guide"
PICKED = ("velvet", "lantern", "quiet")
SHOTS = {
    "serve": {"viewport": {"width": 1400, "height": 900}, "color_scheme": "light", "device_scale_factor": 1},
    "serve-dark": {"viewport": {"width": 1400, "height": 900}, "color_scheme": "dark", "device_scale_factor": 1},
    "serve-phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "device_scale_factor": 2},
    "serve-phone-dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "device_scale_factor": 2},
    "serve-tablet": {"viewport": {"width": 820, "height": 1180}, "color_scheme": "light", "device_scale_factor": 1},
}


def main(folder: Path, names: list[str]) -> None:
    chromium = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
    if chromium is None:
        sys.exit("no Chromium on the path")
    start = "from komd.cli.main import run; run()"
    command = [sys.executable, "-c", start, "demo", "--serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as service:
        try:
            assert service.stdout is not None
            address = next(found[1] for line in service.stdout if (found := re.search(r"on (http://\S+)", line)))
            urllib.request.urlopen(address + "/v1/ready", timeout=30).read()
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                for name in names:
                    take(browser, address, folder / f"{name}.png", SHOTS[name])
        finally:
            service.terminate()


def take(browser: Browser, address: str, file: Path, how: dict[str, object]) -> None:
    page = browser.new_page(**how)  # type: ignore[arg-type]
    page.goto(address)
    for word in PICKED:
        page.get_by_label("Search the catalogue").fill(word)
        page.locator("#search-list [role=option][aria-selected=true]").wait_for()
        page.keyboard.press("Enter")
        page.wait_for_timeout(400)
    page.locator("#cards .why").first.wait_for()
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(500)
    page.screenshot(path=file)
    print(file)
    page.close()


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES
    main(where, list(SHOTS) if len(sys.argv) > 1 else ["serve"])
