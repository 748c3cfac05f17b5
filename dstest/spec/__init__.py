"""Executable specifications: what a protocol may do, as Python that runs.

A file of a user's own imports from here:

    from dstest.spec import Spec, Step, action, invariant, maps, when
"""

from dstest.spec.checker import checker_of
from dstest.spec.compose import System
from dstest.spec.declare import Spec, action, invariant, when
from dstest.spec.mapping import Record, maps
from dstest.spec.model import FrozenDict, Step

__all__ = [
    "FrozenDict",
    "Record",
    "Spec",
    "Step",
    "System",
    "action",
    "checker_of",
    "invariant",
    "maps",
    "when",
]
