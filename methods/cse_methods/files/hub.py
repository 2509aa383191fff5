"""Explain why a file or model cannot be fetched from the hub, and what to do about it."""

from typing import Literal


def explain_hub_error(
    error: Exception, repository: str, *, kind: Literal["models", "datasets"]
) -> str:
    """Say why the hub did not give a file of a repository, and what to do about it.

    Returns:
        A clause without a full stop, such as `it has no repository lab/corpus; …`.
    """
    from huggingface_hub import constants, errors

    causes = list[BaseException]([error])
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    page = "/".join([constants.ENDPOINT, *(["datasets"] if kind == "datasets" else []), repository])
    known: dict[type[Exception], str] = {
        errors.GatedRepoError: f"it gives {repository} only to accounts that accepted its "
        f"conditions; accept them on {page}, and set HF_TOKEN to a token of that account",
        errors.RevisionNotFoundError: f"{repository} has no such revision; see its page {page}",
        errors.RepositoryNotFoundError: f"it has no repository {repository}, or a private one; "
        "check the name, and set HF_TOKEN if it is private",
        errors.RemoteEntryNotFoundError: f"{repository} has no such file; its page {page} lists "
        "the files",
        errors.OfflineModeIsEnabled: "HF_HUB_OFFLINE is set, and this machine's cache lacks it; "
        "unset HF_HUB_OFFLINE, or copy the cache (HF_HOME) of a "
        "machine that has it",
    }
    for cause in causes:
        for raised, text in known.items():
            if isinstance(cause, raised):
                return text
    codes = (getattr(getattr(cause, "response", None), "status_code", None) for cause in causes)
    status = next((code for code in codes if isinstance(code, int) and code >= 400), None)
    if status == 429:
        return (
            "it refuses more requests for now (429); try again in a few minutes, or set "
            "HF_TOKEN, which raises the limit"
        )
    if status in (401, 403):
        return f"it refuses this account ({status}); set HF_TOKEN to a token that may read it"
    if status is not None:
        return f"it answers with an error of its own ({status}); run it again later"
    if constants.HF_HUB_OFFLINE:
        return known[errors.OfflineModeIsEnabled]
    first = str(causes[-1]).strip().partition("\n")[0].rstrip(".") or type(causes[-1]).__name__
    kinds = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    if not kinds & {"LocalEntryNotFoundError", "TransportError"}:  # a full disk, a wrong name
        return first
    return f"it cannot be reached ({first}); check the connection, and try again"
