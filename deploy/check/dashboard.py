"""The Grafana dashboard: it can be read, asks a data source that the person chooses, and asks for metrics that exist."""

import json
import tempfile
from pathlib import Path

import yaml

import metrics
from findings import DEPLOY

DASHBOARD = DEPLOY / "grafana" / "holdfast.json"
IN_CHART = DEPLOY / "helm" / "holdfast" / "files" / "holdfast.json"

# What Grafana puts in for its variables, for a parser that has none.
VARIABLES = {"$__rate_interval": "5m", "$__range": "1h", "$__interval": "1m"}


def check(found):
    """The whole dashboard."""
    found.require(IN_CHART.resolve() == DASHBOARD.resolve(), "the chart has a dashboard of its own; make files/holdfast.json a link to deploy/grafana/holdfast.json")
    board = json.loads(DASHBOARD.read_text())
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    found.require(variables.get("datasource", {}).get("type") == "datasource", "there is no variable for the data source")
    found.require(board.get("uid") and board.get("title"), "the dashboard has no uid or no title")
    found.require(board.get("id") is None, "the dashboard has the id of somebody's Grafana")
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    ids = [panel["id"] for panel in board["panels"]]
    found.require(len(ids) == len(set(ids)), "two panels have one id")
    overlap(found, board["panels"])
    queries = {}
    for panel in panels:
        for target in panel.get("targets", []):
            place = f"panel `{panel['title']}`"
            source = target.get("datasource", panel.get("datasource", {})).get("uid")
            found.require(source == "${datasource}", f"{place} asks a data source of its own: {source}")
            metrics.check(found, place, target["expr"])
            queries[f"{place} {target['refId']}"] = target["expr"]
        found.require(panel.get("targets"), f"panel `{panel['title']}` asks nothing")
        found.require(panel.get("description"), f"panel `{panel['title']}` does not say what it shows")
    parse(found, queries)


def overlap(found, panels):
    """No panel covers another, and none is wider than the page."""
    taken = {}
    for panel in panels:
        at = panel["gridPos"]
        found.require(at["x"] + at["w"] <= 24, f"panel `{panel['title']}` is wider than the page")
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        covered = {taken[cell] for cell in cells if cell in taken}
        found.require(not covered, f"panel `{panel['title']}` covers {covered}")
        taken.update((cell, panel["title"]) for cell in cells)


def parse(found, queries):
    """Prometheus's own parser takes every query."""
    rules = []
    for place, query in queries.items():
        for variable, text in VARIABLES.items():
            query = query.replace(variable, text)
        rules.append({"record": "panel", "expr": query.replace('"$job"', '".+"'), "labels": {"place": place}})
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "panels.yaml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
        found.ends_well("queries of the dashboard", ["promtool", "check", "rules", "--lint=none", file])
