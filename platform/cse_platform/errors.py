"""The platform's errors, one tree below CseError."""

from cse_methods.errors import CseError


class PlatformError(CseError):
    """Base of the platform's errors."""


class SweepFileError(PlatformError):
    """A sweep file cannot be read or means nothing; the message names all problems at once."""


class SweepRefusedError(PlatformError):
    """A sweep file is fine, and yet it cannot be run: changed space, missing data."""


class NotInstalledError(SweepRefusedError):
    """A sweep needs a package that this machine does not have; the message says how to get it."""


class LeaseLostError(PlatformError):
    """Another driver has taken over the sweep that this one held, and runs it now."""


class SettingsError(PlatformError):
    """A method refuses the settings of a trial in a script of one's own."""


class WorkerBusyError(PlatformError):
    """A trial that was stopped has not left its worker's process, which no other can use then."""


class StoreError(PlatformError):
    """A store cannot be used: wrong address, driver or schema; waiting does not help."""


class StoreDownError(StoreError):
    """A store does not answer now; whoever can wait tries again."""


class NoStoreError(StoreError):
    """There is no store, and it is not to be made."""


class StoreLostError(StoreError):
    """A store contradicts the journal or itself: rows are lost or damaged; waiting is no help."""


class QueryError(PlatformError):
    """A store answers, and what it was asked has no answer."""


class NotFoundError(QueryError):
    """The store has no such trial, sweep, column or score."""


class AmbiguousError(QueryError):
    """A name stands for several trials or rows."""


class ComparisonError(QueryError):
    """Rows cannot be compared: other data, another protocol, nothing shared."""


class AnnotationRefusedError(PlatformError):
    """A note or a tag cannot be kept as it was written."""


class OutputError(PlatformError):
    """A file, a folder or a model cannot be written where it is wanted."""


class BackupError(PlatformError):
    """A backup cannot be made, is not whole, or would overwrite what is there."""


class JournalError(PlatformError):
    """A journal is damaged before its last line."""


class ImportRefusedError(PlatformError):
    """An import cannot be read, or contradicts the leaderboard."""


class PublishedError(PlatformError):
    """A file of published numbers means nothing, or a paper's table is not known."""
