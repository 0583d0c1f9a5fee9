"""The HAProxy example: HAProxy itself judges it, with certificates made for the occasion."""

import shutil
import tempfile
from pathlib import Path

from findings import DEPLOY, run

EXAMPLE = DEPLOY / "haproxy" / "haproxy.cfg"


def check(found):
    """It is taken without a warning, asks for readiness, and lets challenges through before the redirect."""
    text = EXAMPLE.read_text()
    with tempfile.TemporaryDirectory() as directory:
        pem = Path(directory) / "holdfast.pem"
        if not found.ends_well("a certificate", self_signed(pem)):
            return
        file = Path(directory) / "haproxy.cfg"
        file.write_text(text.replace("/etc/haproxy/holdfast-ca.pem", str(pem)).replace("/etc/haproxy/holdfast.pem", str(pem)))
        haproxy = shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
        if not found.require(haproxy, "haproxy is not installed: ./dev setup"):
            return
        ended = run([haproxy, "-c", "-f", file])
        found.require(ended.returncode == 0, f"haproxy refuses {EXAMPLE.name}:\n{ended.stdout}{ended.stderr}")
        found.require("[WARNING]" not in ended.stderr, f"haproxy warns of {EXAMPLE.name}:\n{ended.stderr}")
    found.require("uri /health/ready" in text, "replicas are not asked whether they are ready")
    found.require("unless for_holdfast" in text, "challenges are redirected")


def self_signed(pem):
    """The command that makes a key and a certificate in one file."""
    return [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
        "-subj", "/CN=holdfast.example.com", "-keyout", pem, "-out", pem,
    ]
