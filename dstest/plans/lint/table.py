"""All rules, and a plan held to them."""

from __future__ import annotations

from typing import Final

from dstest.core.errors import ConfigError
from dstest.plans.lint import runs, scenarios, scope
from dstest.plans.lint.rule import Finding, Rule
from dstest.plans.model import Plan

RULES: Final[tuple[Rule, ...]] = tuple(
    sorted((*scope.RULES, *scenarios.RULES, *runs.RULES), key=lambda rule: rule.id)
)
"""By their numbers."""


def lint(plan: Plan) -> list[Finding]:
    """Every place where the plan breaks a rule, by line."""
    found = [
        Finding(rule=rule.id, severity=rule.severity, line=line, what=what, remedy=rule.remedy)
        for rule in RULES
        for line, what in rule.find(plan)
    ]
    return sorted(found, key=lambda finding: (finding.line, finding.rule))


def blocking(plan: Plan) -> list[Finding]:
    """Those findings for which the plan must not be run."""
    return [finding for finding in lint(plan) if finding.severity == "error"]


def require_sound(plan: Plan) -> None:
    """Raises ConfigError, with the first place, where the plan must not be run."""
    found = blocking(plan)
    if found:
        first, more = found[0], len(found) - 1
        also = f" ({more} more: dstest plan lint {plan.path})" if more else ""
        raise ConfigError(
            f"{plan.path}:{first.line}: {first.rule}: {first.what}{also}", remedy=first.remedy
        )
