"""Arrays and groups through zarr, and what happens when files go missing."""

from __future__ import annotations

import numpy as np
import pytest
from buckets.needs import needs_obstore
from zarr.codecs import BloscCodec

from sdem_dist.errors import CorpusError
from sdem_dist.storage import arrays
from sdem_dist.storage.arrays import read_whole, write_whole
from sdem_dist.storage.encoding import crc32c


@pytest.fixture(params=["local", pytest.param("memory", marks=needs_obstore)])
def location(request, tmp_path):
    return tmp_path / "group" if request.param == "local" else f"memory://{tmp_path.name}"


def test_round_trip(location):
    root = arrays.create_group(location)
    arrays.set_attributes(root, {"a": 1})
    child = arrays.add_group(root, "child", {"b": [2]})
    values = {
        "x": np.arange(12, dtype=np.uint16).reshape(3, 4),
        "empty": np.zeros(0, np.float32),
        "zeros": np.zeros(7, np.int64),
    }
    for name, value in values.items():
        arrays.write_array(child, name, value)
    arrays.set_attributes(root, {"c": "d"})
    again = arrays.open_group(location)
    assert arrays.get_attributes(again) == {"a": 1, "c": "d"}
    for name, value in values.items():
        read = arrays.read_array(again, f"child/{name}", shape=value.shape)
        assert read.dtype == value.dtype
        np.testing.assert_array_equal(read, value)
    assert arrays.stored_bytes(location) > 0


@pytest.mark.parametrize("kind", ["bool", "uint8", "uint16", "int32", "int64", "uint64", "float32", "float64", ">i4"])
@pytest.mark.parametrize("shape", [(0,), (7,), (300, 5), (4, 0)])
def test_files_are_those_of_zarr(kind, shape, tmp_path):
    array = np.random.default_rng(0).integers(1, 9, shape).astype(kind)
    root = arrays.create_group(tmp_path / "group")
    arrays.write_array(root, "ours", array)
    lz4 = BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")
    chunks = tuple(max(1, n) for n in shape)
    root.create_array(
        "theirs", data=array.astype(array.dtype.newbyteorder("=")), chunks=chunks, compressors=lz4, filters=None
    )
    ours, theirs = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path / "group" / "ours", tmp_path / "group" / "theirs")
    )
    assert ours == theirs


def test_a_task_that_runs_twice_writes_the_same_files(tmp_path):
    array = np.arange(300)
    for _ in range(2):
        write_whole(tmp_path / "a", array)
    arrays.create_group(tmp_path / "group")
    write_whole(tmp_path / "group" / "a", array)
    np.testing.assert_array_equal(arrays.read_array(arrays.open_group(tmp_path / "group"), "a", shape=(300,)), array)


@pytest.mark.parametrize("kind", ["uint8", "int32", "uint64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(7,), (300, 5)])
def test_whole_arrays_are_read_without_zarr(kind, shape, tmp_path):
    array = np.random.default_rng(0).integers(0, 99, shape).astype(kind)
    write_whole(tmp_path / "a", array)
    found = read_whole(tmp_path / "a", shape)
    np.testing.assert_array_equal(found, array, strict=True)
    assert found.flags.writeable


def _shortened(folder):
    chunk = folder / "c" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1])


def _of_objects(folder):
    text = (folder / "zarr.json").read_text()
    (folder / "zarr.json").write_text(text.replace("int64", "object"))


@pytest.mark.parametrize(
    "damage",
    [
        _shortened,
        _of_objects,
        lambda folder: (folder / "c" / "0").unlink(),
        lambda folder: (folder / "c" / "0").write_bytes(b"short"),
        lambda folder: (folder / "c" / "0").write_bytes(bytes(300)),
        lambda folder: (folder / "zarr.json").write_text("{}"),
        lambda folder: (folder / "zarr.json").write_text("[1"),
        lambda folder: (folder / "zarr.json").unlink(),
    ],
)
def test_what_is_damaged_or_of_another_shape_is_left_to_zarr(damage, tmp_path):
    write_whole(tmp_path / "a", np.arange(99))
    assert read_whole(tmp_path / "a", (98,)) is None
    assert read_whole(tmp_path / "a", (99, 1)) is None
    damage(tmp_path / "a")
    assert read_whole(tmp_path / "a", (99,)) is None


def test_existing_group_is_refused(location):
    arrays.create_group(location)
    with pytest.raises(CorpusError, match="cannot create"):
        arrays.create_group(location)


def test_missing_things(location):
    with pytest.raises(CorpusError, match="cannot be opened"):
        arrays.open_group(location)
    root = arrays.create_group(location)
    arrays.add_group(root, "child")
    with pytest.raises(CorpusError, match="'x' is missing"):
        arrays.read_array(root, "x")
    with pytest.raises(CorpusError, match="is a group"):
        arrays.read_array(root, "child")


def test_shape_is_checked_before_reading(tmp_path):
    root = arrays.create_group(tmp_path / "group")
    arrays.write_array(root, "x", np.arange(5))
    with pytest.raises(CorpusError, match=r"shape \(5,\), where \(6,\) belongs"):
        arrays.read_array(root, "x", shape=(6,))


def test_broken_metadata(tmp_path):
    root = arrays.create_group(tmp_path / "group")
    arrays.write_array(root, "x", np.arange(5))
    (tmp_path / "group" / "x" / "zarr.json").write_text("{")
    with pytest.raises(CorpusError, match="metadata of 'x'"):
        arrays.read_array(root, "x")
    (tmp_path / "group" / "zarr.json").write_text("{")
    with pytest.raises(CorpusError, match="cannot be opened"):
        arrays.open_group(tmp_path / "group")


def test_checksum_ignores_layout_and_byte_order():
    values = np.arange(12, dtype="<u4").reshape(3, 4)
    assert crc32c(values) == crc32c(np.asfortranarray(values)) == crc32c(values.astype(">u4"))
    assert crc32c(np.frombuffer(b"123456789", np.uint8)) == 0xE3069283  # the check value of CRC-32C
    assert crc32c(np.zeros(0)) == 0
    assert crc32c(np.array(1.0)) == crc32c(np.ones(1))
