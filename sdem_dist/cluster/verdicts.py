"""One line for each check of a machine, from the facts that it reports.  Pure functions."""

from collections.abc import Mapping
from typing import NamedTuple

from sdem_dist.cluster.facts import Facts
from sdem_dist.compat import target_difference
from sdem_dist.counted import counted
from sdem_dist.engine.memory import LIBRARIES, REFUSED, SHARE, SMALLEST_CACHE, default_blocks, needed_bytes

GIB = 1 << 30
CLOCKS_APART = 2.0
SLOW_ROUND_TRIP = 0.2
SLOW_BYTES = 10e6
SCRATCH = GIB


class Line(NamedTuple):
    """One finding."""

    verdict: str  # ``"ok"``, ``"warning"`` or ``"error"``
    topic: str
    text: str


def versions(places: Mapping[str, Facts]) -> list[Line]:
    """Compare packages with the client's; a difference names both places."""
    names = list(places)
    first = places[names[0]]["versions"]
    lines = [
        Line("error", "versions", f"{package} is {version} at {names[0]}, {found} at {name}")
        for name in names[1:]
        for package, version in first.items()
        if (found := places[name]["versions"].get(package, "unknown")) != version
    ]
    what = ", ".join(f"{package} {version}" for package, version in first.items())
    return lines or [Line("ok", "versions", f"{what}; the same in {counted(len(places), 'process', 'processes')}")]


def cpu(places: Mapping[str, Facts]) -> list[Line]:
    """Compare CPU features and what kernels are compiled for: other instructions round otherwise."""
    names = list(places)
    first = places[names[0]]
    lines = []
    for name in names[1:]:
        apart = ", ".join(sorted(set(first["cpu"]) ^ set(places[name]["cpu"])))
        if apart := apart or target_difference(first["target"], places[name]["target"]):
            text = f"{names[0]} and {name} differ in {apart}: models may differ in their last bits"
            lines.append(Line("warning", "cpu", text))
    n_processes = counted(len(places), "process", "processes")
    return lines or [Line("ok", "cpu", f"kernels are compiled for the same vector instructions in {n_processes}")]


def threads(workers: Mapping[str, Facts]) -> list[Line]:
    """See that the threads of workers, and of libraries within them, fit the cores that they may use."""
    lines = []
    for name, worker in workers.items():
        more = [
            f"{k}={v}" for k, v in worker["threads"].items() if v is not None and v != "1" and k != "NUMBA_NUM_THREADS"
        ]
        if worker["nthreads"] > worker["cores"]:
            text = f"{name} runs {worker['nthreads']} threads on {counted(worker['cores'], 'core')}"
            lines.append(Line("warning", "threads", text))
        if more:
            lines.append(Line("warning", "threads", f"{name}: {', '.join(more)}: 1 keeps libraries from competing"))
    return lines or [Line("ok", "threads", f"{sum(w['nthreads'] for w in workers.values())} in all, none too many")]


def memory(workers: Mapping[str, Facts], n_features: int | None, n_classes: int | None) -> list[Line]:
    """Compare each worker's memory limit with what training a model of this size takes (`sdem_dist.engine.memory`)."""
    state = 8 * (n_features or 0) * (n_classes or 0)
    needed = needed_bytes(state, default_blocks(state))
    need = (LIBRARIES + needed + SMALLEST_CACHE) / SHARE
    lines = []
    for name, worker in workers.items():
        limit = worker["memory_limit"]
        if limit is not None and needed > REFUSED * limit:
            text = f"{name} may use {limit / GIB:.1f} GiB: training refuses to start; {need / GIB:.1f} GiB are advised"
            lines.append(Line("error", "memory", text))
        elif limit is not None and limit < need:
            text = f"{name} may use {limit / GIB:.1f} GiB; {need / GIB:.1f} GiB are advised"
            lines.append(Line("warning", "memory", text))
    what = "a small model" if n_features is None else f"{n_features:,} words and {n_classes} classes"
    return lines or [Line("ok", "memory", f"at least {need / GIB:.1f} GiB per worker, enough for {what}")]


def scratch(places: Mapping[str, Facts]) -> list[Line]:
    """See that there is room for temporary files."""
    lines = [
        Line("warning", "scratch", f"{name}: {place['scratch_free'] / GIB:.1f} GiB are free in {place['scratch']}")
        for name, place in places.items()
        if place["scratch_free"] < SCRATCH
    ]
    least = min(place["scratch_free"] for place in places.values())
    return lines or [Line("ok", "scratch", f"at least {least / GIB:.1f} GiB free for temporary files")]


def clocks(offsets: Mapping[str, float]) -> list[Line]:
    """See that clocks agree: certificates and logs depend on them."""
    lines = [
        Line("warning", "clocks", f"{name} is {offset:+.1f} s off the client's clock")
        for name, offset in offsets.items()
        if abs(offset) > CLOCKS_APART
    ]
    return lines or [Line("ok", "clocks", f"within {max(map(abs, offsets.values()), default=0):.1f} s of the client's")]


def network(trips: Mapping[str, float], speeds: Mapping[str, float]) -> list[Line]:
    """Judge round trips in seconds and speeds in bytes per second, by worker."""
    slow = [n for n in trips if trips[n] > SLOW_ROUND_TRIP or speeds[n] < SLOW_BYTES]
    text = (
        f"round trip {1000 * max(trips.values()):.0f} ms, {min(speeds.values()) / 1e6:.0f} MB/s at the slowest worker"
    )
    if slow:
        return [Line("warning", "network", f"{text}; slow: {', '.join(slow)}")]
    return [Line("ok", "network", text)]


def shared(folder: str, missing: list[str], n_workers: int) -> list[Line]:
    """Judge whether a file written here was read by every worker."""
    if missing:
        text = (
            f"a file written here in {folder} cannot be read by {', '.join(missing)}: corpora need a shared filesystem"
        )
        return [Line("error", "files", text)]
    return [Line("ok", "files", f"what was written here in {folder} can be read by {counted(n_workers, 'worker')}")]


def encryption(addresses: list[str]) -> list[Line]:
    """Judge the addresses of a scheduler and its workers."""
    if all(address.startswith(("tls://", "inproc://")) for address in addresses):
        return [Line("ok", "encryption", "every connection is encrypted and both ends show certificates")]
    reachable = [a for a in addresses if not a.partition("://")[2].startswith(("127.", "[::1]"))]
    if reachable:
        text = f"none at {reachable[0]}: whoever reaches this address can run code there (sdem cluster certificates)"
        return [Line("warning", "encryption", text)]
    return [Line("ok", "encryption", "none, and nothing listens beyond this machine")]
