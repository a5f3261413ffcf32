"""Pictures of reports for docs/evidence/pictures.md, by a `chromium` on the PATH.

Real runs that are recorded for the tests are judged again (--replay), and what the report opens on is taken at the
widths of a phone, a tablet and a screen, in both themes.
"""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "harness" / "corpus" / "recorded"
FOLDER = ROOT / "docs" / "pictures"
SHOWN = {"first-run": "smoke", "comparison": "compared-interpreter"}
"""What the pictures are of, by the recorded run."""
WIDTHS = (400, 1000, 1600)
MOST_HIGH, COLOURS = 1400, 64
"""Pixels of a page that are taken, and colours that are kept of them: the text stays sharp at a tenth of the size."""


def replayed(name: str, folder: Path) -> Path:
    """The page that the report of a recorded run opens on, judged again in this folder."""
    run = folder / f"{name}.json"
    run.write_bytes(gzip.decompress((RECORDED / f"{name}.json.gz").read_bytes()))
    command = [sys.executable, "-m", "perfgate", "gate", f"--replay={run}", f"--results={folder / name}"]
    subprocess.run([*command, "-q"], cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    (page,) = (folder / name).glob("2*/answers.html")
    return page


def main() -> int:
    """Write docs/pictures/<what>-<width>-<theme>.png."""
    if not (chromium := shutil.which("chromium")):
        print("no chromium on the PATH", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="pictures-") as scratch, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for what, name in SHOWN.items():
            page_file = replayed(name, Path(scratch))
            for width in WIDTHS:
                for theme in ("light", "dark"):
                    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
                    page.goto(page_file.as_uri())
                    page.wait_for_load_state("networkidle")
                    taken = Image.open(io.BytesIO(page.screenshot(full_page=True)))
                    shown = taken.crop((0, 0, taken.width, min(taken.height, MOST_HIGH))).convert("RGB")
                    path = FOLDER / f"{what}-{width}-{theme}.png"
                    shown.quantize(COLOURS).save(path, optimize=True)
                    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} KB", flush=True)
                    page.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
