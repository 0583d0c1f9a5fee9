"""What every rendering of the chart must have, beyond being valid."""

import re
import tomllib

import jsonschema

import ending

# A node may be slow.
SLACK = 10

SECRET_NAMES = re.compile(r"PASSWORD|TOKEN|SECRET|HMAC|MASTER_KEY|DATABASE__URL|COORDINATION__URL")
SECRET_KEYS = [("database", "url"), ("coordination", "url"), ("security", "master_key"), ("security", "admin_token"), ("acme", "eab_hmac_key")]

# Enough of the Prometheus operator's schema to catch a slip.
FOREIGN = {
    "ServiceMonitor": {
        "type": "object", "required": ["selector", "endpoints"], "additionalProperties": False,
        "properties": {
            "jobLabel": {"type": "string"},
            "selector": {"type": "object", "required": ["matchLabels"]},
            "endpoints": {"type": "array", "minItems": 1, "items": {
                "type": "object", "required": ["port", "path", "interval"], "additionalProperties": False,
                "properties": {
                    "port": {"type": "string"}, "path": {"const": "/metrics"}, "interval": {"type": "string"},
                    "scheme": {"enum": ["http", "https"]}, "tlsConfig": {"type": "object"},
                },
            }},
        },
    },
    "PrometheusRule": {
        "type": "object", "required": ["groups"], "additionalProperties": False,
        "properties": {"groups": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["name", "rules"], "properties": {"rules": {"type": "array", "minItems": 1}},
        }}},
    },
}


def check_foreign(found, place, document):
    """A manifest of a kind that Kubernetes itself does not know."""
    schema = FOREIGN.get(document["kind"])
    if not found.require(schema, f"{place}: nobody checks this kind"):
        return
    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(document["spec"]))
    found.require(not errors, f"{place}: {[error.message for error in errors]}")


def check(found, values, documents):
    """Everything in one rendering."""
    deployments = [d for d in documents if d["kind"] == "Deployment"]
    text = next(d for d in documents if d["kind"] == "ConfigMap" and "holdfast.toml" in d["data"])["data"]["holdfast.toml"]
    try:
        config = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found.require(False, f"{values}: the ConfigMap's holdfast.toml is not TOML: {error}")
        return
    found.require(deployments, f"{values}: no Deployment")
    for deployment in deployments:
        place = f"{values}: {deployment['metadata']['name']}"
        pod = deployment["spec"]["template"]["spec"]
        grace(found, place, pod, config)
        probes(found, place, pod)
        hardened(found, place, pod)
        placed(found, place, deployment)
        identity(found, place, pod)
    no_plain_secret(found, values, documents, config)
    selectors(found, values, documents, deployments)


def grace(found, place, pod, config):
    stop, least = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"], config["server"]["drain_seconds"]
    least += stop + ending.after_drain() + SLACK
    given = pod["terminationGracePeriodSeconds"]
    found.require(given >= least, f"{place}: killed {given} s after it was asked to end; preStop, drain, the end and {SLACK} s to spare take {least} s")


def probes(found, place, pod):
    container = pod["containers"][0]
    for kind, path in [("startupProbe", "startup"), ("livenessProbe", "live"), ("readinessProbe", "ready")]:
        asked = container.get(kind, {}).get("httpGet", {}).get("path")
        found.require(asked == f"/health/{path}", f"{place}: {kind} asks {asked} instead of /health/{path}")


def hardened(found, place, pod):
    container, inner = pod["securityContext"], pod["containers"][0]["securityContext"]
    wanted = [
        (container.get("runAsNonRoot"), "runAsNonRoot"),
        (container.get("runAsUser", 0) > 0, "runAsUser above 0"),
        (container.get("seccompProfile") == {"type": "RuntimeDefault"}, "seccompProfile RuntimeDefault"),
        (inner.get("readOnlyRootFilesystem"), "readOnlyRootFilesystem"),
        (inner.get("allowPrivilegeEscalation") is False, "allowPrivilegeEscalation: false"),
        (inner.get("capabilities") == {"drop": ["ALL"]}, "capabilities dropped"),
        (pod.get("automountServiceAccountToken") is False, "automountServiceAccountToken: false"),
        (pod.get("enableServiceLinks") is False, "enableServiceLinks: false"),
        ("memory" in pod["containers"][0]["resources"].get("limits", {}), "a memory limit"),
    ]
    for holds, what in wanted:
        found.require(holds, f"{place}: without {what}")


