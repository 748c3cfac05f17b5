"""Runs on a machine that is adopted: lays our marks there, and takes them away again.

    python3 -I -S -c TEXT mark|unmark        one JSON object on standard input, one as the answer

Files are replaced whole, with owner, mode and label; what carries no mark of ours is not removed.
Standard library only; Python 3.9 or newer.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import glob
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time

MARKER = "/etc/dstest-lab"
HOSTS = "/etc/hosts"
HOME_MARK = ".dstest-lab"
"""In a directory below /opt that a run has made: the id of its lab."""

LAID = "/opt/dstest-services/homes"
"""What runs have made there, also such as nobody knew of when the machine was adopted."""

OWNED = "/opt/dstest-services/homes.owned"
"""What in them is a system's; runs of older versions have not noted it."""

GONE = ".gone-dstest"
"""What the name of such a directory ends with while it is removed."""

FILE_BYTES_MAX = 1 << 22
JANITOR_S = 5.0
TOOL_S = 10
EMPTY_RULES = re.compile(r"(table |\t(chain |\t(type .*)?$|}$)|}$)")


def content(path: str) -> bytes | None:
    """Of a file; None where there is none."""
    try:
        with open(path, "rb") as handle:
            data = handle.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    if len(data) > FILE_BYTES_MAX:
        raise SystemExit(f"{path} has more than {FILE_BYTES_MAX} bytes")
    return data


def own_lines(lab_id: str, text: bytes) -> list[bytes]:
    end = f"# dstest-lab {lab_id}\n".encode()
    return [line for line in text.splitlines(keepends=True) if line.endswith(end)]


def with_lines(before: bytes | None, lines: str) -> bytes:
    """The file with our lines at its end."""
    text = before or b""
    if not lines:
        return text
    return text + (b"\n" if text and not text.endswith(b"\n") else b"") + lines.encode()


def without_lines(now: bytes, before: bytes | None, lines: str, lab_id: str) -> bytes | None:
    """The file without our lines: as it was before, where nobody else has changed it."""
    if lines and now == with_lines(before, lines):
        return before
    ours = own_lines(lab_id, now)
    rest = [line for line in now.splitlines(keepends=True) if line not in ours]
    return b"".join(rest) if ours else now


