"""The filters that a question to a leaderboard takes."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Filters:
    """The filters of a leaderboard; a filter that is None passes everything."""

    backbone: str | None = None
    """One backbone, or several separated by commas. Released encoders that were trained from one of
    them pass too.
    """
    method: str | None = None
    """One method; of several, choose among all rows by their `method`."""
    sweep: str | None = None
    tag: str | None = None
    """Only trials that have this tag, or whose configuration or sweep has it."""
    configuration: str | None = None
    """Only configurations whose hash starts with this."""
    identity: str | None = None
    """Only rows whose dev sets or evaluations have an identity that starts with this. It does not
    change which configuration is selected on dev.
    """
    hardware: str | None = None
    """Only trials on a machine whose GPU, CPU or host name contains this."""
    since: datetime | None = None

    def __post_init__(self) -> None:
        """Raise TypeError if a filter is no text, or `since` no time."""
        for name, value in vars(self).items():
            is_time = name == "since"
            if value is not None and not isinstance(value, datetime if is_time else str):
                expected = "a datetime" if is_time else "one text"
                expected += ", such as 'mini,bert-base' for two" * (name == "backbone")
                raise TypeError(f"Filters({name}=…): expected {expected}, got {value!r}")


EVERY_ROW = Filters()


def parse_since(text: str) -> datetime:
    """Read a day or a time as ISO 8601 writes it; without an offset it is UTC, as all we print."""
    try:
        time = datetime.fromisoformat(text.strip().replace(" UTC", "Z"))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):  # Python's times are those of the years 1 to 9999
        raise ValueError(
            "expected a date or a time such as 2026-11-29, 2026-11-29T10:36 or "
            f"2026-11-29T10:36+05:30, got {text!r}"
        ) from None


def backbones_in(text: str) -> list[str]:
    """Split the comma-separated backbones of a filter."""
    return [name for part in text.split(",") if (name := part.strip())]
