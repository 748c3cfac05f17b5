"""Base images: built once by mmdebstrap from this host's own Debian sources, then shared.

An image is `images/<hash>/rootfs` with `image.json` beside it. It is built under a temporary name
and renamed, so that what carries the final name is whole.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from clusters.labs import host, recipe, state
from dstest.core import clock
from dstest.core.builds import Build, build_of, name_of
from dstest.core.errors import ConfigError, LabError

BUILD_TIMEOUT_S = 1800.0
"""A slow mirror and a Java runtime fit; a hung one does not."""

COPY_TIMEOUT_S = 300.0

PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
FORWARDED = re.compile(
    r"Acquire::(https?::|Retries|ForceIPv|Check-Valid-Until|Check-Date|AllowReleaseInfoChange)"
)

Progress = Callable[[str], None]


def host_release() -> str:
    """Code name of this host's Debian release, for example `bookworm`."""
    text = Path("/etc/os-release").read_text(encoding="utf-8")
    found = re.search(r'^VERSION_CODENAME="?([a-z]+)"?$', text, re.MULTILINE)
    return found[1] if found else "stable"


def image_path(packages: Sequence[str]) -> Path:
    """Where the image with these packages is, or will be."""
    return state.root_dir() / "images" / recipe.image_hash(packages, host_release())


def ensure(packages: Sequence[str], progress: Progress) -> Path:
    """The image's directory, built where it is not there yet. Raises LabError where that fails."""
    for package in packages:
        if build_of(package) is None and not PACKAGE.fullmatch(package):
            raise ConfigError(
                f"{package!r} cannot be a Debian package name",
                remedy="lower case letters, digits, + - and . as in `apt-cache search`",
            )
    path = image_path(packages)
    if (path / "image.json").exists():
        return path
    with state.lock(f"image-{path.name}", timeout_s=BUILD_TIMEOUT_S):
        if not (path / "image.json").exists():
            _build(path, packages, progress)
    return path


def apt_sources() -> tuple[str, list[str]]:
    """The release to install and the `deb` lines for it, from what apt on this host uses."""
    debian = _debian_archives()
    if not debian:
        host.run(["apt-get", "update"], timeout_s=300.0)
        debian = _debian_archives()
    names = [row[1] for row in debian]
    release = host_release()
    if release not in names:
        release = next((n for n in names if "-" not in n), "")
    if not release:
        raise LabError(
            "apt on this host knows no Debian archive to build nodes from",
            remedy="add a Debian source to /etc/apt/sources.list.d and run apt-get update",
        )
    wanted = {release, f"{release}-updates", f"{release}-security"}
    components: dict[tuple[str, str], list[str]] = {}
    for uri, name, _, component in debian:
        if name in wanted:
            components.setdefault((uri, name), []).append(component)
    return release, [
        f"deb {uri} {name} {' '.join(sorted(set(of)))}" for (uri, name), of in components.items()
    ]


def _debian_archives() -> list[list[str]]:
    """Rows of URI, code name, origin and component; none until apt has fetched its lists."""
    rows = [line.split() for line in _index_targets()]
    return [row for row in rows if len(row) == 4 and row[2] == "Debian"]


def _index_targets() -> list[str]:
    form = "$(REPO_URI) $(CODENAME) $(ORIGIN) $(COMPONENT)"
    done = host.run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"])
    return done.stdout.splitlines()


def _apt_options() -> list[str]:
    """Proxies, certificates and date checks that apt on this host needs to reach its sources."""
    dump = host.run(["apt-config", "dump"]).stdout.splitlines()
    kept = [line for line in dump if FORWARDED.match(line) and not line.endswith(' "";')]
    return [f"--aptopt={line.removesuffix(';')}" for line in kept]


