"""The Helm chart: linted, rendered for each file in ci/, judged by Kubernetes' schemas, by holdfast itself and by us."""

import json
import re
import shutil
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml

import configuration
import manifests
from findings import DEPLOY, ROOT, run

CHART = DEPLOY / "helm" / "holdfast"
VERSIONS = ["1.30", "1.33", kubernetes_validate.latest_version()]

# Values that must be refused, and a word of the refusal.
REFUSED = [
    ("config.acme.directroy=x", "directroy"),
    ("config.acme.directory=http://ca.example/dir", "config.acme.directory"),
    ("config.database.url=postgres://u:p@h/d", "database"),
    ("config.security.master_key=YQ==", "master_key"),
    ("config.server.drain_seconds=3", "drain_seconds"),
    ("config.edge.mode=builtin", "config.edge.mode"),
    ("config.acme.agree_terms=false", "terms"),
    ("config.dns.targets=null", "config.dns"),
    ("config.coordination.backend=redis", "redis.existingSecret"),
    ("redis.existingSecret=redis", "config.coordination.backend"),
    ("drainSeconds=-1", "drainSeconds"),
    ("drainSeconds=soon", "drainSeconds"),
    ("roles=boss", "roles"),
    ("api.replicas=0", "api.replicas"),
    ("image.repository=", "deploy/docker/Dockerfile"),
    ("image.digest=sha256:abc", "image.digest"),
    ("database.existingSecret=", "database.existingSecret"),
    ("masterKey.existingSecret=", "masterKey.existingSecret"),
    ("masterKey.value=YQ==", "value"),
    ("adminToken.existingSecret=", "adminToken.existingSecret"),
    ("redisRoot.existingConfigMap=redis-ca", "redisRoot.existingConfigMap"),
    ("ingress.host=holdfast.example.com", "ingress.tlsSecret"),
    ("networkPolicy.enabled=true", "networkPolicy.from"),
    ("podDisruptionBudget.maxUnavailable=0", "maxUnavailable"),
    ("tls.existingSecret=t,config.server.writes=forward", "replicaUrl"),
    ("config.server.writes=forward", "allow_plaintext"),
    ("extraEnv[0].name=HOLDFAST__SECURITY__MASTER_KEY,extraEnv[0].value=x", "extraEnv"),
]

# Keys of holdfast.toml that the chart sets itself, takes from a Secret, or does not offer.
NOT_IN_VALUES = {
    "server.listen", "server.url", "server.role", "server.drain_seconds", "server.tls_certificate", "server.tls_key",
    "server.root_certificate",
    "database.url", "coordination.url", "coordination.root_certificate", "acme.root_certificate", "acme.issuer_roots",
    "acme.eab_key_id", "acme.eab_hmac_key",
    "security.master_key_file", "security.master_key", "security.admin_token", "security.admin_token_file",
    # Probes bring no client certificate.
    "server.client_ca",
    # A pod's name is its instance id.
    "replicas.instance_id",
    # The built-in edge needs a name and an address that outlive a pod.
    "edge.name", "edge.http", "edge.https", "edge.redirect_port", "edge.upstream",
    # Private keys pass this listener in the clear: it belongs on the machine of who pulls.
    "edge.pull",
}


def check(found, helm, holdfast):
    """Everything about the chart."""
    found.ends_well("the chart with nothing set", [helm, "lint", CHART])
    files = sorted(CHART.glob("ci/*-values.yaml"))
    found.require(files, f"{CHART}/ci holds no values files")
    for values in files:
        found.ends_well(values.name, [helm, "lint", "--strict", CHART, "--values", values])
        rendered = run([helm, "template", "try", CHART, "--namespace", "here", "--values", values])
        if not found.require(rendered.returncode == 0, f"{values.name}: cannot be rendered:\n{rendered.stderr}"):
            continue
        documents = [document for document in yaml.safe_load_all(rendered.stdout) if document]
        validate(found, values.name, documents)
        manifests.check(found, values.name, documents)
        configuration.check(found, values.name, documents, holdfast)
    refusals(found, helm)
    notes(found, helm)
    keys(found)


def validate(found, values, documents):
    """Every manifest against the schemas of several releases of Kubernetes, unknown fields refused."""
    for document in documents:
        place = f"{values}: {document['kind']} {document['metadata']['name']}"
        if document["apiVersion"].startswith("monitoring.coreos.com/"):
            manifests.check_foreign(found, place, document)
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(document, version, strict=True)
                found.require(True, "")
            except kubernetes_validate.ValidationError as error:
                found.require(False, f"{place} is not valid in Kubernetes {version}: {'.'.join(map(str, error.path))}: {error.message}")


def refusals(found, helm):
    """Bad values are refused with a sentence that names them."""
    minimal = CHART / "ci" / "minimal-values.yaml"
    for setting, word in REFUSED:
        ended = run([helm, "template", "try", CHART, "--values", minimal, "--set", setting])
        found.require(ended.returncode != 0, f"--set {setting} is accepted, and must be refused")
        found.require(word in ended.stderr, f"--set {setting} is refused without naming `{word}`: {ended.stderr.strip()}")


def notes(found, helm):
    """What is shown after an installation. Helm renders it for nobody else, so a copy of the chart has it as a value."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "holdfast"
        shutil.copytree(CHART, copy)
        (copy / "templates" / "NOTES.txt").rename(copy / "files" / "NOTES.txt")
        (copy / "templates" / "notes.yaml").write_text('notes: {{ tpl (.Files.Get "files/NOTES.txt") . | toJson }}')
        minimal = CHART / "ci" / "minimal-values.yaml"
        ended = run([helm, "template", "try", copy, "--values", minimal, "--show-only", "templates/notes.yaml"])
    if found.require(ended.returncode == 0, f"NOTES.txt cannot be rendered: {ended.stderr.strip()}"):
        shown = yaml.safe_load(ended.stdout)["notes"]
        for words in ("holdfast replica list", '{{index .data "admin.token" | base64decode}}', "staging"):
            found.require(words in shown, f"NOTES.txt does not say `{words}`:\n{shown}")


def keys(found):
    """The schema knows every key of holdfast.toml, and no other."""
    table = (ROOT / "crates/holdfast/src/config/keys.rs").read_text()
    known = set(re.findall(r'\b(?:key|secret|number)\(\s*"([a-z0-9_]+\.[a-z0-9_]+)"', table))
    found.require(len(known) > 40, "crates/holdfast/src/config/keys.rs is not written as it was; mend the pattern in deploy/check/chart.py")
    schema = json.loads((CHART / "values.schema.json").read_text())
    sections = schema["properties"]["config"]["properties"]
    offered = {f"{section}.{key}" for section, of in sections.items() for key in of["properties"]}
    for key in sorted(known - offered - NOT_IN_VALUES):
        found.require(False, f"{key} is a key of holdfast.toml that values.schema.json does not know: add it under `config`, or to NOT_IN_VALUES in deploy/check/chart.py with the reason")
    for key in sorted((offered | NOT_IN_VALUES) - known):
        found.require(False, f"{key} is in the chart's schema or NOT_IN_VALUES, but is no key of holdfast.toml")
    found.require(not offered & NOT_IN_VALUES, f"in the schema and in NOT_IN_VALUES: {sorted(offered & NOT_IN_VALUES)}")
