# ruff: noqa: ISC004
"""What errors and warnings say, word for word: here and nowhere else. Other tests look at types and fields."""

import copy
import shutil
import unicodedata
import warnings
from functools import partial as call
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from storage.test_arrays import ATTACKS, KIND, crafted
from text.sources import DOCUMENTS, written

import sdem_dist as sd
from sdem_dist import CorpusError, IngestError, SdemError, ingest, write_corpus
from sdem_dist.corpus import MemoryCorpus
from sdem_dist.losses import Hinge
from sdem_dist.reports.classification import ClassificationReport
from sdem_dist.storage.archive import read_archive
from sdem_dist.storage.buckets import named, refuse_url, split
from sdem_dist.storage.encoding import decode_strings, encode_strings
from sdem_dist.text import Reading, VectorizerSettings, count_texts


def at(error: SdemError, record: int, unit: str = "line") -> SdemError:
    error.record, error.unit = record, unit
    return error


ERRORS = [
    (SdemError("something is wrong"), "something is wrong"),
    (IngestError("it is empty", path="a.csv"), "a.csv: it is empty"),
    (at(IngestError("no TAB", path="-"), 3), "standard input, line 3: no TAB"),
    (CorpusError("a.zarr already exists", hint="replace it"), "a.zarr already exists (replace it)"),
    (at(IngestError("no text", path="d", hint="skip it"), 2, "file"), "d, file 2: no text (skip it)"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "text"), ERRORS)
def test_an_error_says_where_what_and_what_to_do_also_in_another_process(error, text):
    there = copy.copy(error)  # by the protocol of pickle
    assert str(error) == text and type(there) is type(error) and vars(there) == vars(error)


FORMS = {
    "s.tsv": "a\tx\n{}\nb\tz\n",
    "s.csv": "label,text\na,x\n{}\nb,z\n",
    "s.jsonl": '{{"label": "a", "text": "x"}}\n{}\n{{"label": "b", "text": "z"}}\n',
    "s.svm": "1 1:2\n{}\n-1 2:1\n",
}
LEARN = "; to learn from them, use --unlabelled '' or, for several labels per document, --label-separator ','"
SKIP = " (use --on-error skip, or on_error in Python, to skip such lines)"
BYTE = "has the byte 0xe9, invalid in this encoding: use another, such as --encoding latin-1"
RANGE = "counts and weights must be finite, nonnegative, and at most 3.4e+38"
BAD = [
    ("s.tsv", "label only", "NoLabelError", "no TAB between label and text"),
    ("s.tsv", "b\ty\tz", "IngestError", "expected 2 columns, got 3; choose columns (counting from 0) "
     "with --label NUMBER --text NUMBER"),
    ("s.tsv", " \ty", "NoLabelError", f"the label is empty{LEARN}"),
    ("s.tsv", "b\tcaf\udce9", "IngestError", f"the line {BYTE}"),
    ("s.csv", "b,caf\udce9", "IngestError", f"the text {BYTE}"),
    ("s.csv", "b", "IngestError", "the record has 1 fields, but the header has 2"),
    ("s.jsonl", '{"label"', "IngestError", "not JSON: Expecting ':' delimiter: line 1 column 9 (char 8)"),
    ("s.jsonl", "[]", "IngestError", "expected a JSON object, got list"),
    ("s.jsonl", '{"Text": "y"}', "NoLabelError", "there is no field 'label'; fields: 'Text'"),
    ("s.jsonl", '{"label": null, "text": "y"}', "NoLabelError", f"the label is missing{LEARN}"),
    ("s.jsonl", '{"label": "c", "text": "\\ud800"}', "IngestError", "the text has an unpaired surrogate, U+D800"),
    *(("s.jsonl", f'{{"label": {value}, "text": "y"}}', "IngestError",
       f"the label is {shown}, neither a string nor a finite number") for value, shown in (("Infinity", "inf"), ("NaN", "nan"))),
    ("s.jsonl", '{"label": [], "text": "y"}', "IngestError",
     "the label is a list, []: use --label-separator ',' for lists of labels"),
    ("s.jsonl", '{"label": "x\\u0000", "text": "y"}', "IngestError",
     "the label 'x\\x00' ends with a NUL, which NumPy drops: remove it"),
    *(("s.svm", line, "IngestError", "not svmlight: could not convert string to float: b'x'") for line in ("1 2:x", "x 1:1")),
    ("s.svm", "1 3:1 2:1", "IngestError",
     "not svmlight: Feature indices in SVMlight/LibSVM data file should be sorted and unique."),
    *(("s.svm", f"1 2:{x}", "IngestError", f"the value {float(x)} is invalid: {RANGE}") for x in ("-1", "nan", "1e300")),
]  # fmt: skip
"""A source, its second line or third record, the error, and its problem."""


