"""Clients that keep to no rule, as actions of a specification: what they alone reach is found, and
without them it is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from payments import Forgetful, Paid, Payments, Toykv
from typer.testing import CliRunner

from dstest.cli.app import app
from dstest.core.errors import ConfigError, Exit
from dstest.spec import Spec, Step, System, action, invariant, when
from dstest.spec.against import Driven, drive_against, subject_of
from dstest.spec.compose import allowed
from dstest.spec.declare import ADVERSARIES
from dstest.spec.explore import explore, walk
from dstest.spec.model import Model, model_of

pytestmark = pytest.mark.slow

Show = Callable[[str, object], None]
FILE = str(Path(__file__).parents[1] / "payments.py")


def said(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words])
    return done.exit_code, done.stdout


def driven(model: Model, make: Any, walks: int = 30, seed: int = 1) -> Driven:
    return drive_against(model, make, seed=seed, walks=walks, max_steps=14)


def test_a_bug_that_only_adversaries_reach_is_found(record_property: Show) -> None:
    """Of toykv's own: after a restart a server forgets which requests it has done. Whoever sends
    each request once never sees it."""
    model = model_of(Payments())
    found = driven(model, Forgetful).difference
    assert found is not None
    last = found.trace.steps[-1]
    assert last.action in ("again", "late") and (found.got, found.wanted) == (
        "'made'",
        "'made before'",
    )
    assert "restart" in {step.action for step in found.trace.steps}
    assert set(found.adversaries) & {"stale", "duplicate"}
    quiet = driven(allowed(model, "none"), Forgetful)
    assert quiet.difference is None and quiet.never_taken == []
    way = ", ".join(map(str, found.trace.steps))
    record_property("shown", f"toykv with a planted bug: {way}: {found.got}, not {found.wanted}")
    record_property(
        "shown",
        f"without adversaries: {quiet.steps} steps in {quiet.walks} walks, each answer as it must",
    )


@pytest.mark.parametrize("kind", ["duplicate", "stale"])
def test_either_of_the_two_that_send_again_is_enough(kind: str) -> None:
    found = driven(allowed(model_of(Payments()), kind), Forgetful).difference
    assert found is not None and found.adversaries == (kind,)


@pytest.mark.parametrize("kind", ["out-of-order", "malformed", "crash"])
def test_the_others_do_not_reach_it(kind: str) -> None:
    seen = driven(allowed(model_of(Payments()), kind), Forgetful)
    assert seen.difference is None and seen.never_taken == []


def test_only_adversaries_find_nothing_where_nothing_is_wrong(record_property: Show) -> None:
    seen = driven(model_of(Payments()), Toykv)
    assert seen.difference is None and seen.never_taken == []
    kinds = {one.adversary for one in model_of(Payments()).actions} - {""}
    assert kinds == set(ADVERSARIES)
    record_property("shown", f"toykv without it, under {', '.join(sorted(kinds))}: as it must")


@dataclass(frozen=True, slots=True)
class Till:
    """What was booked, and the number of the last request."""

    booked: tuple[int, ...] = ()
    last: int = 0


class LastOnly(Spec):
    """Knows a request again only where it is the one before."""

    def initial(self) -> Iterable[Till]:
        yield Till()

    def done(self, s: Till) -> bool:
        return True

    @action()
    @when("open", lambda s: s.last < 3)
    def pay(self, s: Till) -> Till:
        return Till((*s.booked, s.last + 1), s.last + 1)

    @action(adversary="duplicate")
    @when("some", lambda s: s.last > 0)
    def again(self, s: Till) -> Till:
        return s

    @action(adversary="stale", number=(1, 2))
    @when("old", lambda s, number: number < s.last)
    def late(self, s: Till, number: int) -> Till:
        return replace(s, booked=(*s.booked, number)) if len(s.booked) < 4 else s

    @invariant("TI1", "nothing is booked twice")
    def once(self, s: Till) -> bool:
        return len(set(s.booked)) == len(s.booked)


class Whole(System):
    """The same as a part."""

    parts = {"till": LastOnly()}


@pytest.mark.parametrize("spec", [LastOnly, Whole])
def test_in_all_states_it_is_theirs_alone(spec: Any, record_property: Show) -> None:
    model = model_of(spec())
    assert explore(model).outcome == "violated"
    for kinds, outcome in (("none", "holds"), ("duplicate", "holds"), ("stale", "violated")):
        assert explore(allowed(model, kinds)).outcome == outcome, kinds
    seen = explore(allowed(model, "none"))
    assert seen.complete and seen.states == 4
    assert walk(allowed(model, "stale"), seed=1).outcome == "violated"
    record_property("shown", "all states of a till: without adversaries holds, with stale violated")


def test_words_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="no client does 'late'"):
        action(adversary="late")
    with pytest.raises(ConfigError, match="no client does 'lazy'"):
        allowed(model_of(LastOnly()), "stale,lazy")

    class Mean(Spec):
        def initial(self) -> Iterable[Paid]:
            yield Paid()

        @action(adversary="malformed")
        def only(self, s: Paid) -> Paid:
            return s

    with pytest.raises(ConfigError, match="adversaries and nothing else"):
        allowed(model_of(Mean()), "none")
    with pytest.raises(ConfigError, match="does not say what is answered"):
        driven(model_of(Mean()), Toykv)
    for given in ("payments.py", f"{FILE}:Nobody", f"{FILE}:Paid"):
        with pytest.raises(ConfigError):
            subject_of(given)


class Raising:
    """Answers nothing."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def take(self, step: Step) -> Any:
        raise ZeroDivisionError("planted")

    def close(self) -> None:
        """Nothing is left."""


