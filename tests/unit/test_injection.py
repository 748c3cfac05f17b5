"""What a user, a schedule or a list of machines says never becomes a command by itself."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import stat
import subprocess
from pathlib import Path

import msgspec
import pytest

from clusters.labs import state
from clusters.remote.login import Sudo, ssh_argv
from dstest.core import registry
from dstest.core.errors import ConfigError, DstestError
from dstest.core.node import Login, NodeInfo
from dstest.core.run_record import RunSpec
from dstest.runner.fault_plans import Schedule
from dstest.runner.plugins import resolve, schedule_of

pytestmark = pytest.mark.slow

PAYLOADS = (
    "$(touch {})",
    "`touch {}`",
    "; touch {};",
    "n1; touch {}",
    "n1\ntouch {}",
    "'; touch {}; '",
    '"; touch {}; "',
    "| touch {}",
    "&& touch {}",
    "-oProxyCommand=touch {}",
    "--help; touch {}",
    "\x00touch {}",
    "${{IFS}}touch {}",
    "n1,$(touch {})",
    "../../../{}",
)

STRING_OPTIONS = [
    (group, name, key)
    for group in ("nemeses", "workloads", "systems")
    for name in registry.names(group)
    for key, option in getattr(registry.load(group, name), "options", {}).items()
    if option.type is str and not option.choices and key not in ("other_build", "invariants")
]
"""`other_build` is the path of a file of this host, and is opened there. `invariants` are read
where a history is judged, and reach no node."""


def spec_of(group: str, name: str) -> RunSpec:
    """A run with this plug-in, and with others that go with it."""
    word = {"nemeses": "nemesis", "workloads": "workload", "systems": "system"}[group]
    spec = RunSpec(time_limit_s=400.0, lab="lxc")
    if name == "store-outage":
        spec = msgspec.structs.replace(spec, system="patroni")
    if name == "bank-replicas":
        spec = msgspec.structs.replace(spec, system="postgresql-standby")
    return msgspec.structs.replace(spec, **{word: name})


@pytest.mark.parametrize(("group", "name", "key"), STRING_OPTIONS)
def test_text_options_are_names_or_refused(group: str, name: str, key: str, tmp_path: Path) -> None:
    for payload in PAYLOADS:
        value = payload.format(tmp_path / "owned")
        with pytest.raises(DstestError):
            resolve(spec_of(group, name), [f"{key}={value}"])
    assert not (tmp_path / "owned").exists()


def test_a_schedule_with_strange_words_is_refused(tmp_path: Path) -> None:
    """Of each nemesis that is planned without more options."""
    tried = set()
    for name in registry.names("nemeses"):
        spec = spec_of("nemeses", name)
        with contextlib.suppress(ConfigError):
            strange_words(name, schedule_of(resolve(spec, [])), tmp_path)
            tried.add(name)
    assert len(tried) >= 30, tried
    assert not (tmp_path / "owned").exists()


def strange_words(name: str, schedule: Schedule, folder: Path) -> None:
    plain = msgspec.to_builtins(schedule)
    for plan in plain["plans"][:1]:
        for key in [key for key, value in plan["facts"].items() if isinstance(value, str)]:
            for payload in (p for p in PAYLOADS if p != "../../../{}"):
                changed = json.loads(json.dumps(plain))
                changed["plans"][0]["facts"][key] = payload.format(folder / "owned")
                try:
                    resolve(
                        spec_of("nemeses", name), [], schedule=msgspec.convert(changed, Schedule)
                    )
                except DstestError:
                    continue
                pytest.fail(f"{name}: {key} may be {payload}")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_lab_ids(payload: str) -> None:
    with pytest.raises(ConfigError):
        state.check_lab_id(payload)


def fake_ssh(tmp_path: Path) -> dict[str, str]:
    """An `ssh` that runs its ProxyCommand as the real one does, and writes down its words."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/bash\nprintf "%s\\0" "$@" >>"$LOG"; printf "\\n" >>"$LOG"\n'
        'for word; do case "$word" in ProxyCommand=*) sh -c "${word#ProxyCommand=}";; esac; done\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "LOG": f"{tmp_path}/log",
    }


@pytest.mark.parametrize("payload", PAYLOADS)
def test_logins_with_strange_words(payload: str, tmp_path: Path) -> None:
    """Even where a name that was refused before came so far."""
    word = payload.format(tmp_path / "owned").replace("\x00", "")
    jump = Login(host=word, user=word, key_path=word, known_hosts_path=word, agent_path=word)
    node = NodeInfo(
        name="n1",
        address=word,
        user=word,
        key_path=word,
        known_hosts_path=word,
        jumps=(jump, jump),
    )
    subprocess.run(ssh_argv(node), env=fake_ssh(tmp_path), check=True, timeout=60)
    assert not (tmp_path / "owned").exists()
    lines = (tmp_path / "log").read_bytes().split(b"\0\n")
    assert len([line for line in lines if line]) == 3


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("user", ["root", "ops"])
def test_what_becomes_root(payload: str, user: str, tmp_path: Path) -> None:
    word = payload.format(tmp_path / "owned").replace("\x00", "")
    command = Sudo(NodeInfo(name="n1", address="192.0.2.1", user=user)).command(["printf", word])
    script = command.replace("exec sudo -n ", "exec ")
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=60, check=False)
    assert not (tmp_path / "owned").exists()
    assert shlex.split(command)[-1] == word
    assert done.returncode in (0, 1, 2)
