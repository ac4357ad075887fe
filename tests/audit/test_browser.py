"""The report in a real browser: no console error, everything drawn, nothing wider than a phone."""

import html
import json
import re
import shutil
import subprocess

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
]

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed (apt-get install chromium)")

WRAPPER = """<!DOCTYPE html><body style="margin:0"><pre id="result">none</pre>
<iframe id="page" src="report.html" style="width:%dpx;height:900px;border:0"></iframe>
<script>
document.getElementById("page").addEventListener("load", (event) => {
  const view = event.target.contentWindow, page = event.target.contentDocument;
  const box = (e) => { const b = e.getBoundingClientRect(); return b.width > 20 && b.height > 20; };
  document.getElementById("result").textContent = JSON.stringify({
    width: view.innerWidth,
    wide: page.documentElement.scrollWidth,
    images: [...page.images].map((i) => i.complete && i.naturalWidth > 0 && box(i)),
    drawings: [...page.querySelectorAll("figure svg")].map(box),
    clipped: [...page.querySelectorAll("main *")]
      .filter((e) => !e.closest("svg, details") && e.clientWidth > 1)
      .filter((e) => e.getBoundingClientRect().right > view.innerWidth + 1
        || (e.scrollWidth > e.clientWidth + 1 && view.getComputedStyle(e).overflowX !== "visible"))
      .map((e) => `${e.tagName} ${e.className} ${e.textContent.trim().slice(0, 40)}`),
    verdict: page.getElementById("verdict").innerText,
    small: [...page.querySelectorAll("main p, main li, main td, main dd")]
      .filter((e) => parseFloat(view.getComputedStyle(e).fontSize) < 11).length,
    requests: view.performance.getEntriesByType("resource").map((r) => r.name).filter((n) => !n.startsWith("data:")),
  });
});
</script></body>"""


def look(folder, profile, width):
    wrapper = folder / f"wrapper-{width}.html"
    wrapper.write_text(WRAPPER % width)
    done = subprocess.run(
        [BROWSER, *FLAGS, f"--user-data-dir={profile}", "--virtual-time-budget=5000", "--dump-dom", wrapper.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found[1])), console


@pytest.mark.parametrize("width", [390, 800, 1280])
def test_the_report_in_a_browser(small, tmp_path, width):
    (tmp_path / "report.html").write_bytes((small.out / "report.html").read_bytes())
    seen, console = look(tmp_path, tmp_path / "profile", width)
    assert console == []
    assert seen["width"] == width
    assert seen["wide"] <= width
    assert seen["clipped"] == []
    assert len(seen["images"]) == 1
    assert len(seen["drawings"]) == 5
    assert all(seen["images"] + seen["drawings"])
    assert seen["small"] == 0
    assert seen["requests"] == []
    for line in small.done.report.verdict.text.splitlines()[1:]:
        assert line.strip() in seen["verdict"]


def test_the_report_on_settings_fits_a_phone(hardened, tmp_path):
    (tmp_path / "report.html").write_bytes((hardened.out / "report.html").read_bytes())
    seen, console = look(tmp_path, tmp_path / "profile", 390)
    assert console == []
    assert seen["wide"] <= 390
    assert seen["clipped"] == []
    assert all(seen["images"] + seen["drawings"])
    assert seen["small"] == 0
    assert seen["requests"] == []
