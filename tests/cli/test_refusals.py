"""What the command refuses, in which words, and that nothing is written or replaced: one table."""

import pytest
from cli.commands import ok, refused
from cli.conftest import MARKUP

TRAIN = [
    (2, "--resume", "need --checkpoint"),
    (2, "--checkpoint-rounds 2", "need --checkpoint"),
    (2, "--patience 2", "needs --validation"),
    (2, "--alpha jeffreys", "not laplace, log or a number"),
    (2, "--loss log", "--loss"),
    (2, "--epochs 0", "--epochs"),
    (2, "--scheduler tcp://x:1 --workers 2", "only one of"),
    (2, "--estimator Perceptron", "Valid: "),
    (2, "--estimator multinomialNb", "Unknown estimator 'multinomialNb'. Did you mean 'MultinomialNB'? Valid: "),
    (2, "--estimator LDA", "Did you mean 'LDAClassifier'"),
    (2, "--set zzz=3", "Unknown parameter 'zzz'. Valid: "),
    (2, "--set epochs=3", "Unknown parameter 'epochs'. Did you mean 'n_epochs'? Valid: "),
    (2, "--set loss", "expected NAME=VALUE"),
    (2, "--set n_lanes=1000000000", "n_lanes is 1,000,000,000, but there are only"),
    (2, f"--set alpha={'[' * 50_000}", "too many nested brackets"),
    (2, "--loss hinge --set loss=ncll", "loss is set twice"),
    (2, "--estimator LDAClassifier --alpha 2", "Unknown parameter 'alpha'"),
    (2, "--stem english --label 0", "--label, --stem applies to sources only"),
    (1, "--estimator GaussianNB", "GaussianNB needs dense documents"),
    (1, "--checkpoint made --checkpoint-rounds 1 --checkpoint-seconds 5", "not both"),
    (1, "--validation posts.model", "posts.model is a model; expected a corpus or a source"),
    (1, "--checkpoint posts.tsv", "a separate folder"),
    (1, "--log posts.tsv/run.jsonl", "posts.tsv"),
    *((2, f"--loss {name}", "perceptron, hinge:MARGIN") for name in (
        "Hinge(0)", "hinge:x", "hinge:-1", "hinge:nan", "blend", "blend:2", "blend:.1:auto", "blend:.1:blend:.2", "ncll:2", "''",
        "perceptron:1",
    )),
]  # fmt: skip
TRAIN_ON = [
    (1, "train nope.tsv m", "Error: nope.tsv: no such file or folder"),
    (2, "train posts.tsv", "CORPUS... MODEL"),
    (1, "train posts.zarr posts.tsv", "is not a model"),
    (2, "train posts.zarr ftp://bucket/m", "a URL must start with s3://"),
    *((2, f"train posts.tsv m --{to}", "use sdem ingest") for to in ("scheduler tcp://127.0.0.1:1", "dry-run --cluster a.yaml")),
    (1, "train no-label.tsv m", "if no document has a label, use --no-labels (and --estimator Latent"),
    (1, "train one-class.tsv m --quiet", "Error: one-class.tsv: there is only one class (a)"),
    (2, "train posts.tsv m --estimator GaussianNB", 'write_corpus("table.zarr", X, y, dense=True)'),
    (1, "train several.tsv m --estimator MultiLabelNB", "--label-separator ','"),
    (2, "train several.tsv m --label-separator |", "needs several labels per document: add --estimator"),
    *((2, f"train plain.tsv m --costs {name}", name) for name in (
        "costs-twice.csv", "costs-again.csv", "empty.csv", "costs-head.csv", "costs-text.csv", "costs-one.csv",
    )),
    (2, "train plain.tsv m --costs costs-short.csv", "the row for class 'money' must have 2 costs"),
    (2, "train plain.tsv m --costs costs.csv --loss hinge", "--costs"),
    (2, "train plain.tsv m --costs costs.csv --set loss=hinge", "loss"),
    (2, "train plain.tsv m --costs costs.csv --estimator KMeans", "KMeans"),
    (2, "train plain.tsv m --no-labels", "--no-labels"),
    (1, "train nosuch.zarr m --log one.log --overwrite", "nosuch.zarr"),
    (1, "train plain.tsv m --log precious.csv --checkpoint run --resume", "expected a log from sdem train --log"),
]  # fmt: skip
TUNE = [
    (2, "tune posts.tsv", "Missing argument 'MODEL'"),
    (2, "tune posts.tsv m --estimator GaussianNB", "GaussianNB needs a table"),
    (2, "tune several.tsv m --label-separator |", "needs several labels per document: add --estimator"),
    (1, "tune posts.zarr posts.model", "--overwrite"),
    (2, "tune posts.zarr m --validation test.zarr --nested", "remove --validation"),
    (1, "tune posts.tsv m --checkpoint search", "contains an earlier search"),
    (2, "tune posts.tsv m --space loss=hinge,hing", "Did you mean 'hinge'? Valid: auto"),
    (1, "tune posts.tsv m --space losss=hinge", "Unknown parameter 'losss'. Did you mean 'loss'?"),
    (2, "tune posts.tsv m --space nowhere.json", "JSON file (No such file or directory)"),
    (2, "tune posts.tsv m --space bad-space.json", "values"),
    (2, "tune posts.tsv m --space step=", "expected NAME=A,B,C"),
    (2, '''tune posts.tsv m --space "stop_words='a,b',c"''', "use Python syntax"),
    (2, "tune posts.tsv m --resume", "--checkpoint"),
    (2, "tune posts.tsv m --curve c.txt", ".png"),
    (2, "tune posts.tsv m --curve one.png --table x/../one.png", "unknown suffix; use one of"),
    (2, "tune posts.tsv m --estimator MultinomialNBB", "MultinomialNB"),
    (1, "tune two.tsv m --quiet", "5 folds need at least 5 documents, but there are 2"),
]
INGEST = [
    (2, "ingest plain.tsv c --ngrams x", "--ngrams"),
    (2, "ingest plain.tsv c --min-df few", "--min-df"),
    (2, "ingest plain.tsv c --stop-words absent", "--stop-words"),
    (2, "ingest plain.tsv c --vocabulary-from posts.zarr --min-df 2", "remove --min-df"),
    (1, "ingest bad.tsv c", "Error: bad.tsv, line 2: no TAB"),
    (1, "ingest posts.zarr c", "is already a corpus"),
    (1, "ingest posts.tsv posts.zarr --overwrite", "posts.zarr-held-out was held out from an earlier posts.zarr"),
    (1, "ingest posts.tsv posts.zarr --held-out 0.5", "posts.zarr and posts.zarr-held-out already exist"),
    (1, "ingest no-labels.tsv c.zarr --unlabelled ''", "no-labels.tsv: no document has a label"),
    (1, "ingest stars.tsv c --targets", "line 2: targets must be finite numbers, got the label 'many'"),
    (1, "ingest numbers.svm c --keep-text", "keep_text applies to text sources"),
    (2, "ingest plain.tsv c --workers 1 --keep-text --jobs 2", "--keep-text, --jobs cannot be combined with --workers"),
    (1, "ingest files c --id key", "has no id column"),
    (1, "ingest surrogate-id.jsonl c --id note", "surrogate-id.jsonl, line 2: the id has an unpaired"),
    (1, "ingest parts c", "files that contain many documents, pass the files: parts/*.tsv"),
]  # fmt: skip
PREDICT = [
    (1, "predict posts.tsv posts.model", "contains documents: pass the model first"),
    (1, "predict posts.model posts.tsv --text text", "specify columns by number (from 0) instead of 'text'"),
    (2, "predict posts.model https://example.org/texts.txt", "a URL must start with s3://"),
    (1, "predict posts.model t.json", "t.json is "),
    (1, "predict posts.model t.npz --text-column 1", "write_corpus"),
    (1, "predict posts.model t.svmlight", "sdem ingest"),
    (1, "predict posts.model t.tsv --text-column 3", "t.tsv, line 1"),
    (1, "predict posts.model latin.txt", "latin.txt, line 2: the line has the byte 0xe9"),
    (1, "predict posts.model mixed.txt", "mixed.txt, line 2: expected 2 columns, got 1"),
    (1, "predict posts.model records.csv", "records.csv, record 3: the record has 3 fields, but the header has 2"),
    (1, "predict posts.model number.jsonl", "number.jsonl, line 2: the text is 3, not a string"),
    (1, "predict posts.model body.csv", "the columns are 'body'. Choose columns with --text (and --id)"),
    (1, "predict posts.model same-names.csv -o o.csv", "more than one column is named 'n'"),
    (1, "predict posts.model empty.csv -o o.csv", "is the file empty?"),
    (1, "predict posts.model empty.txt -o o.csv", "contain no documents"),
    (1, "predict posts.model surrogate.jsonl --id note", "line 2: the id has an unpaired surrogate, U+D800"),
    (1, "predict posts.model surrogate-name.jsonl -o o.csv", "line 1: a field name contains an unpaired"),
    (1, "predict posts.model ids.txt --id 0", "also select the text column (--text NUMBER)"),
    (2, "predict posts.model predicted.csv -o o.csv", "already has a column 'prediction'"),
    (1, "predict posts.model t.csv texts --text body -o o.csv", "a source has columns 'file'"),
    (2, "predict posts.model t.csv -o o.xls", ".tsv, .csv, .jsonl, .parquet"),
    (1, "predict posts.model t.csv --text body -o nowhere/o.csv", "nowhere does not exist: create it first"),
    (2, "predict posts.model t.csv --workers 1 --jobs 2", "--jobs cannot be combined with --workers"),
    (2, "predict posts.model t.csv --top 2 --no-proba", "choose either"),
    *((2, f"predict posts.model test.zarr {option}", f"{option.split()[0]} applies to sources only")
      for option in ("--id id", "--format csv", "--text t", "--encoding latin-1", "--verbose")),
    (1, "predict posts.model numbers.zarr", "words"),
    (1, "predict topics.model t.txt", "t.txt"),
    (1, "predict topics.model latin.txt --encoding latin-1", "makes no predictions"),
    (1, "predict test.zarr posts.tsv", "is a folder"),
    (1, "predict absent posts.tsv", "absent: no such file"), (1, "calibrate topics.model test.tsv", "need a classifier"),
]  # fmt: skip
LOOK = [
    (2, "evaluate posts.model numbers.svm", "contains numbers"),
    (2, "predict posts.model posts.tsv --no-labels", "--no-labels: this command reads no labels"),
    (2, "explain posts.model posts.tsv", "posts.tsv is a file: use sdem explain posts.model < posts.tsv"),
    (1, "predict numbers.model numbers.svm", "ingest it (sdem ingest numbers.svm NAME.zarr"),
    (2, "evaluate numbers.model numbers.svm", "ingest it (sdem ingest numbers.svm NAME.zarr"),
    (2, "evaluate posts.model test.zarr --format tsv", "--format applies to sources only"),
    (1, "evaluate posts.model numbers.zarr", "--vocabulary-from"),
    (1, "evaluate posts.model unknown.tsv", "unknown label 'graain'"),
    (1, "evaluate posts.model swapped.tsv", "…'; the classes are"),
    (1, "evaluate several.model several-other.tsv", "unknown label 'sport;money'; the classes are money, sport"),
    (1, "evaluate several.model several-other.tsv", "the label separator is '|' (--label-separator)"),
    (2, "evaluate posts.model several.tsv --label-separator |", "--label-separator needs a model"),
    (2, "evaluate several.model several.tsv --unlabelled ''", "--unlabelled needs a model"),
    (2, "evaluate posts.model test.zarr --particles 5", "--particles"),
    (1, "explain posts.model x --against spotr", "Did you mean 'sport'"),
    (1, "inspect absent", "no such corpus"),
    (1, "inspect empty", "is a folder, but no"),
    (1, "inspect posts.tsv", "contains documents: pass"),
    (2, "report posts.model test.zarr -o s3://bucket/page.html", "is a URL"),
    (2, "demo --folder s3://bucket/demo", "is a URL"),
    (1, "log absent", "absent: No such file"),
    (1, "log empty.txt", "no completed epoch"),
    (1, "log one.log", "no completed epoch"),
    (1, "log list.log", "line 1"),
    (1, "log posts.model", "expected a log from sdem train --log"),
    (2, "trian", "No such command 'trian'. Did you mean 'train'?"),
    (2, "help nothing", "is not a command"),
    (2, "train a b --step 3", "'--set step=VALUE'"),
    (2, "tune a b --n-epochs 3", "--set n_epochs=VALUE"),
    (2, "train a b --overwrit", "--overwrite"),
    (2, "train a b --epoch 3", "'--epoch'. Did you mean '--epochs'?"),
    (2, "tune a b --metric macro-F2", "Did you mean 'macro-F1'?"),
    (2, "demo --zzzzzz", "No such option '--zzzzzz'."),
]
REPLACES = [
    ("predict posts.model test.tsv -o test.tsv", "would overwrite"),
    ("predict posts.model test.tsv -o link.tsv", "would overwrite"),
    ("predict posts.model parts -o parts/1.tsv", "would overwrite a file in"),
    ("predict posts.model test.tsv -o other.csv", "is a model"),
    ("predict posts.model test.tsv -o test.zarr/x.csv", "is inside the corpus"),
    ("predict posts.model test.zarr -o test.zarr", "suffix"),
    ("evaluate posts.model plain.csv --errors plain.csv", "would overwrite"),
    ("evaluate posts.model test.tsv --errors other.csv", "is a model"),
    ("explain posts.model goal --html posts.model", "would overwrite"),
    ("explain posts.model goal --html other.html", "is a model"),
    ("explain posts.model goal --html test.zarr", "is a folder"),
    ("report posts.model test.tsv -o other.html", "is a model"),
    ("report posts.model made/page.html -o made/page.html --format tsv", "would overwrite"),
    ("export posts.model posts.model --onnx", "would overwrite"),
    ("export posts.model other.onnx", "is a model"),
    ("export posts.model test.zarr --sklearn", "is a folder"),
    ("export posts.model d", "--onnx or --sklearn"),
    ("calibrate posts.model test.tsv -o test.tsv", "would overwrite"),
]
NO_DOCUMENTS = {
    "s.zip": "s.zip is an archive: unpack it",
    "s.tar.gz": "s.tar.gz is an archive: unpack it",
    "s.xlsx": "s.xlsx is a spreadsheet: save it as .csv",
    "plain.model": "plain.model is a model; expected a corpus or a source",
}
CASES = [
    *((code, f"train posts.zarr m {options} --quiet", said) for code, options, said in TRAIN),
    *TRAIN_ON, *TUNE, *INGEST, *PREDICT, *LOOK,
    *((2, command, said) for command, said in REPLACES),
    *((1, f"{command} {name}", said) for name, said in NO_DOCUMENTS.items()
      for command in ("predict posts.model", "evaluate posts.model", "report posts.model", "suspects",
                      "calibrate posts.model")),
]  # fmt: skip


