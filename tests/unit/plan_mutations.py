"""The plan of etcd, and changes of one thing in it, each of which breaks one rule."""

from __future__ import annotations

from pathlib import Path

from dstest.plans.model import Plan
from dstest.plans.reader import read_text

__all__ = [
    "CHANGED",
    "DOCUMENTS",
    "MUTATIONS",
    "PAUSED",
    "PLAN",
    "SOUND",
    "Pairs",
    "changed",
    "read",
]

PLAN = Path(__file__).resolve().parents[2] / "docs" / "plans" / "etcd.md"
SOUND = PLAN.read_text()

Pairs = tuple[tuple[str, str], ...]

ORACLE = "`list-append`: 0 anomalies that strict serializability rules out"
PAUSED = """  - injector: threads of the server in state T, ticks of its CPU = 0, twice
  - victim: answers of the paused member = 0
"""
BOASTING = "  - injector: the injector reported success\n  - victim: answers = 0\n"
FUSE = "| feature fuse | this dstest | S4 |"
SLUG = "etcd-consistency-and-durability-under-faults"
S1 = "### S1: linearizable_register_under_partition"
SMOKE = "- **Smoke budget:** nodes 3; duration 60 s; faults 3; seeds 1\n"
HARDENING = "- **Hardening budget:** nodes 5, 3; duration 305 s; faults 19; seeds 3\n"
RELEASE = "- **Release budget:** nodes 5, 3; duration 3605 s; faults 239; seeds 10\n"
MISSING = SOUND[SOUND.index("| M1 |") : SOUND.index("## 2.")]
NOT_COVERED = SOUND[SOUND.index("Authentication and roles,") : SOUND.index("## 9.")]
SCOPE = SOUND[SOUND.index("- **In scope:**") : SOUND.index("## 1b.")]
LAST_CLAIM = SOUND[SOUND.index("| C9 | No tenant") : SOUND.index("## 1c.")].strip()
FIRST_CLAIM = SOUND[SOUND.index("| C1 |") : SOUND.index("| C2 |")]
RED = "\n[red]\ncanary = true\n"
ADEQUACY = SOUND[SOUND.index("| C9 | a: slow") : SOUND.index("## 7c.")].strip() + "\n"


def changed(text: str, pairs: Pairs) -> str:
    """The text with the first place of each in another way. AssertionError where there is none."""
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def read(text: str) -> Plan:
    return read_text(text.encode(), str(PLAN))


CHANGED = changed(
    SOUND,
    (
        ("mode: project-wide", "mode: change-scoped"),
        ("change: none", "change: v3.4.22..v3.4.23"),
        (SCOPE, "- **Change:** reads wait.\n- **Files touched:** `server/read.go` (+9 -2)\n\n"),
        ("| property and metamorphic tests | H9", "| history checking | H9"),
        (", property and metamorphic tests", ""),
    ),
)
"""A plan of one change."""

DOCUMENTS: Pairs = (("`server/read.go` (+9 -2)", "`README.md` (+1 -1), `docs/index.rst` (+3 -3)"),)
"""Makes of its change one without behaviour."""

