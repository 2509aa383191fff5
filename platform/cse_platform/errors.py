"""What can go wrong on the platform's side, as one tree.

CseError (cse_methods.errors)
└── PlatformError
    ├── SweepFileError      a sweep file that cannot be read or means nothing; all problems at once
    ├── SweepRefusedError   a good file that cannot be run: changed space, missing data
    ├── SettingsError       the settings of a trial, in a script of one's own, mean nothing
    ├── StoreError          a database or tracking server that is unknown, unreachable or too new
    │   └── NoStoreError    there is none, and it is not to be made
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
    """A store is unknown, unreachable or of another schema."""


class NoStoreError(StoreError):
    """There is no store, and it is not to be made."""


class JournalError(PlatformError):
    """A journal is damaged before its last line."""


class ImportRefusedError(PlatformError):
    """What comes from elsewhere means nothing, or contradicts what is here."""


class PublishedError(PlatformError):
    """A file of published numbers means nothing, or a paper's table is not known."""
