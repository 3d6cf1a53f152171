"""A report in a real browser: light and dark, as wide as a phone, and without errors."""

import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from sdem_dist import MultinomialNB, ingest, open_corpus
from sdem_dist.reports.page import report_page, write_page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 6, 300)
    names = [f"a.class.with.a.long.name.{k}" for k in range(6)]
    texts = [" ".join(rng.choice([f"word{3 * k + i}" for i in range(5)], 30)) for k in labels]
    (folder / "d.tsv").write_text("".join(f"{names[k]}\t{text}\n" for k, text in zip(labels, texts, strict=True)))
    ingest(folder / "d.tsv", folder / "d.zarr", keep_text=True)
    corpus = open_corpus(folder / "d.zarr")
    write_page(folder / "report.html", "A report", report_page(MultinomialNB().fit(corpus), corpus, "model", "texts"))
    return folder / "report.html"


def shown(page, name, width, *more):
    picture = page.parent / f"{name}.png"
    command = [BROWSER, *QUIET, f"--user-data-dir={page.parent / name}", f"--screenshot={picture}", *more]
    subprocess.run(
        [*command, f"--window-size={width},2400", page.as_uri()], check=True, capture_output=True, timeout=120
    )
    return np.asarray(Image.open(picture).convert("L"), np.float64)


def test_light_and_dark(page):
    light = shown(page, "light", 1100)
    dark = shown(page, "dark", 1100, "--blink-settings=preferredColorScheme=0")
    assert np.median(light) > 240 and np.median(dark) < 40
    assert light.std() > 10 and dark.std() > 10


def test_a_phone_sees_the_whole_width(page):
    found = shown(page, "phone", 400)
    assert found.shape[1] == 400
    assert (found[:, -8:] > 240).all(), "something reaches the right edge: the page is wider than the phone"