MUTATIONS: dict[str, Pairs] = {
    "L01 no durable state": (("- **Durable state:**", "- **State:**"),),
    "L01 no picture": (("```text\n", ""), ("store\n```\n", "store\n")),
    "L01 too long": (("## 1. Scope", "\n".join(f"line {n}\n" for n in range(40)) + "## 1. Scope"),),
    "L02 nothing out of scope": (("- **Out of scope:**", "- **Beyond:**"),),
    "L02 no such mode": (("mode: project-wide", "mode: everything"),),
    "L02 a change": (("change: none", "change: v3.4.22..v3.4.23"),),
    "L02 a slug": ((f"slug: {SLUG}", "slug: plan-1"),),
    "L02 another system": (("system: etcd", "system: zookeeper"),),
    "L03 a claim twice": ((LAST_CLAIM, f"{LAST_CLAIM}\n{LAST_CLAIM}"),),
    "L04 no such category": (("| liveness | [tuning", "| liveliness | [tuning"),),
    "L05 no source": ((FIRST_CLAIM, "| C1 | Reads are linearizable. | safety | ? | no |\n"),),
    "L06 of a scenario": (("- **Falsifies:** C2\n", "- **Falsifies:** C2, C77\n"),),
    "L06 of a hypothesis": (("| C2 | what is in the page", "| C2, C77 | what is in the page"),),
    "L07 neither rows nor words": ((MISSING, "\n"),),
    "L08 no tenancy": (("### Tenancy", "### Whose it is"),),
    "L09 an empty cell": (("C-1` | keys | linearizability |", "C-1` | keys | |"),),
    "L10 no claim": (("others | C9 | clients are pinned", "others | | clients are pinned"),),
    "L10 no such kind": (("| H3 | correctness |", "| H3 | correctly |"), ("H2, H3, H5", "H2, H5")),
    "L11 no reason": (("N/A because the plan is about one build of Debian's", "N/A"),),
    "L12 no answer": (("| leases under load | maybe |", "| leases under load | perhaps |"),),
    "L12 a gap": (("drawn from the seed by `partition`", "<fill: how> by `partition`"),),
    "L13 not in the matrix": (
        ("| C7 | H9 | `test_nemesis_membership.py` | partial | oracle too weak | S9 |\n", ""),
    ),
    "L14 no such verdict": (("| partial | oracle too weak |", "| mostly | oracle too weak |"),),
    "L15 a reference to nothing": (("(../reference/verdicts.md)", "(../absent.md)"),),
    "L15 too few": (
        ("| property and metamorphic tests | H9 |", "| performance tests | H9 |"),
        (", property and metamorphic tests", ""),
    ),
    "L16 not said": ((FUSE, FUSE.replace("S4", "S5")),),
    "L16 of nobody": ((FUSE, FUSE.replace("S4", "S4, S99")),),
    "L17 no field": (("- **Observability required:**", "- **Observability:**"),),
    "L17 no numbers": ((SMOKE, "- **Smoke budget:** three nodes for a minute\n"),),
    "L17 other numbers": (("each worker; 300 operations", "each worker; 200 operations"),),
    "L17 no such option": (("monotonic = true", "monotone = true"),),
    "L17 two sizes alike": ((HARDENING, HARDENING.replace("5, 3", "5, 5")),),
    "L17 two arms alike": (
        ('name = "by-member"', 'name = "by-tenant"'),
        ("arms:** by-tenant, by-member,", "arms:** by-tenant,"),
    ),
    "L17 no run block": (("```toml run\n", "```toml\n"),),
    "L18 a setup": ((S1, "### S1: linearizable_chaos_on_3_nodes"),),
    "L18 no claim": ((S1, "### S1: register_and_partition"),),
    "L19 logs": ((ORACLE, "logs look fine"),),
    "L19 no errors": ((ORACLE, "`list-append` runs and there are no errors"),),
    "L19 vague": ((ORACLE, "transactions are isolated from each other"),),
    "L19 of something else": ((ORACLE, "`linearizable`: 0 violations"),),
    "L19 it passes anyhow": ((ORACLE, f"{ORACLE}; whatever it says, it passes"),),
    "L19 no count is below": ((ORACLE, "`list-append`: anomalies >= 0"),),
    "L20 no inconclusive": (("inconclusive: exit 3", "otherwise: exit 3"),),
    "L20 it passes anyhow": (("inconclusive: exit 3", "either way pass; inconclusive: exit 3"),),
    "L21 no section": (("#### 7.M\n\n- **Model:** feed", "#### Model\n\n- **Model:** feed"),),
    "L21 not of the picker": (("- **Model:** feed", "- **Model:** ledger"),),
    "L21 no reason": (("because a transfer", "and a transfer"),),
    "L21 another judge": (('checkers = ["watch"]', 'checkers = ["order"]'),),
    "L22 no field": (("- **Reduction plan:**", "- **Reducing:**"),),
    "L22 no predicate": ((PAUSED, "  - injector: it was asked\n  - victim: it is silent\n"),),
    "L22 its own word": ((PAUSED, BOASTING),),
    "L22 no count is below": ((PAUSED, PAUSED.replace("member = 0", "member >= 0")),),
    "L22 the command ended": ((PAUSED, PAUSED.replace("ticks of its CPU =", "command exited")),),
    "L23 one side": (("  - victim: a new term after", "  - then: a new term after"),),
    "L23 no such fault": (("slow follower (N27) by", "slow follower (N27, N77) by"),),
    "L23 not injected": (("slow follower (N27) by", "slow follower (N27, N03) by"),),
    "L23 no such nemesis": (('nemesis = "clock"', 'nemesis = "clocks"'),),
    "L24 no section": (("#### 7.M.S", "#### Surfaces"),),
    "L24 no field": (("- **Negative controls:**", "- **Controls:**"),),
    "L24 an arm less": (("arms:** by-tenant, by-member,", "arms:** by-tenant,"),),
    "L25 as many seeds": ((HARDENING, HARDENING.replace("seeds 3", "seeds 1")),),
    "L25 as many faults": ((HARDENING, HARDENING.replace("faults 19", "faults 3")),),
    "L25 more than there is time for": ((HARDENING, HARDENING.replace("faults 19", "faults 99")),),
    "L25 no release": ((RELEASE, "- **Release budget:** TBD\n"),),
    "L25 no reason": ((RELEASE, "- **Release budget:** not provided — late. Revisit when: TBD\n"),),
    "L26 no directory auto": (("`tests/auto/test_etcd_s6.py`", "`tests/test_etcd_s6.py`"),),
    "L26 no mark": (("# AUTO-GENERATED from", "# from"),),
    "L26 no region": (("# TODO oracle:", "# oracle:"),),
    "L27 nobody closes it": (("- **Closes:** H7", "- **Closes:** H6"),),
    "L28 no row": ((ADEQUACY, ""),),
    "L29 no scenario": (("a: S1; b: S2; c: S3", "a: S1; b: S2"),),
    "L29 not injected": (("a: S1; b: S2; c: S3", "a: S1; b: S3; c: S3"),),
    "L30 an empty cell": (("| no claim here is about it |", "| |"),),
    "L31 too sure": (("may still do harm.", "cannot happen."),),
    "L31 too long": (("may still do harm.", "may. They may. They may. They may still do harm."),),
    "L32 an arm that is not named": (("and the arm\nby-lease is NOT-RUN", "and so is\nthat"),),
    "L33 nothing": ((NOT_COVERED, "\n"),),
    "L36 no red side": ((RED, ""),),
    "L37 a canary and a bug": ((RED, RED + 'options = { shape = "one" }\n'),),
    "L37 neither of both": ((RED, "\n[red]\n"),),
    "L37 any failure would do": ((RED, '\n[red]\noptions = { shape = "one" }\n'),),
    "L37 cannot be run": ((RED, '\n[red]\noptions = { shapes = 1 }\nanomalies = ["lost"]\n'),),
    "L37 the same": ((RED, '\n[red]\nsystem = "etcd"\nanomalies = ["lost"]\n'),),
    "L37 seeds of a canary": ((RED, RED + "seeds = 3\n"),),
    "L37 no seed": (
        (RED, '\n[red]\noptions = { shape = "one" }\nanomalies = ["lost"]\nseeds = 0\n'),
    ),
    "L34 nobody's": (("a wish? | the maintainers of dstest |", "a wish? | |"),),
}  # fmt: skip
"""The rule, and what is changed -> in what way."""