def place(name: str) -> str:
    return "record 3" if name == "s.csv" else "line 2"


def read(name: str, content: str, path: str = "c", settings=None, reading=None, **options):
    def act():
        Path(name).write_bytes(content.encode("utf-8", "surrogateescape"))
        try:
            ingest(name, path, settings, reading=Reading(**(reading or {})), **options)
        finally:
            Path(name).unlink()

    return act


def ingested(sources="docs.tsv", path="c", settings=None, **options):
    return lambda: ingest(sources, path, settings, **options)


def used(method: str, X, *y):
    return lambda: getattr(sd.MultinomialNB(n_epochs=1).fit(np.eye(3), list("aab")), method)(X, *map(list, y))


def refused(text: str):
    def act():
        raise named(type("GenericError", (Exception,), {"__module__": "obstore"})(text), "s3://b/x")

    return act


def restored(name: str):
    def act():
        Path("cafe.tsv").write_bytes(crafted(ATTACKS[name][0]))
        read_archive("cafe.tsv", KIND)

    return act


def damaged():
    """Train on a corpus of two shards, one of which is damaged."""
    write_corpus("half", np.eye(40), LABELS, shard_documents=20)
    shutil.rmtree("half/shards/00001/indices")
    sd.MultinomialNB(n_epochs=1, n_lanes=1).fit(sd.open_corpus("half"), skip_damaged=True)


