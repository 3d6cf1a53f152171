"""Pieces of HTML: whatever comes from data is escaped here, and nowhere else."""

from collections.abc import Iterable, Sequence
from html import escape

from sdem_dist.visible import visible


def cell(text: object) -> str:
    """Return a text, escaped, with its control characters written out."""
    return escape(visible(text), quote=True)


def name_cell(name: object) -> str:
    """Return a name like `cell`, which may break after its dots in a narrow column."""
    return cell(name).replace(".", ".<wbr>")


def meter(share: float) -> str:
    """Return a number from 0 to 1 with a bar behind it."""
    width = max(0.0, min(share, 1.0)) * 100.0
    bar = f"background:linear-gradient(90deg,rgba(86,180,233,.45) {width:.1f}%,transparent {width:.1f}%)"
    return f'<span style="display:inline-block;min-width:4em;padding:0 .3em;{bar}">{share:.3f}</span>'


def html_table(
    heads: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    caption: str = "",
    left: int = 1,
    raw: Sequence[int] = (),
) -> str:
    """Return a table.

    `heads`: all empty: no line of heads.
    `rows`: cells are escaped.
    `left`: columns that stand to the left; the others are numbers.
    `raw`: columns that are HTML already.
    """

    def line(values: Sequence[object], tag: str, html: Sequence[int]) -> str:
        styles = ["text-align:left" if i < left else "text-align:right;white-space:nowrap" for i in range(len(values))]
        shown = [str(v) if i in html else cell(v) for i, v in enumerate(values)]
        cells = (f'<{tag} style="{style}">{v}</{tag}>' for style, v in zip(styles, shown, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    head = f"<thead>{line(heads, 'th', ())}</thead>" if any(str(h) for h in heads) else ""
    body = "".join(line(row, "td", raw) for row in rows)
    title = f"<caption>{cell(caption)}</caption>" if caption else ""
    return f'<div class="wide"><table>{title}{head}<tbody>{body}</tbody></table></div>'
