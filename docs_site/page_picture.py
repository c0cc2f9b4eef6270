"""`make ui-picture ADDRESS=...`: takes docs/ui.png, the page of `traingrid ui` while jobs train.

ADDRESS is the one that `traingrid ui` prints, for example for the running `make demo`.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

PICTURE = Path(__file__).resolve().parent.parent / "docs/ui.png"
_SIZE: ViewportSize = {"width": 1400, "height": 900}


def main(address: str) -> None:
    """Open the page, and take the picture when the curves are drawn."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport=_SIZE, color_scheme="light", reduced_motion="reduce")
        tab.goto(address)
        tab.locator(".curve canvas").first.wait_for()
        tab.mouse.move(0, 0)
        tab.wait_for_timeout(1000)
        tab.screenshot(path=PICTURE)
        browser.close()
    sys.stdout.write(f"written to {PICTURE}\n")


if __name__ == "__main__":
    main(sys.argv[1])
