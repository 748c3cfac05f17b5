"""Files as Jepsen leaves them: logs, history.txt, directories, and what Clojure prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checking import check, put

REGISTER = (
    ("0", "invoke", "write", "1", ""),
    ("0", "ok", "write", "1", ""),
    (
        ":nemesis",
        "info",
        "start",
        '{"n1" #{"n2"}, :left #object[java.lang.Object 0x4bd07fe5 "x"]}',
        "",
    ),
    ("1", "invoke", "cas", "[1 2]", ""),
    ("1", "info", "cas", "[1 2]", "indeterminate: Read timed out [x"),
    ("2", "invoke", "read", "nil", ""),
    ("2", "ok", "read", "{read}", ""),
)
LISTS = (
    ("0", "invoke", "txn", "[[:append 1 1]]", ""),
    ("0", "ok", "txn", "[[:append 1 1]]", ""),
    ("1", "invoke", "txn", "[[:r 1 nil]]", ""),
    ("1", "fail", "txn", "[[:r 1 nil]]", ":conflict"),
    ("2", "invoke", "txn", "[[:r 1 nil]]", ""),
    ("2", "ok", "txn", "[[:r 1 {read}]]", ""),
)
LEADS = {
    "jepsen.log": "2026-01-05 10:00:01,000{GMT}\tINFO\t[jepsen worker 0] jepsen.util: ",
    "today.log": "2026-01-05 10:00:01,000{GMT}\tINFO\t[jepsen worker 0] jepsen.print: ",
    "console.txt": "INFO [2026-01-05 10:00:01,000] jepsen worker 0 - jepsen.print ",
    "old.txt": "INFO  jepsen.util - ",
    "own.log": "2026-01-05 10:00:01,000{GMT}\tINFO\t[main] tidb.core: ",
    "history.txt": "",
}


def lines(events: tuple[tuple[str, ...], ...], name: str, read: str) -> str:
    made = [
        LEADS[name]
        + "\t".join([p, f":{t}", f":{f}", v.replace("{read}", read), *([e] if e else [])])
        for p, t, f, v, e in events
    ]
    if name != "history.txt":
        made.insert(0, LEADS["jepsen.log"].replace("util", "core") + "Running test:\n{:name x")
        made.append("0\t:invoke\t:write\t9")  # of a report at the end
    return "\n".join(made) + "\n"


@pytest.mark.parametrize("name", LEADS)
@pytest.mark.parametrize(("events", "right", "wrong"), [(REGISTER, "2", "3"), (LISTS, "[1]", "[]")])
def test_logs_and_history_txt(
    tmp_path: Path, name: str, events: tuple[tuple[str, ...], ...], right: str, wrong: str
) -> None:
    path = put(tmp_path, lines(events, name, right), name)
    code, said = check(path)
    assert code == 0, said
    code, said = check(put(tmp_path, lines(events, name, wrong), name))
    assert code == 1, said


def test_a_broken_line_of_a_log_is_named(tmp_path: Path) -> None:
    text = lines(LISTS, "jepsen.log", "[1]").replace("[[:r 1 [1]]]", "[[:r 1 [1")
    code, said = check(put(tmp_path, text, "jepsen.log"))
    assert (code, "line 8:" in said) == (2, True), said


@pytest.mark.parametrize("name", LEADS)
def test_a_log_that_is_cut_in_its_last_line_is_refused(tmp_path: Path, name: str) -> None:
    text = lines(REGISTER[:-1], name, "").replace("0\t:invoke\t:write\t9\n", "")
    whole = f"{text}{LEADS[name]}2\t:ok\t:read\t21"
    for cut in (whole, whole[:-1], whole[:-7], whole[:-12]):
        code, said = check(put(tmp_path, cut, name))
        assert (code, "cut off in its last line" in said) == (2, True), said
    assert check(put(tmp_path, f"{whole[:-1]}\r\n", name))[0] == 0
    if name != "history.txt":
        assert check(put(tmp_path, f"{whole[:-1]}\nEverything looks good!", name))[0] == 0


def test_only_newlines_end_a_line_of_a_log(tmp_path: Path) -> None:
    odd = '"a\u2028b\x85\x0b\x1c"'
    rows = ["0\t:invoke\t:write\t{}", "0\t:ok\t:write\t{}", "1\t:invoke\t:read\tnil",
            "1\t:ok\t:read\t{}", ""]  # fmt: skip
    assert check(put(tmp_path, "\n".join(rows).replace("{}", odd), "history.txt"))[0] == 0


def test_a_directory_of_jepsen_stands_for_its_history(tmp_path: Path) -> None:
    run = tmp_path / "store" / "redis" / "20260105T100000.000Z"
    run.mkdir(parents=True)
    put(run, lines(REGISTER, "history.txt", "2"), "history.txt")
    put(run, "{:valid? true}", "results.edn")
    put(run, "\0\1", "test.jepsen")
    (run.parent / "latest").symlink_to(run.name)
    (tmp_path / "store" / "latest").symlink_to("redis/latest")
    assert check(tmp_path / "store" / "latest")[0] == 0
    for wrong in (run / "results.edn", run / "test.jepsen", run.parent, tmp_path / "store"):
        code, said = check(wrong)
        assert (code, "history.txt" in said) == (2, True), said
    code, said = check(put(tmp_path, "{:perf {:valid? true} :valid? false}", "found.edn"))
    assert (code, "history.edn" in said) == (2, True), said


def test_what_jepsen_found_stands_beside_a_valid_answer(tmp_path: Path) -> None:
    put(tmp_path, lines(REGISTER, "history.txt", "2"), "history.txt")
    found = "{:stats {:valid? true}, :why #<Foo x>, :valid? %s}"
    said_so = "results.edn beside it says :valid? false"
    for verdict, said in (("false", said_so), ("true", ""), (":unknown", ""), ("[", "be read")):
        put(tmp_path, found % verdict, "results.edn")
        code, answer = check(tmp_path)
        assert (code, said in answer, said_so in answer) == (0, True, said == said_so), answer
    put(tmp_path, found % "false", "results.edn")
    code, answer = check(tmp_path / "history.txt", "--json")
    assert (code, json.loads(answer)["stats"]["results_edn_valid"]) == (0, False)


FORMS = (
    '#object[java.lang.X 0x4bd07fe5 "x"]',
    "#:etcd{:code 5, :m {:a 1 :a 2}}",
    "@x",
    "'x",
    '#"a\\"b"',
    "#<Foo@1 <init> x>",
    "{:a #<Process java.lang.UNIXProcess -> running>}",
    "#'foo/bar",
    "^{:line 1} [~a ~@b `c]",
    '[1/3 ::k 12abc #inst "2026" \\x]',
)


@pytest.mark.parametrize("f", ["write", "txn"])
def test_what_nobody_reads_may_hold_anything(tmp_path: Path, f: str) -> None:
    asked, told = ("1", "1") if f == "write" else ("[[:append 1 1]]", "[[:append 1 1] [:r 1 [1]]]")
    asked = asked if f == "write" else "[[:append 1 1] [:r 1 nil]]"
    rows = [f"{{:process 0 :type :invoke :f :{f} :value {asked}}}"]
    rows += [f"{{:process :nemesis :type :info :f :start :value {form}}}" for form in FORMS]
    done = f":value {told} :error [{' '.join(FORMS)}] :also {FORMS[0]}"
    rows.append(f"{{:process 0 :type :ok :f :{f} {done}}}")
    rows += [
        "{:process 1 :type :invoke :f :read :value nil}{:process 1 :type :ok :f :read :value 1}"
        if f == "write"
        else "{:process 1 :type :invoke :f :txn :value [[:r 1 nil]]}"
        "{:process 1 :type :ok :f :txn :value [[:r 1 [1]]]}"
    ]
    code, said = check(put(tmp_path, "\n".join(rows), "h.edn"))
    assert (code, "fields that nobody read: also (1 events)" in said) == (0, True), said


def test_what_is_read_has_to_be_a_value(tmp_path: Path) -> None:
    for form in FORMS[2:6]:
        row = f"{{:process 0 :type :invoke :f :write :value {form}}}"
        code, said = check(put(tmp_path, row, "h.edn"))
        assert (code, "line 1, column" in said) == (2, True), said


def test_values_of_clojure(tmp_path: Path) -> None:
    def of(written: str, read: str) -> int:
        text = (
            f"{{:process 0 :type :invoke :f :write :value {written}}}"
            f"{{:process 0 :type :ok :f :write :value {written}}}"
            f"{{:process 1 :type :invoke :f :read}}{{:process 1 :type :ok :f :read :value {read}}}"
        )
        return check(put(tmp_path, text, "h.edn"), "--model", "cas-register")[0]

    assert of("0x1f", "31") == of("#{1 2 3}", "#{3 1 2}") == of("1.0", "1") == 0
    assert of("{:a #{1 2} :b 1}", "{:b 1 :a #{2 1}}") == 0
    for written, read in (("#{1 2 3}", "#{1 2}"), (":a", '"a"'), ("\\a", '"a"'), ("a", ":a")):
        assert of(written, read) == 1
    assert of("0.1M", "0.10000000000000000000000001M") == of("1e400M", "2e400M") == 1
    assert (
        check(put(tmp_path, '{"process":0,"type":"invoke","f":"write","value":1E400}', "h.json"))[0]
        == 2
    )


def test_names_that_users_of_jepsen_type(tmp_path: Path) -> None:
    path = put(tmp_path, lines(REGISTER, "history.txt", "2"), "history.txt")
    for name, meant in (("append", "list-append"), ("wr", "rw-register")):
        code, said = check(path, "--workload", name)
        assert (code, f"did you mean {meant}?" in said) == (2, True), said
    for model in ("linearizable", "cas-register"):
        assert check(path, "--model", model)[0] == 0
    lists = put(tmp_path, lines(LISTS, "history.txt", "[1]"), "lists.txt")
    code, said = check(lists, "--model", "linearizable")
    assert (code, "strict-serializable" in said) == (2, True)


def test_order_and_keys_of_transactions(tmp_path: Path) -> None:
    events = [
        "{:index 3 :process 1 :type :invoke :f :txn :value [[:r [:a 1] nil]]}",
        "{:index 4 :process 1 :type :ok :f :txn :value [[:r (:a, 1) [1]]]}",
        "{:index 0 :process 0 :type :invoke :f :txn :value [[:append [:a 1] 1]]}",
        "{:index 2 :process 0 :type :ok :f :txn :value [[:append [ :a 1 ] 1]]}",
    ]
    code, said = check(put(tmp_path, "\n".join(events), "h.edn"))
    assert code == 0, said
    assert check(put(tmp_path, "\n".join(events[2:] + events[:2]), "h.edn"))[0] == 0
    plain = (
        "\n".join(events).replace("[:a 1]", "7").replace("(:a, 1)", "7").replace("[ :a 1 ]", "7")
    )
    code, said = check(put(tmp_path, plain, "h.edn"))
    assert code == 0, said
    each = "\n".join(line.replace(":index 0", ":index 3").replace(":index 2", ":index 4")
                     for line in plain.splitlines())  # fmt: skip
    code, said = check(put(tmp_path, each, "h.edn"))
    assert (code, "leave it out" in said) == (2, True), said


def test_a_process_may_go_on_after_an_unknown_operation(tmp_path: Path) -> None:
    text = (
        "{:process 0 :type :invoke :f :F :value W}{:process 0 :type :info :f :F :value W}"
        "{:process 0 :type :invoke :f :G :value A}{:process 0 :type :ok :f :G :value R}"
    )
    for f, w, g, a, r in (
        ("write", "1", "read", "nil", "1"),
        ("txn", "[[:append 1 1]]", "txn", "[[:r 1 nil]]", "[[:r 1 [1]]]"),
    ):
        said = text.replace(":F", f":{f}").replace(":G", f":{g}")
        said = said.replace(" W", f" {w}").replace(" A", f" {a}").replace(" R", f" {r}")
        assert check(put(tmp_path, said, "h.edn"))[0] == 0
    locks = text.replace(":F", ":acquire").replace(":G", ":release")
    locks = locks.replace(" W", " nil").replace(" A", " nil").replace(" R", " nil")
    code, out = check(put(tmp_path, locks, "h.edn"), "--model", "mutex")
    assert (code, "is unknown" in out) == (2, True), out


@pytest.mark.parametrize("name", ["jepsen.log", "console.txt"])
def test_a_log_of_two_tests_is_not_one_history(tmp_path: Path, name: str) -> None:
    """The second one's register is another: that it is empty is no violation."""
    lead = LEADS[name]
    core = lead.replace("jepsen.util", "jepsen.core").replace("jepsen.print", "jepsen.core")
    first = f"{lead}0\t:invoke\t:write\t1\n{lead}0\t:ok\t:write\t1\n"
    first += f"{core}Run complete, writing\n{core}Analysis complete\n"
    second = f"{lead}0\t:invoke\t:read\tnil\n{lead}0\t:ok\t:read\tnil\n"
    assert check(put(tmp_path, first, name))[0] == 3  # nobody has read anything
    code, said = check(put(tmp_path, first + second, name))
    assert (code, "the first one has ended in line 3" in said) == (2, True), said


