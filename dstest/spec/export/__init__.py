"""A specification in the words of other tools: Quint and TLA+.

What can be exported is a part of Python; what is not is refused by name, never left out.
"""
