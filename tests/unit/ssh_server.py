"""An SSH server of this process that runs commands as a shell does, and a home whose
`~/.ssh/config` leads to it: for what reaches machines as `ssh HOST` does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh

__all__ = ["served"]


async def _run(process: asyncssh.SSHServerProcess[bytes]) -> None:
    child = await asyncio.create_subprocess_exec(
        *("sh", "-c", process.command or "exit 1"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await child.communicate(await process.stdin.read())
        process.stdout.write(out)
        process.stderr.write(err)
        process.exit(child.returncode or 0)
    finally:
        if child.returncode is None:
            child.kill()


@asynccontextmanager
async def served(home: Path, host: str) -> AsyncIterator[None]:
    """While this lasts `ssh HOST` leads here for whoever has this HOME."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[key],
        authorized_client_keys=asyncssh.import_authorized_keys(key.export_public_key().decode()),
        process_factory=_run,
        encoding=None,
    )
    ssh = home / ".ssh"
    ssh.mkdir(mode=0o700)
    (ssh / "id").write_bytes(key.export_private_key())
    (ssh / "id").chmod(0o600)
    port = server.get_port()
    public = key.export_public_key().decode().strip()
    (ssh / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}\n")
    (ssh / "config").write_text(
        f"Host {host}\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {ssh / 'id'}\n"
    )
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()
