"""What can go wrong on the platform's side, as one tree.

CseError (cse_methods.errors)
└── PlatformError
    ├── SweepFileError      a sweep file that cannot be read or means nothing; all problems at once
    ├── SweepRefusedError   a good file that cannot be run: changed space, missing data
    ├── SettingsError       the settings of a trial, in a script of one's own, mean nothing
    ├── StoreError          a store cannot be used as it is, and waiting does not help
    │   ├── StoreDownError  it does not answer, or not now: the same call may succeed later
    │   ├── NoStoreError    there is none, and it is not to be made
    │   └── StoreLostError  it contradicts the journal or itself: rows are lost or damaged
    ├── QueryError          the store answers, and the question has no answer
    │   ├── NotFoundError   there is no such trial, sweep, column or score
    │   ├── AmbiguousError  a name stands for several trials or rows
    │   └── ComparisonError rows cannot be compared: other data, another protocol, nothing shared
    ├── OutputError         what is to be written cannot be: a full or unusable folder, no model
    ├── JournalError        a journal that is damaged before its last line
    ├── ImportRefusedError  what comes from elsewhere means nothing, or contradicts what is here
    └── PublishedError      a file of published numbers that means nothing, or an unknown table
"""

from cse_methods.errors import CseError


class PlatformError(CseError):
    """Base of the platform's errors."""


class SweepFileError(PlatformError):
    """A sweep file cannot be read or means nothing."""


class SweepRefusedError(PlatformError):
    """A sweep file is fine, and yet it cannot be run."""


class SettingsError(PlatformError):
    """A method refuses the settings of a trial."""


class StoreError(PlatformError):
    """A store cannot be used: its address, its driver or its schema is wrong."""


class StoreDownError(StoreError):
    """A store does not answer now; whoever can wait tries again."""


class NoStoreError(StoreError):
    """There is no store, and it is not to be made."""


class StoreLostError(StoreError):
    """A store contradicts the journal or itself; trying again does not help."""


class QueryError(PlatformError):
    """A store answers, and what it was asked has no answer."""


class NotFoundError(QueryError):
    """The store answers, and what was asked for is not in it."""


class AmbiguousError(QueryError):
    """What was asked for is several things."""


class ComparisonError(QueryError):
    """Rows cannot be compared with each other."""


class OutputError(PlatformError):
    """A file, a folder or a model cannot be written where it is wanted."""


class JournalError(PlatformError):
    """A journal is damaged before its last line."""


class ImportRefusedError(PlatformError):
    """What comes from elsewhere means nothing, or contradicts what is here."""


class PublishedError(PlatformError):
    """A file of published numbers means nothing, or a paper's table is not known."""
