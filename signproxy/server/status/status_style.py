"""Hold the one style sheet of the status page, and the policy that lets a browser use it and nothing else."""

from __future__ import annotations

import base64
import hashlib

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1c2024; --soft: #5b6470; --paper: #fff; --card: #f5f6f8; --line: #d7dbe0;
  --good: #11632f; --look: #7a4b00; --wrong: #9b1c1c;
  --good-card: #e4f3e9; --look-card: #fdf1da; --wrong-card: #fde8e8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e9ed; --soft: #9aa4b0; --paper: #14171a; --card: #1e2226; --line: #363c43;
    --good: #7fd99b; --look: #f2c063; --wrong: #ff9d9d;
    --good-card: #15301f; --look-card: #35280f; --wrong-card: #3d1818;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem 1.25rem 3rem; max-width: 78rem;
  background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
h1 {
  margin: 0; padding: .75rem 1rem; border-radius: .4rem; border-left: .4rem solid;
  font-size: 1.3rem; line-height: 1.35; text-wrap: balance;
}
h2 { margin: 2rem 0 .5rem; font-size: 1.05rem; }
p { margin: .4rem 0; }
.good { color: var(--good); background: var(--good-card); }
.look { color: var(--look); background: var(--look-card); }
.wrong { color: var(--wrong); background: var(--wrong-card); }
.soft { color: var(--soft); }
.small { font-size: .875rem; }
ul { margin: .5rem 0; padding: 0; list-style: none; }
ul.plain { margin: .25rem 0; padding-left: 1.1rem; list-style: disc; }
li.card { margin: .5rem 0; padding: .6rem 1rem; border-radius: .4rem; background: var(--card); overflow: hidden; }
li.card.look, li.card.wrong { border-left: .4rem solid; }
li.card.look, li.card.wrong { background: var(--card); color: var(--ink); }
li.card.look { border-color: var(--look); }
li.card.wrong { border-color: var(--wrong); }
li.card > p:first-child { margin-top: 0; }
li.card > p:last-child { margin-bottom: 0; }
b { font-weight: 650; }
code { font: .875em/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.scroll { overflow-x: auto; }
table { width: 100%; border-collapse: collapse; font-size: .9375rem; }
th, td { padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--soft); font-size: .8125rem; font-weight: 600; white-space: nowrap; }
td { min-width: 4.5rem; overflow: hidden; }
td.digest { min-width: 8.5rem; }
td.wide { min-width: 14rem; }
td.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
td.wrong { background: none; font-weight: 600; }
summary { margin: 2rem 0 .5rem; font-weight: 650; cursor: pointer; }
@media (max-width: 46rem) {
  body { padding: .75rem .75rem 2rem; }
  thead { display: none; }
  table, tbody, tr, td { display: block; }
  tr { padding: .5rem 0; border-bottom: 1px solid var(--line); }
  td, td.digest, td.wide { min-width: 0; padding: .1rem 0; border: 0; }
  td.number { white-space: normal; }
  td::before { content: attr(data-title) ": "; color: var(--soft); font-weight: 400; }
}
"""

_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"
)
"""Content-Security-Policy: no script, no request, no frame, no form, whatever text finds its way into the page."""
