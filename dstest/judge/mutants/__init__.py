"""Broken copies of a run's own history, which its checkers must reject: how they are made
(`copies`), by operator (`operators`) over what operations write and see (`shapes`), of one model
alone (`held`, `seen`), of transactions (`transactions`, `plants`), and of which a checker is asked
about which (`families`)."""
