"""`dstest plan new`: what it is asked for, what it looks at, where it writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from dstest.core import clock, registry
from dstest.core.errors import ConfigError
from dstest.plans.choice import PICKER, Toolbox, toolbox
from dstest.plans.draft.material import FILL, material
from dstest.plans.draft.render import Draft, markdown
from dstest.plans.draft.sources import Candidate, Change, File, Module, modules_of, scan, tests_in
from dstest.plans.model import MissingClaim

CLAIMS_MAX: Final = 60
_MISSING_MAX: Final = 20
_FAULTS_EACH: Final = 3
"""A plan of one change has few claims, and looks at each more closely."""

_TESTS_MAX: Final = 100
_FOLDERS: Final = ("docs/testing-plans", "testing-plans")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that is asked for. `repo` is a repository that is looked into, None for none; `change`
    what of it has changed, None for a plan of the whole. `output` and `slug` are chosen here where
    they are empty."""

    system: str
    repo: Path | None = None
    change: Change | None = None
    output: Path | None = None
    slug: str = ""
    author: str = ""


class NewPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The file, and what it holds: numbers of claims, hypotheses and scenarios. `left_out` are
    candidates for claims beyond the bound."""

    path: Path
    claims: int
    hypotheses: int
    scenarios: int
    left_out: int


def too_small(change: Change) -> str:
    """Why a change needs no plan; empty where it may need one."""
    if change.behaviour:
        return ""
    whys = dict.fromkeys(file.why_not for file in change.files)
    kinds = " and ".join(whys) or "no file at all"
    return f"L35: {change.name} changes no behaviour: {_count(change.files)}, {kinds}"


def _count(files: tuple[File, ...]) -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'}"


def write(request: Request) -> NewPlan:
    """Write the plan that is asked for. Raises ConfigError, and writes nothing, where a file is in
    the way or the change needs no plan."""
    change = request.change
    if change is not None and (why := too_small(change)):
        raise ConfigError(why, remedy="no plan is needed")
    modules = None if change is None else modules_of(change)
    found = None if request.repo is None else scan(request.repo, modules)
    tests = [] if request.repo is None else tests_in(request.repo, modules)
    box = toolbox(request.system)
    kept = None if found is None else found[:CLAIMS_MAX]
    made = material(box, kept, each=1 if change is None else _FAULTS_EACH)
    slug = request.slug or _slug(request, modules)
    path = request.output or _place(slug)
    draft = Draft(
        slug=slug,
        date="-".join(re.findall(r"^(\d{4})-?(\d\d)-?(\d\d)", clock.utc_stamp())[0]),
        author=request.author or FILL.format("who"),
        path=path.as_posix(),
        system=registry.load("systems", request.system),
        material=made,
        change=change,
        tests=tuple(tests[:_TESTS_MAX]),
        missing=tuple(_missing(box, kept, whole=change is None)),
        looked=found is not None,
        left_out=len(found or ()) - len(kept or ()),
    )
    _write(path, markdown(draft))
    return NewPlan(
        path=path,
        claims=len(made.claims),
        hypotheses=len(made.hypotheses),
        scenarios=len(made.experiments),
        left_out=len(found or ()) - len(kept or ()),
    )


def _slug(request: Request, modules: list[Module] | None) -> str:
    system = request.system
    if request.change is None:
        return f"{system}-claims-under-faults"
    subject = re.sub(r"[^a-z0-9]+", "-", request.change.subject.casefold()).strip("-")
    names = sorted({name for module in modules or [] for name in module.names or module.files})
    words = subject or "-".join(names[:3]).casefold().replace("_", "-")
    return f"{system}-{words}"[:60].strip("-")


def _place(slug: str) -> Path:
    folder = Path(_FOLDERS[0] if Path("docs").is_dir() else _FOLDERS[1])
    return folder / f"{slug}.md"


def _missing(box: Toolbox, found: list[Candidate] | None, *, whole: bool) -> list[MissingClaim]:
    """Errors of which no document speaks; in a plan of the whole also behaviours that dstest could
    test and for which no promise was found."""
    if found is None:
        return []
    rows = []
    promised = {one.category for one in found} if whole else {row.category for row in PICKER}
    usable = {(tool.category, tool.model) for tool in box.tools if tool.usable}
    for row in PICKER:
        if (row.category, row.model) in usable and row.category not in promised:
            promised.add(row.category)
            said = f"nobody says whether it holds that {row.promise} ({row.category})"
            rows.append((said, "no document, test or error of it was found"))
    documented = " ".join(one.text for one in found if one.kind == "document")
    for one in found:
        name = re.search(r"`(\w+)`", one.text)
        if one.kind == "error" and name and name[1] not in documented:
            rows.append((f"what a caller may do after `{name[1]}`", one.source))
    return [
        MissingClaim(
            line=0,
            id=f"M{number}",
            behaviour=behaviour,
            source=source,
            action="ask its owners; then a claim in 1b, or a sentence in section 8",
        )
        for number, (behaviour, source) in enumerate(rows[:_MISSING_MAX], 1)
    ]


def _write(path: Path, text: str) -> None:
    """Never over a file that is there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(
            f"{path} would be overwritten", remedy=f"another --output, as {path}.new, or --slug"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy="another --output") from None
