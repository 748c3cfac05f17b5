"""A store in a browser: runs found and filtered, compared, over time, by what they found.

`row.py` is what is known of a run at a glance, `standing.py` whether it may be believed, `index.py`
keeps all of them up to date, `cache.py` over the end of the process. `query.py`, `triage.py`,
`trends.py` and `pair.py` ask that, `pages.py` makes pages of the answers, `http.py` hands them out
and `export.py` writes them as files.
"""
