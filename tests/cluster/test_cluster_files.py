"""Cluster files: what they become, and what is said of those that are wrong.  Nothing is submitted here."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from sdem_dist import ClusterError
from sdem_dist.cli import main
from sdem_dist.cluster import ENVIRONMENT, job_script
from sdem_dist.cluster.jobs import jobqueue, read_settings

pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: pip install 'sdem_dist[jobqueue]'")

DEPLOY = Path(__file__).parents[2] / "deploy"
SLURM = 'jobqueue: {slurm: {cores: 2, processes: 2, memory: 4GiB, walltime: "01:00:00"}}\n'


def written(tmp_path, text: str) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    return path


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
    result = CliRunner().invoke(main, ["train", "no.zarr", "no.model", "--cluster", str(file), "--dry-run"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert set(directives) <= set(lines)
    assert {f"export {name}={value}" for name, value in ENVIRONMENT.items()} <= set(lines)
    command = lines[-1]
    for argument in ("--nworkers 8", "--nthreads 1", "--lifetime 3000s", "--lifetime-stagger 300s", "--host 127.0.0.1"):
        assert argument in command


def test_the_environment_for_shells():
    result = CliRunner().invoke(main, ["cluster", "environment"])
    assert result.output.splitlines() == [f"export {name}={value}" for name, value in ENVIRONMENT.items()]


def test_an_interface_is_used_and_loopback_is_not(tmp_path):
    script = job_script(written(tmp_path, SLURM.replace("cores: 2", "cores: 2, interface: lo")))
    assert "--interface lo" in script
    assert "--host" not in script
    assert "--dashboard-address 127.0.0.1:0" in script


def test_a_lifetime_of_the_command_line_comes_first(tmp_path):
    path = written(tmp_path, "sdem-dist: {lifetime: 2h}\n" + SLURM)
    assert "--lifetime 7200s" in job_script(path)
    assert "--lifetime 90s" in job_script(path, "90s")


def test_defaults(tmp_path):
    settings = read_settings(written(tmp_path, SLURM))
    assert (settings.jobs, settings.wait, settings.lifetime) == (1, 600.0, None)
    assert "--lifetime" not in job_script(settings.path)


def test_certificates_of_the_file(tmp_path):
    pytest.importorskip("trustme", reason="trustme is not installed: pip install 'sdem_dist[tls]'")
    from sdem_dist.cluster.certificates import make_certificates

    make_certificates(tmp_path / "certs")
    script = job_script(written(tmp_path, "sdem-dist: {certificates: certs}\n" + SLURM))
    assert "tls://SCHEDULER:PORT" in script
    assert f"--tls-key {tmp_path}/certs/worker-key.pem" in script
    assert "export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true" in script


@pytest.mark.parametrize(
    ("text", "said"),
    [
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
        (SLURM.replace("cores: 2", 'cores: 2, queue: "debug\\n#SBATCH --wrap=evil"'), "queue: .* as one line"),
        (
            SLURM.replace("cores: 2", 'cores: 2, job-extra-directives: ["--x\\n#SBATCH -y"]'),
            "directives: .* as one line",
        ),
        (SLURM.replace('"01:00:00"', "12:00:00"), "walltime 43200"),
    ],
)
def test_files_that_are_wrong(text, said, tmp_path):
    with pytest.raises(ClusterError, match=said) as error:
        job_script(written(tmp_path, text))
    assert str(tmp_path) in str(error.value)


def test_lines_of_the_shell_are_lines(tmp_path):
    text = SLURM.replace("cores: 2", 'cores: 2, job-script-prologue: ["module load a\\nmodule load b"]')
    assert "module load a\nmodule load b" in job_script(written(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ClusterError, match=r"absent\.yaml cannot be read"):
        job_script(tmp_path / "absent.yaml")


def test_jobqueue_leaves_the_interrupt_signal_alone():
    before = signal.getsignal(signal.SIGINT)
    jobqueue()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(
    "options",
    [
        ["--dry-run"],
        ["--lifetime", "1h"],
        ["--cluster", "a.yaml", "--workers", "2"],
        ["--cluster", "a.yaml", "--scheduler", "tcp://127.0.0.1:1"],
        ["--cluster", "tcp://127.0.0.1:1", "--dry-run"],
    ],
)
def test_options_that_do_not_go_together(options, tmp_path):
    result = CliRunner().invoke(main, ["train", "no.zarr", str(tmp_path / "no.model"), *options])
    assert result.exit_code == 2, result.output
    assert "--cluster" in result.output
