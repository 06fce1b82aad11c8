"""Protocol ids in URLs: ``<projected:run>`` takes one segment and gives the id, and ``reverse`` writes it back."""

from __future__ import annotations

from django.urls import register_converter

from .domain.projection import project, unproject


class ProjectedId:
    """A segment that is no id's projection does not match, so that each id has one address (RFC 0184)."""

    regex = "(?:[A-Za-z0-9._-]|~[0-9A-F]{2})+"

    def to_python(self, segment: str) -> str:
        return unproject(segment)

    def to_url(self, identifier: str) -> str:
        return project(identifier)


register_converter(ProjectedId, "projected")
