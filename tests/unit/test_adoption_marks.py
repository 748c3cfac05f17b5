"""What is written on machines that are adopted, and how it is taken away: by bytes."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clusters.labs.existing import agent_mark
from dstest.core.residue import HOME_MARK, HOMES_LAID, HOMES_OWNED

LINES = "10.0.0.1 n1 # dstest-lab one\nfd00::1 n1 # dstest-lab one\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("etc", "run", "opt"):
        (tmp_path / name).mkdir()
    return tmp_path


def request(before: bytes | None, **more: Any) -> dict[str, Any]:
    text = None if before is None else base64.b64encode(before).decode()
    given = {"lab_id": "one", "lines": LINES, "hosts": text, "run": "/run/dstest"}
    return {**given, "families": [], "homes": [], "marked": True, **more}


TEXTS = {
    "usual": b"127.0.0.1 localhost\n::1 localhost\n",
    "no end of line": b"127.0.0.1 localhost\n10.9.9.9 important",
    "one line without end": b"10.9.9.9 important",
    "CRLF": b"127.0.0.1 localhost\r\n10.9.9.9 important\r\n",
    "empty": b"",
    "no UTF-8": b"127.0.0.1 localhost # \xff\xfe\n\n\n",
    "another lab's": b"10.0.0.2 n1 # dstest-lab two\n",
    "none": None,
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("times", [1, 2])
def test_hosts_comes_back_as_it_was(root: Path, kind: str, times: int) -> None:
    hosts, before = root / "etc" / "hosts", TEXTS[kind]
    if before is not None:
        hosts.write_bytes(before)
        hosts.chmod(0o640)
    for _ in range(times):
        agent_mark.mark(request(before), str(root))
    text = hosts.read_bytes()
    assert text.endswith(LINES.encode())
    # The last line of the user's is a line of its own.
    assert (before or b"").rstrip() in [b"", text[: -len(LINES)].rstrip()]
    assert text.count(b"# dstest-lab one") == 2
    assert (root / "etc/dstest-lab").read_text() == "one\n"
    for _ in range(times):
        assert agent_mark.unmark(request(before), str(root)) == {
            "said": [],
            "stays": [],
            "laid": [],
            "kept": [],
        }
    assert (hosts.read_bytes() if hosts.exists() else None) == before
    if before is not None:
        assert hosts.stat().st_mode & 0o777 == 0o640
    assert os.listdir(root / "etc") == ([] if before is None else ["hosts"])


def test_what_others_have_written_meanwhile_stays(root: Path) -> None:
    hosts, before = root / "etc" / "hosts", TEXTS["no end of line"]
    assert before is not None
    hosts.write_bytes(before)
    agent_mark.mark(request(before), str(root))
    hosts.write_bytes(hosts.read_bytes() + b"10.9.9.10 more")
    said = agent_mark.unmark(request(before), str(root))["said"]
    assert hosts.read_bytes() == before + b"\n10.9.9.10 more"
    assert said == ["/etc/hosts was changed meanwhile: only our lines are gone"]


def test_where_it_is_a_link_the_link_stays(root: Path) -> None:
    target = root / "etc" / "hosts.real"
    target.write_bytes(b"x")
    (root / "etc" / "hosts").symlink_to("hosts.real")
    agent_mark.mark(request(b"x"), str(root))
    assert target.read_bytes() == b"x\n" + LINES.encode()
    agent_mark.unmark(request(b"x"), str(root))
    assert target.read_bytes() == b"x"
    assert (root / "etc" / "hosts").is_symlink()


def test_nothing_is_written_over_a_marker_of_another_lab(root: Path) -> None:
    (root / "etc/dstest-lab").write_text("two\n")
    (root / "etc/hosts").write_bytes(b"x")
    for act in (agent_mark.mark, agent_mark.unmark):
        with pytest.raises(SystemExit, match="belongs to lab 'two'"):
            act(request(b"x", homes=["/opt/redis"]), str(root))
    assert (root / "etc/hosts").read_bytes() == b"x"
    assert sorted(os.listdir(root / "etc")) == ["dstest-lab", "hosts"]


def test_only_homes_that_a_run_has_marked_are_removed(root: Path) -> None:
    """Installed by somebody meanwhile, of another lab, a link, a file: these stay, and are told."""
    agent_mark.mark(request(b"", lines=""), str(root))
    opt = root / "opt"
    for name, mark in (("ours", "one"), ("theirs", None), ("other", "two")):
        (opt / name / "data").mkdir(parents=True)
        if mark is not None:
            (opt / name / ".dstest-lab").write_text(f"{mark}\n")
    (opt / "link").symlink_to("ours")
    (opt / "file").write_text("")
    homes = [f"/opt/{n}" for n in ("theirs", "other", "link", "file", "ours", "nowhere")]
    said = agent_mark.unmark(request(b"", lines="", homes=homes), str(root))["said"]
    assert sorted(os.listdir(opt)) == ["file", "link", "other", "theirs"]
    assert [row.split(":")[0] for row in said[:4]] == [f"{home} stays" for home in homes[:4]]
    # Of an older version, which has not noted what was whose.
    assert said[4:] == ["/opt/ours is removed, with what no run has noted: data"]


def test_homes_that_runs_have_noted_are_removed_though_nobody_knew_of_them(root: Path) -> None:
    """As of a system whose file was not there at the adoption; what is not marked stays."""
    agent_mark.mark(request(b"", lines=""), str(root))
    for name, mark in (("own", "one"), ("dstest-services", "one"), ("theirs", "two")):
        (root / "opt" / name).mkdir(parents=True)
        (root / "opt" / name / ".dstest-lab").write_text(f"{mark}\n")
    (root / agent_mark.LAID[1:]).write_text("/opt/own\n/opt/theirs\n/opt/own\n")
    homes = ["/opt/dstest", "/opt/dstest-services"]
    done = agent_mark.unmark(request(b"", lines="", homes=homes), str(root))
    assert os.listdir(root / "opt") == ["theirs"]
    assert done["laid"] == ["/opt/own", "/opt/theirs"]
    assert done["stays"] == ["/opt/theirs"]
    assert (agent_mark.LAID, agent_mark.HOME_MARK) == (HOMES_LAID, HOME_MARK)
    assert agent_mark.OWNED == HOMES_OWNED


def files(root: Path, texts: dict[str, str]) -> None:
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def test_what_others_have_put_beside_a_systems_own_stays_and_is_named(root: Path) -> None:
    """But in a home, all of which is its system's. What older versions have not noted is named."""
    agent_mark.mark(request(b"", lines=""), str(root))
    marks = ("srv/site", "var/log/cset", "opt/clean", "opt/etcd", "opt/old", "opt/dstest-services")
    files(root, {f"{place}/{HOME_MARK}": "one\n" for place in marks})
    files(root, dict.fromkeys(["srv/site/cset/data/db", "srv/site/cset/conf", "etc/theirs/db"], ""))
    files(root, dict.fromkeys(["opt/clean/a/data/x", "opt/etcd/log", "var/log/cset/log"], ""))
    files(root, dict.fromkeys(["opt/etcd/notes.txt", "opt/old/x"], "theirs, or of an old run"))
    files(root, dict.fromkeys(["srv/site/cset/notes.txt", "var/log/cset/audit.log"], "theirs"))
    (root / "srv/site/empty").mkdir()
    (root / "srv/site/cset/link").symlink_to(root / "etc/theirs")
    owned = ["/srv/site/cset/data", "/srv/site/cset/conf", "/srv/site/cset/link/db"]
    owned += ["/opt/clean/a/data", "/var/log/cset/log", "/opt/etcd", "/opt/etcd/log"]
    homes = [f"/{place}\n" for place in marks[:-1]]
    files(root, {agent_mark.LAID[1:]: "".join(homes), HOMES_OWNED[1:]: "\n".join(owned)})
    done = agent_mark.unmark(request(b"", lines="", homes=["/opt/dstest-services"]), str(root))
    assert sorted(done["kept"]) == [
        "/srv/site/cset/link",
        "/srv/site/cset/notes.txt",
        "/srv/site/empty",
        "/var/log/cset/audit.log",
    ]
    left = [
        str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and "etc" not in str(p)
    ]
    assert sorted(left) == ["srv/site/cset/notes.txt", "var/log/cset/audit.log"]
    assert (root / "etc/theirs/db").exists() and os.listdir(root / "opt") == []
    assert done["said"] == ["/opt/old is removed, with what no run has noted: x"]


