"""Lists of machines in three forms: what each says, and what is refused."""

from __future__ import annotations

from getpass import getuser
from pathlib import Path

import pytest

from clusters.labs.existing.entry import ASK, split_place
from clusters.labs.existing.inventory import form_of, read_inventory
from dstest.core.errors import ConfigError

pytestmark = pytest.mark.slow

TOML = """\
user = "deploy"
port = 2222
key = "/keys/common"
jump = "ops@bastion.example:2022"
sudo_password = "ask"
roles = ["all"]
[[node]]
name = "db-1"
address = "10.1.0.1"
address6 = "fd00:1::1"
ssh = "db-1.example"
[[node]]
name = "db-2"
address = "10.1.0.2"
user = "root"
port = 22
jump = [{ host = "a", user = "u", key = "/keys/a" }, "b"]
roles = ["db"]
"""


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    one, two = read_inventory(written(tmp_path, "nodes.toml", TOML), [])
    assert (one.alias, one.address, one.address6) == ("db-1", "10.1.0.1", "fd00:1::1")
    assert (one.ssh.where, one.ssh.keys) == ("deploy@db-1.example:2222", ("/keys/common",))
    assert [jump.where for jump in one.jumps] == ["ops@bastion.example:2022"]
    assert (one.password_path, one.ssh.agent, one.roles) == (ASK, "/agent", ("all",))
    assert (two.ssh.where, two.roles) == ("root@10.1.0.2:22", ("all", "db"))
    assert [(jump.where, jump.keys) for jump in two.jumps] == [
        ("u@a:22", ("/keys/a",)),
        ("root@b:22", ("/keys/common",)),
    ]


def test_some_of_them_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, "nodes.toml", TOML)
    assert [e.alias for e in read_inventory(path, ["db-2", "db-1"])] == ["db-2", "db-1"]
    assert [e.alias for e in read_inventory(path, ["db"])] == ["db-2"]
    with pytest.raises(ConfigError, match="no host or role db-9"):
        read_inventory(path, ["db-9"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[node]]\nname = 1", "Expected `str`"),
        ("[[node]]\nnam = 'x'", "unknown field `nam`"),
        ("node = []", "names 0 machines"),
        ("[[node]]\nuser = 'x'", "neither name nor address"),
        ("[[node]]\nname = 'x'\n[[node]]\nname = 'x'", "names x twice"),
        ("sudo_password = 'hunter2'\n[[node]]\nname = 'x'", "does not belong into this file"),
        ("sudo_password = { env = 'NOT_THERE' }\n[[node]]\nname = 'x'", "no variable NOT_THERE"),
        ("jump = [3]\n[[node]]\nname = 'x'", "3 is no jump host"),
        ("jump = { hots = 'x' }\n[[node]]\nname = 'x'", "hots"),
        ("\xff = [", "nodes.toml"),
        ("user = '-oProxyCommand=touch /tmp/x'\n[[node]]\nname = 'x'", "is no name of a user"),
        ("[[node]]\nname = '-oProxyCommand=x'", "is no name or address"),
        ("[[node]]\nname = 'x'\naddress = '$(touch /tmp/x)'", "is no name or address"),
        ("port = 70000\n[[node]]\nname = 'x'", "no port 70000"),
        ("jump = '-x@h'\n[[node]]\nname = 'x'", "is no name of a user"),
    ],
)
def test_toml_that_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "nodes.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=why):
        read_inventory(path, [])


def test_a_password_of_the_environment_is_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    text = "sudo_password = { env = 'SECRET' }\n[[node]]\nname = 'x'"
    (entry,) = read_inventory(written(tmp_path, "n.toml", text), [])
    assert entry.password == "hunter2"
    assert "hunter2" not in f"{entry} {entry!r}"


SSH = """\
Include more
Match originalhost db-2
  Port 2200
Host *.example bastion
  User ops
  IdentityFile /keys/ops
  UserKnownHostsFile /known/a /known/b
  GlobalKnownHostsFile /dev/null
Host db-*
  ProxyJump bastion,jim@second:23
  HostName %h.example
  Port 2222
Host by-command
  ProxyCommand nc %h %p
"""


