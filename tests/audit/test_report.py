import csv
import re
from html.parser import HTMLParser
from pathlib import Path

from exhume._version import __version__
from exhume.audit.levels import THRESHOLDS
from exhume.audit.records import SCHEMA, Report
from exhume.audit.report.schema import schema_text

DOCS = Path(__file__).parents[2] / "docs"


def test_the_published_schema_is_that_of_the_models():
    assert (DOCS / "audit-schema.json").read_text() == schema_text(), (
        "python -m exhume.audit.report.schema > docs/audit-schema.json"
    )


def test_the_docs_state_the_thresholds_in_force():
    rows = {
        line.split("|")[1].strip(" `"): line for line in (DOCS / "audit.md").read_text().splitlines() if "|" in line
    }
    assert f"at most {THRESHOLDS.aggregate_error}," in rows["aggregate"]
    assert f"p at most {THRESHOLDS.label_p}" in rows["label"]
    assert f"feature error at most {THRESHOLDS.feature_error} " in rows["feature"]
    assert f"at least {1 - THRESHOLDS.replay_share:.0%} of the head change" in rows["replay"]
    assert THRESHOLDS.majority == 0.5
    assert "at least half" in rows["replay"]


def test_json_has_what_it_promises(small):
    found = small.json
    assert found["schema"] == SCHEMA
    assert found["command"] == "exhume audit --dim 16"
    assert found["seed"] == 0
    assert set(found["verdict"]) == {"severity", "text", "guarantee", "next_steps"}
    wanted = {
        "data", "encoder", "dim", "probe", "precision", "recovery", "kind", "trials", "identified", "labels_correct",
        "relerr_gram", "relerr_moment", "relerr_feature", "responses_first", "responses_next", "replay_head_error",
        "severity",
    }  # fmt: skip
    for finding in found["findings"]:
        assert wanted <= set(finding)
        assert set(finding["relerr_gram"]) == {"mean", "median", "max"}
    assert Report.model_validate(found) == small.done.report


def test_csv_has_one_row_per_trial_and_estimator(small):
    with (small.out / "trials.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 4 * (6 * 2 + 6 + 2)  # four cells; six records by two estimators, six classes, two clients
    assert {row["recovery"] for row in rows} == {"difference", "rank-one"}


def test_figures_are_there_in_both_formats(small):
    names = {"accuracy", "bound", "images", "labels", "rank"}
    for ending in ("png", "svg"):
        assert {f.stem for f in (small.out / "figures").glob(f"*.{ending}")} == names


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.levels = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        if "id" in found:
            self.ids.append(found["id"])
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))

    def all(self, tag):
        return [found for name, found in self.tags if name == tag]


def test_the_page_is_self_contained_and_accessible(small):
    text = (small.out / "report.html").read_text()
    page = Page(text)
    assert not re.search(r'(src|href)="(?!#|data:)', text.replace("xlink:href", "href"))
    assert "@import" not in text
    assert text.count("<script>") == 1 and "<script " not in text  # inline, and nothing else
    assert "default-src 'none'" in text
    assert page.all("html")[0]["lang"] == "en"
    for landmark in ("header", "nav", "main", "footer"):
        assert len(page.all(landmark)) == 1
    assert len(page.ids) == len(set(page.ids))
    assert all(image["alt"] for image in page.all("img"))
    drawings = page.all("svg")
    assert drawings
    assert all(svg["role"] == "img" and svg["aria-labelledby"] in page.ids for svg in drawings)
    assert len(page.all("caption")) == len(page.all("table")) == 4
    assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
    assert page.levels[0] == 1
    assert all(b - a <= 1 for a, b in zip(page.levels, page.levels[1:], strict=False))
    assert {a["href"][1:] for a in page.all("a")} <= set(page.ids)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_the_page_names_its_origin_and_says_what_to_see(small):
    text = (small.out / "report.html").read_text()
    report = small.done.report
    for words in (report.command, __version__, report.data["sha256"], report.data["fingerprint"]):
        assert words in text
    for line in report.verdict.text.splitlines()[1:]:
        assert line.strip().replace("'", "&#39;") in text
    assert text.count("<figcaption>") == 6
