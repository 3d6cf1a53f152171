"""Files under deploy, cluster files, certificates, and what batch systems say about jobs. Nothing is submitted here."""

import os
import signal
import ssl
import sys
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.commands import ok, refused, run

from sdem_dist import ClusterError
from sdem_dist.cluster import ENVIRONMENT, batch_jobs, job_script
from sdem_dist.cluster.jobs import LINES, configured, job_status, log_of_job

pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: pip install 'sdem_dist[jobqueue]'")

DEPLOY = Path(__file__).parents[2] / "deploy"
OPTIONS = 'cores: 2, processes: 2, memory: 4GiB, walltime: "01:00:00"'
SLURM = f"jobqueue: {{slurm: {{{OPTIONS}}}}}\n"


def written(tmp_path, text: str) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    return path


def slurm(more: str) -> str:
    return f"jobqueue: {{slurm: {{{OPTIONS}, {more}}}}}\n"


@pytest.mark.parametrize(("system", "directives"), [
    ("slurm", ["#SBATCH --cpus-per-task=8", "#SBATCH --mem=24G", "#SBATCH -t 01:00:00"]),
    ("pbs", ["#PBS -l select=1:ncpus=8:mem=24GB", "#PBS -l walltime=01:00:00"]),
    ("sge", ["#$ -pe smp 8", "#$ -l h_vmem=3G", "#$ -l h_rt=01:00:00"]),
    ("lsf", ["#BSUB -n 8", "#BSUB -M 25770", "#BSUB -W 01:00"]),
])  # fmt: skip
def test_the_files_under_deploy(system, directives, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("train no.zarr no.model --dry-run --cluster", DEPLOY / system / f"{system}.yaml")
    assert result.exit_code == 0 and "number of jobs: 4." in result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "#!/usr/bin/env bash" and set(directives) <= set(lines)
    exports = [f"export {name}={value}" for name, value in ENVIRONMENT.items()]
    assert set(exports) <= set(lines) and ok("cluster environment").splitlines() == exports
    assert "export DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=False" in exports
    for argument in ("--nworkers 8", "--nthreads 1", "--lifetime 3000s", "--lifetime-stagger 300s", "--host 127.0.0.1"):
        assert argument in lines[-1]


@pytest.mark.parametrize(("text", "lifetime", "present", "absent"), [
    (SLURM, None, ["#SBATCH --cpus-per-task=2"], ["--lifetime"]),
    (slurm("interface: lo"), None, ["--interface lo", "--dashboard-address 127.0.0.1:0"], ["--host"]),
    (slurm("scheduler-options: {interface: lo}"), None, ["--host 127.0.0.1"], []),
    ("sdem-dist: {lifetime: 2h}\n" + SLURM, None, ["--lifetime 7200s"], []),
    ("sdem-dist: {lifetime: 2h}\n" + SLURM, "90s", ["--lifetime 90s"], ["7200s"]),
    (slurm('job-script-prologue: ["module load a\\nmodule load b"]'), None, ["module load a\nmodule load b"], []),
], ids=["defaults", "interface", "scheduler", "lifetime", "lifetime of the command line", "lines of the shell"])  # fmt: skip
def test_what_a_file_becomes(text, lifetime, present, absent, tmp_path):
    path = written(tmp_path, text)
    script, said = job_script(path, lifetime, (warnings := list[str]()).append), str(warnings)
    assert all(part in script for part in present) and not any(part in script for part in absent)
    assert ("no interface" in said, "no certificates" in said) == ("--host" in script, "interface: lo" in text)
    with configured(path, None, print) as (settings, *_):
        assert (settings.jobs, settings.wait_for_workers) == (1, 600.0)
    with pytest.raises(ClusterError, match="yaml.*'foo' is not a duration"):
        job_script(path, "foo")


@pytest.mark.parametrize(("text", "said"), [
    (None, "cluster.yaml cannot be read"), ("[1, 2", "cluster.yaml cannot be read"),
    ("just words", "cannot be read: Expected object"),
    ("sdem-dist: {jobs: 2}", "must contain exactly one of slurm, pbs, sge, lsf"),
    ("jobqueue: {slurm: {}, pbs: {}}", "must contain exactly one of slurm, pbs, sge, lsf"),
    ("jobqueue: [slurm]", "jobqueue: Expected object, got array"),
    ("jobqueue: {slurm: {wall-time: 1}}", "unknown option wall-time"),
    ("sdem-dist: {job: 2}\n" + SLURM, "unknown field job"),
    ("sdem-dist: {jobs: many}\n" + SLURM, "sdem-dist.jobs: Expected int, got str"),
    ("sdem-dist: {lifetime: soon}\n" + SLURM, "lifetime: 'soon' is not a duration"),
    ("sdem-dist: {wait-for-workers: 0}\n" + SLURM, "wait-for-workers: 0 is not a duration"),
    ("sdem-dist: {certificates: absent}\n" + SLURM, "tls.yaml does not exist"),
    (slurm('queue: "debug\\n#SBATCH --wrap=evil"'), "queue: .* use a single line"),
    (slurm('job-extra-directives: ["--x\\n#SBATCH -y"]'), "directives: .* use a single line"),
    (SLURM.replace('"01:00:00"', "12:00:00"), "YAML converts it to 43200"),
    (slurm("interface: absent"), "'absent' is not .*: correct interface or scheduler-options"),
])  # fmt: skip
def test_files_that_are_wrong(text, said, tmp_path):
    path = tmp_path / "cluster.yaml" if text is None else written(tmp_path, text)
    with pytest.raises(ClusterError, match=said) as error, batch_jobs(path):
        pass
    assert str(tmp_path) in str(error.value)


def test_jobqueue_leaves_the_interrupt_signal_alone(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("dask_jobqueue")]:
        monkeypatch.delitem(sys.modules, name)
    before = signal.getsignal(signal.SIGINT)
    job_script(written(tmp_path, SLURM))
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("options", ["--dry-run", "--lifetime 1h", "--cluster a.yaml --workers 2",
    "--cluster a.yaml --scheduler tcp://127.0.0.1:1", "--cluster tcp://127.0.0.1:1 --dry-run"])  # fmt: skip
def test_options_that_do_not_go_together(options):
    assert "--cluster" in refused(f"train no.zarr no.model {options}", code=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("trustme", reason="trustme is not installed: pip install 'sdem_dist[tls]'")
    folder = tmp_path_factory.mktemp("tls") / "certs"
    assert str(folder / "tls.yaml") in ok("cluster certificates", folder, "--days", "3")
    return folder


def test_only_the_owner_reads_them_and_the_authoritys_key_is_not_kept(folder):
    from cryptography import x509

    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    keys = [path.name for path in folder.iterdir() if "PRIVATE KEY" in path.read_text()]
    assert sorted(keys) == ["client-key.pem", "scheduler-key.pem", "worker-key.pem"]
    certificate = x509.load_pem_x509_certificate((folder / "worker.pem").read_bytes())
    assert timedelta(days=2) < certificate.not_valid_after_utc - datetime.now(UTC) <= timedelta(days=3)
    before = (folder / "ca.pem").read_bytes()
    assert "already exists" in refused("cluster certificates", folder)
    assert "cannot be created" in refused("cluster certificates", folder / "absent" / "certs")
    assert (folder / "ca.pem").read_bytes() == before


@pytest.mark.parametrize("role", ["scheduler", "worker", "client"])
def test_dask_loads_them(folder, role):
    import dask
    from distributed.security import Security

    settings = dask.config.collect([str(folder / "tls.yaml")], env={})
    with dask.config.set(dask.config.merge(dask.config.config, settings)):
        security = Security()
        assert security.require_encryption
        context = security.get_connection_args(role)["ssl_context"]
    assert context.verify_mode == ssl.CERT_REQUIRED and [ca["subject"] for ca in context.get_ca_certs()]
    file = folder.parent / "cluster.yaml"
    file.write_text("sdem-dist: {certificates: certs}\n" + SLURM)
    script = job_script(file)
    assert "tls://SCHEDULER:PORT" in script and f"--tls-key {folder}/worker-key.pem" in script
    assert "export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true" in script


@pytest.mark.parametrize(("system", "command", "status", "answer", "over"), [
    ("slurm", "squeue", 0, "job 7 is PENDING (reason: Resources)", False),
    ("slurm", "squeue", 0, "job 7 is TIMEOUT (reason: TimeLimit) n1", True),
    ("slurm", "squeue", 0, "", True),  # it is forgotten
    ("slurm", "squeue", 1, "slurm_load_jobs error: Invalid job id specified", True),
    ("slurm", "squeue", 1, "slurm_load_jobs error: Unable to contact slurm controller", None),
    ("slurm", None, 1, "squeue failed", None),
    ("pbs", "qstat", 0, "Job Id: 7\n    job_state = Q\n    comment = Not Running: no node", False),
    ("pbs", "qstat", 0, "Job Id: 7\n    job_state = F", True),
    ("sge", "qstat", 0, "job_number:   7\nscheduling info:   cannot run", False),
    ("lsf", "bjobs", 0, "Job <7>, Status <PEND>", False),
    ("lsf", "bjobs", 0, "Job <7>, Status <EXIT>", True),
])  # fmt: skip
def test_an_answer(system, command, status, answer, over, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}" if command else "/nowhere")
    (tmp_path / "answer").write_text(answer)
    script = tmp_path / (command or "none")
    script.write_text(f"#!/bin/sh\ncat {tmp_path}/answer {'>&2' if status else ''}\nexit {status}\n")
    script.chmod(0o755)
    said, found = job_status(system, "7")
    assert found is over
    assert "\n".join(line.strip() for line in answer.splitlines()) in said
    assert answer or said == "job 7 is not in the queue"


def test_logs_are_found_by_the_jobs_id(tmp_path):
    (tmp_path / "sdem-7.err").write_text("\n".join(f"line {i}" for i in range(100)))
    (tmp_path / "sdem-77.err").write_text("another job's")
    (tmp_path / "sdem-7.out").write_text("")
    (tmp_path / "notes-7.txt").write_text("no log")
    found = log_of_job("7", str(tmp_path), "sdem").splitlines()
    assert (found[0], found[-1], len(found)) == (f"{tmp_path}/sdem-7.err:", "line 99", 1 + LINES)
    assert log_of_job("7", str(tmp_path / "absent")) == ""
    for name in ("slurm-8.out", "dask-worker.o8", "dask-worker.e8", "dask-worker-8.err", "dask-worker.8.server.OU"):
        (tmp_path / name).write_text(f"from {name}")
    assert log_of_job("8.server", str(tmp_path)).count("from ") == 5


KUBERNETES = Path(__file__).parents[2] / "deploy" / "kubernetes" / "cluster.yaml"
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
    assert f"{definition['spec']['group']}/{version['name']}" == of_kubernetes()["apiVersion"]
    assert definition["spec"]["names"]["kind"] == of_kubernetes()["kind"]
    found: dict[str, Any] = strict(version["schema"]["openAPIV3Schema"])
    found["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {}}
    return found


def of_kubernetes() -> dict[str, Any]:
    return next(iter(yaml.safe_load_all(KUBERNETES.read_text())))


def test_workers_have_the_environment_of_the_package():
    (container,) = of_kubernetes()["spec"]["worker"]["spec"]["containers"]
    assert {variable["name"]: variable["value"] for variable in container["env"]} == ENVIRONMENT


def test_the_policy_lets_in_the_cluster_and_its_clients_only():
    policy = list(yaml.safe_load_all(KUBERNETES.read_text()))[1]
    assert policy["kind"] == "NetworkPolicy"
    assert policy["spec"]["podSelector"]["matchLabels"]["dask.org/cluster-name"] == of_kubernetes()["metadata"]["name"]
    assert all(source["podSelector"]["matchLabels"] for rule in policy["spec"]["ingress"] for source in rule["from"])


def test_the_file_fits_and_a_misspelt_name_would_not(schema):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    jsonschema.validate(of_kubernetes(), schema)
    for where, name in (("worker", "replica"), ("scheduler", "servise")):
        wrong = of_kubernetes()
        wrong["spec"][where][name] = 3
        with pytest.raises(jsonschema.ValidationError, match=name):
            jsonschema.validate(wrong, schema)
