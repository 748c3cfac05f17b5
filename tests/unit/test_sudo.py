"""Becoming root: when a password goes over, and when it must not."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

import pytest

from clusters.remote.login import Sudo, password_of
from dstest.core.errors import LabError
from dstest.core.node import NodeInfo


def node(user: str = "ops", password_path: str = "") -> NodeInfo:
    return NodeInfo(name="n1", address="192.0.2.1", user=user, sudo_password_path=password_path)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "pw"
    path.write_text("s3 cret\nnot this\n")
    path.chmod(0o600)
    return path


def test_root_needs_none_and_others_say_so() -> None:
    assert Sudo(node("root")).command(["a", "b c"]) == "exec a 'b c'"
    assert Sudo(node()).command(["a", "b c"]) == "exec sudo -n a 'b c'"


def test_the_password_goes_over_when_it_is_asked_for_and_only_then(secret: Path) -> None:
    async def go() -> list[bytes]:
        sudo, sent = Sudo(node(password_path=str(secret))), list[bytes]()
        command = sudo.command(["prog", "$(x)"])
        assert "s3 cret" not in command
        words = shlex.split(command)
        asks = words[words.index("-p") + 1]
        ready = re.search(r"echo (\S+) >&2; exec prog '\$\(x\)'", words[-1])
        assert ready
        passed = asyncio.create_task(sudo.passed(sent.append))
        for part in (b"We trust you have received\nthe usual lecture. ", asks[:5].encode()):
            sudo.heard(part)
            await asyncio.sleep(0)
            assert sent == []
        sudo.heard(asks[5:].encode())
        await asyncio.sleep(0.01)
        sudo.heard(f"\n{ready[1]}\n".encode())
        await passed
        return sent

    assert asyncio.run(go()) == [b"s3 cret\n"]


def test_nothing_goes_over_where_sudo_does_not_ask(secret: Path) -> None:
    async def go() -> list[bytes]:
        sudo, sent = Sudo(node(password_path=str(secret))), list[bytes]()
        ready = re.search(r"echo (\S+) >&2", shlex.split(sudo.command(["prog"]))[-1])
        assert ready
        sudo.heard(f"{ready[1]}\n".encode())
        await sudo.passed(sent.append)
        return sent

    assert asyncio.run(go()) == []


@pytest.mark.parametrize("how", ["wrong", "end"])
def test_a_refusal_is_told_and_the_password_is_not(secret: Path, how: str) -> None:
    async def go() -> None:
        sudo, sent = Sudo(node(password_path=str(secret))), list[bytes]()
        words = shlex.split(sudo.command(["prog"]))
        asks = words[words.index("-p") + 1].encode()
        if how == "wrong":
            sudo.heard(asks + b"\nSorry, try again.\n" + asks)
        else:
            sudo.ended("ops is not in the sudoers file")
        await sudo.passed(sent.append)

    with pytest.raises(LabError) as caught:
        asyncio.run(go())
    told = {"wrong": "sudo refuses the password", "end": "ops is not in the sudoers file"}[how]
    assert told in str(caught.value)
    assert "s3 cret" not in str(caught.value)


def test_a_password_that_others_may_read_is_refused(secret: Path, tmp_path: Path) -> None:
    secret.chmod(0o640)
    with pytest.raises(LabError, match="others may read it"):
        password_of(str(secret))
    with pytest.raises(LabError, match="cannot be read"):
        password_of(str(tmp_path / "nowhere"))
    empty = tmp_path / "empty"
    empty.touch(0o600)
    with pytest.raises(LabError, match="holds no password"):
        password_of(str(empty))