def placed(found, place, deployment):
    """Spread over zones and nodes, never fewer than asked for during a rollout."""
    pod, labels = deployment["spec"]["template"]["spec"], deployment["spec"]["template"]["metadata"]["labels"]
    keys = {constraint["topologyKey"] for constraint in pod.get("topologySpreadConstraints", [])}
    found.require(keys == {"topology.kubernetes.io/zone", "kubernetes.io/hostname"}, f"{place}: spread over {keys}")
    for constraint in pod.get("topologySpreadConstraints", []):
        found.require(matches(constraint["labelSelector"]["matchLabels"], labels), f"{place}: its spread counts other pods")
    rollout = deployment["spec"]["strategy"]["rollingUpdate"]
    found.require(rollout == {"maxSurge": 1, "maxUnavailable": 0}, f"{place}: a rollout may leave fewer than wanted")
    found.require("checksum/config" in deployment["spec"]["template"]["metadata"]["annotations"], f"{place}: a changed configuration starts no rollout")


def identity(found, place, pod):
    variables = {variable["name"]: variable for variable in pod["containers"][0]["env"]}
    fields = {name: variables.get(name, {}).get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") for name in ("POD_NAME", "POD_IP")}
    found.require(fields == {"POD_NAME": "metadata.name", "POD_IP": "status.podIP"}, f"{place}: its identity is {fields}")
    names = list(variables)
    found.require(names.index("POD_IP") < names.index("HOLDFAST__SERVER__URL"), f"{place}: $(POD_IP) is used before it is set")


def no_plain_secret(found, values, documents, config):
    found.require(not [d for d in documents if d["kind"] == "Secret"], f"{values}: the chart makes a Secret; it may only name them")
    for section, key in SECRET_KEYS:
        found.require(key not in config.get(section, {}), f"{values}: {section}.{key} stands in the ConfigMap")
    for deployment in (d for d in documents if d["kind"] == "Deployment"):
        for variable in deployment["spec"]["template"]["spec"]["containers"][0]["env"]:
            plain = SECRET_NAMES.search(variable["name"]) and "value" in variable
            found.require(not plain, f"{values}: {variable['name']} stands in the manifest")


def selectors(found, values, documents, deployments):
    """Whatever selects pods finds those it means."""
    pods = {d["metadata"]["name"]: d["spec"]["template"]["metadata"]["labels"] for d in deployments}

    def selected(wanted):
        return sorted(name for name, labels in pods.items() if matches(wanted, labels))

    kinds = {kind: [d for d in documents if d["kind"] == kind] for kind in ("Service", "PodDisruptionBudget", "NetworkPolicy")}
    budgets = {d["metadata"]["name"]: selected(d["spec"]["selector"]["matchLabels"]) for d in kinds["PodDisruptionBudget"]}
    found.require(budgets == {name: [name] for name in pods}, f"{values}: PodDisruptionBudgets cover {budgets}")
    services = {d["metadata"]["name"]: selected(d["spec"]["selector"]) for d in kinds["Service"]}
    front = [name for name in pods if not name.endswith("-worker")]
    found.require(services == {"try-holdfast": front, "try-holdfast-replicas": sorted(pods)}, f"{values}: Services reach {services}")
    for policy in kinds["NetworkPolicy"]:
        reached = selected(policy["spec"]["podSelector"]["matchLabels"])
        found.require(reached == sorted(pods), f"{values}: the NetworkPolicy covers {reached}")
    for ingress in (d for d in documents if d["kind"] == "Ingress"):
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                service = path["backend"]["service"]
                found.require(service == {"name": "try-holdfast", "port": {"name": "api"}}, f"{values}: an Ingress leads to {service}")
    for monitor in (d for d in documents if d["kind"] == "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        found_services = [d["metadata"]["name"] for d in kinds["Service"] if matches(wanted, d["metadata"]["labels"])]
        found.require(found_services == ["try-holdfast-replicas"], f"{values}: the ServiceMonitor watches {found_services}")


def matches(wanted, labels):
    return all(labels.get(key) == value for key, value in wanted.items())
