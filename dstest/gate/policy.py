"""What a release is let through by: a TOML file (`docs/gate.md` has an example), and what a rule of
the gate and its finding are. Whatever is wrong in the file is refused with its place and a remedy.

Every number is bounded, so that none can ask for nothing; what a policy leaves out is said with the
decision. What makes evidence worthless can never be accepted as a risk, nor can a violation.
"""

from __future__ import annotations

import datetime
import hashlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from dstest.core import rules
from dstest.core.errors import ConfigError, Exit
from dstest.core.evidence import Level
from dstest.core.settings import Shape, line_of, read_settings
from dstest.store.compare.intervals import RUNS_MIN

if TYPE_CHECKING:
    from dstest.runner.integrity import Again


OPERATIONS_MIN: Final = 500
RISK_DAYS_MAX: Final = 366
"""A risk that is accepted for longer is not looked at again."""

Id = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9._-]{0,31}$")]
Text = Annotated[str, Meta(pattern=r"\S", max_length=400)]
Word = Annotated[str, Meta(pattern=r"\S", max_length=200)]
Words = Annotated[tuple[Word, ...], Meta(max_length=50)]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
Size = Annotated[int, Meta(ge=1, le=101)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
_BYTES_MAX: Final = 1_000_000


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A table of the file."""


class HostFacts(_Row, frozen=True, kw_only=True):
    """What the control host of all runs has to be; what is left out need only be the same in the
    runs of one claim."""

    python: Word | None = None
    kernel: Word | None = None
    cpus: Annotated[int, Meta(ge=1, le=4096)] | None = None


class EvidenceRules(_Row, frozen=True, kw_only=True):
    """What any evidence has to be. `signers` is a file of allowed signers beside the policy. With
    `canaries = "kept"` the broken copies of runs are not judged again, with `verdicts = "believed"`
    nothing is: what the sums of a run hold is what it came to. `plugins` are the sha256 sums of
    plug-in files of one's own that may have been in use."""

    age_days_max: Annotated[float, Meta(gt=0, le=366)]
    signers: Word | None = None
    canaries: Literal["again", "kept"] = "again"
    verdicts: Literal["again", "believed"] = "again"
    plugins: Annotated[tuple[Sha256, ...], Meta(max_length=50)] = ()
    host: HostFacts = HostFacts()

    @property
    def again(self) -> Again:
        """What is judged again of each run that may count."""
        return (
            "all" if self.canaries == "again" and self.again_beside != "no" else self.again_beside
        )

    @property
    def again_beside(self) -> Again:
        """The same of the baseline's runs, and of those that lie beside others."""
        return "no" if self.verdicts == "believed" else "checkers"


class RequiredTest(_Row, frozen=True, kw_only=True):
    """The test that runs have to be: the words of their command. `options` are all the `-o` that
    were given, no more and no less; so are `builds`, the names of `--system-version`."""

    id: Id
    text: Text
    system: Word
    system_version: Word
    workload: Word
    nemesis: Word
    options: Words = ()
    builds: Words = ()
    model: Word | None = None
    lab: Word | None = None


class Claim(RequiredTest, frozen=True, kw_only=True):
    """What has to hold. `model` is what it has to hold by, `checkers` have to have judged it.

    `seeds` and `sizes` count over all runs that pass at this tier; `faults` are the least numbers
    of landed faults by kind, `operations` of those that were judged, over all of them.
    """

    model: Word
    checkers: Annotated[tuple[Word, ...], Meta(min_length=1, max_length=20)]
    tier: Level
    seeds: Annotated[int, Meta(ge=1, le=1000)]
    sizes: Annotated[tuple[Size, ...], Meta(min_length=1, max_length=10)]
    faults: dict[Word, Count] = {}
    operations: Annotated[int, Meta(ge=OPERATIONS_MIN, le=10_000_000_000)] = OPERATIONS_MIN


class Control(RequiredTest, frozen=True, kw_only=True):
    """A known bug that has to be found (`red`, by one of these anomalies, and by nothing else but
    those `beside` them), or the same without it that has to pass (`green`), with so many seeds.
    `found_share` is the share of a red one's runs that have to find it, all of them where nothing
    is said. `by_fault` is false for a bug that shows without any."""

    expect: Literal["red", "green"]
    seeds: Annotated[int, Meta(ge=1, le=1000)] = 1
    found_share: Annotated[float, Meta(ge=0.05, le=1)] | None = None
    anomalies: Words = ()
    beside: Words = ()
    by_fault: bool = True

    @property
    def share(self) -> float:
        return 1.0 if self.found_share is None else self.found_share


class Risk(_Row, frozen=True, kw_only=True):
    """What is known to be short and is released all the same: a rule of `rules.py` that may be
    short, for one claim or control. `expires` is the last day on which that holds."""

    id: Id
    of: Id
    rule: Annotated[str, Meta(pattern=r"^G[0-9]{2}$")]
    text: Text
    owner: Word
    expires: datetime.date


class RequiredPlan(_Row, frozen=True, kw_only=True):
    """A test plan that has to have been executed to its end with this budget, and passed."""

    id: Id
    slug: Word
    sha256: Sha256
    budget: Level


class Baseline(_Row, frozen=True, kw_only=True):
    """What `--baseline` is compared with: the runs of these claims at their first size, by these
    metrics. `differing` is what is different on purpose."""

    claims: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=50)]
    metrics: Annotated[tuple[Word, ...], Meta(min_length=1, max_length=20)]
    differing: Words = ("system_version",)
    tolerance: Annotated[float, Meta(ge=0, le=0.5)] = 0.05
    confidence: Annotated[float, Meta(ge=0.8, le=0.999)] = 0.95
    runs: Annotated[int, Meta(ge=RUNS_MIN, le=1000)] = RUNS_MIN


