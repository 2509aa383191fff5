"""Errors of the dashboards."""

from cse_methods.errors import CseError


class DashboardError(CseError):
    """Base of the dashboards' errors."""


class AddressError(DashboardError):
    """An address of the page is invalid."""


class ServeError(DashboardError):
    """The page cannot be served on this host and port."""


class ImageError(DashboardError):
    """A figure cannot be rendered as an image because a program is missing."""
