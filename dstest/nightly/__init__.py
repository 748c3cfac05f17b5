"""A night: many runs, each of them known in advance to have to pass or to have to fail.

`config.py` reads nightly.toml, `cells.py` makes cells of it (one command each, with what it must
come to), `known.py` asks whether what they have to find can be found, `seeds.py` says with which
seeds. `begin.py` begins a night or goes on with one, one at a time (`locks.py`); `driver.py` goes
through it on the workers of a fan, `leftovers.py` takes up what a dead night or a lost worker left.
`outcome.py` judges what came back, again, `judged.py` the whole night. `state.py` is what is kept
on disk, `index.py` a table of all nights, made of those, `trends.py` what they say together.
`page.py` shows one night to people, `junit.py` to CI servers, `told.py` is what commands print.
"""
