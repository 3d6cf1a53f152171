"""Each private part of another package that this one relies on is there, and does what is relied on."""

import asyncio
import inspect
import logging
import operator
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from reference.trained_bits import local_cluster

from sdem_dist import compat
from sdem_dist.kernels import jit, parts


@pytest.fixture(scope="module")
def client():
    where = {"processes": False, "protocol": "tcp", "host": "127.0.0.1"}
    with local_cluster(1, threads_per_worker=2, **where) as (_, client):
        yield client


def test_a_worker_runs_the_script_that_starts_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from sdem_dist.cluster import connected\nwith connected(n_workers=1):\n    print('connected')\n")
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode != 0 and "connected" not in found.stdout
    assert "a worker process tried to run the script that started it" in found.stderr
    assert "if __name__ == '__main__':" in found.stderr.splitlines()[-1]


def test_workers_of_a_scheduler(client):
    (address,) = client.scheduler_info()["workers"]
    assert client.sync(compat.scheduler_of(client).ncores) == {address: 2}
    assert list(client.sync(compat.scheduler_of(client).ncores_running)) == [address]
    found = client.sync(compat.scheduler_of(client).identity, n_workers=-1)["workers"]
    assert list(found) == [address] and found[address]["memory_limit"] >= 0
    assert compat.scheduler_of(client).address == client.cluster.scheduler_address


def test_scikit_learn_gets_pandas_and_statistics_when_it_asks():
    code = """
import sys
from sdem_dist.compat import import_scikit_learn
import_scikit_learn()
assert not {"pandas", "scipy.stats", "narwhals"} & set(sys.modules)
from sklearn.utils import _indexing, fixes
import numpy as np
assert fixes._mode(np.array([3, 1, 3])).mode[0] == 3
pandas = fixes.pd
assert pandas.DataFrame({"a": [1]}).shape == (1, 1)
assert _indexing.nw.from_native(pandas.DataFrame({"a": [1]})).shape == (1, 1)
import pandas as real, scipy.stats
assert type(real) is type(sys) and real.DataFrame is pandas.DataFrame and scipy.stats.norm.cdf(0) == 0.5
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_tasks_that_wait_for_a_worker_that_is_not_there_can_be_let_go(client):
    nowhere = {"workers": ["tcp://127.0.0.1:1"], "allow_other_workers": True}
    future = client.submit(operator.add, 1, 2, key="loose-0abc-1", **nowhere)
    assert future.result(timeout=10) == 3
    client.run_on_scheduler(compat.let_others_run, "0abc")
    scheduler = client.cluster.scheduler
    task = next(iter(scheduler.tasks.values()))
    assert hasattr(task, "loose_restrictions") and hasattr(task, "worker_restrictions")
    assert len(scheduler.unrunnable) == 0
    assert list(inspect.signature(scheduler.transitions).parameters)[:2] == ["recommendations", "stimulus_id"]


def test_what_an_interrupt_could_not_cancel_is_not_logged(client, caplog):
    compat.leave_out_failed_cancellations()
    logging.getLogger("tornado.application").addHandler(caplog.handler)  # distributed keeps it from the root
    for part in ((time.sleep, 0.3), (os.kill, os.getpid(), signal.SIGINT), (time.sleep, 0.3)):
        client.loop.add_callback(*part)
    with pytest.raises(KeyboardInterrupt):
        client.sync(asyncio.sleep, 0)
    client.loop.add_callback(operator.truediv, 1, 0)  # other failures are
    client.sync(asyncio.sleep, 0)
    assert "ZeroDivisionError" in caplog.text and "NameError" not in caplog.text


def test_the_garbage_collector_closes_no_gateway():
    kind = pytest.importorskip("dask_gateway").Gateway
    for _ in range(2):  # another time it does nothing
        compat.close_gateways_by_hand(kind)
    assert not hasattr(kind, "__del__")
    kind("http://127.0.0.1:1").close()


def test_kernels_make_arrays_as_numpy_does():
    table, row = jit.jit(lambda n, m: (parts.zeros((n, m), np.float32), parts.empty(n, np.int64)))(2, 3)
    assert (table.dtype, table.tolist(), row.dtype, row.shape) == (np.float32, [[0.0] * 3] * 2, np.int64, (2,))