@pytest.fixture(scope="module")
def unchanged(library):
    """Return the files of the library, before and after the tests of this module the same."""

    def contents():
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in library.rglob("*") if path.is_file()}

    (library / "precious.csv").write_text("precious\n")
    before = contents()
    yield lambda: contents() == before
    (library / "precious.csv").unlink()


@pytest.mark.parametrize(("code", "command", "said"), CASES, ids=lambda value: str(value)[:60])
def test_what_is_refused_is_said_and_nothing_is_written(shelf, unchanged, code, command, said):
    assert said in refused(command, code=code)
    assert unchanged()


UNLABELLED = ["no-label.tsv", "no-labels.tsv", "no-label.csv", "no-label.jsonl"]
WRONG = ["byte.tsv", "three.tsv", "twice.csv", "list.jsonl", "body.jsonl", "cut.tsv.gz"]


@pytest.mark.parametrize("name", UNLABELLED + WRONG)
def test_predict_is_named_where_a_label_is_missing(shelf, name, scheduler):
    for workers in ([], ["--scheduler", scheduler]) if name == "no-label.jsonl" else ([],):
        said = refused(f"evaluate plain.model {name}", *workers)
        assert (f"if no document has a label, use sdem predict MODEL {name})" in said) is (name in UNLABELLED), said


