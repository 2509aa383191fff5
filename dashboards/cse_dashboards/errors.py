"""Errors of the dashboards."""

from cse_methods.errors import CseError


class DashboardError(CseError):
    """Base of the dashboards' errors."""


class AddressError(DashboardError):
    """An address of the page means nothing."""


class ServeError(DashboardError):
    """The page cannot be served there."""


class ImageError(DashboardError):
    """A figure cannot be made an image: what draws it is not there."""
