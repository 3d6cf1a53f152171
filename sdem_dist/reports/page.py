"""A page of HTML that needs nothing from elsewhere: no scripts, fonts or pictures but its own."""

from pathlib import Path

from sdem_dist.reports.html import cell
from sdem_dist.storage.publish import publish_file

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --line: #d9dee6; --paper: #ffffff; --panel: #f5f7fa;
  --link: #0072b2; --blue: #0072b2; --orange: #d55e00; --green: #009e73; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --soft: #9aa5b4; --line: #39424f; --paper: #14181e; --panel: #1c222a; --link: #56b4e9;
    --blue: #4aa3dc; --orange: #e8743a; --green: #2fb98f; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.2rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .3rem 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p { margin: .4rem 0; } .soft, caption { color: var(--soft); font-size: .9em; }
nav { margin: .8rem 0; } nav a { margin-right: 1rem; } a { color: var(--link); }
.wide { overflow-x: auto; max-width: 100%; margin: .6rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } caption { text-align: left; padding-bottom: .3rem; }
th, td { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: normal; }
th { color: var(--soft); font-weight: 600; font-size: .9em; }
.cards { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1rem 0; }
.card { background: var(--panel); border: 1px solid var(--line); border-radius: .4rem; padding: .5rem .9rem; min-width: 7.5rem; }
.card b { display: block; white-space: nowrap; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: .85rem; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: 1rem; align-items: start; }
figure { margin: .6rem 0; } figcaption { color: var(--soft); font-size: .9em; }
figure svg { width: 100%; height: auto; display: block; }
article { background: var(--panel); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .9rem; margin: .8rem 0; }
.text { white-space: pre-wrap; max-height: 16rem; overflow: auto; margin: .4rem 0; }
mark { color: inherit; border-radius: .15rem; padding: 0 .08em; }
@media (max-width: 40rem) {
  body { padding: .8rem; font-size: 14px; } th, td { padding-right: .45rem; font-size: .9em; }
  td { overflow-wrap: anywhere; min-width: 3rem; } td:first-child { min-width: 5.5rem; overflow-wrap: break-word; }
  .card { min-width: 6rem; flex: 1; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 11px; } nav { display: none; } .text { max-height: none; }
  h2 { break-after: avoid; } figure, tr { break-inside: avoid; }
  .text { break-inside: auto; } body { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def page(title: str, body: str) -> str:
    """Return a whole page; `title` is escaped, `body` is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f"<title>{cell(title)}</title><style>{STYLE}</style></head>\n<body>{body}</body></html>\n"
    )


def write_page(path: Path, title: str, body: str) -> None:
    """Write a page; it appears under its name whole, or not at all."""

    def write(partial: Path) -> None:
        partial.write_text(page(title, body), encoding="utf-8", errors="backslashreplace")

    publish_file(path, write)
