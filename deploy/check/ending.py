"""How long a replica takes to end, as its sources say."""

import re

from findings import ROOT


def default_drain():
    """Seconds of [server] drain_seconds where nothing is configured."""
    return _number("crates/holdfast/src/config/server.rs", r"drain_seconds: (\d+),")


def after_drain():
    """Seconds that it may take after the drain."""
    return _number("crates/holdfast/src/wiring/replica.rs", r"const GRACE: Duration = Duration::from_secs\((\d+)\);")


def _number(file, pattern):
    found = re.search(pattern, (ROOT / file).read_text())
    if not found:
        raise SystemExit(f"{file} is not written as it was; mend the pattern in deploy/check/ending.py")
    return int(found.group(1))
