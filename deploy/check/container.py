"""The Dockerfile, as far as can be seen without building it."""

from findings import DEPLOY, ROOT

CHART = DEPLOY / "helm" / "holdfast"


def check(found):
    """It builds what is locked, runs as the user that the chart expects, and gets no more than it needs."""
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    last = text.rpartition("FROM ")[2]
    found.require(sum(line.startswith("FROM ") for line in lines) == 2, "the image holds what it was built with")
    found.require("cargo build --locked --release" in text, "the image is not built from the lock file")
    found.require("USER 65532:65532" in last, "the image runs as another user than the chart says")
    found.require("runAsUser: 65532" in (CHART / "templates" / "_pod.tpl").read_text(), "the chart runs it as another user than the image")
    found.require('ENTRYPOINT ["/usr/bin/holdfast"]' in last, "the chart's args go to another program")
    found.require("ca-certificates" in last, "the image trusts no CA")
    needed = ["!Cargo.toml", "!Cargo.lock", "!crates"]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    found.require("*" in ignored and all(line in ignored for line in needed), ".dockerignore lets secrets in, or the sources out")
    wanted = text.partition("FROM rust:")[2].partition("-")[0]
    least = (ROOT / "Cargo.toml").read_text().partition('rust-version = "')[2].partition('"')[0]
    newer = [int(part) for part in wanted.split(".")] >= [int(part) for part in least.split(".")]
    found.require(newer, f"the image is built with Rust {wanted}, and {least} is needed")
