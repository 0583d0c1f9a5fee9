"""Checks everything under deploy/, as far as that goes without a cluster: ./dev deploy

Each part is a module with one `check(findings, …)`. Nothing here is skipped because a tool is missing.
"""

import argparse
import sys

import chart
import container
import dashboard
import example
import links
import proxy
import rules
import units
from findings import Findings


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--helm", required=True)
    arguments.add_argument("--holdfast", required=True, help="the program that judges configurations")
    options = arguments.parse_args()
    parts = {
        "Helm chart": lambda found: chart.check(found, options.helm, options.holdfast),
        "Prometheus rules": rules.check,
        "Grafana dashboard": dashboard.check,
        "systemd units": lambda found: units.check(found, options.holdfast),
        "HAProxy example": proxy.check,
        "container image": container.check,
        "printed configuration": lambda found: example.check(found, options.holdfast),
        "links between pages": links.check,
    }
    failed = False
    for part, check in parts.items():
        found = Findings()
        check(found)
        failed |= bool(found.sentences)
        print(f"  {part}: {found.passed} checks passed" + (f", {len(found.sentences)} failed:" if found.sentences else ""))
        for sentence in found.sentences:
            print(f"    - {sentence}")
    sys.exit(1 if failed else 0)


main()
