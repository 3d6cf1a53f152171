"""A folder of sources, corpora and models, made once: tests look at it, or work in a copy."""

import gzip
import json
import lzma
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.commands import ok

MARKUP = "<script>alert(1)</script>"
WORDS = ["goal", "match", "team", "score", "bank", "share", "profit", "market", "salt", "bread", "oven", "taste"]
TOPICS = {"sport": WORDS[:4], MARKUP: WORDS[4:8], "=food": WORDS[8:]}
COMMON = ["the", "of", "and", "said", '"quoted"', "\x1b[31mred", "<img src=x onerror=alert(1)>", "it's"]
NASTY = 'goal "team", <script>alert(1)</script>\tmatch\x1b[31m'
TEXTS = ["goal team match", "bank share profit", NASTY, "bank goal", ""]
ROWS = [{"id": f"d{i}", "body": text, "extra": i} for i, text in enumerate(TEXTS)]
SEVERAL = "sport\ta late goal wins\nmoney\trates fall\nmoney|sport\tthe club buys shares\n\tthe weather is fine\n"
PLAIN = "sport\tgoal one\nmoney\tbank two\nsport\tgoal three\nmoney\tbank goal\n"

# Files that commands refuse, or read with a warning.
FILES = {
    "plain.tsv": PLAIN * 10, "plain.csv": "label,text\n" + PLAIN.replace("\t", ",") * 10,
    "bad.tsv": "sport\tgoal strange\nno tab\n=food\tstrange\n", "two.tsv": "a\tgoal\nb\tbank\n",
    "one-class.tsv": "a\tone text\na\tother text\n", "no-labels.tsv": "\tgoal match\n" * 20,
    "no-label.tsv": b"goal one\nbank two\n", "no-label.csv": b"text\ngoal one\n",
    "no-label.jsonl": b'{"text": "goal one"}\n', "byte.tsv": b"sport\tgoal \xff one\n",
    "latin.txt": b"goal\ncaf\xe9\nbank\n", "three.tsv": b"sport\tgoal\tone\n",
    "twice.csv": b"label,text,text\nsport,goal,one\n", "list.jsonl": b'{"label": ["sport"], "text": "goal"}\n',
    "body.jsonl": b'{"label": "sport", "body": "goal"}\n', "cut.tsv.gz": gzip.compress(PLAIN.encode())[:40],
    "unknown.tsv": "graain\tgoal\n", "swapped.tsv": f"{'a text ' * 300}\tgrain\n",
    "records.csv": 'text,n\ngoal,1\nbank,2,3\n"salt\noven",4\n', "number.jsonl": '{"text": "goal"}\n{"text": 3}\n',
    "surrogate.jsonl": '{"text": "goal", "note": "x"}\n{"text": "goal", "note": "\\ud800"}\n',
    "surrogate-name.jsonl": '{"text": "goal", "\\ud800": 1}\n',
    "surrogate-id.jsonl": '{"label": "a", "text": "goal", "note": "x"}\n{"label": "b", "text": "b", "note": "\\ud800"}\n',
    "predicted.csv": "text,prediction\ngoal,x\n", "same-names.csv": "text,n,n\ngoal,1,2\n",
    "ids.txt": "d1\tgoal team\n", "mixed.txt": "sport\tbank share\nno tab\n", "empty.csv": "", "empty.txt": "",
    "body.csv": "body\ngoal\n", "stars.tsv": "3\tgood\nmany\tbad\nnan\tbad\n-2.5\tfair\n", "several.tsv": SEVERAL * 15,
    "several-other.tsv": "sport;money\tgoal\n", "numbers.svm": "1 1:1 2:2\n2 1:2 3:1\n" * 10, "s.zip": "PK\n",
    "s.tar.gz": "PK\n", "s.xlsx": "PK\n", "t.json": 'label,text\na,"good\nfine"\n',
    "t.npz": 'label,text\na,"good\nfine"\n', "t.svmlight": 'label,text\na,"good\nfine"\n',
    "one.log": '{"event": "RunStarted", "n_workers": 1}\n{"eve', "list.log": "[1]\nx\n",
    "bad-space.json": '{"loss": "nll"}', "costs.csv": ",pos,neg\nneg,3,0\npos,0,1\n",
    "costs-twice.csv": ",sport,sport\nmoney,3,0\nsport,0,1\n",
    "costs-again.csv": ",sport,money\nmoney,3,0\nmoney,3,0\nsport,0,1\n", "costs-head.csv": "sport,money\n",
    "costs-short.csv": ",sport,money\nmoney,3\nsport,0,1\n", "costs-text.csv": ",sport,money\nmoney,x,0\nsport,0,1\n",
    "costs-one.csv": ",a\na,0\n", "parts/1.tsv": PLAIN, "files/bad/x.txt": "word", "search/search.sdem": b"",
    "made/page.html": "goal\n",
}  # fmt: skip


def write_rows(folder: Path) -> None:
    """Write the rows of predictions in each format."""
    lines = (f'{r["id"]},"{r["body"].replace(chr(34), chr(34) * 2)}",{r["extra"]}\n' for r in ROWS)
    (folder / "t.csv").write_text("".join(["id,body,extra\n", *lines]))
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "t.parquet")
    lines = (f"{r['id']}\t{r['extra']}\t{r['body']}\n".replace(NASTY, "x y") for r in ROWS)
    (folder / "t.tsv").write_text("".join(lines))
    (folder / "t.csv.xz").write_bytes(lzma.compress((folder / "t.csv").read_bytes()))
    (folder / "texts").mkdir()
    for row in ROWS:
        (folder / "texts" / f"{row['id']}.txt").write_text(row["body"])


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    folder, rng = tmp_path_factory.mktemp("library"), np.random.default_rng(0)
    for name, times in (("posts", 60), ("test", 40)):
        names = list(TOPICS) * times
        texts = ([*rng.choice(TOPICS[k], 2), *rng.choice(WORDS, 4), *rng.choice(COMMON, 4)] for k in names)
        lines = (f"{topic}\t{' '.join(text)}\n" for topic, text in zip(names, texts, strict=True))
        (folder / f"{name}.tsv").write_text("".join(lines))
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    write_rows(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ok("ingest posts.tsv posts.zarr --held-out 0.25 --jobs 1")
        ok("ingest test.tsv test.zarr --vocabulary-from posts.zarr --jobs 1")
        ok("train posts.zarr posts.model --epochs 3 --quiet")
        ok("train posts.zarr lda.model --estimator LDAClassifier --set n_components=2 --epochs 2 --quiet")
        topics = "--estimator LatentDirichletAllocation --set n_components=3 --epochs 2"
        ok(f"train posts.zarr topics.model {topics} --quiet")
        ok("train several.tsv several.model --estimator MultiLabelNB --label-separator | --quiet")
        ok("train plain.tsv plain.model --epochs 1 --quiet")
        ok("ingest numbers.svm numbers.zarr --quiet")
        ok("train numbers.zarr numbers.model --epochs 1 --quiet")
        (folder / "empty").mkdir()
        (folder / "link.tsv").symlink_to("test.tsv")
        for suffix in ("csv", "html", "onnx"):
            shutil.copy("posts.model", f"other.{suffix}")
    return folder


@pytest.fixture
def desk(library, tmp_path, monkeypatch) -> Path:
    """A copy of the library, where the test works."""
    shutil.copytree(library, tmp_path, dirs_exist_ok=True, symlinks=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def shelf(library, monkeypatch) -> Path:
    """The library itself: what a test writes goes elsewhere."""
    monkeypatch.chdir(library)
    return library