def _build(path: Path, packages: Sequence[str], progress: Progress) -> None:
    started_ns = clock.monotonic_ns()
    images = path.parent
    images.mkdir(parents=True, exist_ok=True, mode=0o700)
    remove_temporaries()
    progress(f"building the node image {path.name} (once; about a minute)")
    release, sources = apt_sources()
    work = images / f".{path.name}.{os.getpid()}"
    work.mkdir(mode=0o755)
    try:
        builds = [build for package in packages if (build := build_of(package))]
        laid = _laid(builds, work / "builds")
        hooks = {"prepare": recipe.PREPARE, **laid, "setup": recipe.SETUP}
        for name, text in hooks.items():
            (work / name).write_text(text, encoding="utf-8")
            (work / name).chmod(0o755)
        argv = [
            "mmdebstrap",
            "--variant=minbase",
            "--mode=root",
            f"--include={','.join(p for p in recipe.all_packages(packages) if not build_of(p))}",
            "--dpkgopt=force-unsafe-io",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            '--aptopt=APT::Install-Recommends "false"',
            *_apt_options(),
            f"--essential-hook={work / 'prepare'}",
            *(f"--customize-hook={work / name}" for name in laid),
            f"--customize-hook={work / 'setup'}",
            release,
            str(work / "rootfs"),
            *sources,
        ]
        _mmdebstrap(argv, work / "log")
        facts = {"packages": recipe.all_packages(packages), "release": release, "sources": sources}
        facts["built"] = clock.utc_stamp()
        (work / "image.json").write_bytes(msgspec.json.encode(facts))
        host.remove_tree(path)
        work.rename(path)
    finally:
        host.remove_tree(work)
    progress(f"node image built in {(clock.monotonic_ns() - started_ns) / 1e9:.0f} s")


def _laid(builds: Sequence[Build], folder: Path) -> dict[str, str]:
    """The scripts that put builds into an image, packages first, from copies that nobody changes.
    ConfigError where one is not what was named."""
    files: list[str] = []
    trees: list[str] = []
    for number, build in enumerate(builds):
        copy = folder / str(number) if build.path.is_dir() else folder / f"{number}.deb"
        folder.mkdir(exist_ok=True)
        host.run(["cp", "-a", str(build.path), str(copy)], timeout_s=COPY_TIMEOUT_S)
        if Build(build.path, _hash_of(copy)) != build:
            raise ConfigError(
                f"{build.path} has changed since it was named",
                remedy="start again, with --system-version, for what it is now",
            )
        (trees if copy.is_dir() else files).append(shlex.quote(str(copy)))
    packages = recipe.PACKAGES.replace("FILES", " ".join(files))
    scripts = {"packages": packages} if files else {}
    return scripts | {
        f"tree{i}": recipe.TREE.replace("FOLDER", path) for i, path in enumerate(trees)
    }


def _hash_of(path: Path) -> str:
    build = build_of(name_of(path))
    return build.sha256 if build else ""


def _mmdebstrap(argv: list[str], log: Path) -> None:
    with log.open("wb") as out:
        try:
            done = subprocess.run(
                argv,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=BUILD_TIMEOUT_S,
                check=False,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
            )
            trouble = None if done.returncode == 0 else f"status {done.returncode}"
        except FileNotFoundError:
            raise LabError(
                "mmdebstrap is not installed", remedy=host.apt_remedy(["mmdebstrap"])
            ) from None
        except subprocess.TimeoutExpired:
            trouble = f"no end within {BUILD_TIMEOUT_S:g} s"
    if trouble is None:
        return
    tail = "\n".join(log.read_text(errors="replace").strip().splitlines()[-12:])
    raise LabError(
        f"mmdebstrap could not build the node image ({trouble}); its last words:\n{tail}",
        remedy="check that `apt-get update` works on this host, that the packages exist there, and"
        " that a --system-version needs none that they do not have",
    )


def remove_unused(used: set[str]) -> list[str]:
    """Remove the images that are not in `used` (paths); returns what was removed."""
    removed = []
    for record in (state.root_dir() / "images").glob("*/image.json"):
        path = record.parent
        if str(path) not in used:
            with state.lock(f"image-{path.name}"):
                record.unlink(missing_ok=True)
                removed += host.remove_tree(path)
    return removed


def remove_temporaries() -> list[str]:
    """Remove what builders that are gone left behind; returns the paths. Where a child of one still
    writes, it stays for the next look."""
    removed = []
    for work in (state.root_dir() / "images").glob(".*.*"):
        builder = work.name.rpartition(".")[2]
        if builder.isdigit() and host.proc_start(int(builder)) is None:
            try:
                host.remove_tree(work)
            except LabError:
                continue
            removed.append(str(work))
    return removed
