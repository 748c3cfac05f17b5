"""`decision.html`: the decision as one file that asks for nothing else."""

from __future__ import annotations

from typing import Final

from dstest.core.errors import Exit
from dstest.gate.decision import Decision
from dstest.gate.page import why
from dstest.gate.rules import RULES
from dstest.report.html import templates

_TONES: Final = {int(Exit.PASS): "pass", int(Exit.FAIL): "fail"}


def render_html(decision: Decision) -> str:
    """The page."""
    template = templates().get_template("decision.html.j2")
    page: str = template.render(
        d=decision,
        tone=_TONES.get(decision.exit, "open"),
        why=why(decision),
        rules=RULES,
    )
    return page
