"""What is kept on disk of a plan's execution, replaced atomically at each step.

store/<slug>/<utc>/  plan.md          the plan as it was when this began
                     execution.json   this file's data
                     session-log.md   the same for people
                     logs/<step>.txt  what the commands said
                     artifacts/<step>/...  their run and session directories
                     findings/<scenario>.md  findings/report.md
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

import msgspec

from dstest.core import clock
from dstest.core.errors import ConfigError
from dstest.plans.model import Plan
from dstest.steps.results import results_in
from dstest.store.layout import link_latest, new_directory, whole, write_file

_FILE: Final = "execution.json"

StepStatus = Literal["pending", "running", "done"]

Side = Literal["green", "red"]
"""What is tested, or the same with a known bug."""

RED_SUFFIX: Final = ".red"
"""Behind the id of an arm; no name of an arm has a full stop."""


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the capability matrix: what is needed, whether it is there (None: it can only be
    looked for on a node that is up, and every run does), and what helps where it is not."""

    needs: str
    present: bool | None
    version: str
    source: str
    scenarios: list[str]
    install: str = ""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the timeline."""

    utc: str
    step: str
    event: str
    notes: str = ""


class Step(msgspec.Struct, kw_only=True):
    """One arm of a scenario. `argv` are the words behind `dstest`; `result` is the run or session
    directory that counts, relative to the execution's, and `earlier` those that died before it.
    `state` is one of the ten verdicts, `reason` why it is no better; `blocked` names what it lacks.
    Of its `red` side a failure is what is wanted (`red.py`).
    """

    id: str
    scenario: str
    arm: str
    argv: list[str]
    status: StepStatus = "pending"
    tries: int = 0
    started: str = ""
    ended: str = ""
    exit_code: int | None = None
    result: str = ""
    earlier: list[str] = msgspec.field(default_factory=list)
    state: str = ""
    reason: str = ""
    blocked: str = ""
    side: Side = "green"

    @property
    def of(self) -> str:
        """The id of the arm, whichever side of it this is."""
        return self.id.removesuffix(RED_SUFFIX) if self.side == "red" else self.id


class Execution(msgspec.Struct, kw_only=True):
    """A plan's execution. `budget` is the one that its scenarios were run with."""

    schema: Literal["dstest.plan-execution/1"] = "dstest.plan-execution/1"
    slug: str
    plan_sha256: str
    plan_path: str
    budget: str
    system: str
    lab_id: str | None
    commit: str
    started: str
    ended: str = ""
    pid: int = 0
    pid_start_time: int | None = None
    allow_missing: bool = False
    capabilities: list[Capability] = msgspec.field(default_factory=list)
    toolbox: dict[str, list[str]] = msgspec.field(default_factory=dict)
    steps: list[Step] = msgspec.field(default_factory=list)
    events: list[Event] = msgspec.field(default_factory=list)
    outcome: str = ""

    def note(self, step: str, event: str, notes: str = "") -> None:
        """Add a line to the timeline."""
        self.events.append(Event(utc=clock.utc_stamp(), step=step, event=event, notes=notes))


def folder_of(step: str) -> str:
    """The name of a step's folder: `S5/api` is `S5-api`."""
    return step.replace("/", "-")


class ExecutionDir:
    """Paths and atomic writes of one execution."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.artifacts = path / "artifacts"
        self.findings = path / "findings"
        self.plan = path / "plan.md"

    @classmethod
    def create(cls, store: Path, plan: Plan) -> ExecutionDir:
        """A new directory with a copy of the plan; `store/latest` points to it."""
        path = new_directory(store, plan.slug, 0)
        found = cls(path)
        text = Path(plan.path).read_bytes()
        with whole(store, path):
            for folder in (found.artifacts, found.findings, path / "logs"):
                folder.mkdir()
            found.write("plan.md", text)
            link_latest(store, path)
        return found

    @classmethod
    def open(cls, path: Path) -> ExecutionDir:
        """An existing one; ConfigError where `path` is none."""
        if not (path / _FILE).is_file():
            raise ConfigError(
                f"{path} is not the directory of a plan's execution",
                remedy=f"give the directory that holds {_FILE}, such as store/latest",
            )
        return cls(path.resolve())

    def read(self) -> Execution:
        """Raises ConfigError where it cannot be read."""
        try:
            return msgspec.json.decode((self.path / _FILE).read_bytes(), type=Execution)
        except (msgspec.DecodeError, OSError) as error:
            raise ConfigError(
                f"{self.path / _FILE} cannot be read: {error}",
                remedy="the runs below artifacts/ stand by themselves: `dstest report RUN`",
            ) from None

    def save(self, execution: Execution) -> None:
        """Replace the file."""
        text = msgspec.json.format(msgspec.json.encode(execution), indent=2)
        self.write(_FILE, text + b"\n")

    def write(self, name: str, data: bytes | str) -> Path:
        """Write a file atomically."""
        return write_file(self.path, name, data.encode() if isinstance(data, str) else data)

    def artifacts_of(self, step: Step) -> Path:
        """Where its runs go."""
        return self.artifacts / folder_of(step.id)

    def log_of(self, step: Step) -> Path:
        """What its command said, of all tries."""
        return self.path / "logs" / f"{folder_of(step.id)}.txt"

    def relative(self, path: Path) -> str:
        return os.path.relpath(path, self.path)

    def result_of(self, step: Step) -> Path | None:
        """The run or session directory that counts."""
        return self.path / step.result if step.result else None


def not_its_own(directory: ExecutionDir, step: Step) -> str:
    """Why the runs that a step names are not those that it has left; empty where they are."""
    folder = directory.artifacts_of(step).resolve()
    for name in filter(None, [step.result, *step.earlier]):
        if not (directory.path / name).resolve().is_relative_to(folder):
            return f"{name} lies outside of {directory.relative(folder)}"
    strange = unlisted(directory, step)
    if strange:
        return f"{directory.relative(strange[0])} is there, and execution.json does not name it"
    return ""


def unlisted(directory: ExecutionDir, step: Step) -> list[Path]:
    """Run and session directories of a step that is done, of which it does not know."""
    if step.status != "done":
        return []
    known = {(directory.path / name).resolve() for name in [step.result, *step.earlier] if name}
    found = results_in(directory.artifacts_of(step))
    return [path for path in found if path.resolve() not in known]