def test_a_removal_that_was_cut_off_goes_on(root: Path) -> None:
    gone = root / "opt" / f"ours{agent_mark.GONE}" / "data"
    gone.mkdir(parents=True)
    assert agent_mark.remove_home(str(root / "opt/ours"), "one", []) == ("", [])
    assert os.listdir(root / "opt") == []


def test_a_mount_at_hosts_is_written_into(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: Any) -> None:
        raise OSError(16, "Device or resource busy")

    hosts = root / "etc" / "hosts"
    hosts.write_bytes(b"127.0.0.1 localhost\n")
    inode = hosts.stat().st_ino
    monkeypatch.setattr(os, "rename", busy)
    agent_mark.replace(str(hosts), b"x\n")
    assert (hosts.read_bytes(), hosts.stat().st_ino) == (b"x\n", inode)
    assert os.listdir(root / "etc") == ["hosts"]


def test_a_record_of_an_older_version_does_for_a_release(root: Path) -> None:
    """It says neither what was in /etc/hosts nor which lines were ours: these say it themselves."""
    hosts = root / "etc" / "hosts"
    hosts.write_bytes(b"127.0.0.1 localhost\n" + LINES.encode())
    (root / "etc/dstest-lab").write_text("one\n")
    agent_mark.unmark(request(None, lines=""), str(root))
    assert hosts.read_bytes() == b"127.0.0.1 localhost\n"
    assert os.listdir(root / "etc") == ["hosts"]


