"""May this be released? A policy, stores of evidence, and a decision that follows from both.

`policy.py` is what is asked for, `soundness.py` refuses one that asks for nothing. `gather.py`
judges all runs again or believes them, `asides.py` has what lies beside runs; `provenance.py` says
what is wrong with evidence, `relevance.py` which of it is about what was asked: what speaks for a
claim has to fit in all, what speaks against it counts whatever its age and maker. `claims.py` and
`controls.py` say whether that is enough, `table.py` has all rules, `decision.py` decides and
`page.py` shows it. Nothing here reads a clock or prints: `dstest/cli/gate.py` gives it the time.
"""
