"""Cluster files: what they become, and what is said of those that are wrong.  Nothing is submitted here."""

import signal
from pathlib import Path

import pytest
from cli.commands import ok, refused

from sdem_dist import ClusterError
from sdem_dist.cluster import ENVIRONMENT, job_script
from sdem_dist.cluster.jobs import jobqueue, read_settings

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


@pytest.mark.parametrize(
    ("system", "directives"),
    [
        ("slurm", ["#SBATCH --cpus-per-task=8", "#SBATCH --mem=24G", "#SBATCH -t 01:00:00"]),
        ("pbs", ["#PBS -l select=1:ncpus=8:mem=24GB", "#PBS -l walltime=01:00:00"]),
        ("sge", ["#$ -pe smp 8", "#$ -l h_vmem=3G", "#$ -l h_rt=01:00:00"]),
        ("lsf", ["#BSUB -n 8", "#BSUB -M 25770", "#BSUB -W 01:00"]),
    ],
)
def test_the_files_under_deploy(system, directives, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = DEPLOY / system / f"{system}.yaml"
    lines = ok("train no.zarr no.model --dry-run --cluster", file).splitlines()
    assert lines[0] == "#!/usr/bin/env bash" and set(directives) <= set(lines)
    exports = [f"export {name}={value}" for name, value in ENVIRONMENT.items()]
    assert set(exports) <= set(lines) and ok("cluster environment").splitlines() == exports
    for argument in ("--nworkers 8", "--nthreads 1", "--lifetime 3000s", "--lifetime-stagger 300s", "--host 127.0.0.1"):
        assert argument in lines[-1]


@pytest.mark.parametrize(
    ("text", "lifetime", "present", "absent"),
    [
        (SLURM, None, ["#SBATCH --cpus-per-task=2"], ["--lifetime"]),
        (slurm("interface: lo"), None, ["--interface lo", "--dashboard-address 127.0.0.1:0"], ["--host"]),
        ("sdem-dist: {lifetime: 2h}\n" + SLURM, None, ["--lifetime 7200s"], []),
        ("sdem-dist: {lifetime: 2h}\n" + SLURM, "90s", ["--lifetime 90s"], ["7200s"]),
        (slurm('job-script-prologue: ["module load a\\nmodule load b"]'), None, ["module load a\nmodule load b"], []),
    ],
    ids=["defaults", "interface", "lifetime", "lifetime of the command line", "lines of the shell"],
)
def test_what_a_file_becomes(text, lifetime, present, absent, tmp_path):
    path = written(tmp_path, text)
    script = job_script(path, lifetime)
    assert all(part in script for part in present) and not any(part in script for part in absent)
    settings = read_settings(path)
    assert (settings.jobs, settings.wait) == (1, 600.0)


def test_certificates_of_the_file(tmp_path):
    pytest.importorskip("trustme", reason="trustme is not installed: pip install 'sdem_dist[tls]'")
    ok("cluster certificates", tmp_path / "certs")
    script = job_script(written(tmp_path, "sdem-dist: {certificates: certs}\n" + SLURM))
    assert "tls://SCHEDULER:PORT" in script and f"--tls-key {tmp_path}/certs/worker-key.pem" in script
    assert "export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true" in script


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cluster.yaml cannot be read"),
        ("[1, 2", "cluster.yaml cannot be read"),
        ("just words", "cannot be read: Expected `object`"),
        ("sdem-dist: {jobs: 2}", "needs one of slurm, pbs, sge, lsf"),
        ("jobqueue: {slurm: {}, pbs: {}}", "needs one of slurm, pbs, sge, lsf"),
        ("jobqueue: [slurm]", "Expected `object`, got `array`"),
        ("jobqueue: {slurm: {wall-time: 1}}", "there is no option wall-time"),
        ("sdem-dist: {job: 2}\n" + SLURM, "unknown field `job`"),
        ("sdem-dist: {jobs: many}\n" + SLURM, "Expected `int`, got `str`"),
        ("sdem-dist: {lifetime: soon}\n" + SLURM, "lifetime: 'soon' is not a time"),
        ("sdem-dist: {wait-for-workers: 0}\n" + SLURM, "wait-for-workers: 0 is not a time"),
        ("sdem-dist: {certificates: absent}\n" + SLURM, "tls.yaml does not exist"),
        (slurm('queue: "debug\\n#SBATCH --wrap=evil"'), "queue: .* as one line"),
        (slurm('job-extra-directives: ["--x\\n#SBATCH -y"]'), "directives: .* as one line"),
        (SLURM.replace('"01:00:00"', "12:00:00"), "walltime 43200"),
    ],
)
def test_files_that_are_wrong(text, said, tmp_path):
    path = tmp_path / "cluster.yaml" if text is None else written(tmp_path, text)
    with pytest.raises(ClusterError, match=said) as error:
        job_script(path)
    assert str(tmp_path) in str(error.value)


def test_jobqueue_leaves_the_interrupt_signal_alone():
    before = signal.getsignal(signal.SIGINT)
    jobqueue()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    "options",
    ["--dry-run", "--lifetime 1h", "--cluster a.yaml --workers 2", "--cluster a.yaml --scheduler tcp://127.0.0.1:1",
     "--cluster tcp://127.0.0.1:1 --dry-run"],
)  # fmt: skip
def test_options_that_do_not_go_together(options):
    assert "--cluster" in refused(f"train no.zarr no.model {options}", code=2)
