"""`SqlLink`: what a client needs of a library's connection."""

from __future__ import annotations

from typing import Any, Protocol


class SqlLink(Protocol):
    """A connection at the level of isolation that the run asks for. Each method but `aclose` is one
    request. Statements have `?` where a value goes."""

    async def rows(self, text: str, *given: Any) -> list[tuple[Any, ...]]:
        """What a statement gives."""
        ...

    async def change(self, text: str, *given: Any) -> int:
        """How many rows a statement has found to change."""
        ...

    async def begin(self) -> None:
        """Begin a transaction."""
        ...

    async def commit(self) -> bool:
        """False where the server says that it has rolled back."""
        ...

    async def rollback(self) -> None:
        """Give the transaction up."""
        ...

    async def aclose(self) -> None:
        """End the connection, whatever it is doing."""
        ...
