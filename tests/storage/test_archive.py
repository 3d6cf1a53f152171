"""Archives give back what was put in, or say what is wrong: never another exception, never other content."""

from __future__ import annotations

import json
import tempfile
import weakref
import zipfile
from functools import cache
from pathlib import Path

import joblib
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from zarr.storage import ZipStore

from sdem_dist.errors import ModelError
from sdem_dist.storage.archive import read_archive, write_archive

KIND = "sdem-model"
ARRAYS = {
    "mu": np.linspace(0, 1, 60).reshape(20, 3),
    "zeros": np.zeros(9, np.float32),
    "empty": np.zeros((0, 4), np.uint16),
    "scalar": np.array(-7),
    "mask": np.array([True, False, True]),
}
METADATA = {"classes": ["ä", "b"], "nested": {"x": [1, 2.5, None]}}


def same(found, expected) -> bool:
    return found.keys() == expected.keys() and all(
        found[n].dtype == a.dtype and found[n].shape == a.shape and found[n].tobytes() == a.tobytes()
        for n, a in expected.items()
    )


@cache
def sample() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        write_archive(path, KIND, ARRAYS, METADATA)
        return path.read_bytes()


def test_equal_content_makes_equal_files(tmp_path):
    write_archive(tmp_path / "m", KIND, ARRAYS, METADATA)
    assert (tmp_path / "m").read_bytes() == sample()
    with zipfile.ZipFile(tmp_path / "m") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def rezipped(path: Path, changes: dict[str, bytes | None], **options) -> Path:
    """Write the sample again with members changed, added or (None) left out."""
    path.write_bytes(sample())
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members.update(changes)
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in members.items():
            if content is not None:
                archive.writestr(name, content)
    return path


