"""Tokens for an etcd that asks for them: JSON web tokens, signed with a secret that all share.

Nobody logs in: whoever has the secret issues tokens, here we for all clients, and each member
checks them with the secret in its own file. A token names its user and the revision of the
user database that it was issued for; ours is what it is once `auth_steps` have been taken.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, Final

from clusters.systems.etcd.on_node import HOME
from clusters.systems.etcd.wire import message

SECRET: Final = "dstest-lab"
"""Of a lab that exists for a test: it keeps nothing from anybody."""

SECRET_FILE: Final = f"{HOME}/secret"
SECRET_KEPT: Final = f"{HOME}/secret.kept"
"""A copy that no fault touches."""

USER: Final = "root"
AUTH_REVISION: Final = 3


def auth_steps() -> tuple[tuple[str, Any], ...]:
    """Method and request, in this order, on a cluster without users."""
    return (
        ("auth_user_add", message("AuthUserAddRequest")(name=USER, password="unused")),
        ("auth_user_grant", message("AuthUserGrantRoleRequest")(user=USER, role="root")),
        ("auth_enable", message("AuthEnableRequest")()),
    )


def auth_flag() -> tuple[str, str]:
    """What makes a member check tokens."""
    return (
        "--auth-token",
        f"jwt,sign-method=HS256,pub-key={SECRET_FILE},priv-key={SECRET_FILE},ttl=24h",
    )


def _text(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token(secret: str) -> str:
    """A token for the user who may do everything (RFC 7519, HS256), which does not expire."""
    parts = ({"alg": "HS256", "typ": "JWT"}, {"revision": AUTH_REVISION, "username": USER})
    body = b".".join(_text(json.dumps(part).encode()) for part in parts)
    signature = hmac.new(secret.encode(), body, hashlib.sha256).digest()
    return f"{body.decode()}.{_text(signature).decode()}"


def token_for(options: Mapping[str, Any]) -> str:
    """The token of a run's clients; empty where the cluster asks for none."""
    return token(SECRET) if options.get("auth") else ""
