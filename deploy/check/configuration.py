"""The rendered holdfast.toml, judged by holdfast itself with the environment its pod would have."""

import os
import tempfile
from pathlib import Path

from findings import indent, run

# What a Secret may hold, by the variable that takes it.
SECRETS = {
    "HOLDFAST__DATABASE__URL": "postgres://holdfast:secret@db/holdfast",
    "HOLDFAST__COORDINATION__URL": "rediss+sentinel://a:26379,b:26379/mymaster",
    "HOLDFAST__ACME__EAB_KEY_ID": "kid",
    "HOLDFAST__ACME__EAB_HMAC_KEY": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA",
}


def check(found, values, documents, holdfast):
    """Each workload's configuration is good, and means what the manifests say."""
    config = next(d for d in documents if d["kind"] == "ConfigMap" and "holdfast.toml" in d["data"])
    for deployment in (d for d in documents if d["kind"] == "Deployment"):
        pod = deployment["spec"]["template"]["spec"]
        container = pod["containers"][0]
        environment = variables(container, pod)
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "holdfast.toml"
            file.write_text(config["data"]["holdfast.toml"])
            words = [str(file) if word == "/etc/holdfast/holdfast.toml" else word for word in container["args"]]
            ended = run([holdfast, *words, "--check"], env=environment)
        place = f"{values}: {deployment['metadata']['name']}"
        if not found.require(ended.returncode == 0, f"{place}: holdfast refuses its configuration:\n{indent(ended.stderr)}"):
            continue
        told = dict(line.strip().split(maxsplit=1) for line in ended.stdout.splitlines() if line.startswith("  ") and len(line.split()) == 2)
        role = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
        found.require(told.get("role") == role, f"{place}: holdfast understands role {told.get('role')} instead of {role}")
        found.require(told.get("instance") == environment["POD_NAME"], f"{place}: the pod's name is not the instance's")
        found.require(environment["HOLDFAST__SERVER__URL"] in ended.stdout, f"{place}: the replica's URL is not taken over")


def variables(container, pod):
    """The pod's environment, with made-up secrets and addresses."""
    address = "2001:db8::7" if "[$(POD_IP)]" in str(container["env"]) else "10.0.0.7"
    known = {"POD_NAME": "holdfast-api-7", "POD_IP": address}
    environment = {"PATH": os.environ["PATH"]}
    for variable in container["env"]:
        name = variable["name"]
        value = variable.get("value", known.get(name, SECRETS.get(name)))
        for before, text in environment.items():
            value = value.replace(f"$({before})", text)
        environment[name] = value
    return environment
