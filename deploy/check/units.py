"""The systemd units: known to systemd, hardened, and stopped no sooner than the drain allows."""

import configparser
import re
import tempfile
import tomllib
from pathlib import Path

import ending
from findings import DEPLOY, run

UNITS = DEPLOY / "systemd"

# As systemd-analyze security rates: 0 is best, 10 worst.
MOST_EXPOSED = 2.5


def check(found, holdfast):
    """Both units."""
    for unit in sorted(UNITS.glob("*.service")):
        text = unit.read_text()
        verify(found, unit, text, holdfast)
        exposure(found, unit)
        patience(found, unit, text)
        credentials(found, unit, text)
    documented(found, (UNITS / "holdfast-agent.service").read_text())


def verify(found, unit, text, holdfast):
    """systemd knows every key. It looks for the program, which is here somewhere else."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / unit.name
        copy.write_text(text.replace("/usr/bin/holdfast", str(Path(holdfast).resolve())))
        ended = run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", copy])
        said = [line for line in ended.stderr.splitlines() if unit.name in line]
        found.require(not said, f"{unit.name}: systemd-analyze verify says: {said}")
        found.require(ended.returncode == 0, f"{unit.name}: systemd-analyze verify fails: {ended.stderr}")


def exposure(found, unit):
    ended = run(["systemd-analyze", "security", "--offline=yes", "--no-pager", f"--threshold={int(MOST_EXPOSED * 10)}", unit])
    told = re.search(r"Overall exposure level for .*: ([\d.]+)", ended.stdout)
    found.require(told and float(told.group(1)) <= MOST_EXPOSED, f"{unit.name}: exposure {told and told.group(1)} is above {MOST_EXPOSED}; `systemd-analyze security --offline=yes {unit}` says why")


def patience(found, unit, text):
    """The drain of the default configuration, what a replica takes after it, and ten seconds to spare."""
    least = ending.default_drain() + ending.after_drain() + 10
    stop = int(re.search(r"^TimeoutStopSec=(\d+)s$", text, re.MULTILINE).group(1))
    found.require(stop >= least, f"{unit.name}: TimeoutStopSec={stop}s is less than drain, end and ten seconds to spare: {least} s")


def credentials(found, unit, text):
    """Secrets come from systemd, not from the unit."""
    parsed = configparser.RawConfigParser(strict=False)
    parsed.optionxform = str
    parsed.read_string(text)
    found.require("LoadCredential" in parsed["Service"], f"{unit.name}: no LoadCredential")
    plain = re.search(r"^Environment=\S*(TOKEN|MASTER_KEY|PASSWORD|DATABASE__URL)=", text, re.MULTILINE)
    found.require(not plain, f"{unit.name}: holds a secret")


def documented(found, unit):
    """What agent.toml names beside itself in the documents, the unit brings."""
    document = (DEPLOY.parent / "docs" / "haproxy.md").read_text()
    blocks = [tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", document, re.DOTALL)]
    agents = [block["agent"] for block in blocks if "agent" in block]
    found.require(agents, "docs/haproxy.md: no agent.toml")
    brought = set(re.findall(r"^LoadCredential=([^:]+):", unit, re.MULTILINE))
    for key in ("token_file", "root_certificate", "client_certificate", "client_key"):
        for name in (agent[key] for agent in agents if key in agent):
            found.require(name in brought or name.startswith("/"), f"docs/haproxy.md: {key} = {name}, and the unit has no LoadCredential for it")
