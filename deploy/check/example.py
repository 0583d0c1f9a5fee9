"""The configuration printed in docs/production.md, judged by holdfast itself."""

import re
import tempfile
import textwrap
from pathlib import Path

from findings import ROOT, indent, run

PAGE = ROOT / "docs" / "production.md"


def check(found, holdfast):
    """It is good as it stands."""
    blocks = re.findall(r"^ *```toml\n(.*?)^ *```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    if not found.require(blocks, f"{PAGE.name} prints no configuration"):
        return
    for block in blocks:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "holdfast.toml"
            file.write_text(textwrap.dedent(block))
            ended = run([holdfast, "server", "--config", file, "--check"], env={})
        found.require(ended.returncode == 0, f"{PAGE.name}: holdfast refuses what is printed there:\n{indent(ended.stderr)}")
