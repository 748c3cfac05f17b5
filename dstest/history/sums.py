"""Sums of a run's files, and signatures over them.

`sha256sums`, as `sha256sum -c` reads it, covers every file but itself, its signature, `status`,
which is written last, and `live.json`. `sha256sums.sig` signs it in the namespace `dstest` and the
format of `ssh-keygen -Y sign`, so that anybody can check it without us:

    ssh-keygen -Y verify -f ALLOWED_SIGNERS -I NAME -n dstest -s sha256sums.sig < sha256sums
"""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from dstest.core.errors import ConfigError, EvidenceError
from dstest.core.live import LIVE, LIVE_PARTIAL

SUMS: Final = "sha256sums"
SIGNATURE: Final = "sha256sums.sig"
_OUTSIDE: Final = frozenset({SUMS, SIGNATURE, ".ballast", "status", LIVE, LIVE_PARTIAL})


class Differences(NamedTuple):
    """Files that are not as they were summed up, by name, each sorted."""

    changed: list[str]
    missing: list[str]
    added: list[str]
    unreadable: list[str]

    def describe(self) -> str:
        """All of them in one line; empty where there are none."""
        parts = [
            ("changed", self.changed),
            ("missing", self.missing),
            ("not summed up", self.added),
            ("no line of a check sum", self.unreadable),
        ]
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)


def _files(run: Path) -> Iterator[tuple[str, Path]]:
    """Those that are summed up, links, which are not followed, and what is no file; in the order of
    their paths."""
    found = [name for name in _below(str(run), "") if name not in _OUTSIDE]
    for name in sorted(found, key=lambda name: name.split("/")):
        yield name, run / name


def _below(folder: str, before: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path, f"{before}{entry.name}/")
            else:
                yield f"{before}{entry.name}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sums_of(run: Path) -> str:
    """The content of `sha256sums` for the files as they are now."""
    return "".join(f"{_digest(path)}  {name}\n" for name, path in _files(run) if path.is_file())


def _told(text: str) -> tuple[dict[str, str], list[str]]:
    """Digest by name, and the lines that are none."""
    told: dict[str, str] = {}
    wrong = []
    for number, line in enumerate(text.splitlines(), start=1):
        digest, _, name = line.partition("  ")
        if len(digest) != 64 or not name or name in told:
            wrong.append(f"line {number}")
            continue
        told[name] = digest
    return told, wrong


def _is_as(path: Path, digest: str, largest_bytes: int | None) -> bool:
    if not path.is_file():
        return False
    if largest_bytes is not None and path.stat().st_size > largest_bytes:
        return True
    return _digest(path) == digest


def compare_sums(
    run: Path, largest_bytes: int | None = None, only: Callable[[str], bool] = lambda name: True
) -> Differences:
    """The files against `sha256sums`; those that are larger than this, where it is given, have only
    to be there; `only` says by its name whether one is looked at. Raises OSError where that cannot
    be read."""
    if not (run / SUMS).is_file():  # a pipe would wait for a writer
        raise OSError(errno.EINVAL, "no file")
    every, wrong = _told((run / SUMS).read_text(errors="replace"))
    told = {name: digest for name, digest in every.items() if only(name)}
    there = {name: path for name, path in _files(run) if only(name)}
    changed = [
        name
        for name, path in there.items()
        if name in told and not _is_as(path, told[name], largest_bytes)
    ]
    return Differences(
        changed=sorted(changed),
        missing=sorted(told.keys() - there.keys()),
        added=sorted(there.keys() - told.keys()),
        unreadable=wrong,
    )


_NAMESPACE: Final = "dstest"
_TIMEOUT_S: Final = 30.0


def _ssh_keygen(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["ssh-keygen", "-Y", *words],
            input=stdin,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise ConfigError(
            "ssh-keygen is not on this machine", remedy="install it (package openssh-client)"
        ) from None
    except subprocess.TimeoutExpired:
        raise ConfigError(
            "ssh-keygen did not answer",
            remedy="give a key without a passphrase, or one of an agent",
        ) from None


def _signed(key: Path, file: Path) -> None:
    done = _ssh_keygen("sign", "-q", "-f", str(key), "-n", _NAMESPACE, str(file))
    if done.returncode != 0:
        why = done.stderr.decode(errors="replace").strip().splitlines()
        raise ConfigError(
            f"cannot sign with {key}: {why[-1] if why else 'ssh-keygen refused'}",
            remedy="give a private key of ssh-keygen without a passphrase, or a public one whose "
            "private part an agent holds",
        )


def require_key(key: Path | None) -> None:
    """As `check_key`, for a key that need not be given."""
    if key is not None:
        check_key(key)


def check_key(key: Path) -> None:
    """Sign something with the key. Raises ConfigError where that cannot be."""
    with tempfile.TemporaryDirectory(prefix="dstest-sign-") as directory:
        file = Path(directory) / SUMS
        file.write_bytes(b"")
        _signed(key, file)


def sign(run: Path, key: Path) -> None:
    """Sign the run's `sha256sums`. Raises ConfigError where the key cannot be used."""
    (run / SIGNATURE).unlink(missing_ok=True)
    _signed(key, run / SUMS)


def signer_of(run: Path, allowed: Path) -> str:
    """Who of the allowed signers signed the run. Raises EvidenceError where none of them did."""
    signature, sums = run / SIGNATURE, run / SUMS
    if not allowed.is_file():
        raise ConfigError(
            f"{allowed} is no file",
            remedy="give a file of allowed signers: a name and a public key per line",
        )
    if not signature.is_file():
        raise EvidenceError(
            f"{run} is not signed", remedy="only a run that was made with --sign-key is"
        )
    answer = _ssh_keygen("find-principals", "-s", str(signature), "-f", str(allowed))
    names = answer.stdout.decode(errors="replace").split()
    for name in names:
        words = ("-f", str(allowed), "-I", name, "-n", _NAMESPACE, "-s", str(signature))
        if _ssh_keygen("verify", *words, stdin=sums.read_bytes()).returncode == 0:
            return name
    raise EvidenceError(
        f"{run}: {SIGNATURE} is not a signature of {SUMS} by any of the allowed signers",
        remedy="do not believe this run; ask for it again where it was made",
    )