BOTH = VectorizerSettings(features="words+characters")
NFC, NFD = (unicodedata.normalize(form, "Café") for form in ("NFC", "NFD"))
TEXTS, LABELS, ONES = ["good film", "bad film"] * 20, ["p", "n"] * 20, np.ones((4, 3))
SPARSE = sp.csr_matrix(ONES)
WHOLE = "an integer of at least 1"
LOSS = "one of ('auto', 'hinge', 'ncll', 'nll') or a frozen dataclass like sdem_dist.losses.Loss"
ABOUT, NONE = [{"unlabelled": ""}, {"label": 0}, {"label_separator": ","}], [{"labelled": False}, {"format": "lines"}]
CASES = [
    # Sources.
    *((read(name, FORMS[name].format(line)), f"{kind}: {name}, {place(name)}: {problem.removesuffix(LEARN)}"
       f"{SKIP.replace('line', place(name)[:-2])[:-1]}{LEARN * problem.endswith(LEARN)})") for name, line, kind, problem in BAD),
    (read("s.dat", "a\tx\n"),
     "IngestError: s.dat: unknown suffix (known: .txt, .tsv, .csv, .jsonl, .ndjson, .parquet, .pq, .svm, .svmlight, .libsvm, "
     "also with .gz, .xz, .zst); choose a format with --format: folder, tsv, csv, jsonl, parquet, svmlight, lines"),
    *((read("s.csv", f"{x},text\n"), f"NoLabelError: s.csv, line 1: there is no column 'label'; the columns are {x!r}, "
       f"'text'. Choose columns with --label and --text{bad}") for x, bad in (("x", ""), ("caf\udce9", f". The header {BYTE}"))),
    (read("s.csv", 'label,text\na,x\nb,"y\nc,z\n'), "IngestError: s.csv, record 3: unclosed quote at the end of the file"),
    (read("s.tsv", "a\tx\n", reading={"encoding": "klingon"}),
     "IngestError: s.tsv: unknown encoding 'klingon'; specify another, such as 'latin-1'"),
    *((read("s.jsonl", "".join(f'{{"label": {label}, "text": "x"}}\n' for label in labels)), "IngestError: s.jsonl, line 2: the "
       f"label {shown} is sometimes a string and sometimes a number in the sources: use one type{SKIP}")
      for *labels, shown in (("1", '"1"', "'1'"), ('"1"', "1.0", "1.0"), ("true", '"true"', "'true'"))),
    (read("s.csv", "label,text,w\na,fig,0\n", reading={"weight": "w"}), "IngestError: s.csv: no document has a positive weight"),
    (read("s.tsv", "no tab\n", on_error="skip"),
     "IngestError: s.tsv: no documents; skipped 1 record, for example\n  s.tsv, line 1: no TAB between label and text"),
    (read("s.tsv", "sport\tgoal\n", vocabulary_from="words"),
     f"IngestError: s.tsv, line 1: unknown label 'sport'; the classes are acq, crude, earn{SKIP}"),
    (read("s.tsv", f"{NFD}\tgoal\n", vocabulary_from="cafe"),
     "IngestError: s.tsv, line 1: unknown label 'Café'; the classes are Café, x; 'Café' and 'Café' differ only by "
     "Unicode normalization: use one form for both (use --on-error skip, or on_error in Python, to skip such lines)"),
    (read("s.svm", "1 0:1\n", reading={"zero_based": False}),
     "IngestError: a document has column 0, so columns are numbered from 0, not from 1"),
    (read("s.jsonl", f'{{"label": "{NFC}", "text": "x"}}\n{{"label": "{NFD}", "text": "x"}}\n', path="two"),
     "UserWarning: two labels look alike, but are different classes: 'Café' ('Cafe\\u0301') and 'Café' ('Caf\\xe9') differ "
     "only by spaces or Unicode normalization; write them in the same form"),
    (ingested("folder", reading=Reading(format="csv")), "IngestError: folder is a folder, which cannot be read as 'csv'"),
    (ingested("absent.tsv"), "IngestError: absent.tsv: no such file or folder"),
    (ingested(["x.svm", "docs.tsv"]),
     "IngestError: x.svm is svmlight, but docs.tsv is tsv: they cannot be combined in one corpus"),
    (ingested([]), "ValueError: no sources to ingest"),
    *((ingested(odd), f"ValueError: sources must be paths of files and folders, got a {type(odd).__name__} of other objects: "
       "save a table first (to_parquet, to_csv), or use write_corpus for counts") for odd in (pd.DataFrame({"a": ["b"]}), [3])),
    (ingested(path="absent/c"), "IngestError: absent/c: the folder absent does not exist; create it"),
    (ingested(path="words"), "CorpusError: words already exists (use --overwrite, or overwrite=True in Python)"),
    (ingested(vocabulary_from="unknown"),
     "IngestError: unknown has no tokenization settings, so it cannot be used for new text"),
    (ingested(vocabulary_from="numbers"), "IngestError: the sources contain text, but numbers was made from numbers"),
    (ingested(vocabulary_from="words", settings=VectorizerSettings()),
     "ValueError: vocabulary_from uses the settings of that corpus: remove held_out and settings"),
    (ingested("x.svm", settings=VectorizerSettings(min_df=2)), "ValueError: min_df does not apply to kind 'matrix'"),
    (ingested(reading=Reading(unlabelled=""), targets=True),
     "ValueError: unlabelled does not apply to targets: drop documents without a target"),
    (ingested(held_out_path="h"), "ValueError: held_out_path needs a held_out above 0"),
    (ingested(held_out=0.5, held_out_path="c"), "ValueError: path and held_out_path are the same"),
    (ingested(held_out=1e-9),
     "IngestError: 0 of 6 documents are held out; both parts need documents: choose another fraction or seed"),
    (ingested(on_error="ignore"), "ValueError: on_error must be 'raise' or 'skip', got 'ignore'"),
    *((ingested(**{name: bad}), f"ValueError: {name} must be {WHOLE}, got {bad!r}")
      for name in ("block_documents", "n_jobs", "shard_documents") for bad in (0, True, 1.0, -1)),
    *((ingested(random_state=bad), f"ValueError: random_state must be an integer, got {bad!r}") for bad in (True, 0.5, "x")),
    *((ingested(held_out=bad), f"ValueError: held_out must be at least 0 and less than 1, got {bad}")
      for bad in (True, 1, -0.1)),
    *((lambda how=how: Reading(**how),
       "ValueError: label, label_separator and unlabelled do not apply to documents without labels")
      for how in (a | b for a in NONE for b in ABOUT)),
    (lambda: Reading(unlabelled="", label_separator=","), "ValueError: unlabelled and label_separator cannot be combined"),
    # Settings of words.
    *((call(VectorizerSettings, **how, **{name: value}), f"ValueError: {name} does not apply to {of}") for of, how, changes in (
        ("kind 'count'", {}, {"n_features": 8}), ("kind 'matrix'", {"kind": "matrix"}, {"lowercase": False}),
        ("kind 'hashing'", {"kind": "hashing", "n_features": 8}, {"min_df": 2}),
        ("analyzer 'char'", {"analyzer": "char"}, {"stem": "english", "token_pattern": "x", "features": "words+characters"}),
    ) for name, value in changes.items()),
    *((call(VectorizerSettings, **{name: bad}), f"ValueError: {name} must be {what}, got {bad!r}") for what, values in (
        ("True or False", {"lowercase": ("yes",)}), ("a text or None", {"stem": (5,)}),
        (f"{WHOLE} or a fraction between 0.0 and 1.0", {"min_df": (0,), "max_df": (1.5,)}),
        (f"{WHOLE} or None", {"max_features": (0, True)}), ("(min_n, max_n) with min_n <= max_n", {"ngram_range": ((2, 1),)}),
        ("two integers between 1 and 1000", {"ngram_range": (2, ["1", "2"])}),
        ("one of ['english'] or words or None", {"stop_words": ("german", {"a": 1}.get, [1, 2])}),
        ("one of ['count', 'hashing', 'matrix']", {"kind": ("tfidf",)}),
        ("a regular expression of at most 1000 characters", {"token_pattern": (3, "a" * 1001)}),
    ) for name, bads in values.items() for bad in bads),
    *((call(VectorizerSettings, token_pattern=bad), f"ValueError: token_pattern {bad!r} {why}") for bad, why in (
        ("(", "is not a regular expression: missing ) at position 1"), ("(a)(b)", "has 2 groups; at most one is allowed"),
        ("a)", "is not a regular expression: unbalanced parenthesis at position 1"),
        ("a{1,99999999999999}", "is not a regular expression: repeat count too big at position 2"),
        ("(?:(?:a{1000}){1000}){1000}", "repeats parts more than 10,000 times in total"),
    )),
    (call(VectorizerSettings, kind="hashing"),
     "ValueError: kind 'hashing' needs n_features, the number of columns to hash words to"),
    (call(VectorizerSettings, token_pattern="[a-z]+", features="words+characters"),
     "ValueError: features='words+characters' needs words+signs, words, \\w+ or \\S+, got '[a-z]+'"),
    (call(VectorizerSettings, kind="hashing", n_features=1, features="words+characters"),
     "ValueError: features='words+characters' needs n_features of at least 2: one for words, one for characters"),
    (lambda: VectorizerSettings.from_json({"bm25": True}),
     "ValueError: unknown text settings: bm25; a newer version may have written them"),
    (lambda: count_texts("good", VectorizerSettings(), ["bad", "good"]),
     "ValueError: expected a list of texts, got a single text"),
    # Corpora.
    *((call(MemoryCorpus, sp.csr_matrix(matrix), None, ()),
       f"CorpusError: the matrix: document 0 (counting from 0) contains the value {shown}: {RANGE}")
      for matrix, shown in ((-ONES, "-1.0"), (ONES * np.nan, "nan"), (ONES * 1e300, "1e+300"))),
    *((call(MemoryCorpus, SPARSE, None, (), weights=np.full(4, bad)),
       f"CorpusError: the matrix has sample_weight {bad} for document 0 (counting from 0), not between 0 and 3.4e+38")
      for bad in (-1.0, np.nan, 1e300)),
    (call(MemoryCorpus, SPARSE, np.full(4, 3), tuple("abc")), "CorpusError: y_positions of the matrix must be between -1 and 2"),
    (call(MemoryCorpus, SPARSE, np.zeros(2, int), ("a",)),
     "CorpusError: the matrix has 4 documents, but the labels have shape (2,)"),
    (call(MemoryCorpus, SPARSE, None, (), weights=np.ones(3)),
     "CorpusError: the matrix has 4 documents, but sample_weight has shape (3,)"),
    (call(MemoryCorpus, SPARSE[:0], None, ()), "CorpusError: the matrix is empty: its shape is (0, 3)"),
    (call(write_corpus, "d", np.eye(2), ["a", None]), "CorpusError: document 1: None cannot be a class label: "
     "labels are strings, finite numbers or booleans. Convert it, or, if the label is missing, pass unlabelled=''"),
    (lambda: write_corpus("photos", np.eye(2), overwrite=True),
     "CorpusError: photos exists and is not a corpus; choose another name, or remove it"),
    (lambda: sd.open_corpus("table").document_frequency,
     "CorpusError: Corpus('table') is dense: its columns have no document frequencies"),
    (lambda: sd.concat([sd.open_corpus("table"), sd.open_corpus("weighted")]).header,
     "CorpusError: weighted and table differ in layout, has_weights: ingest one of them with the vocabulary of the other "
     "(--vocabulary-from), or all sources together"),
    (lambda: sd.concat([sd.open_corpus("words").subset([1]), sd.open_corpus("words")]).header, "CorpusError: a subset of 1 "
     "documents of Corpus('words') is not a corpus on disk: join corpora first, then take a subset"),
    (lambda: sd.concat([]), "CorpusError: no corpora to join"),
    (lambda: sd.open_corpus("words").text(0), "CorpusError: words contains no texts: ingest with --keep-text"),
    *((lambda k=k: sd.open_corpus("words").folds(k),
       f"ValueError: the number of folds must be an integer of at least 2, got {k}") for k in (1, 0, 2.5, True)),
    (lambda: sd.open_corpus("words").folds(7), "ValueError: 7 folds need at least 7 documents, but there are 6"),
    (call(write_corpus, "d", pd.DataFrame({"text": [f"review {i}" for i in range(30)], "town": ["x", "y"] * 15}), dense=True),
     "UserWarning: column 'text' has 30 different strings in 30 rows, each a separate category: use sdem ingest for raw "
     "text; drop columns that only identify rows"),
    (damaged, "UserWarning: half: 1 of 2 shards are damaged; training skips 20 of 40 documents: half: shard 1: "
     "array 'indices': the array, or one of its files, is missing"),
    *((call(sd.open_corpus, name), f"CorpusError: {name}{what}; a corpus is a folder written by sdem ingest or write_corpus{how}")
      for name, what, how in (("nowhere", ": no such corpus", ""), ("folder", " is a folder, but not a corpus", ""),
        ("x.svm", " is a file, perhaps a model or a source", ": ingest a source first (sdem ingest; for test documents, add "
         "--vocabulary-from TRAINING)"))),
    *((lambda e=e, name=name: e.fit(sd.open_corpus(name)), f"CorpusError: {name}: {problem}") for e, name, problem in (
        (sd.MultinomialNB(), "table", "the documents are dense, but MultinomialNB needs sparse documents: in Python, write "
         "them with write_corpus(path, X, y), without dense=True"),
        (sd.GaussianNB(), "words", "the documents are sparse, but GaussianNB needs dense documents: in Python, write "
         "them with write_corpus(path, X, y, dense=True)"),
        (sd.EMMixtureClassifier(), "words", "the documents are sparse, but EMMixtureClassifier needs dense documents: for word "
         'counts, set components="multinomial"'))),
    (lambda: sd.MultinomialNB(vectorizer=VectorizerSettings(lowercase=False)).fit(*np.array(DOCUMENTS).T[::-1])
     .predict(sd.open_corpus("words")), "CorpusError: the text settings of words differ from those of the model "
     "(lowercase); ingest it like the training corpus (sdem ingest --vocabulary-from)"),
    (lambda: sd.open_corpus("cafe").text(0),
     "CorpusError: cafe: shard 0: array 'texts_bytes': the array, or one of its files, is missing"),
    # Files.
    (lambda: refuse_url("s3://bucket/m", "a table is a file"),
     "SdemError: s3://bucket/m is a URL, but a table is a file: use a path on this machine or on a mounted filesystem"),
    (lambda: encode_strings(["a", 3]), "TypeError: element 1 is a int, not a string"),
    (lambda: decode_strings(np.array([97, 255], np.uint8), np.array([0, 1, 2])),
     "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte (string 1)"),
    (restored("another kind"), "ModelError: cafe.tsv: expected a 'sdem-model' file, got a 'other' file"),
    (restored("a newer format"), "ModelError: cafe.tsv: its format version is '4', but this package reads "
     "version 3: repeat the training, or install the version of sdem_dist that wrote it"),
    (restored("other values"), "ModelError: cafe.tsv: its table of contents does not match its checksum: the file was altered"),
    (restored("an array more"), "ModelError: cafe.tsv: array 'evil' is missing or unexpected"),
    (lambda: split("s3://key:secret@b/x"), "BucketError: a URL must be s3://BUCKET/NAME and nothing more: set "
     "credentials as environment variables, not in the URL"),
    *((refused(f"<Code>{code}</Code>"), f"BucketError: {problem}") for code, problem in (
        ("NoSuchBucket", "bucket s3://b does not exist: check the name"),
        ("ExpiredToken", "s3://b/x: the credentials have expired (ExpiredToken): renew them in the environment"),
        *((code, f"s3://b/x: {what} ({code}): check the credentials in the environment") for code, what in (
            ("InvalidAccessKeyId", "the credentials are unknown or wrong"), ("AccessDenied", "access is denied"),
            ("SignatureDoesNotMatch", "the credentials are unknown or wrong"))),
    )),
    (refused("no answer<Error>"), "OSError: [Errno 5] requests to the bucket failed repeatedly: no answer: 's3://b/x'"),
    # Estimators.
    (call(sd.LDAClassifier().fit, [[text] for text in TEXTS], LABELS), "ValueError: X contains raw text ('good film'): "
     "LDAClassifier needs word counts, or one column of texts: a list, an array or a Series, such as X[:, 0]"),
    (call(sd.GaussianNB().fit, TEXTS, LABELS), "ValueError: X contains raw text ('good film'): GaussianNB needs "
     "numbers; for categories, use MixedNB with a pandas, polars or Arrow table"),
    *((used(method, kind(np.diag([1.0, 1.0, value])), *y),
       f"ValueError: {what} values in data passed to MultinomialNB (input X): row 2 (counting from 0) contains {value}; {RANGE}")
      for value, what in ((-1.0, "Negative"), (1e300, "Too large")) for kind in (np.array, sp.csc_matrix)
      for method, *y in (("fit", "aab"), ("partial_fit", "aab"), ("predict",), ("evaluate", "aab"))),
    *((call(kind(2, vectorizer=BOTH).fit, TEXTS), f"CorpusError: these documents: {kind.__name__} does not support character "
       "n-grams: use features='words'") for kind in (sd.MultinomialMixture, sd.LatentDirichletAllocation)),
    *((call(sd.MultinomialNB(**{name: value}).fit, ONES, list("aabb")), f"ValueError: {name} must be {what}, got {got}")
      for name, value, what, got in (
        ("loss", "hinge ", LOSS, "'hinge '. Did you mean 'hinge'?"), ("loss", "x", LOSS, "'x'"),
        ("loss", Reading(), LOSS, f"{Reading()}. Reading has no weights() method"),
        ("loss", Hinge, LOSS, f"{Hinge}. Pass an instance of Hinge"), ("min_df", 0, WHOLE, "0"),
        ("weighting", "tf-idf", "one of ('auto', 'counts', 'log', 'binary', 'tfidf')", "'tf-idf'. Did you mean 'tfidf'?"),
        ("alpha", 1e39, "one of ('laplace', 'log') or a float in [0, 3e38] or a sequence of positive numbers", "1e+39"))),
    (call(sd.MultinomialNB().partial_fit, TEXTS, LABELS, classes=["n", "p"]),
     "UserWarning: partial_fit uses the words of the first batch as the vocabulary, and ignores other words. "
     "vectorizer=sdem_dist.text.VectorizerSettings(kind='hashing', n_features=2**18) accepts any words"),
    (call(sd.MultinomialNB().fit, [*TEXTS, "one"], [*LABELS, "odd"], sample_weight=[1.0] * 40 + [0.0]),
     "UserWarning: there is no document of positive weight in 1 class (odd): such classes cannot be learned"),
    (call(sd.MultinomialNB(loss="nll").fit, TEXTS, ["p", ""] * 20),
     "UserWarning: the class '' has 20 documents: if they have no label, set unlabelled=''"),
    *((call(estimator.fit, X, [f"goal {i}" for i in range(40)]), "UserWarning: 40 distinct labels, such as 'goal 0', in "
       "40 documents: did you swap X and y?")
      for estimator, X in ((sd.MultinomialNB(), LABELS), (sd.GaussianNB(), np.arange(80.0).reshape(40, 2)))),
    (lambda: sd.MultinomialNB(n_epochs=1).fit(TEXTS, LABELS).evaluate(TEXTS[:3], ["p", "n", "n"]), ""),
    (call(sd.MultinomialNB(n_epochs=1).fit, TEXTS, [NFC, NFD] * 20),
     "UserWarning: two labels look alike, but are different classes: 'Café' ('Caf\\xe9') and 'Café' ('Cafe\\u0301') differ "
     "only by spaces or Unicode normalization; write them in the same form"),
    *((call(kind(loss="nll").fit, np.eye(4), [0, 1, 0, 1], sample_weight=[0.01] * 4), "UserWarning: the sample_weight of 4 "
       "documents adds up to 0.04. A weight of 1 counts as a document, so priors outweigh the data: divide weights by their mean")
      for kind in (sd.MultinomialNB, sd.GaussianNB)),
    (lambda: sd.MultinomialNB(n_epochs=1).fit(TEXTS, LABELS).calibrate_sets(TEXTS, LABELS),
     "UserWarning: the model was trained on these documents: sets for new documents would cover less than requested; use "
     "other documents, such as those from sdem ingest --held-out"),
    (lambda: ClassificationReport(np.array(["a", "b"]), np.array([-1]), np.log([[0.5, 0.5]])),
     "ValueError: no document has a label: a report needs labels"),
    (lambda: sd.GaussianRegressor().fit(ONES, range(4)).report(ONES, np.zeros(3)),
     "ValueError: Found input variables with inconsistent numbers of samples: [4, 3]"),
    (lambda: sd.GaussianRegressor().fit(ONES, range(4)).report(ONES, [0, 1, 2, np.nan]),
     "ValueError: Input y contains NaN, in row 3 (counting from 0): drop such rows"),
    (lambda: sd.MultinomialMixture(1, n_init=1).fit(ONES).report(ONES, np.zeros(3)),
     "ValueError: Found input variables with inconsistent numbers of samples: [4, 3]"),
    *((lambda name=name: getattr(sd, name), f"AttributeError: module 'sdem_dist' has no attribute {name!r}")
      for name in ("nonsense", "plot", "__wrapped__")),
    (lambda: sd.MultinomialNb,
     "AttributeError: module 'sdem_dist' has no attribute 'MultinomialNb'. Did you mean 'MultinomialNB'?"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("messages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        written("docs.tsv", DOCUMENTS)
        Path("x.svm").write_text("1 1:2\n2 2:1\n")
        for name in ("folder", "photos"):
            Path(name, "a").mkdir(parents=True)
        write_corpus("unknown", np.eye(2), ["acq", "earn"])
        write_corpus("table", np.eye(2), dense=True)
        write_corpus("weighted", np.eye(2), sample_weight=[1, 2])
        ingest("docs.tsv", "words")
        ingest("x.svm", "numbers")
        ingest(written("cafe.tsv", [(NFC, "one"), ("x", "two")]), "cafe", keep_text=True)
        shutil.rmtree("cafe/shards/00000/texts_bytes")
        yield folder


def said(act) -> str:
    with warnings.catch_warnings(record=True) as caught:
        try:
            act()
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}"
    assert {one.filename for one in caught} <= {__file__}, "a warning is of the line that called"
    return "\n".join(f"{type(one.message).__name__}: {one.message}" for one in caught)


@pytest.mark.parametrize(("act", "text"), CASES)
def test_what_is_refused_or_doubted_is_said_and_nothing_is_written(folder, act, text):
    before = {*folder.rglob("*")}
    assert said(act).replace(f"{folder}/", "") == text
    assert {*folder.rglob("*")} == before or text.startswith("UserWarning")
