"""Findings that are remembered over stores and years: seen before, mended by what, come back."""
