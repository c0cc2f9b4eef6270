"""`make report-picture REPORT=...`: takes docs/report.png, the first screen of a report of `traingrid report`."""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

PICTURE = Path(__file__).resolve().parent.parent / "docs/report.png"
_SIZE: ViewportSize = {"width": 1240, "height": 1000}


def main(report: str) -> None:
    """Open the report, and take the picture."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport=_SIZE, color_scheme="light")
        tab.goto(Path(report).resolve().as_uri())
        tab.screenshot(path=PICTURE)
        browser.close()
    sys.stdout.write(f"written to {PICTURE}\n")


if __name__ == "__main__":
    main(sys.argv[1])