class Moody(Raising):
    """Answers as it likes."""

    answers = iter(["once", *["made"] * 10_000])

    def take(self, step: Step) -> Any:
        return next(self.answers)


def test_an_error_of_the_system_is_no_answer() -> None:
    model = allowed(model_of(Payments()), "none")
    found = driven(model, Raising).difference
    assert found is not None and len(found.trace.steps) == 1 and "planted" in found.got


def test_one_that_answers_as_it_likes_shows_nothing() -> None:
    class Only(Payments):
        numbers: tuple[int, ...] = (1,)

        def answer_of(self, s: Paid, step: Step, after: Paid) -> Any:
            return "made"

    with pytest.raises(ConfigError, match="otherwise each time"):
        driven(model_of(Only()), Moody)


class Silent(Payments):
    """Has no word about any answer."""

    def answer_of(self, s: Paid, step: Step, after: Paid) -> Any:
        return ...


class Unmade(Raising):
    """Cannot be made."""

    def __init__(self, seed: int) -> None:
        raise OSError("no port is left")


class Unended(Raising):
    """Cannot be ended."""

    def take(self, step: Step) -> Any:
        return "made"

    def close(self) -> None:
        raise OSError("it does not go away")


class Exiting(Raising):
    """Ends the process that asks."""

    def take(self, step: Step) -> Any:
        raise SystemExit(0)


HERE = str(Path(__file__))


def test_an_error_is_a_difference_where_any_answer_will_do() -> None:
    for make in (Raising, Exiting):
        found = driven(model_of(Silent()), make).difference
        assert found is not None and found.wanted == "any answer"
        assert "planted" in found.got or "SystemExit" in found.got


def test_no_answer_compared_is_vacuous() -> None:
    class Deaf(Unended):
        def close(self) -> None:
            """Nothing is left."""

    seen = driven(model_of(Silent()), Deaf)
    assert (seen.difference, seen.compared) == (None, 0) and seen.vacuous
    assert driven(model_of(Payments()), Toykv, walks=1).vacuous == []
    code, text = said("spec", "against", f"{HERE}:Silent", f"{FILE}:Toykv", "--walks", "2")
    assert code == Exit.NOT_PROVEN and "vacuous: Silent has `...` for each step" in text


def test_adversaries_that_a_specification_does_not_have() -> None:
    words = ["spec", "against", f"{HERE}:LastOnly", f"{FILE}:Toykv", "--adversary", "crash"]
    code, text = said(*words)
    assert code == Exit.NOT_PROVEN and "vacuous: LastOnly has no action of clients" in text
    code, text = said(*words, "--json")
    assert code == Exit.NOT_PROVEN and "crash" in json.loads(text)["vacuous"][0]
    with pytest.raises(ConfigError, match="no action of clients that do crash, malformed"):
        allowed(model_of(LastOnly()), "stale,malformed,crash")
    done = CliRunner().invoke(
        app, ["spec", "explore", f"{HERE}:LastOnly", "--adversary", "malformed"]
    )
    assert isinstance(done.exception, ConfigError)


@pytest.mark.parametrize(("make", "how"), [(Unmade, "made"), (Unended, "ended")])
def test_a_system_that_cannot_be_made_or_ended_is_its_owner_s(make: Any, how: str) -> None:
    with pytest.raises(ConfigError, match=rf"cannot be {how}: .*test_spec_adversary\.py.*OSError"):
        driven(model_of(Silent()), make)


def test_a_difference_is_told_though_the_system_does_not_end() -> None:
    found = driven(model_of(Payments()), Unended).difference
    assert found is not None and found.got == "'made'"


def test_the_command(tmp_path: Path) -> None:
    words = ["spec", "against", FILE, f"{FILE}:Forgetful", "--seed", "1", "--walks", "20"]
    code, text = said(*words)
    assert code == Exit.FAIL and "Payments has 'made before'" in text
    code, text = said(*words, "--json")
    facts = json.loads(text)
    assert facts["difference"]["wanted"] == "'made before'" and code == Exit.FAIL
    code, text = said(*words, "--adversary", "none")
    assert code == Exit.PASS and "this proves nothing" in text
    code, text = said(*words[:-1], "1", "--adversary", "none", "--steps", "1")
    assert code == Exit.NOT_PROVEN and "never taken: " in text
    code, _ = said("spec", "explore", FILE, "--adversary", "none", "--no-deadlock")
    assert code == Exit.NOT_PROVEN, "it has no invariant"
