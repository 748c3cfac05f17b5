"""A night: many runs, each of them known in advance to have to pass or to have to fail.

`config.py` reads nightly.toml, `cells.py` makes cells of it (one command each, with what it must
come to), `seeds.py` says with which seeds. `driver.py` goes through them on the workers of a fan,
`work.py` is what a worker does, `leftovers.py` takes up what a dead night left. `outcome.py` judges
what came back, again, `judged.py` the whole night. `state.py` is what is kept on disk, `index.py` a
table of all nights, made of those, `trends.py` what they say together, `page.py` shows one.
"""