def test_a_message_of_a_text_as_a_label_is_short(shelf):
    assert len(refused("evaluate posts.model swapped.tsv")) < 500
    message = refused("evaluate posts.model unknown.tsv")
    assert "--on-error skip" in message and "on_error=" not in message and MARKUP in message


OUTPUTS = [
    ("predict posts.model t.csv --text body -o FILE", "p.csv"),
    ("evaluate posts.model test.tsv --errors FILE", "w.csv"), ("explain posts.model goal --html FILE", "e.html"),
    ("report posts.model test.tsv -o FILE", "r.html"), ("export posts.model FILE --sklearn", "m.skops"),
    ("calibrate posts.model test.tsv -o FILE", "calibrated"), ("train plain.csv FILE --epochs 1", "trained"),
    ("train plain.csv MODEL --epochs 1 --log FILE", "run.jsonl"),
    ("tune plain.csv MODEL --folds 2 --trials 1 --table FILE", "t.csv"), ("ingest plain.csv FILE", "corpus"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "name"), OUTPUTS)
def test_what_is_there_is_replaced_only_with_overwrite(shelf, tmp_path, command, name):
    words = command.replace("FILE", str(tmp_path / name)).replace("MODEL", str(tmp_path / "model"))
    ok(words)
    (tmp_path / "model").unlink(missing_ok=True)
    assert f"{tmp_path / name} already exists" in refused(words) and not (tmp_path / "model").exists()
    ok(words, "--overwrite")


def test_a_file_of_another_kind_is_left_alone(desk):
    content = (desk / "plain.csv").read_text()
    refused("calibrate posts.model test.tsv -o plain.csv --overwrite")
    assert (desk / "plain.csv").read_text() == content
    ok("calibrate posts.model test.tsv")  # the model itself
    ok("calibrate posts.model test.tsv -o", desk / "posts.model")  # by another name
    ok("train plain.csv n --epochs 1 --log plain.tsv --overwrite")
    assert "RunStarted" in (desk / "plain.tsv").read_text()
