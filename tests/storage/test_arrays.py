"""Arrays are those of zarr, strings survive in them, damage is an error; names that places have and have not."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from buckets.servers import needs_obstore
from hypothesis import given
from hypothesis import strategies as st
from zarr.codecs import BloscCodec

from sdem_dist import MultinomialNB, ingest, load_model, open_corpus
from sdem_dist.errors import BucketError, CorpusError, SdemError
from sdem_dist.storage import arrays
from sdem_dist.storage.buckets import is_url, place, refuse_url
from sdem_dist.storage.encoding import crc32c, decode_strings, encode_strings

KINDS = ["bool", "uint8", "uint16", "int32", "int64", "uint64", "float32", "float64", ">i4"]
SHAPES = [(0,), (7,), (300, 5), (4, 0)]


@pytest.fixture(params=["local", pytest.param("memory", marks=needs_obstore)])
def folder(request, tmp_path):
    return place(tmp_path / "group" if request.param == "local" else f"memory://{tmp_path.name}")


@pytest.mark.parametrize("chunk_bytes", [arrays.CHUNK_BYTES, 100])
def test_round_trip(folder, chunk_bytes, monkeypatch):
    monkeypatch.setattr(arrays, "WHOLE_BYTES", chunk_bytes)
    monkeypatch.setattr(arrays, "CHUNK_BYTES", chunk_bytes)
    arrays.write_group(folder / "child", {"b": [2]})
    values = {
        f"{kind} {number}": np.random.default_rng(0).integers(0, 9, shape).astype(kind)
        for kind in KINDS
        for number, shape in enumerate(SHAPES)
    }
    for _ in range(2):  # a task that runs twice writes the same
        arrays.write_arrays(folder / "child", values)
    assert arrays.read_attributes(folder / "child") == {"b": [2]}
    kinds = {name: (value.shape, value.dtype.newbyteorder("=")) for name, value in values.items()}
    for name, array in arrays.read_arrays(folder / "child", kinds).items():
        np.testing.assert_array_equal(array, values[name])
        assert array.dtype == kinds[name][1] and array.flags.writeable
    if isinstance(folder, Path):
        np.testing.assert_array_equal(zarr.open_array(folder / "child" / "int64 2", mode="r")[:], values["int64 2"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_files_are_those_of_zarr(kind, shape, tmp_path):
    array = np.random.default_rng(0).integers(1, 9, shape).astype(kind)
    arrays.write_group(tmp_path)
    arrays.write_array(tmp_path / "ours", array)
    root = zarr.open_group(tmp_path, mode="r+")
    lz4 = BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")
    chunks = tuple(max(1, n) for n in shape)
    native = array.astype(array.dtype.newbyteorder("="))
    root.create_array("theirs", data=native, chunks=chunks, compressors=lz4, filters=None)
    ours, theirs = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (tmp_path / "ours", tmp_path / "theirs")
    )
    assert ours == theirs


DAMAGES = {
    "no chunk": lambda folder: (folder / "c" / "0").unlink(),
    "a short chunk": lambda folder: (folder / "c" / "0").write_bytes((folder / "c" / "0").read_bytes()[:-1]),
    "other bytes": lambda folder: (folder / "c" / "0").write_bytes(b"short"),
    "zeros": lambda folder: (folder / "c" / "0").write_bytes(bytes(300)),
    "other metadata": lambda folder: (folder / "zarr.json").write_bytes(b"{}"),
    "no JSON": lambda folder: (folder / "zarr.json").write_bytes(b"[1"),
    "another dtype": lambda folder: (folder / "zarr.json").write_bytes(
        (folder / "zarr.json").read_bytes().replace(b"int64", b"object")
    ),
    "no metadata": lambda folder: (folder / "zarr.json").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_named(damage, folder):
    arrays.write_array(folder / "a", np.arange(99))
    for shape, dtype in (((98,), np.int64), ((99, 1), np.int64), ((99,), np.float64)):
        with pytest.raises(CorpusError):
            arrays.read_array(folder / "a", shape, dtype)
    DAMAGES[damage](folder / "a")
    with pytest.raises(CorpusError) as caught:
        arrays.read_array(folder / "a", (99,), np.int64)
    assert caught.value.path == str(folder / "a")


def test_groups_that_are_not_there_or_broken(folder):
    for broken in (None, b"{", b"[]", b'{"attributes": 1}'):
        if broken is not None:
            (folder / "zarr.json").parent.mkdir(exist_ok=True)
            (folder / "zarr.json").write_bytes(broken)
        with pytest.raises(CorpusError) as caught:
            arrays.read_attributes(folder)
        assert caught.value.path == str(folder)


def test_checksum_ignores_layout_and_byte_order():
    values = np.arange(12, dtype="<u4").reshape(3, 4)
    assert crc32c(values) == crc32c(np.asfortranarray(values)) == crc32c(values.astype(">u4"))
    assert crc32c(np.frombuffer(b"123456789", np.uint8)) == 0xE3069283  # the check value of CRC-32C
    assert crc32c(np.zeros(0)) == 0
    assert crc32c(np.array(1.0)) == crc32c(np.ones(1))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_strings_survive(strings):
    joined, offsets = encode_strings(strings)
    assert (joined.dtype, offsets.dtype) == (np.uint8, np.int64) and decode_strings(joined, offsets) == strings


@given(st.binary(max_size=12), st.lists(st.integers(-3, 15), max_size=5))
def test_any_arrays_decode_or_raise_value_error(raw, offsets):
    try:
        strings = decode_strings(np.frombuffer(raw, np.uint8), np.array(offsets, np.int64))
    except ValueError:
        return
    assert "".join(strings).encode() == raw and len(strings) == len(offsets) - 1


def test_what_no_string_is_is_named():
    with pytest.raises(UnicodeEncodeError):
        encode_strings(["\ud800"])
    with pytest.raises(TypeError, match="element 1 is a int"):
        encode_strings(["a", 3])
    with pytest.raises(UnicodeDecodeError, match="string 1"):
        decode_strings(np.array([97, 255], np.uint8), np.array([0, 1, 2]))


@pytest.mark.parametrize("where", ["s3://bucket/m", "memory://m", "gs://b", "file:///m", Path("s3://bucket/m")])
def test_urls_are_refused_also_as_paths(where):
    with pytest.raises(SdemError, match="is a URL, and a table is a file: give a path of this machine"):
        refuse_url(where, "a table is a file")
    assert is_url(where)
    assert where == "file:///m" or str(place(where)).startswith(str(where).split(":")[0] + "://")


@pytest.mark.parametrize("name", ["../x", "./x", "a/..", "a\nb"])
@pytest.mark.parametrize("bucket", ["s3://b/", "gs://b/", "memory://"])
def test_names_that_objects_cannot_have_are_refused(bucket, name, tmp_path):
    for use in (open_corpus, load_model, lambda url: ingest(url, tmp_path / "c"), lambda url: ingest(tmp_path, url)):
        with pytest.raises(BucketError, match="the name of an object"):
            use(f"{bucket}{name}")


@pytest.mark.parametrize("where", ["m", "a/b", "/tmp/m", "C:/m", "s3:x", "", "-", Path("a:b/c").name])
def test_paths_pass(where):
    refuse_url(where, "a model is a file")
    assert not is_url(where) and str(place(where)) == str(Path(where))


def test_urls_that_lead_nowhere_are_named(tmp_path):
    model = MultinomialNB(n_epochs=1).fit(np.eye(4), [0, 1] * 2)
    for use in (model.save, load_model, lambda url: ingest([url], tmp_path / "c"),
                lambda url: MultinomialNB().fit(np.eye(4), [0, 1] * 2, checkpoint=url)):  # fmt: skip
        with pytest.raises(BucketError, match="URLs begin with s3://"):
            use("https://b/m")
    assert not list(tmp_path.iterdir())
