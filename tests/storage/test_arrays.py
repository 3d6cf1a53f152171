"""Arrays as files that zarr reads, and archives of several: what comes back, and what is refused."""

import json
import tempfile
import weakref
from functools import cache
from pathlib import Path

import joblib
import numpy as np
import pytest
import zarr
from buckets.servers import needs_obstore
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from zarr.codecs import BloscCodec

from sdem_dist import BucketError, CorpusError, ModelError, MultinomialNB, SdemError, ingest, load_model, open_corpus
from sdem_dist.engine.checkpoint import Checkpoints, Progress, StageRecord
from sdem_dist.models.word_counts import SdemState
from sdem_dist.storage import arrays
from sdem_dist.storage.archive import read_archive, write_archive
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
    numbers = [np.random.default_rng(0).integers(0, 9, shape) for shape in SHAPES]
    values = {f"{kind} {i}": array.astype(kind) for kind in KINDS for i, array in enumerate(numbers)}
    for _ in range(2):  # a task that runs twice writes the same
        arrays.write_group(folder / "child", {"b": [2]}, values)
    assert arrays.read_attributes(folder / "child") == {"b": [2]}
    kinds = {name: (value.shape, value.dtype.newbyteorder("=")) for name, value in values.items()}
    for name, kind in kinds.items():
        array = arrays.read_array(folder / "child" / name, *kind)
        np.testing.assert_array_equal(array, values[name])
        assert array.dtype == kinds[name][1] and array.flags.writeable
    if isinstance(folder, Path):
        np.testing.assert_array_equal(zarr.open_array(folder / "child" / "int64 2", mode="r")[:], values["int64 2"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_files_are_those_of_zarr(kind, shape, tmp_path):
    array = np.random.default_rng(0).integers(1, 9, shape).astype(kind)
    arrays.write_group(tmp_path, {})
    arrays.write_array(tmp_path / "ours", array)
    root = zarr.open_group(tmp_path, mode="r+")
    lz4 = BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")
    chunks = tuple(max(1, n) for n in shape)
    native = array.astype(array.dtype.newbyteorder("="))
    root.create_array("theirs", data=native, chunks=chunks, compressors=lz4, filters=None)
    both = (tmp_path / "ours", tmp_path / "theirs")
    ours, theirs = ({p.relative_to(at): p.read_bytes() for p in at.rglob("*") if p.is_file()} for at in both)
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
        np.testing.assert_raises(CorpusError, arrays.read_array, folder / "a", shape, dtype)
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
    assert crc32c(np.zeros(0)) == 0 and crc32c(np.array(1.0)) == crc32c(np.ones(1))


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


def test_what_is_no_string_is_refused():
    np.testing.assert_raises(UnicodeEncodeError, encode_strings, ["\ud800"])
    np.testing.assert_raises(TypeError, encode_strings, ["a", 3])


@pytest.mark.parametrize("where", ["s3://bucket/m", "memory://m", "gs://b", "file:///m", Path("s3://bucket/m")])
def test_urls_are_refused_also_as_paths(where):
    np.testing.assert_raises(SdemError, refuse_url, where, "a table is a file")
    assert is_url(where)
    assert where == "file:///m" or str(place(where)).startswith(str(where).split(":")[0] + "://")


@pytest.mark.parametrize("name", ["../x", "./x", "a/..", "a\nb"])
@pytest.mark.parametrize("bucket", ["s3://b/", "gs://b/", "memory://"])
def test_names_that_objects_cannot_have_are_refused(bucket, name, tmp_path):
    for use in (open_corpus, load_model, lambda url: ingest(url, tmp_path / "c"), lambda url: ingest(tmp_path, url)):
        np.testing.assert_raises_regex(BucketError, "object names", use, f"{bucket}{name}")


@pytest.mark.parametrize("where", ["m", "a/b", "/tmp/m", "C:/m", "s3:x", "", "-", Path("a:b/c").name])
def test_paths_pass(where):
    refuse_url(where, "a model is a file")
    assert not is_url(where) and str(place(where)) == str(Path(where))


def test_urls_that_lead_nowhere_are_named(tmp_path):
    model = MultinomialNB(n_epochs=1).fit(np.eye(4), [0, 1] * 2)
    for use in (model.save, load_model, lambda url: ingest([url], tmp_path / "c"),
                lambda url: MultinomialNB().fit(np.eye(4), [0, 1] * 2, checkpoint=url)):  # fmt: skip
        np.testing.assert_raises_regex(BucketError, "a URL must start with s3://", use, "https://b/m")
    assert not list(tmp_path.iterdir())


KIND = "sdem-model"
ARRAYS = {"mu": np.linspace(0, 1, 60).reshape(20, 3), "zeros": np.zeros(9, np.float32), "scalar": np.array(-7)}
ARRAYS |= {"empty": np.zeros((0, 4), np.uint16), "mask": np.array([True, False, True])}
METADATA = {"classes": ["ä", "b"], "nested": {"x": [1, 2.5, None]}}
STATE = SdemState(**{name: np.arange(12.0).reshape(4, 3) for name in SdemState._fields})
STAGE = StageRecord(0, {"seed": 0}, SdemState, 1)


def same(found, expected) -> bool:
    ours, theirs = ({n: (a.dtype, a.shape, a.tobytes()) for n, a in of.items()} for of in (found, expected))
    return ours == theirs


@cache
def sample() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        write_archive(path, KIND, ARRAYS, METADATA)
        return path.read_bytes()


def header_of(raw: bytes) -> tuple[dict, bytes]:
    """Return the header of a file, and the bytes behind it."""
    end = 8 + int.from_bytes(raw[:8], "little")
    return json.loads(raw[8:end]), raw[end:]


def crafted(change) -> bytes:
    """Return the sample after `change(header, contents, data)`, with a checksum that holds."""
    header, data = header_of(sample())
    preamble, data = header["__metadata__"], bytearray(data)
    contents = json.loads(preamble["contents"])
    change(header, contents, data)
    preamble["contents"] = json.dumps(contents)
    preamble.setdefault("crc32c", str(crc32c(np.frombuffer(preamble["contents"].encode(), np.uint8))))
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


def renewed(change):
    """Return a change after which the checksum is made again."""

    def changed(header, contents, data):
        del header["__metadata__"]["crc32c"]
        change(header, contents, data)

    return changed


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
    assert same(found, {"a": array}) and metadata == {}


def test_arrays_of_any_layout_come_back_native_and_equal_content_makes_equal_files(tmp_path):
    array = np.arange(12, dtype=">f8").reshape(3, 4).T
    write_archive(tmp_path / "a", KIND, {"a": array}, {})
    assert same(read_archive(tmp_path / "a", KIND)[0], {"a": np.ascontiguousarray(array, np.float64)})
    write_archive(tmp_path / "m", KIND, ARRAYS, METADATA)
    assert (tmp_path / "m").read_bytes() == sample()


def test_safetensors_reads_it(tmp_path):
    (tmp_path / "m").write_bytes(sample())
    with safe_open(tmp_path / "m", "np") as file:
        assert same({name: file.get_tensor(name) for name in file.keys()}, ARRAYS)  # noqa: SIM118
        assert json.loads(file.metadata()["contents"])["metadata"] == METADATA


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    content = bytearray(whole)
    match rng.integers(7):
        case 0:  # a byte
            content[rng.integers(len(content))] ^= int(rng.integers(1, 256))
        case 1:  # an end, or a beginning, that is lost
            cut = int(rng.integers(len(content)))
            content = content[:cut] if rng.random() < 0.5 else content[cut:]
        case 2:  # a page of zeros
            start = int(rng.integers(len(content)))
            content[start : start + 64] = bytes(len(content[start : start + 64]))
        case 3:  # the length of the header
            size = int(rng.integers(2 * len(whole))).to_bytes(8, "little")
            content[:8] = rng.bytes(8) if rng.random() < 0.5 else size
        case 4:  # numbers of the header
            content[rng.choice([i for i, byte in enumerate(whole[:2000]) if chr(byte).isdigit()])] = ord("9")
        case 5:  # anything
            return rng.bytes(int(rng.integers(300)))
        case _:  # a piece that is missing, or there twice
            start, size = int(rng.integers(len(content))), int(rng.integers(1, 100))
            content[start:start] = content[start : start + size]
            if rng.random() < 0.5:
                del content[start : start + 2 * size]
    return bytes(content)


@pytest.mark.parametrize("what", ["model", "checkpoint"])
def test_six_hundred_damages_are_named_or_harmless(what, tmp_path):
    checkpoints = Checkpoints(tmp_path)
    if what == "model":
        write_archive(tmp_path / "m", KIND, ARRAYS, METADATA)
    else:
        checkpoints.write(STAGE, Progress(3, 0, [], 2, 0.0), lambda _: STATE, STATE)
    (path,) = tmp_path.iterdir()
    whole, rng, unnoticed = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(600):
        path.write_bytes(content := damaged(whole, rng))
        try:
            if what == "model":
                found, metadata = read_archive(path, KIND)
                assert same(found, ARRAYS) and metadata == METADATA
            else:
                progress, saved, best = checkpoints.latest(STAGE, 9)
                assert all(map(np.array_equal, (*saved.block(0, 1), *best), (*STATE, *STATE))) and progress.epoch == 3
            unnoticed += content != whole
        except ModelError as error:
            assert str(path) in str(error)
    assert unnoticed < 200, "what is not noticed is in bytes that mean nothing"


def both(name: str, **changes):
    """Return a change of what the header and the checked table say of an array."""

    def change(header, contents, data):
        header[name].update(changes)
        contents["arrays"][name].update({k: v for k, v in changes.items() if k != "data_offsets"})

    return renewed(change)


def nothing(header, contents, data):
    header["__metadata__"].clear()
    header["__metadata__"]["crc32c"] = "0"


ATTACKS = {
    "another kind": (lambda h, c, d: h["__metadata__"].update(format="other"), False),
    "a newer format": (lambda h, c, d: h["__metadata__"].update(format_version="4"), False),
    "an older format": (lambda h, c, d: h["__metadata__"].update(format_version="2"), False),
    "a version that is a number": (lambda h, c, d: h["__metadata__"].update(format_version=3), True),
    "metadata with an old checksum": (lambda h, c, d: c["metadata"].update(x=1), False),
    "an array more": (renewed(lambda h, c, d: c["arrays"].update(evil=c["arrays"]["mu"])), False),
    "an array less": (renewed(lambda h, c, d: c["arrays"].pop("mu")), False),
    "nothing about itself": (nothing, True),
    "more than it holds": (both("mu", shape=[2**40, 3], data_offsets=[0, 2**40 * 24]), True),
    "a shape beyond numbers": (both("mu", shape=[2**80, 3]), True),
    "a negative shape": (both("mu", shape=[-1, 3]), True),
    "another dtype of the same length": (lambda h, c, d: h["mu"].update(dtype="I64"), False),
    "objects": (both("mu", dtype="O"), True),
    "an overlap": (both("zeros", data_offsets=[0, 36]), True),
    "a byte too many": (lambda h, c, d: d.append(0), True),
    "other values": (lambda h, c, d: d.__setitem__(slice(0, 480), bytes(480)), False),
    "metadata that are a list": (renewed(lambda h, c, d: c.update(metadata=[1])), True),
    "no metadata": (renewed(lambda h, c, d: c.update(metadata=None)), True),
}
"""What is changed, and whether nothing of the file can be read: otherwise what was read does not fit together."""


@pytest.mark.parametrize("name", ATTACKS)
def test_crafted_files_are_refused(tmp_path, name):
    change, unreadable = ATTACKS[name]
    (tmp_path / "m").write_bytes(crafted(change))
    with pytest.raises(ModelError) as caught:
        read_archive(tmp_path / "m", KIND)
    assert (caught.value.path, caught.value.__cause__ is not None) == (str(tmp_path / "m"), unreadable)


def test_what_is_no_model_is_named(tmp_path):
    (tmp_path / "deep").write_bytes((200_000).to_bytes(8, "little") + b"[" * 200_000)
    joblib.dump({"a": np.ones(3)}, tmp_path / "lr.joblib")
    np.save(tmp_path / "a.npy", np.ones(3))
    for name, what in (("deep", "damaged"), ("lr.joblib", "a pickle or joblib file"),
                       ("a.npy", "a NumPy array"), ("none", "no such file"), (".", "cannot be read")):  # fmt: skip
        np.testing.assert_raises_regex(ModelError, what, read_archive, tmp_path / name, KIND)


@pytest.mark.parametrize(("arrays", "metadata"), [
    *(({"a": np.array([value])}, {}) for value in ("x", None, 1j)),
    *(({name: np.zeros(1)}, {}) for name in ("a/b", "..")),
    *(({}, {"x": value}) for value in (float("nan"), {1, 2}, "long" * 99)),
])  # fmt: skip
def test_what_cannot_be_written_leaves_what_was_there(tmp_path, monkeypatch, arrays, metadata):
    monkeypatch.setattr("sdem_dist.storage.archive.MAX_JSON_BYTES", 300)
    (tmp_path / "m").write_bytes(sample())
    np.testing.assert_raises_regex(ModelError, "m: ", write_archive, tmp_path / "m", KIND, arrays, metadata)
    assert (tmp_path / "m").read_bytes() == sample()


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