def edited(member: str, **entries) -> bytes:
    """Return a JSON member of the sample with entries of it (or of its attributes) replaced."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        path.write_bytes(sample())
        with zipfile.ZipFile(path) as archive:
            node = json.loads(archive.read(member))
    (node["attributes"] if member == "zarr.json" else node).update(entries)
    return json.dumps(node).encode()


@settings(deadline=None, max_examples=30)
@given(
    hnp.arrays(
        st.sampled_from([np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64]),
        hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=5),
    )
)
def test_round_trip_of_any_array(array):
    with tempfile.TemporaryDirectory() as folder:
        write_archive(Path(folder, "m"), KIND, {"a": array}, {})
        found, metadata = read_archive(Path(folder, "m"), KIND)
    assert same(found, {"a": array})
    assert metadata == {}


def test_plain_zarr_reads_it(tmp_path):
    (tmp_path / "m").write_bytes(sample())
    group = zarr.open_group(ZipStore(tmp_path / "m", mode="r"), mode="r")
    assert group.attrs["metadata"] == METADATA
    assert same({name: np.asarray(group[name][...]) for name in group.array_keys()}, ARRAYS)


def test_every_truncation_is_refused(tmp_path):
    path, whole = tmp_path / "m", sample()
    for length in [*range(0, len(whole), 29), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError, match="m: "):
            read_archive(path, KIND)


@settings(deadline=None, max_examples=300)
@given(st.integers(0, len(sample()) - 1), st.integers(1, 255))
def test_an_altered_byte_is_refused_or_harmless(position, mask):
    raw = bytearray(sample())
    raw[position] ^= mask
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        path.write_bytes(raw)
        try:
            found, metadata = read_archive(path, KIND)
        except ModelError as error:
            assert str(path) in str(error)
            return
    assert same(found, ARRAYS)
    assert metadata == METADATA


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=300))
def test_any_bytes_are_refused(raw):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        path.write_bytes(raw)
        with pytest.raises(ModelError):
            read_archive(path, KIND)


HUGE = {
    "shape": [2**40, 3],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**40, 3]}},
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"zarr.json": edited("zarr.json", format="other")}, "'other' file, where"),
        ({"zarr.json": edited("zarr.json", format_version=3)}, "newer format"),
        ({"zarr.json": edited("zarr.json", format_version=1)}, "older format"),
        ({"zarr.json": edited("zarr.json", format_version="1")}, "format_version"),
        ({"zarr.json": edited("zarr.json", checksums={"../x": 1})}, "malformed"),
        ({"zarr.json": edited("zarr.json", checksums={})}, "does not belong"),
        ({"zarr.json": b"[" * 200_000}, "cut short or altered"),
        ({"zarr.json": b"{}"}, "does not say"),
        ({"zarr.json": None}, "'zarr.json' is missing"),
        ({"mu/zarr.json": None}, "'mu/zarr.json' is missing"),
        ({"mu/zarr.json": edited("mu/zarr.json", **HUGE)}, "declares .* bytes and the zip holds 480"),
        ({"mu/zarr.json": edited("mu/zarr.json", data_type="float32")}, "declares 240 bytes"),
        ({"mu/zarr.json": edited("mu/zarr.json", data_type="string")}, "not stored plainly"),
        ({"mu/zarr.json": edited("mu/zarr.json", codecs=[{"name": "vlen-utf8"}])}, "not stored plainly"),
        ({"mu/zarr.json": edited("mu/zarr.json", shape=[-1, 3])}, "not stored plainly"),
        ({"mu/c/0/0": None}, "holds 0 of them"),
        ({"mu/c/0/0": b"\0" * 480}, "checksum"),
        ({"zeros/c/0": None}, "holds 0 of them"),
        ({"empty/c/0/0": b"1"}, "does not belong"),
        ({"../evil": b"x"}, "does not belong"),
        ({"/etc/evil": b"x"}, "does not belong"),
    ],
)
def test_bad_members(tmp_path, changes, message):
    path = rezipped(tmp_path / "m", changes)
    with pytest.raises(ModelError, match=message):
        read_archive(path, KIND)


def test_compressed_or_doubled_members(tmp_path):
    path = rezipped(tmp_path / "m", {}, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelError, match="compressed"):
        read_archive(path, KIND)
    path = rezipped(tmp_path / "m", {})
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("mu/c/0/0", b"\0" * 480)
    with pytest.raises(ModelError, match="two members of one name"):
        read_archive(path, KIND)


def test_oversized_json(tmp_path, monkeypatch):
    monkeypatch.setattr("sdem_dist.storage.archive.MAX_JSON_BYTES", 200)
    (tmp_path / "m").write_bytes(sample())
    with pytest.raises(ModelError, match="larger than 200 bytes"):
        read_archive(tmp_path / "m", KIND)
    with pytest.raises(ModelError, match="as JSON, above"):
        write_archive(tmp_path / "n", KIND, {}, METADATA)
    assert not (tmp_path / "n").exists()


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(ModelError, match="no such file"):
        read_archive(tmp_path / "none", KIND)
    with pytest.raises(ModelError, match="directory"):
        read_archive(tmp_path, KIND)


@pytest.mark.parametrize(
    ("arrays", "metadata"),
    [
        ({"a": np.array(["x"])}, {}),
        ({"a": np.array([None])}, {}),
        ({"a": np.array([1j])}, {}),
        ({"a/b": np.zeros(1)}, {}),
        ({"..": np.zeros(1)}, {}),
        ({}, {"x": float("nan")}),
        ({}, {"x": {1, 2}}),
    ],
)
def test_what_cannot_be_written(tmp_path, arrays, metadata):
    (tmp_path / "m").write_bytes(sample())
    with pytest.raises(ModelError, match="m: "):
        write_archive(tmp_path / "m", KIND, arrays, metadata)
    assert (tmp_path / "m").read_bytes() == sample()


def test_big_endian_and_strided_arrays_come_back_native(tmp_path):
    array = np.arange(12, dtype=">f8").reshape(3, 4).T
    write_archive(tmp_path / "m", KIND, {"a": array}, {})
    found, _ = read_archive(tmp_path / "m", KIND)
    np.testing.assert_array_equal(found["a"], array)
    assert found["a"].dtype == np.float64


def test_of_an_iterable_one_array_is_there_at_a_time(tmp_path):
    alive: list = []

    def arrays():
        for i in range(4):
            assert all(array() is None for array in alive)
            array = np.full(1000, float(i))
            alive.append(weakref.ref(array))
            yield f"a{i}", array
            del array

    write_archive(tmp_path / "m", KIND, arrays(), {})
    found, _ = read_archive(tmp_path / "m", KIND, ["a1", "a3", "absent"])
    assert {name: array[0] for name, array in found.items()} == {"a1": 1.0, "a3": 3.0}


def test_models_of_other_packages_are_named(tmp_path):
    joblib.dump({"a": np.ones(3)}, tmp_path / "lr.joblib")
    np.save(tmp_path / "a.npy", np.ones(3))
    for name, what in (("lr.joblib", "a file of pickle or joblib"), ("a.npy", "an array of NumPy")):
        with pytest.raises(ModelError, match=f"{name}: {what}.*not a {KIND} file"):
            read_archive(tmp_path / name, KIND)