@pytest.mark.parametrize(("name", "code"), [("old.txt", 1), ("console.txt", 0), ("jepsen.log", 0)])
def test_only_logs_of_2013_say_by_a_failure_that_a_cas_differed(
    tmp_path: Path, name: str, code: int
) -> None:
    """1 was written, cas [1 2] failed, 1 is read: where it had differed, that could not be."""
    events = (
        ("0", "invoke", "write", "1", ""), ("0", "ok", "write", "1", ""),
        ("1", "invoke", "cas", "[1 2]", ""), ("1", "fail", "cas", "[1 2]", ""),
        ("2", "invoke", "read", "nil", ""), ("2", "ok", "read", "1", ""),
    )  # fmt: skip
    found, said = check(put(tmp_path, lines(events, name, ""), name))
    assert found == code, said


@pytest.mark.parametrize(
    ("asked", "told", "read", "code"),
    [
        (":write :value 4", '"OK"', "4", 0),
        (":write :value 4", "true", "4", 0),
        (":write :value 4", "true", "5", 1),
        (":cas :value [nil 4]", "true", "4", 0),
        (":cas :value [nil 4]", "false", "nil", 1),
        (":cas :value [9 4]", "false", "nil", 0),
        (":write :value [nil 4]", "[1 4]", "[1 4]", 2),
        (":write :value true", "false", "true", 2),
        (":write :value 4", "false", "4", 2),
    ],
)
def test_a_completion_that_says_how_it_went(
    tmp_path: Path, asked: str, told: str, read: str, code: int
) -> None:
    f = asked.split()[0]
    text = (
        f"{{:process 0 :type :invoke :f {asked}}}\n"
        f"{{:process 0 :type :ok :f {f} :value {told}}}\n"
        "{:process 1 :type :invoke :f :read :value nil}\n"
        f"{{:process 1 :type :ok :f :read :value {read}}}\n"
    )
    found, said = check(put(tmp_path, text, "h.edn"), "--no-independent")
    assert found == code, said
    assert code != 2 or "leave out what else it tells (a version" in said


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("results.edn", "is a directory of Jepsen's without its history"),
        ("test.jepsen", "give one in which history.edn, history.txt, jepsen.log lies"),
        ("a/history.edn", "is a store of Jepsen's, with a directory for each test"),
    ],
)
def test_a_directory_without_a_history_is_told_as_what_it_is(
    tmp_path: Path, there: str, said: str
) -> None:
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("{}\n")
    code, answer = check(tmp_path)
    assert (code, said in answer) == (2, True), answer