def test_an_ssh_configuration_as_openssh_reads_it(tmp_path: Path) -> None:
    written(tmp_path, "more", "Host *\n  IdentityAgent /agent\n")
    text = SSH.replace("Include more", f"Include {tmp_path}/more")
    path = written(tmp_path, "ssh_config", text)
    one, two = read_inventory(path, ["db-1", "db-2"])
    assert one.ssh.where.endswith("@db-1.example:2222")
    assert two.ssh.port == 2200
    assert one.ssh.agent == "/agent"
    assert [jump.where for jump in one.jumps] == ["ops@bastion:22", "jim@second:23"]
    assert one.jumps[0].keys == ("/keys/ops",)
    assert one.jumps[0].known_hosts == ("/known/a", "/known/b", "/dev/null")
    with pytest.raises(ConfigError, match="ProxyCommand"):
        read_inventory(path, ["by-command"])
    with pytest.raises(ConfigError, match="which of its machines"):
        read_inventory(path, [])
    with pytest.raises(ConfigError, match="no name of a machine"):
        read_inventory(path, ["-oProxyCommand=touch /tmp/x"])


def test_jump_hosts_that_lead_to_each_other(tmp_path: Path) -> None:
    text = "Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n"
    with pytest.raises(ConfigError, match="lead to each other"):
        read_inventory(written(tmp_path, "ssh_config", text), ["a"])


INI = """\
[db]
db[1:2] ansible_user=ops ansible_become_password='s3 cret'
[db:vars]
ansible_ssh_common_args='-o ProxyJump=jim@bastion:23'
ansible_ssh_private_key_file=/keys/db
[other]
lone ansible_host=10.1.0.9 ansible_port=2200 dstest_address6=fd00::9
"""


def test_an_ansible_inventory_as_ansible_reads_it(tmp_path: Path) -> None:
    path = written(tmp_path, "hosts.ini", INI)
    found = {entry.alias: entry for entry in read_inventory(path, [])}
    assert list(found) == ["db1", "db2", "lone"]
    one, lone = found["db1"], found["lone"]
    assert (one.ssh.where, one.ssh.keys) == ("ops@db1:22", ("/keys/db",))
    assert (one.password, one.roles) == ("s3 cret", ("db",))
    assert [jump.where for jump in one.jumps] == ["jim@bastion:23"]
    assert (lone.ssh.where, lone.address6) == (f"{getuser()}@10.1.0.9:2200", "fd00::9")
    assert [e.alias for e in read_inventory(path, ["lone", "db"])] == ["lone", "db1", "db2"]
    with pytest.raises(ConfigError, match="no host or group nowhere"):
        read_inventory(path, ["nowhere"])


def test_options_of_ssh_in_an_ansible_inventory_are_those_of_ssh(tmp_path: Path) -> None:
    """Which machine it is, and who gets in there, must be what Ansible would have come to."""
    config = written(tmp_path, "conf", "Host *\n  HostName 10.9.0.9\n  Port 2299\n")
    key = str(written(tmp_path, "key", ""))  # of `-i` ssh leaves out what is not there
    options = f"-i {key} -o IdentityFile=/keys/y -o UserKnownHostsFile=/known/a"
    options += " -o StrictHostKeyChecking=no"
    quiet = (
        "-C -o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=5 -o LogLevel=ERROR"
    )
    hosts = {
        "common": "ansible_ssh_common_args='-o Port=2222'",
        "behind": "ansible_port=23 ansible_ssh_common_args='-o Port=2222'",
        "before": "ansible_port=23 ansible_ssh_args='-p 2222'",
        "configured": f"ansible_ssh_extra_args='-F {config}'",
        "old": "ansible_ssh_host=10.9.0.8 ansible_ssh_port=24 ansible_ssh_user=ops",
        "through": f"ansible_ssh_common_args='-J jump -F {config}'",
        "keys": f"ansible_ssh_common_args='{options}'",
        "strict": "ansible_ssh_common_args='-o StrictHostKeyChecking=yes'",
        "unchecked": "ansible_host_key_checking=False",
        "quiet": f"ansible_ssh_args='{quiet} -A -tt -o BatchMode=yes'",
    }
    text = "".join(f"{name} {variables}\n" for name, variables in hosts.items())
    found = {one.alias: one for one in read_inventory(written(tmp_path, "hosts", text), [])}
    assert found.keys() == hosts.keys()
    me, where = getuser(), {name: one.ssh.where for name, one in found.items()}
    assert (where["common"], where["behind"]) == (f"{me}@common:2222", f"{me}@behind:23")
    assert (where["before"], where["configured"]) == (f"{me}@before:2222", f"{me}@10.9.0.9:2299")
    assert where["old"] == "ops@10.9.0.8:24"
    assert found["through"].jumps[0].port == 2299
    made = found["keys"].ssh
    assert (made.keys, made.known_hosts[0], made.accepts_new) == (
        (key, "/keys/y"),
        "/known/a",
        True,
    )
    assert not found["strict"].ssh.accepts_new
    assert found["unchecked"].ssh.accepts_new
    assert found["quiet"].ssh.port == 22


