"""What a draft is made from: a change, from `git diff`, with the files that can change what a
program does; and candidate claims, from what documents promise, tests expect and errors tell.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from dstest.core.errors import ConfigError

_TEXTS: Final = frozenset({".md", ".rst", ".txt", ".adoc", ".png", ".svg", ".jpg", ".gif", ".pdf"})
_PAPERS: Final = frozenset({"license", "licence", "copying", "authors", "notice", "codeowners"})
"""Without a suffix; with one it is a document by that, or a program that is called so."""

_SETTINGS: Final = frozenset({".gitignore", ".gitattributes", ".editorconfig", ".mailmap"})
_TEST: Final = re.compile(
    r"test_\w+\.py|\w+_test\.(?:py|go|cc|cpp|c|rs)|.+[._](?:test|spec)\.[jt]sx?"
)
"""As pytest, go test, googletest and Jest find theirs."""

_REMEDY: Final = "--change OLD..NEW of the repository in --repo, or --diff FILE with a `git diff`"
_COMMENT: Final = re.compile(r"\s*(#(?!include|define|if|el|endif|!|\[)|//|/\*|--\s|;;|%)")
_HUNKLESS: Final = ("rename from ", "Binary files ", "GIT binary patch", "old mode ")
_BYTES_MAX: Final = 512 * 1024
_CHARS: Final = (20, 300)
_SCANNED_TEXTS: Final = frozenset({".md", ".rst", ".txt", ".adoc"})
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
_SCANNED_TEST: Final = re.compile(
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


def is_behaviour(path: PurePosixPath) -> bool:
    """Can a change of this file change what the program does? Not so documents and pictures; but
    whatever is no such file counts, wherever it lies."""
    name = path.name.casefold()
    if path.suffix.casefold() in _TEXTS or name in _PAPERS or name in _SETTINGS:
        return name in ("requirements.txt", "cmakelists.txt", "constraints.txt")
    return True


def is_test(path: PurePosixPath) -> bool:
    """Is it a test, by the usual names?"""
    name = path.name.casefold()
    folders = {part.casefold() for part in path.parts[:-1]}
    return bool(folders & {"test", "tests", "e2e"}) or _TEST.fullmatch(name) is not None


_GIT_S: Final = 60.0


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a change, by its new path. `why_not` is why it changes no behaviour; empty where it
    may."""

    path: str
    added: int
    removed: int
    why_not: str


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is what the change is called: revisions, or the file of the diff."""

    name: str
    files: tuple[File, ...]
    subject: str = ""

    @property
    def behaviour(self) -> tuple[File, ...]:
        """Those of its files that can change what the program does."""
        return tuple(file for file in self.files if not file.why_not)


def git(repo: Path, *words: str) -> str:
    """What git says. Raises ConfigError where it refuses."""
    try:
        done = subprocess.run(
            ["git", "-C", str(repo), *words], capture_output=True, timeout=_GIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"git {words[0]} in {repo}: {error}", remedy=_REMEDY) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise ConfigError(
            f"git {words[0]} in {repo}: {said[0] if said else done.returncode}", remedy=_REMEDY
        )
    return done.stdout.decode(errors="replace")


def change_from_git(repo: Path, revisions: str) -> Change:
    """The change between two revisions, as `OLD..NEW`; `REV` alone is what that commit did."""
    old, dots, new = revisions.partition("..")
    if revisions.startswith("-") or not old or (dots and not new.strip(".")):
        raise ConfigError(f"--change {revisions!r}: not two revisions", remedy=_REMEDY)
    pair = (old, new.strip(".")) if dots else (f"{old}^", old)
    how = ("--no-color", "--no-ext-diff", "--relative", "-M", "--unified=0")
    text = git(repo, "diff", *how, *pair, "--")
    subject = git(repo, "log", "-1", "--format=%s", pair[1], "--").strip()

    def at(which: int, path: str) -> str | None:
        try:
            return git(repo, "show", f"{pair[which]}:./{path}")
        except ConfigError:
            return None

    return Change(name=revisions, files=tuple(_files(text, at)), subject=subject)


def change_from_diff(path: Path) -> Change:
    """The change in a file that `git diff` has written."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise ConfigError(f"--diff {path}: {error.strerror}", remedy=_REMEDY) from None
    files = tuple(_files(text, lambda which, name: None))
    if not files:
        raise ConfigError(f"--diff {path}: it changes no file", remedy=_REMEDY)
    return Change(name=path.name, files=files)


