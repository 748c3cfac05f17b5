"""Traces of requests through nodes: spans, the trees that they make, and what these show."""
