"""dstest: cluster tests that prove every fault landed."""

__all__ = ["__version__"]

__version__ = "0.17.0"
