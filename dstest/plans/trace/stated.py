"""Requirements in the words of their sources, and claims that say no less.

The easiest way to keep a requirement is to write a weaker one down: MUST becomes SHOULD, or is left
out. So the words of RFC 2119 (Bradner, 1997; in capitals alone, RFC 8174) that a requirement has
must stand in its claims as well, and a requirement whose source is a file must stand there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dstest.plans.model import Obligation, Plan

_WORDS: Final = re.compile(
    r"\b(MUST NOT|MUST|SHALL NOT|SHALL|SHOULD NOT|SHOULD|REQUIRED|NOT RECOMMENDED|RECOMMENDED"
    r"|MAY|OPTIONAL)\b"
)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_BYTES_MAX: Final = 4 * 1024 * 1024


def stated(plan: Plan, one: Obligation) -> Iterator[str]:
    """What is wrong with a requirement and its claims, in words."""
    claims = [claim for id in one.claims if (claim := plan.claim(id)) is not None]
    if not one.claims:
        yield f"{one.id} is a requirement without a claim"
    for id in one.claims:
        if plan.claim(id) is None:
            yield f"{one.id} cites {id}, and there is no such claim"
    said = Counter(word for claim in claims for word in _WORDS.findall(claim.text))
    lost = Counter(_WORDS.findall(one.text)) - said
    if claims and lost:
        named = ", ".join(claim.id for claim in claims)
        yield f"{one.id} says {', '.join(sorted(lost))}, and {named} does not"
    if (file := _file(plan, one.source)) is not None and not _stands(one.text, file):
        yield f"{one.id} does not stand in {file.name} in these words"


def _file(plan: Plan, source: str) -> Path | None:
    """The file that a source names, None where it is none that is there: then nobody can tell."""
    link = _LINK.search(source)
    name = (link[1] if link else source.strip("` ")).partition("#")[0]
    name = re.sub(r":\d+$", "", name)
    if not name or "://" in name:
        return None
    for folder in (Path(plan.path).absolute().parent, Path.cwd()):
        path = folder / name
        if path.is_file() and path.stat().st_size <= _BYTES_MAX:
            return path
    return None


def _stands(text: str, file: Path) -> bool:
    """Word for word, wherever its lines end."""
    return " ".join(text.split()) in " ".join(file.read_text(errors="replace").split())