def replace(path: str, data: bytes) -> None:
    """Put another content into a file: all of it or nothing, wherever a link leads."""
    path = os.path.realpath(path)
    temporary = f"{path}.dstest-{os.getpid()}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            like(path, out.fileno())
            out.flush()
            os.fsync(out.fileno())
        os.rename(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        if error.errno not in (errno.EBUSY, errno.EXDEV):
            raise
        over(path, data)  # something is mounted there, as in containers


def like(path: str, handle: int) -> None:
    """Owner, mode and labels of the file at `path`, for an open one."""
    try:
        was = os.stat(path)
    except FileNotFoundError:
        os.fchmod(handle, 0o644)
        return
    os.fchown(handle, was.st_uid, was.st_gid)
    os.fchmod(handle, stat.S_IMODE(was.st_mode))
    with contextlib.suppress(OSError):
        for name in os.listxattr(path):
            os.setxattr(handle, name, os.getxattr(path, name))


def over(path: str, data: bytes) -> None:
    with open(path, "r+b") as out:
        out.write(data)
        out.truncate()
        out.flush()
        os.fsync(out.fileno())


def mark(request: dict, root: str = "") -> dict:  # type: ignore[type-arg]
    """Write the marker, and the `lines` into /etc/hosts; doing it twice is doing it once. `hosts`
    is what was in that file before us, in base64, or null."""
    lab_id, marker, hosts = request["lab_id"], root + MARKER, root + HOSTS
    temporary = f"{marker}.{os.getpid()}"
    try:
        with open(temporary, "x", encoding="utf-8") as out:
            out.write(lab_id + "\n")
        os.link(temporary, marker)
    except FileExistsError:
        there = (content(marker) or b"").decode(errors="replace").strip()
        if there != lab_id:
            raise SystemExit(f"it belongs to lab {there!r}") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    if request["lines"]:
        now = content(hosts)
        base = without_lines(now, before_of(request), request["lines"], lab_id) if now else now
        if now != (wanted := with_lines(base, request["lines"])):
            replace(hosts, wanted)
    return {"said": [], "stays": [], "laid": [], "kept": []}


def before_of(request: dict) -> bytes | None:  # type: ignore[type-arg]
    return None if request["hosts"] is None else base64.b64decode(request["hosts"])


def unmark(request: dict, root: str = "") -> dict:  # type: ignore[type-arg]
    """Take away what `mark` wrote, those of the `homes` that carry our mark, what we keep in `run`,
    and tables of the `families` of nft that only our asking has made; the marker last."""
    lab_id, marker = request["lab_id"], root + MARKER
    laid = laid_of(lab_id, root)
    homes = dict.fromkeys([*request["homes"], *laid])
    # Last of all goes the one with that note, so that whoever is cut off can begin again.
    request = {**request, "homes": sorted(homes, key=lambda home: home == os.path.dirname(LAID))}
    there = content(marker)
    if there is None:
        if request["marked"] and (left := remains(request, root)):
            raise SystemExit(
                f"{MARKER} is gone, and what is ours is still there: {', '.join(left)}"
            )
        return {"said": [], "stays": standing(request, root), "laid": laid, "kept": []}
    whose = there.decode(errors="replace").strip()
    if whose != lab_id:
        raise SystemExit(f"it belongs to lab {whose!r} now")
    if points := mounts_in([root + home for home in request["homes"]], lab_id):
        raise SystemExit(
            f"mounted in what is to be removed: {', '.join(points)}; unmount that first, no"
            " directory was removed"
        )
    said, kept = give_back_hosts(request, root + HOSTS), []
    notes = os.fsdecode(content_or_none(root + OWNED) or b"").splitlines()
    owned = [root + path for path in (*notes, os.path.dirname(LAID))]
    for family in request["families"]:
        drop_empty_table(family)
    end_janitor(root + request["run"])
    for home in request["homes"]:
        row, left = remove_home(root + home, lab_id, owned)
        said += [f"{home} {row}"] if row else []
        kept += [path[len(root) :] for path in left]
    for place in [request["run"], *sorted(names_in(root + "/run"))]:
        path = root + (place if place.startswith("/") else f"/run/{place}")
        if place == request["run"]:
            subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)
        elif place.startswith("dstest-"):
            with contextlib.suppress(OSError):
                os.rmdir(path)
    os.unlink(marker)
    return {"said": said, "stays": standing(request, root), "laid": laid, "kept": kept}


def mounts_in(homes: list[str], lab_id: str) -> list[str]:
    """Where in directories with our mark another file system is mounted: it is somebody else's."""
    ours = [os.path.realpath(home) for home in homes if has_mark(home, lab_id)]
    found = []
    for line in (content_or_none("/proc/self/mounts") or b"").splitlines():
        point = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), line.split()[1])
        path = os.fsdecode(point)
        found += [path] if any(path == one or path.startswith(f"{one}/") for one in ours) else []
    return found


def has_mark(home: str, lab_id: str) -> bool:
    """Does it carry the mark of this lab?"""
    mark = content_or_none(os.path.join(home, HOME_MARK)) or b""
    return mark.decode(errors="replace").strip() == lab_id


def laid_of(lab_id: str, root: str) -> list[str]:
    """The directories that runs of this lab have noted, where the note itself carries its mark."""
    if not has_mark(root + os.path.dirname(LAID), lab_id):
        return []
    return list(dict.fromkeys(os.fsdecode(content_or_none(root + LAID) or b"").splitlines()))


def remains(request: dict, root: str) -> list[str]:  # type: ignore[type-arg]
    """What shows that it was not us who took the marker away, which goes last."""
    left = [path for path in (request["run"],) if os.path.lexists(root + path)]
    left += [home for home in standing(request, root) if has_mark(root + home, request["lab_id"])]
    with contextlib.suppress(OSError, SystemExit):
        left += [HOSTS] if own_lines(request["lab_id"], content(root + HOSTS) or b"") else []
    return left


def standing(request: dict, root: str) -> list[str]:  # type: ignore[type-arg]
    return [home for home in request["homes"] if os.path.lexists(root + home)]


def give_back_hosts(request: dict, path: str) -> list[str]:  # type: ignore[type-arg]
    now, before = content(path), before_of(request)
    if now is None:
        return []
    wanted = without_lines(now, before, request["lines"], request["lab_id"])
    if wanted == now:
        return []
    if wanted is None:
        os.unlink(path)
        return []
    replace(path, wanted)
    return [] if wanted == before else [f"{HOSTS} was changed meanwhile: only our lines are gone"]


