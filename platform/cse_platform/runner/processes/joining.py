"""Whether a cluster can be joined: it answers, knows our token, and has this machine as a node.

Ray finds that out later, for longer, and in part by ending the process.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ray._private.authentication.authentication_token_setup import (
    AUTH_MODE_ENV_VAR,
    AuthenticationTokenLoader,
    Config,
)
from ray._private.services import GcsClient, canonicalize_bootstrap_address_or_die
from ray.core.generated.gcs_pb2 import GcsNodeInfo
from ray.exceptions import AuthenticationError, RayError

from cse_platform.errors import SweepRefusedError
from cse_platform.runner.shipping.shipment import Shipment

_ALIVE = GcsNodeInfo.GcsNodeState.ALIVE
_TOKEN, _TOKEN_FILE = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_PATIENCE = 3.0
"""Seconds for a machine to take a connection."""
_UNTIL_JOINED = 60
"""Seconds that an archive stays without a user."""
_QUICKLY = '{"py_gcs_connect_timeout_s": 3, "gcs_rpc_server_connect_timeout_s": 2}'
"""Ray's own patience with a machine that takes connections and says nothing is 40 s."""


def prepare_to_join(address: str) -> str:
    """Let this process join a cluster: with the token where that wants one, and else without.

    To an address that somebody gives, Ray itself sends a token only where RAY_AUTH_MODE says so,
    whatever the cluster wants.

    Returns:
        HOST:PORT, also for `auto`.

    Raises:
        SweepRefusedError: within ten seconds, if nothing answers, the token is not known here, or
            this machine is no node of the cluster.
    """
    try:
        place: str = canonicalize_bootstrap_address_or_die(address)
        host, _, port = place.rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
        client = _enter(place, with_token=False) or _enter_with_token(place)
        nodes = client.get_all_node_info(timeout=_PATIENCE).values()
    except (OSError, ValueError, RayError) as error:
        raise SweepRefusedError(
            f"no Ray cluster answers at {address}: {error}; give the address that `ray start "
            "--head` has printed there, and let its port be reached from here"
        ) from error
    if not any(Path(node.raylet_socket_name).exists() for node in nodes if node.state == _ALIVE):
        raise SweepRefusedError(
            f"this machine is not a node of the Ray cluster at {place}, and a sweep's driver runs "
            "on one; hand it over by cse-sweep submit, give the same command there, or first here: "
            f"ray start --address={place}"
        )
    return place


def upload(shipment: Shipment, place: str) -> None:
    """Put what travels into a cluster that can be joined; Ray deletes it with its last user."""
    client = GcsClient(address=place)
    for uri, data in shipment.archives.items():
        client.pin_runtime_env_uri(uri, _UNTIL_JOINED)  # another user may be the last, and end now
        client.internal_kv_put(uri.encode(), data, True, None)


def _enter(place: str, *, with_token: bool) -> GcsClient | None:
    """A connection to a cluster, with which this process sends a token, or none, from then on.

    None if the cluster does not take it so.
    """
    os.environ.pop(AUTH_MODE_ENV_VAR, None)
    if with_token:
        os.environ[AUTH_MODE_ENV_VAR] = "token"
    try:
        Config.initialize(_QUICKLY)
        with _stderr_closed():
            return GcsClient(address=place)
    except AuthenticationError:
        return None
    finally:
        Config.initialize("")


@contextmanager
def _stderr_closed() -> Iterator[None]:
    """Keep Ray's native code, which knows no other way, from writing what it is refused for."""
    kept = os.dup(2)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _enter_with_token(place: str) -> GcsClient:
    known = has_token()  # without one, Ray would end this process
    if known and (client := _enter(place, with_token=True)):
        return client
    raise SweepRefusedError(token_refusal(place, known=known))


def token_refusal(place: str, *, known: bool) -> str:
    """What is said where a cluster wants a token, and none, or another one, is `known` here."""
    wants = "wants another token than that of" if known else "wants a token, and there is none in"
    named = os.environ.get(_TOKEN_FILE) or "~/.ray/auth_token"
    looked = _TOKEN if os.environ.get(_TOKEN) else named
    return (
        f"the Ray cluster at {place} {wants} {looked}; copy the file ~/.ray/auth_token of its head "
        f"node to here, or set {_TOKEN} to what it holds"
    )


def has_token() -> bool:
    """Whether a token is known here, whichever cluster it is of."""
    try:
        return bool(AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True))
    except AuthenticationError:  # the file that is named cannot be read, or is empty
        return False
