"""For every model: what an object may start with, a history that it explains, and one that it does
not."""

from __future__ import annotations

from typing import Any

__all__ = ["CASES"]

CASES: list[tuple[str, Any, str, str]] = [
    # model, initial state, what it explains, what it does not
    ("register", 5, "1 read -> 5 @1-2", "1 read -> 4 @1-2"),
    ("register", None, "1 read -> null @1-2", "1 read -> 0 @1-2"),
    ("register", 0, "1 read -> 0 @1-2", "1 read -> null @1-2"),
    ("cas-register", "a", '1 cas ["a", "b"] -> true @1-2\n1 read -> "b" @3-4',
     "1 cas [null, 1] -> true @1-2"),
    ("cas-register", 0, "1 cas [0, null] -> true @1-2\n1 read -> null @3-4",
     "1 write 1 @1-2\n1 read -> 0 @3-4"),
    ("cas-register", [1, 2], "1 read -> [1, 2] @1-2", "1 read -> [2, 1] @1-2"),
    ("kv-map", "", '1 get[a] -> "" @1-2\n1 append[a] "x" @3-4\n1 get[a] -> "x" @5-6',
     "1 get[a] -> null @1-2"),
    ("kv-map", "z", '1 append[a] "x" @3-4\n1 get[a] -> "zx" @5-6',
     '1 append[a] "x" @3-4\n1 get[a] -> "x" @5-6'),
    ("kv-map", {"a": 1, "b": 2}, "1 get[a] -> 1 @1-2\n1 get[b] -> 2 @3-4",
     "1 get[a] -> 2 @1-2\n1 get[b] -> 2 @3-4"),
    ("multi-register", {"x": 0, "y": 0},
     '1 txn [["r","x",null],["w","y",1]] -> [["r","x",0],["w","y",1]] @1-2',
     '1 txn [["r","x",null]] -> [["r","x",null]] @1-2'),
    ("multi-register", 0,
     '1 txn [["r","x",null],["r","y",null]] -> [["r","x",0],["r","y",0]] @1-2',
     '1 txn [["r","x",null]] -> [["r","x",null]] @1-2'),
    ("multi-register", {"x": 0, "y": 7}, "1 read[x] -> 0 @1-2\n1 read[y] -> 7 @3-4",
     "1 read[x] -> 0 @1-2\n1 read[y] -> 0 @3-4"),
    ("counter", 10, "1 read -> 10 @1-2\n1 inc 2 -> 12 @3-4", "1 read -> 0 @1-2"),
    ("set", [1, 2], "1 contains 1 -> true @1-2\n1 add 2 -> false @3-4\n1 remove 2 -> true @5-6",
     "1 contains 1 -> false @1-2"),
    ("set", [1, 2], "1 read -> [2, 1] @1-2", "1 read -> [] @1-2"),
    ("set", {"a": [1], "b": []}, "1 contains[a] 1 -> true @1-2\n1 contains[b] 1 -> false @3-4",
     "1 contains[a] 1 -> true @1-2\n1 contains[b] 1 -> true @3-4"),
    ("fifo-queue", [1, 2], "1 dequeue -> 1 @1-2\n1 dequeue -> 2 @3-4\n1 dequeue -> null @5-6",
     "1 dequeue -> 2 @1-2"),
    ("stack", [1, 2], "1 pop -> 2 @1-2\n1 pop -> 1 @3-4", "1 pop -> 1 @1-2"),
    ("deque", [1, 2], "1 pop-left -> 1 @1-2\n1 peek-right -> 2 @3-4\n1 pop-right -> 2 @5-6",
     "1 pop-left -> 2 @1-2"),
    ("priority-queue", [5, 2], "1 delete-min -> 2 @1-2\n1 delete-min -> 5 @3-4",
     "1 delete-min -> 5 @1-2"),
    ("log", ["a", "b"], '1 append "c" -> 2 @1-2\n1 read 0 -> [[0,"a"],[1,"b"],[2,"c"]] @3-4',
     '1 append "c" -> 0 @1-2'),
    ("mutex", 3, "1 acquire -> false @1-2\n3 release @3-4\n1 acquire @5-6", "1 acquire @1-2"),
    ("mutex", {"a": 3, "b": None}, "1 acquire[a] -> false @1-2\n1 acquire[b] @3-4",
     "1 acquire[a] @1-2\n1 acquire[b] @3-4"),
    ("reentrant-mutex", [3, 2], "3 release @1-2\n3 release @3-4\n1 acquire @5-6",
     "3 release @1-2\n1 acquire @5-6"),
    ("reentrant-mutex", 3, "3 release @1-2\n1 acquire @5-6", "1 acquire @5-6"),
    ("fencing-lock", [None, 7], "1 acquire -> 8 @1-2", "1 acquire -> 7 @1-2"),
    ("semaphore", 1, "1 acquire @1-2\n2 acquire -> false @3-4", "1 acquire @1-2\n2 acquire @3-4"),
]  # fmt: skip