def _files(text: str, at: Callable[[int, str], str | None]) -> Iterable[File]:
    """`at(0, path)` is a file before the change, `at(1, path)` after it."""
    for part in re.split(r"(?m)^diff --git ", text)[1:]:
        head, *lines = part.splitlines()
        found = re.search(r" b/(.+)$", head)
        path = head.split()[-1] if found is None else found[1].strip('"')
        added = [line[1:] for line in lines if line[:1] == "+" and line[:4] != "+++ "]
        removed = [line[1:] for line in lines if line[:1] == "-" and line[:4] != "--- "]
        hunkless = any(line.startswith(_HUNKLESS) for line in lines)
        yield File(
            path=path,
            added=len(added),
            removed=len(removed),
            why_not=_why_not(PurePosixPath(path), removed, added, hunkless, at),
        )


def _why_not(
    path: PurePosixPath,
    removed: list[str],
    added: list[str],
    hunkless: bool,
    at: Callable[[int, str], str | None],
) -> str:
    if not is_behaviour(path):
        return "a document"
    if is_test(path):
        return "a test"
    if hunkless:
        return ""
    if path.suffix == ".py":
        before, after = at(0, str(path)), at(1, str(path))
        if before is not None and after is not None:
            return "comments, docstrings, imports or layout" if _same(before, after) else ""
    elif _same_lines(removed, added):
        return "comments or layout"
    return ""


def _same_lines(removed: list[str], added: list[str]) -> bool:
    """Are these the same lines in the same order, but for comments, blanks and layout? What else a
    line may mean, such as an import that does something, nobody knows here."""
    old, new = (
        [said for line in lines if not _COMMENT.match(line) and (said := "".join(line.split()))]
        for lines in (removed, added)
    )
    return old == new


def _same(before: str, after: str) -> bool:
    """Are two Python files one program, but for docstrings and for imports that nobody uses?"""
    try:
        old, new = ast.parse(before), ast.parse(after)
    except (SyntaxError, ValueError):
        return False
    was, now = _bound(old), _bound(new)
    moved = [name for name in was.keys() & now.keys() if was[name] != now[name]]
    return not moved and ast.dump(_bare(old)) == ast.dump(_bare(new))


def _bound(tree: ast.AST) -> dict[str, str]:
    """What each imported name comes from."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            found |= {alias.asname or alias.name: f"{home}:{alias.name}" for alias in node.names}
    return found


def _bare(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = body[0] if body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                body.pop(0)
        body[:] = [one for one in body if not isinstance(one, ast.Import | ast.ImportFrom)]
    return tree


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
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


def scan(repo: Path, modules: list[Module] | None = None) -> list[Candidate]:
    """Candidates in a repository, those of some modules where they are given: documents first, then
    tests, then errors; each text once."""
    found: dict[str, Candidate] = {}
    for name in _tracked(repo):
        path = PurePosixPath(name)
        suffix = path.suffix.casefold()
        if suffix not in _SCANNED_TEXTS | _CODE:
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


def _in_file(path: PurePosixPath, text: str, modules: list[Module] | None) -> Iterable[Candidate]:
    if path.suffix.casefold() in _SCANNED_TEXTS:
        if _PLAN.match(text):
            return  # what it claims, others have said
        for line, sentence in _sentences(text):
            about = modules is None or any(
                m.has(path) or m.named_in(f"{path}\n{sentence}") for m in modules
            )
            if about and _PROMISE.search(sentence):
                yield _candidate(sentence, path, line, "document")
        return
    mine = modules is None or any(m.has(path) for m in modules)
    if is_test(path):
        if mine or any(_about(m, str(path)) for m in modules or []):
            yield from _tests(path, text)
    elif mine:
        yield from _comments(path, text)
        yield from _errors(path, text)


def _candidate(text: str, path: PurePosixPath, line: int, kind: str) -> Candidate:
    return Candidate(
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


def _comments(path: PurePosixPath, text: str) -> Iterator[Candidate]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith(("# ", "//", "* ", "/*", '"""', "-- ")) and _PROMISE.search(
            stripped
        ):
            said = _MARKS.sub("", stripped)
            if _CHARS[0] <= len(said) <= _CHARS[1]:
                yield _candidate(said, path, number, "comment")


def _tests(path: PurePosixPath, text: str) -> Iterator[Candidate]:
    for number, line in enumerate(text.splitlines(), 1):
        for match in _SCANNED_TEST.finditer(line):
            name = next(filter(None, match.groups()))
            spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.replace("_", " "))
            words = re.sub(r"(?i)^test\b\s*", "", spaced).strip().lower()
            if len(words.split()) > 1:
                yield _candidate(f"`{name}`: {words}", path, number, "test")


def _errors(path: PurePosixPath, text: str) -> Iterator[Candidate]:
    for number, line in enumerate(text.splitlines(), 1):
        for match in _ERROR.finditer(line):
            name = next(filter(None, match.groups()))
            message = re.search(r"[\"']([^\"']{4,})[\"']", line)
            said = f": {message[1]}" if message else ""
            yield _candidate(f"callers are told of `{name}`{said}", path, number, "error")
