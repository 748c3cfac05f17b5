"""The rules L01 to L37 of a test plan: place, rule and remedy of each finding."""

from __future__ import annotations

from dstest.plans.lint.rule import Finding, Rule
from dstest.plans.lint.table import RULES, blocking, lint, require_sound

__all__ = ["RULES", "Finding", "Rule", "blocking", "lint", "require_sound"]
