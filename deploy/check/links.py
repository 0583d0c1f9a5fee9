"""Links between our own pages: the file is there, and so is the heading."""

import re

from findings import ROOT

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def check(found):
    """Every page of ours."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md"), *ROOT.glob("crates/*/README.md")]
    for page in sorted(pages):
        for link in LINK.findall(CODE.sub("", page.read_text())):
            file, _, anchor = link.partition("#")
            if "://" in link or link.startswith("mailto:"):
                continue
            target = (page.parent / file).resolve() if file else page
            place = f"{page.relative_to(ROOT)} links to {link}"
            if found.require(target.exists(), f"{place}, which does not exist") and anchor:
                found.require(anchor in anchors(target), f"{place}, and there is no such heading")


def anchors(page):
    """The headings of a page, as links name them."""
    text = CODE.sub(lambda match: "" if match.group().startswith("```") else match.group().strip("`"), page.read_text())
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
