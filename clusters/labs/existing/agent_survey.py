"""Runs on a machine that may become a node: says what it is, and what is on it now.

    python3 -I -S -c TEXT facts|found|listen

It reads, and tries things in namespaces that end with it. Standard library only; Python 3.9 or
newer. Prints one JSON object.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import platform
import socket
import subprocess
import sys
import time

MARKER = "/etc/dstest-lab"
ROWS_MAX = 20_000
"""Of files that are told one by one."""

FILES_MAX = 200_000
FOLD = "/..."
"""What the row for all that is below a directory ends with."""

FILE_BYTES_MAX = 1 << 20
TRY_S = 10.0
SECONDS = 50.0
"""For all of it, where the request does not say."""

TEXT_MAX = 4000
PLACES = ("/opt", "/srv", "/root", "/home", "/var/lib", "/var/log", "/usr/local/bin")
"""What is in these is told by name."""


def text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read(FILE_BYTES_MAX).strip()
    except OSError:
        return ""


def link_of(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


class Clock:
    """How long all commands together may still take."""

    end = time.monotonic() + SECONDS

    @classmethod
    def left(cls) -> float:
        return max(0.1, min(TRY_S, cls.end - time.monotonic()))


def output_of(argv: list[str], stdin: str = "") -> tuple[int, str]:
    """Status and output of a command; -1 where it does not run or does not end."""
    try:
        done = subprocess.run(
            argv, input=stdin.encode(), capture_output=True, timeout=Clock.left(), check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    text = done.stdout if done.returncode == 0 else done.stderr or done.stdout
    return done.returncode, text.decode(errors="replace").strip()


def packages_of(wanted: list[str]) -> list[str] | None:
    """Those that are installed; None where nobody can tell."""
    code, listed = output_of(["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n"])
    if code != 0:
        return None
    rows = [line.split() for line in listed.splitlines()]
    installed = {row[0] for row in rows if len(row) == 2 and row[1] == "installed"}
    return sorted(installed & set(wanted))


def residue_of(look: str) -> dict:  # type: ignore[type-arg]
    """How a search for leftovers ended, and the end of what it printed, in whole lines."""
    code, text = output_of(["sh", "-c", look])
    if len(text) > TEXT_MAX:
        text = text[-TEXT_MAX:].partition("\n")[2]
    return {"status": code, "text": text}


def facts(request: dict) -> dict:  # type: ignore[type-arg]
    """Who this machine is and what it offers. `request`: features and residues as name -> program
    for sh, names of packages and of nodes, paths of which those are told that are there."""
    release = dict(
        line.split("=", 1) for line in text_of("/etc/os-release").splitlines() if "=" in line
    )
    status = os.statvfs("/")
    features = {}
    for name, look in request["features"].items():
        code, text = output_of(["sh", "-c", look])
        features[name] = None if code == 0 else (text[-200:].strip() or f"status {code}")
    names = {}
    for name in request["names"]:
        names[name] = output_of(["getent", "ahostsv4", name])[1].split(" ")[0]
    return {
        "os": release.get("PRETTY_NAME", "").strip('"'),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "uid": os.getuid(),
        "boot_id": text_of("/proc/sys/kernel/random/boot_id"),
        "processes": link_of("/proc/1/ns/pid"),
        "network": link_of("/proc/self/ns/net"),
        "marker": text_of(MARKER) if os.path.lexists(MARKER) else None,
        "wall_ns": time.time_ns(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "disk_free_bytes": status.f_bavail * status.f_frsize,
        "features": features,
        "packages": packages_of(request["packages"]),
        "names": names,
        "paths": [path for path in request["paths"] if os.path.lexists(path)],
        "residues": {name: residue_of(look) for name, look in request["residues"].items()},
        "addresses": addresses(),
    }


def addresses() -> list[str]:
    """This machine's own, of both families, without those of loopback."""
    found, last = set(), ""
    for line in text_of("/proc/net/fib_trie").splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            last = words[1]
        elif words == ["/32", "host", "LOCAL"] and not last.startswith("127."):
            found.add(last)
    for line in text_of("/proc/net/if_inet6").splitlines():
        six = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(line.split()[0]))
        found |= {six} - {"::1"}
    return sorted(found)


