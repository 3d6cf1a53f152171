"""What a notebook shows of a corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdem_dist.reports.table import Table, cell

if TYPE_CHECKING:
    from sdem_dist.corpus.manifest import Header

CLASSES_SHOWN = 20
"""The largest first."""


def corpus_as_html(path: str, header: Header, has_texts: bool) -> str:
    """Return what a corpus holds, as an HTML table."""
    sizes = sorted(header.documents_by_label.items(), key=lambda pair: -pair[1])
    more = f" and {len(sizes) - CLASSES_SHOWN} more" if len(sizes) > CLASSES_SHOWN else ""
    classes = ", ".join(f"{name} {n:,}" for name, n in sizes[:CLASSES_SHOWN]) + more
    entries = "values" if header.layout == "dense" else "nonzeros"
    rows = [
        ("documents", f"{header.n_documents:,}"),
        ("features", f"{header.n_features:,}"),
        *([("classes" if header.label_sets is None else "labels", classes)] if sizes else []),
        *([("targets", f"{header.n_targets}")] if header.n_targets else []),
        ("layout", f"{header.layout}, {header.n_nonzeros:,} {entries}"),
        ("texts", "kept" if has_texts else "not kept"),
    ]
    return f"<p>Corpus {cell(path)}</p>{Table((), rows, left=(0, 1)).html()}"
