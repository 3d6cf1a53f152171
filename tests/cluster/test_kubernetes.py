"""The file for Kubernetes against the schema that the operator of dask-kubernetes publishes."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from sdem_dist.cluster import ENVIRONMENT

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")

FILE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "cluster.yaml"
CRDS = "operator/deployment/helm/dask-kubernetes-operator/crds/daskcluster.yaml"


def strict(schema: Any) -> Any:
    """Refuse what a schema does not name; Kubernetes would drop it in silence."""
    if isinstance(schema, list):
        return [strict(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(value) for name, value in schema.items()}
    if "properties" in schema and isinstance(schema["properties"], dict) and schema.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    spec = find_spec("dask_kubernetes")
    if spec is None or spec.origin is None:
        pytest.skip("dask-kubernetes, which has the schema, is not installed: pip install --no-deps dask-kubernetes")
    definition = yaml.safe_load((Path(spec.origin).parent / CRDS).read_text())
    (version,) = definition["spec"]["versions"]
    assert f"{definition['spec']['group']}/{version['name']}" == cluster()["apiVersion"]
    assert definition["spec"]["names"]["kind"] == cluster()["kind"]
    found: dict[str, Any] = strict(version["schema"]["openAPIV3Schema"])
    found["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {}}
    return found


def cluster() -> dict[str, Any]:
    return next(iter(yaml.safe_load_all(FILE.read_text())))


def test_the_file_fits(schema):
    jsonschema.validate(cluster(), schema)


@pytest.mark.parametrize(("where", "name"), [("worker", "replica"), ("scheduler", "servise")])
def test_a_misspelt_name_would_not(schema, where, name):
    wrong = cluster()
    wrong["spec"][where][name] = 3
    with pytest.raises(jsonschema.ValidationError, match=name):
        jsonschema.validate(wrong, schema)


def test_workers_have_the_environment_of_the_package():
    (container,) = cluster()["spec"]["worker"]["spec"]["containers"]
    assert {variable["name"]: variable["value"] for variable in container["env"]} == ENVIRONMENT


def test_the_policy_lets_in_the_cluster_and_its_clients_only():
    policy = list(yaml.safe_load_all(FILE.read_text()))[1]
    assert policy["kind"] == "NetworkPolicy"
    assert policy["spec"]["podSelector"]["matchLabels"]["dask.org/cluster-name"] == cluster()["metadata"]["name"]
    assert all(source["podSelector"]["matchLabels"] for rule in policy["spec"]["ingress"] for source in rule["from"])
