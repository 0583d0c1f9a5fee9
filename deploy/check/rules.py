"""The alerts: promtool judges and tests them; each says what it means, what to do, and uses metrics that exist."""

import re

import yaml

import links
import metrics
from findings import DEPLOY, ROOT

ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
TESTS = DEPLOY / "prometheus" / "alerts_test.yaml"
RUNBOOK = ROOT / "docs" / "troubleshooting.md"
IN_CHART = DEPLOY / "helm" / "holdfast" / "files" / "alerts.yaml"


def check(found):
    """The file, its tests, and each alert."""
    found.ends_well("alerts", ["promtool", "check", "rules", "--lint-fatal", ALERTS])
    found.ends_well("tests of the alerts", ["promtool", "test", "rules", TESTS], cwd=TESTS.parent)
    found.require(IN_CHART.resolve() == ALERTS.resolve(), "the chart has alerts of its own; make files/alerts.yaml a link to deploy/prometheus/alerts.yaml")
    alerts = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"] if "alert" in rule]
    tested, quiet = expectations()
    for alert in alerts:
        name = alert["alert"]
        metrics.check(found, name, alert["expr"])
        wording(found, alert)
        found.require(name in tested, f"{name} fires in no test of alerts_test.yaml")
        found.require(name in quiet, f"{name} stays quiet in no test of alerts_test.yaml")
    names = [alert["alert"] for alert in alerts]
    found.require(len(names) == len(set(names)), f"an alert is there twice: {sorted(names)}")


def expectations():
    """Which alerts are expected to fire somewhere, and which to stay quiet."""
    tested, quiet = set(), set()
    for test in yaml.safe_load(TESTS.read_text())["tests"]:
        for expected in test.get("alert_rule_test", []):
            (tested if expected.get("exp_alerts") else quiet).add(expected["alertname"])
    return tested, quiet


def wording(found, alert):
    """Severity, a sentence, what to do, and where that is written."""
    name, notes = alert["alert"], alert.get("annotations", {})
    found.require(alert.get("labels", {}).get("severity") in ("warning", "critical"), f"{name} has no severity")
    for note in ("summary", "description", "runbook_url"):
        found.require(notes.get(note), f"{name} has no {note}")
    page, _, anchor = notes.get("runbook_url", "").partition("#")
    repository = re.search(r'^repository = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE).group(1)
    found.require(page == f"{repository}/blob/main/docs/troubleshooting.md", f"{name}: its runbook is {page}")
    found.require(anchor in links.anchors(RUNBOOK), f"{name}: docs/troubleshooting.md has no heading #{anchor}")
