"""Move errors: the reasons for which a folder cannot be copied, for the user who wrote the line."""

from traingrid.errors import UsageError


class MoveError(UsageError):
    """The folder cannot be copied, because the source or the target is not as the line assumes."""


class SourceChangedError(MoveError):
    """The source changed while it was copied, so the copy could be a mixture of two states."""

    def __init__(self, source: object) -> None:
        text = f"{source} changed while it was copied."
        super().__init__(text, "Do not write to a folder that is copied. Write new data to another folder.")


class TargetDiffersError(MoveError):
    """An object of the target is not a copy of the source's object; copying never replaces it."""

    def __init__(self, target: object, reason: str) -> None:
        text = f"{target} is not a copy of the source's object: {reason}."
        next_step = "Nothing was replaced. Choose another folder in s3_uri, or delete the object, and retry the line."
        super().__init__(text, next_step)
