"""What our own machinery leaves on a node: leases of a run that is gone."""

from __future__ import annotations

from typing import Final

from clusters.remote.bundle import RUN_PATH
from dstest.core.residue import GUARD_LEASES, Residue

_LEASES: Final = f"ls {RUN_PATH}/leases {RUN_PATH}/firing 2>/dev/null | grep -v -e : -e '^$'"

_HEALS: Final = f"""\
case $lease in {"|".join(GUARD_LEASES)}) exit ;; esac
cat {RUN_PATH}/leases/$lease/lease.json {RUN_PATH}/firing/$lease/lease.json 2>/dev/null |
sed -n 's/.*"heal": \\[\\[\\(.*\\)\\]\\], "step_s".*/\\1/p' |
head -n 1 | tr -d '"[],' | cut -c 1-120
"""
"""What the lease of a fault will do, as far as a line has room."""

_EXPIRE: Final = f"""\
cd {RUN_PATH}/leases 2>/dev/null || exit 0
for _ in $(seq 250); do
    for lease in *; do
        [ -d "$lease" ] || continue
        echo 0 >"$lease/.expired" && mv "$lease/.expired" "$lease/beat"
    done 2>/dev/null
    [ -z "$(ls {RUN_PATH}/leases {RUN_PATH}/firing | grep -v -e : -e '^$')" ] && exit 0
    sleep 0.1
done
exit 1
"""
"""What a lease promises is kept, at once and by the janitor, not called off."""

LEASES: Final = Residue(
    name="leases",
    mark=f"it is in {RUN_PATH}/leases or firing",
    look=f"for lease in $({_LEASES}); do heal=$({_HEALS}); "
    'echo "ours lease $lease${heal:+, which runs: $heal}"; done',
    remove=_EXPIRE,
    rank=0,
    janitor=False,
)

OTHERS_DONE: Final = f"""\
for _ in $(seq 90); do
    left=no
    for lease in $({_LEASES}); do
        case " $* " in *" $lease "*) ;; *) left=yes ;; esac
    done
    [ $left = no ] && exit 0
    sleep 0.1
done
"""
"""Waits up to nine seconds until no lease is armed or firing but those that `$*` names."""
