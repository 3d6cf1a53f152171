"""URLs where only paths are served."""

from pathlib import Path

import pytest

from sdem_dist import ingest, load_model, open_corpus
from sdem_dist.errors import BucketError, SdemError
from sdem_dist.storage.buckets import is_url, place, refuse_url


@pytest.mark.parametrize("where", ["s3://bucket/m", "memory://m", "gs://b", "file:///m", Path("s3://bucket/m")])
def test_urls_are_refused_also_as_paths(where):
    with pytest.raises(SdemError, match="is a URL, and a table is a file: give a path of this machine"):
        refuse_url(where, "a table is a file")
    assert is_url(where)
    assert where == "file:///m" or str(place(where)).startswith(str(where).split(":")[0] + "://")


@pytest.mark.parametrize(
    "where",
    [f"{bucket}{name}" for bucket in ("s3://b/", "gs://b/", "memory://") for name in ("../x", "./x", "a/..", "a\nb")],
)
def test_names_that_objects_cannot_have_are_refused(where, tmp_path):
    for use in (open_corpus, load_model, lambda url: ingest(url, tmp_path / "c"), lambda url: ingest(tmp_path, url)):
        with pytest.raises(BucketError, match="the name of an object"):
            use(where)


@pytest.mark.parametrize("where", ["m", "a/b", "/tmp/m", "C:/m", "s3:x", "", "-", Path("a:b/c").name])
def test_paths_pass(where):
    refuse_url(where, "a model is a file")
    assert not is_url(where)
    assert str(place(where)) == str(Path(where))
