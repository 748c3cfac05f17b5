"""Which systems, workloads and nemeses fit together, and why the others do not."""

from __future__ import annotations

from typing import Any


def matrix() -> list[dict[str, Any]]:
    """Every system x workload x nemesis with the reason where it does not fit.

    `lacks` are the capabilities, and of each the methods, that the nemesis asks of the system in
    vain: always, or for faults of the kind `when` only, where it fits all the same.
    """
    from dstest.core import registry

    rows = []
    workloads = {name: registry.load("workloads", name) for name in registry.names("workloads")}
    nemeses = {name: registry.load("nemeses", name) for name in registry.names("nemeses")}
    unjudged = {name: no_judge(workload) for name, workload in workloads.items()}
    for system_name in registry.names("systems"):
        system = registry.load("systems", system_name)
        asked = {name: asked_of(system, nemesis) for name, nemesis in nemeses.items()}
        for workload_name, workload in workloads.items():
            refused = no_client(system, workload)
            for nemesis_name, (why, lacks) in asked.items():
                shared = shared_option(system, workload, nemeses[nemesis_name])
                given = (refused, unjudged[workload_name], why, shared)
                reasons = [reason for reason in given if reason]
                rows.append(
                    {
                        "system": system_name,
                        "workload": workload_name,
                        "nemesis": nemesis_name,
                        "fits": not reasons,
                        "reason": "; ".join(reasons) or None,
                        "lacks": lacks,
                    }
                )
    return rows


def no_client(system: Any, workload: Any) -> str | None:
    """Why no client of the system can do the workload, None where one can."""
    from dstest.core.errors import ConfigError
    from dstest.runner.requirements import check_client

    if workload.capability not in system.capabilities:
        return f"{system.name} offers no {workload.capability} client"
    try:
        check_client(system, workload)
    except ConfigError as error:
        return error.message
    return None


def shared_option(*parts: Any) -> str | None:
    """An option that two of them declare: nobody could say whose value is meant."""
    from dstest.runner.plugins import RUN_OPTIONS

    owner = dict.fromkeys(RUN_OPTIONS, "every run")
    for part in parts:
        for option in part.options:
            if option in owner:
                return f"{owner[option]} and {part.name} both have an option {option}"
            owner[option] = part.name
    return None


def no_judge(workload: Any) -> str | None:
    """Why nobody can judge the workload, None where its checkers can."""
    from dstest.core.errors import ConfigError
    from dstest.runner.judges import checkers_of

    try:
        checkers_of(workload)
    except ConfigError as error:
        return error.message
    return None


def asked_of(system: Any, nemesis: Any) -> tuple[str | None, list[dict[str, Any]]]:
    """Why no fault of the nemesis is possible on the system, None where one is; what it lacks."""
    from dstest.core.errors import ConfigError
    from dstest.runner.requirements import lacking

    try:
        lacks = lacking(system, nemesis)
    except ConfigError as error:
        return error.message, []
    always = [lack.text for lack in lacks if not lack.when]
    rows = [
        {"capability": lack.capability, "missing": list(lack.missing), "when": lack.when or None}
        for lack in lacks
    ]
    return f"{system.name} lacks {', '.join(always)}" if always else None, rows
