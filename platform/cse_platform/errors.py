"""The platform's errors, one tree below CseError."""

from cse_methods.errors import CseError


class PlatformError(CseError):
    """Base of the platform's errors."""


class SweepFileError(PlatformError):
    """A sweep file cannot be read or is invalid; the message names all problems at once."""


class SweepRefusedError(PlatformError):
    """A valid sweep file cannot be run, for example with a changed space or missing data."""


class NotInstalledError(SweepRefusedError):
    """A sweep needs a package that is not installed here; the message says how to install it."""


class LeaseLostError(PlatformError):
    """Another driver has taken over the sweep that this driver held, and runs it now."""


class SettingsError(PlatformError):
    """A method refuses the settings of a trial, which only a user's own script can cause."""


class WorkerBusyError(PlatformError):
    """A stopped trial has not left its worker's process, so no other trial can use it."""


class StoreError(PlatformError):
    """A store cannot be used: wrong address, driver or schema; waiting does not help."""


class StoreDownError(StoreError):
    """A store does not answer now; waiting may help."""


class NoStoreError(StoreError):
    """There is no store, and it must not be created."""


class StoreLostError(StoreError):
    """A store contradicts the journal or itself: rows are lost or damaged; waiting is no help."""


class OtherSweepError(StoreError):
    """A store has another sweep of this name, of another journal; nothing is mixed with it."""


class QueryError(PlatformError):
    """A store answers, but the query has no answer."""


class NotFoundError(QueryError):
    """The store has no such trial, sweep, column or score."""


class AmbiguousError(QueryError):
    """A name matches several trials or rows."""


class ComparisonError(QueryError):
    """Rows cannot be compared: different data, another protocol, or nothing in common."""


class AnnotationRefusedError(PlatformError):
    """A note or a tag is invalid."""


class OutputError(PlatformError):
    """A file, a folder or a model cannot be written to its destination."""


class JournalError(PlatformError):
    """A journal is damaged before its last line."""


class ImportRefusedError(PlatformError):
    """An import cannot be read, or contradicts the leaderboard."""


class RecordingError(PlatformError):
    """A run of somebody's own script cannot be recorded: invalid values, or it is there already."""


class PublishedError(PlatformError):
    """A file of published numbers is invalid, or a paper's table is unknown."""
