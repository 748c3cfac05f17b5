"""Candidate claims in a repository: what documents promise, tests expect and errors tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.plans.changes import is_test
from dstest.plans.draft.diff import Change, git

_BYTES_MAX: Final = 512 * 1024
_CHARS: Final = (20, 300)
_TEXTS: Final = frozenset({".md", ".rst", ".txt", ".adoc"})
_CODE: Final = frozenset(
    {".py", ".go", ".rs", ".java", ".kt", ".c", ".h", ".cc", ".cpp", ".js", ".ts", ".ex", ".rb"}
)
_GENERIC: Final = frozenset(
    {"", "src", "lib", "libs", "pkg", "app", "apps", "cmd", "internal", "main", "index", "mod"}
    | {"__init__", "init", "docs", "doc", "test", "tests", "readme", "core", "common", "utils"}
)
_PROMISE: Final = re.compile(
    r"\b(must|guarantee[sd]?|never|always|ensures?|shall|exactly[- ]once|at[- ]most[- ]once"
    r"|at[- ]least[- ]once|linearizab\w+|serializab\w+|atomic(ally)?|durabl[ey]|idempotent)\b",
    re.IGNORECASE,
)
_TEST: Final = re.compile(
    r"\bdef (test_\w+)|\bfunc (Test\w+)|\bfn (test_?\w+)|\b(?:it|test)\(\s*[\"'`]([^\"'`]+)"
    r"|@Test\b.*?\bvoid (\w+)"
)
_ERROR: Final = re.compile(
    r"\bclass (\w+(?:Error|Exception))\b|\bclass (\w+)\(\w*(?:Error|Exception)\)"
    r"|\b(Err[A-Z]\w+)\s*=|\benum (\w+Error)\b"
)
_MARKS: Final = re.compile(r"^[\s#*>/!\-+;\"']+|[\s*/\"']+$")

_PLAN: Final = re.compile(r"(---|\+\+\+)\n(?:.*\n){0,10}?slug\s*[:=]")

_CATEGORIES: Final = (
    ("idempotency", r"idempot|exactly.once|duplicat|\bretr(y|ies|ied)|replay|dedup|at.most.once"),
    ("isolation", r"isolat|serializab|transact|atomic|snapshot|phantom|dirty"),
    (
        "durability",
        r"durab|persist|fsync|sync(ed|s)? to disk|\blost\b|\bloses?\b|surviv|crash|recover",
    ),
    (
        "membership",
        r"\bmember|\bjoin(s|ed|ing)?\b|\bleav(e|es|ing)\b|quorum|reconfig|add(s|ed)? node",
    ),
    ("ordering", r"\border(ed|ing|s)?\b|monoton|sequen|fifo|in the same order|before any"),
    ("fairness", r"\bfair|starv|noisy|each tenant"),
    ("boundary", r"tenant|namespace|permission|authori|\bauth\b|quota|\bacl\b|other users?"),
    ("performance-SLO", r"latenc|throughput|within \d+ ?m?s|p9\d|per second|\bslo\b"),
    (
        "liveness",
        r"eventual|progress|deadlock|livelock|time.?out|expire|stuck|\bhang|block forever",
    ),
    ("operational", r"upgrad|rollback|config|restart|backup|restore|migrat|deploy|version"),
)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate for a claim, where it stands (`file:line`), and whether we take it for one though
    nobody wrote it as a promise."""

    text: str
    source: str
    inferred: bool
    kind: str

    @property
    def category(self) -> str:
        """As its words say; safety where they say nothing."""
        return category_of(self.text)


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a program: a directory, or one file where its directory is that of everything.
    `names` are words by which documents speak of it, `files` those by which tests do as well."""

    path: str
    names: frozenset[str]
    files: frozenset[str] = frozenset()

    def has(self, path: PurePosixPath) -> bool:
        """Is the file in it, and in no part of it?"""
        return self.path in (str(path), str(path.parent))

    def named_in(self, text: str) -> bool:
        """Does the text speak of it?"""
        return _names_one(self.names, text)


def _names_one(names: Iterable[str], text: str) -> bool:
    return any(
        re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", text, re.IGNORECASE)
        for name in names
    )


def modules_of(change: Change) -> list[Module]:
    """The parts of the program that a change touches, those that change behaviour."""
    found: dict[str, Module] = {}
    for file in change.behaviour:
        path = PurePosixPath(file.path)
        folder = path.parent
        alone = folder.name.casefold() in _GENERIC
        place, name = (path, path.stem) if alone else (folder, folder.name)
        before = found.get(str(place))
        files = frozenset() if before is None else before.files
        found[str(place)] = Module(
            path=str(place), names=_telling({name}), files=files | _telling({path.stem})
        )
    return [*found.values()]


def _telling(names: set[str]) -> frozenset[str]:
    return frozenset(n for n in names if n.casefold() not in _GENERIC and len(n) > 1)


def category_of(text: str) -> str:
    """The category of claims that a text is most likely about."""
    for category, words in _CATEGORIES:
        if re.search(words, text, re.IGNORECASE):
            return category
    return "safety"


def scan(repo: Path, modules: list[Module] | None = None) -> list[Found]:
    """Candidates in a repository, those of some modules where they are given: documents first, then
    tests, then errors; each text once."""
    found: dict[str, Found] = {}
    for name in _tracked(repo):
        path = PurePosixPath(name)
        suffix = path.suffix.casefold()
        if suffix not in _TEXTS | _CODE:
            continue
        text = _read(repo / name)
        for one in _in_file(path, text, modules):
            found.setdefault(one.text.casefold(), one)
    order = {"document": 0, "comment": 1, "test": 2, "error": 3}
    return sorted(found.values(), key=lambda one: order[one.kind])


def tests_in(repo: Path, modules: list[Module] | None = None) -> list[str]:
    """Files of tests, those of some modules where they are given."""
    names = [n for n in _tracked(repo) if PurePosixPath(n).suffix.casefold() in _CODE]
    tests = [name for name in names if is_test(PurePosixPath(name))]
    return [n for n in tests if modules is None or any(_about(m, n) for m in modules)]


def _about(module: Module, name: str) -> bool:
    text = name.replace("_", " ")
    return module.has(PurePosixPath(name)) or _names_one(module.names | module.files, text)


def _tracked(repo: Path) -> list[str]:
    """Files that git knows; all but hidden ones where it knows nothing of the directory."""
    with suppress(ConfigError):
        if known := git(repo, "ls-files").splitlines():
            return sorted(known)
    return sorted(
        str(path.relative_to(repo).as_posix())
        for path in repo.rglob("*")
        if path.is_file() and not any(part.startswith(".") for part in path.parts)
    )


def _read(path: Path) -> str:
    try:
        if path.is_symlink() or path.stat().st_size > _BYTES_MAX:
            return ""
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _in_file(path: PurePosixPath, text: str, modules: list[Module] | None) -> Iterable[Found]:
    if path.suffix.casefold() in _TEXTS:
        if _PLAN.match(text):
            return  # what it claims, others have said
        for line, sentence in _sentences(text):
            about = modules is None or any(
                m.has(path) or m.named_in(f"{path}\n{sentence}") for m in modules
            )
            if about and _PROMISE.search(sentence):
                yield _found(sentence, path, line, "document")
        return
    mine = modules is None or any(m.has(path) for m in modules)
    if is_test(path):
        if mine or any(_about(m, str(path)) for m in modules or []):
            yield from _tests(path, text)
    elif mine:
        yield from _comments(path, text)
        yield from _errors(path, text)


def _found(text: str, path: PurePosixPath, line: int, kind: str) -> Found:
    return Found(
        text=" ".join(text.replace("**", "").split()).replace("|", "/"),
        source=f"`{path}:{line}`",
        inferred=kind != "document",
        kind=kind,
    )


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """(line, sentence) of prose; fences, tables and headings are none."""
    fenced = False
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped = line.strip()
        if stripped.startswith(("```", "~~~")):
            fenced = not fenced
        ends = not stripped or fenced or stripped.startswith(("#", "|", "```", "~~~", "- ", "* "))
        if ends and block:
            yield from _split(block)
            block = []
        if not fenced and stripped and not stripped.startswith(("#", "|", "```", "~~~")):
            block.append((number, _MARKS.sub("", stripped)))


def _split(block: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    starts: list[tuple[int, int]] = []
    whole = ""
    for number, said in block:
        starts.append((len(whole), number))
        whole += said + " "
    place = 0
    for sentence in re.split(r"(?<=[.!?])\s+", whole):
        line = max(number for start, number in starts if start <= place)
        place += len(sentence) + 1
        if _CHARS[0] <= len(sentence.strip()) <= _CHARS[1]:
            yield line, sentence.strip()


def _comments(path: PurePosixPath, text: str) -> Iterator[Found]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith(("# ", "//", "* ", "/*", '"""', "-- ")) and _PROMISE.search(
            stripped
        ):
            said = _MARKS.sub("", stripped)
            if _CHARS[0] <= len(said) <= _CHARS[1]:
                yield _found(said, path, number, "comment")


def _tests(path: PurePosixPath, text: str) -> Iterator[Found]:
    for number, line in enumerate(text.splitlines(), 1):
        for match in _TEST.finditer(line):
            name = next(filter(None, match.groups()))
            spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.replace("_", " "))
            words = re.sub(r"(?i)^test\b\s*", "", spaced).strip().lower()
            if len(words.split()) > 1:
                yield _found(f"`{name}`: {words}", path, number, "test")


def _errors(path: PurePosixPath, text: str) -> Iterator[Found]:
    for number, line in enumerate(text.splitlines(), 1):
        for match in _ERROR.finditer(line):
            name = next(filter(None, match.groups()))
            message = re.search(r"[\"']([^\"']{4,})[\"']", line)
            said = f": {message[1]}" if message else ""
            yield _found(f"callers are told of `{name}`{said}", path, number, "error")
