"""The few exceptions a caller may want to catch. Messages count the trouble and print no person's row."""


class InputError(ValueError):
    """The data or an argument cannot be used; the message names it and says what to do."""


class UnseenError(InputError):
    """Rows to be scored have combinations of attributes that the correction never saw."""


class FileFormatError(ValueError):
    """A file is not what it should be: truncated, edited, of another format or a newer version."""