class Policy(_Row, frozen=True, kw_only=True):
    """The whole file."""

    schema: Literal["dstest.gate/1"]
    name: Text
    evidence: EvidenceRules
    claim: Annotated[tuple[Claim, ...], Meta(max_length=200)] = ()
    control: Annotated[tuple[Control, ...], Meta(max_length=200)] = ()
    plan: Annotated[tuple[RequiredPlan, ...], Meta(max_length=50)] = ()
    risk: Annotated[tuple[Risk, ...], Meta(max_length=50)] = ()
    baseline: Baseline | None = None


_SHAPE: Final = Shape(
    {
        "": Policy,
        "evidence": EvidenceRules,
        "evidence.host": HostFacts,
        "claim": Claim,
        "control": Control,
        "plan": RequiredPlan,
        "risk": Risk,
        "baseline": Baseline,
    },
    "docs/gate.md",
)


class ReadPolicy(NamedTuple):
    """A policy, the file that it stands in, its digest, the line of each id, and what it does not
    say and is taken as usual."""

    policy: Policy
    path: Path
    sha256: str
    lines: dict[str, int]
    unsaid: tuple[str, ...] = ()

    def line_of(self, id_: str) -> int:
        """Where the table with this id begins; 1 for what has no table."""
        return self.lines.get(id_, 1)


def read_policy(path: Path) -> ReadPolicy:
    """The policy in a file. Raises ConfigError for anything that is not one."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}", remedy="give a policy, see docs/gate.md"
        ) from None
    if len(data) > _BYTES_MAX:
        raise ConfigError(f"{path} has {len(data):,} bytes", remedy="a policy is a page or two")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}", remedy=f"see {_SHAPE.page}") from None
    policy = read_settings(str(path), text, Policy, _SHAPE)
    digest = hashlib.sha256(data).hexdigest()
    plain = tomllib.loads(text)
    return ReadPolicy(policy, path, digest, _lines(text, plain), tuple(_unsaid(policy, plain)))


def _unsaid(policy: Policy, plain: Mapping[str, Any]) -> Iterator[str]:
    """What a policy leaves to us, and what nobody asks for then."""
    if policy.evidence.verdicts == "believed":
        yield 'verdicts = "believed": runs are not judged again, their sums are believed'
    elif "canaries" not in plain.get("evidence", {}):
        yield "evidence.canaries is not said: checkers are tried again on broken copies"
    rows = [row for row in plain.get("claim", ()) if "operations" not in row]
    if rows:
        named = ", ".join(str(row.get("id")) for row in rows)
        yield (
            f"operations is not said of {named}: {OPERATIONS_MIN} judged ones are enough, over all "
            "its runs"
        )
    rows = [row for row in plain.get("claim", ()) if not row.get("faults")]
    if rows:
        named = ", ".join(str(row.get("id")) for row in rows)
        yield f"faults are not said of {named}: no fault of any kind has to have landed"
    if not policy.control:
        yield "no control is asked for: nothing shows that these tests find a known bug"


def _lines(text: str, plain: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for kind in ("claim", "control", "plan", "risk"):
        for number, row in enumerate(plain.get(kind, ())):
            found[str(row.get("id"))] = line_of(text, f"{kind}[{number}]")
    if "baseline" in plain:
        found["baseline"] = line_of(text, "baseline")
    return found


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that is broken. `of` is the claim, control, plan or risk of the policy that it is
    about, empty where it is about the evidence alone; `where` the directory; `what` a sentence."""

    rule: str
    what: str
    of: str = ""
    where: str = ""


class Rule(rules.Rule[Any, Iterable[Any]], frozen=True, kw_only=True):
    """`exit` is 1 for a violation, 3 for evidence that is not enough. It looks at what its file is
    about, and finds sentences that say what is wrong."""

    exit: Exit = Exit.NOT_PROVEN
    acceptable: bool = False

    def findings(self, view: Any, of: str = "", where: Path | str = "") -> list[Finding]:
        """What it finds in a view, of a row of the policy and in a directory."""
        return [
            Finding(rule=self.id, what=what, of=of, where=str(where)) for what in self.find(view)
        ]
