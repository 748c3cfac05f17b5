"""Readers of other tools' files of sessions: transactions in the order of each session, no times.

| format | tool | looks like |
|---|---|---|
| plume | Plume, PolySI, IsoVista | `r(key,value,session,transaction)` a line |
| awdit | AWDIT's own tests | `w 0 1` a line, `---` between transactions, `===` between sessions |
| dbcop | DBCop | bincode or JSON of sessions of transactions of events, or `[x:=1 y==2]` in text |
| cobra | Cobra | a directory with a binary log per client |
"""
