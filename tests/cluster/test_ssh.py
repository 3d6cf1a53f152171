"""The SSH example, with an SSH server of its own on this machine."""

import os
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from faults.clusters import wait_until
from reference.random_documents import random_counts
from reference.trained_bits import bits

from sdem_dist import MultinomialNB, load_model, write_corpus

SCRIPT = Path(__file__).parents[2] / "deploy" / "ssh" / "train.py"
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

pytest.importorskip("asyncssh", reason="asyncssh is not installed: pip install 'sdem_dist[ssh]'")
pytestmark = pytest.mark.skipif(
    SSHD is None or shutil.which("ssh-keygen") is None or os.getuid() != 0,
    reason="needs root, and sshd of Debian's openssh-server: tests/slurm/slurm.sh install",
)


def key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=30)
    return path


def answers(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def ssh_server(home: Path):
    """Run a server that lets in the key of `home`/.ssh, whose configuration leads to it."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    folder = home / ".ssh"
    folder.mkdir(parents=True)
    host, user = key(home / "host"), key(folder / "user")
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {host.with_suffix('.pub').read_text()}")
    settings = f"Host 127.0.0.1\n  Port {port}\n  User root\n  IdentityFile {user}\n"
    (folder / "config").write_text(f"{settings}  UserKnownHostsFile {folder}/known_hosts\n")
    (home / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {host}\nAuthorizedKeysFile {user.with_suffix('.pub')}\n"
        f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    with (home / "log").open("w") as log:
        server = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(home / "sshd_config")], stderr=log)
    try:
        wait_until(lambda: answers(port), "the SSH server answers")
        yield
    finally:
        server.terminate()
        server.wait(30)


def test_training_over_ssh(tmp_path):
    X, y = random_counts(300, 50, 3, seed=7)
    corpus = write_corpus(tmp_path / "corpus.zarr", X, y)
    model = tmp_path / "a.model"
    with ssh_server(tmp_path / "home"):
        result = subprocess.run(
            [sys.executable, str(SCRIPT), corpus.path, str(model), "lo", "127.0.0.1", "127.0.0.1", "127.0.0.1"],
            env={**os.environ, "HOME": str(tmp_path / "home")},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert result.returncode == 0, result.stderr + (tmp_path / "home" / "log").read_text()
    assert "tcp://127.0.0.1" in result.stderr
    assert bits(load_model(model)) == bits(MultinomialNB(n_jobs=1).fit(corpus))