def drop_empty_table(family: str) -> None:
    """iptables makes `mangle` the first time that it is asked for it, and leaves it."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        argv = ["nft", "list", "table", family, "mangle"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=TOOL_S, check=False)
        rows = [line for line in done.stdout.splitlines() if line]
        # Chains with their hooks and policies, and no rule in any of them.
        if done.returncode == 0 and all(map(EMPTY_RULES.match, rows)):
            argv = ["nft", "delete", "table", family, "mangle"]
            subprocess.run(argv, capture_output=True, timeout=TOOL_S, check=False)


def end_janitor(run: str) -> None:
    try:
        with open(f"{run}/janitor.json", encoding="utf-8") as handle:
            pid = int(json.load(handle)["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    deadline = time.monotonic() + JANITOR_S
    command = content_or_none(f"/proc/{pid}/cmdline")
    if command is None or b"agent_janitor" not in command:
        return
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGTERM)
    while content_or_none(f"/proc/{pid}/cmdline") == command and time.monotonic() < deadline:
        time.sleep(0.1)


def content_or_none(path: str) -> bytes | None:
    try:
        return content(path)
    except OSError:
        return None


def names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def remove_home(home: str, lab_id: str, owned: list[str]) -> tuple[str, list[str]]:
    """Remove a directory that a run of this lab has made, with what is `owned` in it; where
    nothing in it is, or it is itself, with all. What there is to say of it; what stays in it."""
    said = ""
    gone = home + GONE
    for unborn in glob.glob(glob.escape(home) + ".dstest.*"):
        # Of a run that was killed while it made one, which has nothing but the mark at most.
        bare = os.path.isdir(unborn) and not os.path.islink(unborn)
        if bare and {HOME_MARK}.issuperset(names_in(unborn)):
            subprocess.run(["rm", "-rf", "--one-file-system", unborn], check=True)
    if os.path.lexists(home):
        if os.path.islink(home) or not os.path.isdir(home):
            return "stays: it is no directory", []
        if not has_mark(home, lab_id):
            return f"stays: it carries no mark of ours ({HOME_MARK})", []
        ours = [path for path in owned if path == home or path.startswith(f"{home}/")]
        if ours and home not in ours:
            clear(home, ours)
            if kept := not_of(home, ours):
                os.unlink(f"{home}/{HOME_MARK}")
                return "", kept
        elif not ours and (rest := [path[len(home) + 1 :] for path in not_of(home, ours)]):
            said = f"is removed, with what no run has noted: {', '.join(rest)}"
        if os.path.lexists(gone):
            subprocess.run(["rm", "-rf", "--one-file-system", gone], check=True)
        try:
            os.rename(home, gone)  # so that it is ours to the end, whoever cuts us off
        except OSError as error:
            return f"stays: {os.strerror(error.errno or 0)}", []
    if os.path.lexists(gone):
        subprocess.run(["rm", "-rf", "--one-file-system", gone], check=True)
    return said, []


def clear(home: str, ours: list[str]) -> None:
    """Remove what is ours below it, and what has led there and is empty now; follows no links."""
    for path in ours:
        above = os.path.dirname(path)
        if os.path.realpath(above) == os.path.realpath(home) + above[len(home) :]:
            subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)
    ways = {path[:at] for path in ours for at in range(len(home) + 1, len(path)) if path[at] == "/"}
    for way in sorted(ways, key=len, reverse=True):
        with contextlib.suppress(OSError):
            os.rmdir(way)


def not_of(home: str, ours: list[str]) -> list[str]:
    """The topmost paths in it that are neither ours nor lead there, without our mark."""
    found = []
    for name in sorted(names_in(home)):
        path = f"{home}/{name}"
        leads = any(one.startswith(f"{path}/") for one in ours)
        if path in ours or name == HOME_MARK:
            continue
        if leads and os.path.isdir(path) and not os.path.islink(path):
            found += not_of(path, ours)
        else:
            found.append(path)
    return found


def main() -> None:
    request = json.loads(sys.stdin.read())
    answer = {"mark": mark, "unmark": unmark}[sys.argv[1]](request)
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
