"""A night: many runs, each of them known in advance to have to pass or to have to fail.

`cells.py` reads nightly.toml and makes cells of it (one command each, with what it must come to),
`seeds.py` says with which seeds. `driver.py` begins a night or goes on with one and gives its cells
to a worker pool: night.json (`state.py`) is saved before a try begins and when it was judged.
`outcome.py` judges a try, `verdict.py` the night and what a killed one left. `index.py` is a table
of all nights; `page.py` and `reports.py` show a night to people and to CI servers.
"""
