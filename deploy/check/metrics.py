"""Which metrics there are, and which are named in a query."""

import re

from findings import ROOT

DOCUMENTED = ROOT / "docs" / "metrics.md"

# What a histogram is in a query.
SUFFIXES = ("_bucket", "_sum", "_count")


def documented():
    """The names in docs/metrics.md."""
    if not DOCUMENTED.exists():
        return set()
    return set(re.findall(r"\bholdfast_[a-z0-9_]+", DOCUMENTED.read_text()))


def check(found, place, query):
    """Every metric of a query is documented."""
    known = documented()
    for name in set(re.findall(r"\bholdfast_[a-z0-9_]+", query)):
        plain = [name] + [name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)]
        found.require(any(one in known for one in plain), f"{place} asks for {name}, which is not in docs/metrics.md")
