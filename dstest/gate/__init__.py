"""May this be released? A policy, stores of evidence, and a decision that follows from both.

`policy.py` is what is asked for, `reader.py` reads it, `sound.py` refuses one that asks for
nothing. `gather.py` judges all runs again or believes them (`judged.py` is what
comes out), `asides.py` what lies beside runs, `honest.py` and `twice.py` say what is
wrong with it, `fits.py` which of it is about what was asked, `claims.py`, `controls.py`,
`baseline.py` and `plans.py` whether that is enough. `rules.py` is the table of rules, and
`decision.py` comes to the decision. `page.py`, `junit.py`, `sarif.py` and `annotations.py` show it,
`html.py` too; `commands.py` says how to get what is missing.
"""
