"""`docs/reference/anomalies.md`: what each anomaly means, for who has never heard of it."""

from __future__ import annotations

from typing import Final

from dstest.report.meanings import endings, known, told_names

_HEAD: Final = """\
# Anomalies

Written by `python -m dstest.reference`; do not edit. A report says the same beside each anomaly.
Which model rules out which: [models.md](models.md).
"""


def anomalies_page() -> str:
    lines = [_HEAD]
    for name in told_names():
        meaning = known(name)
        assert meaning is not None
        lines += [f"## {name}", "", f"The system {meaning.did}. {meaning.means}", ""]
    lines += ["## Endings of names", ""]
    lines += [f"- `-{ending}`: {text}" for ending, text in endings().items()]
    return "\n".join([*lines, ""])