def test_remedies_are_in_the_terms_of_the_list(tmp_path: Path) -> None:
    texts = {"a.toml": "[[node]]\nname = 'x'", "a.ini": "x\n", "a.conf": "Host x\n"}
    found = [read_inventory(written(tmp_path, n, text), ["x"])[0] for n, text in texts.items()]
    words = ("address =", "dstest_address", "HostName")
    assert all(word in one.term("address") for word, one in zip(words, found, strict=True))


def test_what_is_no_ansible_inventory_is_said_from_the_beginning(tmp_path: Path) -> None:
    """As an ssh_config of another name."""
    path = written(tmp_path, "config2", "Host db1\n  HostName 10.0.0.1\n")
    with pytest.raises(ConfigError, match=r"config2, read as an Ansible inventory: \S") as caught:
        read_inventory(path, ["db1"])
    assert "--form ssh" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("h ansible_become_method=su", "becomes root by su"),
        ("h ansible_ssh_common_args='-o ProxyCommand=nc'", "ProxyCommand"),
        ("[broken", "hosts"),
        ("h ansible_become_password='{{ pw }}'", "h: ansible_become_password is a template"),
        ("h ansible_host='{{ ip }}'", "h: ansible_host is a template"),
        ("h ansible_port='{{ p }}'", "h: ansible_port is a template"),
        ("h ansible_port=ssh", "ansible_port is 'ssh'"),
        ("h dstest_address='{% if x %}'", "h: dstest_address is a template"),
        ("h ansible_user=True", "h: ansible_user is no text"),
        ("h ansible_connection=docker", "h is reached by docker.*ansible_connection"),
        ("h ansible_connection=local", "h is reached by local.*ansible_connection"),
        ("h ansible_become_user=db", "h becomes db.*ansible_become_user"),
        ("h ansible_ssh_executable=/x", "h is reached by the program /x"),
        ("h ansible_ssh_pkcs11_provider=/x", "h: ansible_ssh_pkcs11_provider"),
        ("h ansible_ssh_extra_args='-b 10.9.9.9'", "h has in ansible_ssh_extra_args BindAddress"),
        ("h ansible_ssh_args='-o HostKeyAlias=x'", "h has in ansible_ssh_args HostKeyAlias 'x'"),
        ("h ansible_ssh_common_args='-o Nonsense=1'", "h: .*[Bb]ad configuration option"),
    ],
)
def test_an_ansible_inventory_that_is_refused(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_inventory(written(tmp_path, "hosts", line + "\n"), [])


VAULT = """\
db:
  hosts:
    h:
      ansible_become_password: !vault |
        $ANSIBLE_VAULT;1.1;AES256
        3132333435363738
"""


def test_a_password_that_is_encrypted_by_itself_is_never_sent(tmp_path: Path) -> None:
    path = written(tmp_path, "hosts.yml", VAULT)
    with pytest.raises(ConfigError, match="h: ansible_become_password is encrypted by itself"):
        read_inventory(path, [])


def test_without_a_user_it_is_who_calls(tmp_path: Path) -> None:
    """As for ssh and Ansible, in all three forms."""
    texts = {"a.toml": "[[node]]\nname = 'x'", "a.ini": "x\n", "a.conf": "Host x\n"}
    for name, text in texts.items():
        (entry,) = read_inventory(written(tmp_path, name, text), ["x"])
        assert entry.ssh.user == getuser(), name


@pytest.mark.parametrize("word", ["HostKeyAlias other", "CertificateFile /x"])
def test_what_openssh_would_go_by_and_we_do_not(tmp_path: Path, word: str) -> None:
    path = written(tmp_path, "ssh_config", f"Host db\n  {word}\n")
    with pytest.raises(ConfigError, match=f"db has {word.split()[0]}"):
        read_inventory(path, ["db"])


def test_forms(tmp_path: Path) -> None:
    names = {"a.toml": "toml", "config": "ssh", "x.conf": "ssh"}
    names |= {"hosts": "ansible", "i.yml": "ansible"}
    assert {name: form_of(Path(name)) for name in names} == names
    with pytest.raises(ConfigError, match="there is no /nowhere"):
        read_inventory(Path("/nowhere"), [])
    with pytest.raises(ConfigError, match="no form xml"):
        read_inventory(written(tmp_path, "hosts", "a\n"), [], "xml")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("h", ("", "h", None)),
        ("u@h:22", ("u", "h", 22)),
        ("u@[fd00::1]:23", ("u", "fd00::1", 23)),
        ("[fd00::1]", ("", "fd00::1", None)),
        ("fd00::1", ("", "fd00::1", None)),
        ("a@b@h", ("a@b", "h", None)),
    ],
)
def test_places(text: str, place: tuple[str, str, int | None]) -> None:
    assert split_place(text) == place
