"""A store in a browser: runs found and filtered, compared, over time, by what they found.

`dstest/store` knows the runs (`rows.py`, `index.py`, `query.py`); `views.py` gathers what each page
shows, `pages.py` makes pages of it, `http.py` hands them out and `export.py` writes them as files.
"""
