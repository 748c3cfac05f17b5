"""What lies in a store, how large it is, what may go, and whether it is still as it was left.

`inventory.py` finds runs, sessions and executed plans and says what each is, `contents.py` shows
one or two of them, `prune.py` says what may go and why the rest stays, `verify.py` recomputes sums
and verdicts, and holds each run to the name that it was made under.
"""