def digests(root: str) -> dict[str, str]:
    """Path -> what it is: a digest with mode and owner, the target of a link, or its kind."""
    rows: dict[str, str] = {}
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = os.path.join(folder, name)
            try:
                what = os.lstat(path)
                owner = f"{what.st_mode:o} {what.st_uid}:{what.st_gid}"
                if os.path.islink(path):
                    rows[path] = f"link {os.readlink(path)}"
                elif os.path.isfile(path) and what.st_size <= FILE_BYTES_MAX:
                    with open(path, "rb") as handle:
                        rows[path] = f"{owner} {hashlib.sha256(handle.read()).hexdigest()}"
                else:
                    rows[path] = f"{owner} {what.st_size if os.path.isfile(path) else 'other'}"
            except OSError as error:
                rows[path] = f"unreadable: {error.errno}"
            if len(rows) >= FILES_MAX:
                rows[root + FOLD] = f"more than {FILES_MAX} files"
                return rows
    return rows


def fold(rows: dict[str, str], root: str, most: int = ROWS_MAX) -> dict[str, str]:
    """At most so many rows: what is below the fullest directories of `root` becomes one of each."""
    groups: dict[str, list[str]] = {}
    for path in rows:
        top, _, below = path[len(root) + 1 :].partition("/")
        if below and path != root + FOLD:
            groups.setdefault(top, []).append(path)
    kept = dict(rows)
    for top, paths in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(kept) <= most:
            break
        lines = [f"{path}\0{kept.pop(path)}\n" for path in sorted(paths)]
        digest = hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()
        kept[f"{root}/{top}{FOLD}"] = f"{len(paths)} files, {digest}"
    return kept


def processes() -> list[str]:
    """Command lines, without threads of the kernel and without the way that we have come."""
    mine, rows = ancestors(), []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in mine:
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry}/cmdline", "rb") as handle:
                words = handle.read(4096).rstrip(b"\0").split(b"\0")
            if words != [b""]:
                rows.append(b" ".join(words).decode(errors="replace")[:300])
    return sorted(rows)


def ancestors() -> set[int]:
    """This process and those above it, process 1 excepted."""
    found, pid = set(), os.getpid()
    while pid > 1 and pid not in found:
        found.add(pid)
        stat = text_of(f"/proc/{pid}/stat")
        pid = int(stat.rsplit(")", 1)[1].split()[1]) if ")" in stat else 0
    return found


def cgroups() -> list[str]:
    return sorted(
        folder
        for folder, _, _ in os.walk("/sys/fs/cgroup")
        if "dstest" in folder or folder.count("/") <= 5
    )


def hosts() -> str | None:
    """All of /etc/hosts, in base64; None where there is none."""
    try:
        with open("/etc/hosts", "rb") as handle:
            return base64.b64encode(handle.read(FILE_BYTES_MAX)).decode()
    except OSError:
        return None


def left_now(_: dict) -> dict:  # type: ignore[type-arg]
    """What is on this machine now, so that it can be compared later."""
    mounts = [line.split()[:3] for line in text_of("/proc/mounts").splitlines()]
    return {
        "etc": fold(digests("/etc"), "/etc"),
        "hosts": hosts(),
        "places": [
            f"{place}/{name}"
            for place in PLACES
            if os.path.isdir(place)
            for name in sorted(os.listdir(place))
        ],
        "run": sorted(name for name in os.listdir("/run") if "dstest" in name),
        "nft": output_of(["nft", "-s", "list", "ruleset"])[1].splitlines(),
        "iptables": [
            line
            for tool in ("iptables-save", "ip6tables-save")
            for line in output_of([tool])[1].splitlines()
            if not line.startswith(("#", ":"))
        ],
        "links": sorted(os.listdir("/sys/class/net")),
        "tc": output_of(["tc", "qdisc", "show"])[1].splitlines(),
        "mounts": sorted(" ".join(row) for row in mounts),
        "cgroups": cgroups(),
        "processes": processes(),
    }


def listen(request: dict) -> dict:  # type: ignore[type-arg]
    """Takes one connection at a `port` within `seconds`; from which address it came."""
    place = ("::", request["port"])
    try:
        with socket.create_server(place, family=socket.AF_INET6, dualstack_ipv6=True) as server:
            server.settimeout(request["seconds"])
            connection, peer = server.accept()
    except OSError as error:
        return {"peer": None, "why": str(error)}
    connection.close()
    return {"peer": peer[0].replace("::ffff:", "")}


def main() -> None:
    request = json.loads(sys.stdin.read() or "{}")
    Clock.end = time.monotonic() + request.get("limit_s", SECONDS)
    answer = {"facts": facts, "found": left_now, "listen": listen}[sys.argv[1]](request)
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
