"""Executable specifications: what a protocol may do, as Python that runs.

A file of a user's own imports from here:

    from dstest.spec import Spec, action, invariant, when
"""

from dstest.spec.compose import System
from dstest.spec.declare import Spec, action, invariant, when

__all__ = ["Spec", "System", "action", "invariant", "when"]
