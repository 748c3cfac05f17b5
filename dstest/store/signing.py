"""Signatures of run directories, in the format of `ssh-keygen -Y sign`.

`sha256sums.sig` signs `sha256sums` in the namespace `dstest`. Anybody can check it without us:

    ssh-keygen -Y verify -f ALLOWED_SIGNERS -I NAME -n dstest -s sha256sums.sig < sha256sums
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Final

from dstest.core.errors import ConfigError, EvidenceError
from dstest.store.sums import SIGNATURE, SUMS

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
