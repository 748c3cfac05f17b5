from __future__ import annotations
from dstest.core.check import Anomaly
def anomalies_of(c, workload, analysis, types, sources):
    out = {}
    for f in analysis.findings:
        if f.type in types: out.setdefault(f.type, []).append(Anomaly(type=f.type, ops=[int(c.op_index[f.txn])]))
    for y in analysis.cycles:
        if y.type in types: out.setdefault(y.type, []).append(Anomaly(type=y.type, ops=[int(c.op_index[t]) for t in y.txns], minimal=y.minimal))
    return out
