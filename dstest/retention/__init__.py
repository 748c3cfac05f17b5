"""What lies in a store, how large it is, what may go, and whether it is still as it was left.

`walk.py` finds runs, sessions and executed plans; `look.py` says what each is, `contents.py` and
`diff.py` show one and two of them, `prune.py` says what may go and why the rest stays, `verify.py`
recomputes sums and verdicts.
"""
