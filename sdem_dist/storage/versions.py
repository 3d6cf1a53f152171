"""The version of a format, as files state it."""


def version_problem(version: object, read: int, remedy: str) -> str | None:
    """Return why something of this version cannot be read, or None if it can.

    `version`: JSON value.
    `read`: the version that this package reads and writes.
    `remedy`: what to do about an older one.
    """
    if type(version) is not int or version < 1:
        return f"format_version is {version!r}, not a positive integer"
    if version == read:
        return None
    age, remedy = ("a newer", "install a newer sdem_dist") if version > read else ("an older", remedy)
    return f"made by {age} format (version {version}; this package reads {read}): {remedy}"