@pytest.mark.parametrize("what", ["opt/etcd/.dstest-lab", "etc/hosts", "run/dstest/x"])
def test_without_the_marker_nothing_of_ours_is_said_to_be_gone(root: Path, what: str) -> None:
    """Somebody else has taken the marker away: ours goes last."""
    gone = request(None, lines="", homes=["/opt/etcd"])
    assert agent_mark.unmark(gone, str(root))["said"] == []
    (root / what).parent.mkdir(parents=True, exist_ok=True)
    (root / what).write_text(LINES if what == "etc/hosts" else "one\n")
    with pytest.raises(SystemExit, match="still there"):
        agent_mark.unmark(gone, str(root))
    # Where it was never marked, no run was ever there.
    agent_mark.unmark({**gone, "marked": False}, str(root))
    assert (root / what).exists()


def test_a_directory_that_a_killed_run_was_making(tmp_path: Path) -> None:
    """Empty or with our mark alone it goes; with anything else in it, or as a link, it stays."""
    home = tmp_path / "etcd"
    for name, files in (("a", []), ("b", [agent_mark.HOME_MARK]), ("c", ["data"])):
        folder = tmp_path / f"etcd.dstest.{name}"
        folder.mkdir()
        for file in files:
            (folder / file).write_text("one\n")
    (tmp_path / "etcd.dstest.d").symlink_to(tmp_path)
    assert agent_mark.remove_home(str(home), "one", []) == ("", [])
    assert sorted(os.listdir(tmp_path)) == ["etcd.dstest.c", "etcd.dstest.d"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
@pytest.mark.parametrize("place", ["data", "my data/deep"])
def test_what_somebody_has_mounted_there_ends_the_release_before_anything_goes(
    root: Path, place: str
) -> None:
    """With the machine's own disk below our directory, what is removed would be theirs."""
    home = root / "opt/own"
    (home / place).mkdir(parents=True)
    (home / HOME_MARK).write_text("one\n")
    agent_mark.mark(request(b""), str(root))
    asked = request(b"", homes=["/opt/own"])
    before = sorted(map(str, root.rglob("*")))
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", home / place], check=True)
    try:
        with pytest.raises(SystemExit, match=f"{place}; unmount that first, no directory"):
            agent_mark.unmark(asked, str(root))
        assert sorted(map(str, root.rglob("*"))) == before
    finally:
        subprocess.run(["umount", home / place], check=True)
    assert agent_mark.unmark(asked, str(root))["stays"] == []
    assert not home.exists()


def test_they_are_the_same_wherever_they_are_written() -> None:
    """Programs that travel to nodes import nothing of ours."""
    from clusters.labs import image
    from clusters.labs.existing import agent_survey
    from clusters.remote import agent_services, bundle, chores
    from clusters.supervise import member_set
    from dstest.runner.adoption import COMMON_HOMES

    places = {agent_survey.MARKER, agent_mark.MARKER, bundle.MARKER_PATH, image.MARKER_PATH}
    assert len(places) == 1
    assert agent_mark.HOME_MARK == HOME_MARK
    assert {member_set.HOME, str(agent_services.HOME), COMMON_HOMES[1]} == {member_set.HOME}
    assert member_set.MEMBER == chores.MEMBER
