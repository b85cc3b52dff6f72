"""Write the pictures of the status page in docs/images, of its tests' own shop: `python -m scripts.screenshots`.

It needs Chromium; with pngquant and zopflipng (Debian: `pngquant`, `zopfli`) the files are a third as large.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser

from poller.http import HttpServer
from poller.http.addresses import read_address
from tests.support.browser import chromium, watched
from tests.support.dashboard import busy_shop

FOLDER = Path("docs/images")
SIZES = {"desk": (1180, 0), "phone": (360, 1100)}
"""Width, and the most of the height that is shown; 0: all."""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PAGES = {"list": "", "poller": "/shipments"}


def write(browser: Browser, folder: Path = FOLDER) -> list[Path]:
    """Each page, in each size and light. Returns: the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    shop = busy_shop()
    shop.environment = "production"
    with HttpServer(shop.endpoints(), read_address("0")) as server:
        for size, (width, most) in SIZES.items():
            with watched(browser, viewport={"width": width, "height": most or 600}) as seen:
                for name, path in PAGES.items():
                    seen.page.goto(f"http://127.0.0.1:{server.port}/api/dashboard{path}")
                    for scheme in SCHEMES:
                        seen.page.emulate_media(color_scheme=scheme)
                        file = folder / f"dashboard-{name}-{size}-{scheme}.png"
                        seen.page.screenshot(path=file, full_page=not most)
                        written.append(file)
    small = shutil.which("pngquant")
    if small is not None:
        subprocess.run(
            [small, "--force", "--ext", ".png", "--strip", "--nofs", "--speed", "1", "24", *map(str, written)],
            check=True,
        )
    smaller = shutil.which("zopflipng")
    if smaller is not None:
        for one in written:
            subprocess.run([smaller, "-y", str(one), str(one)], check=True, stdout=subprocess.DEVNULL)
    return written


if __name__ == "__main__":
    with chromium() as started:
        for one in write(started):
            print(f"wrote {one}")
