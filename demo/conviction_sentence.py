"""Says in a sentence which number convicted a party."""


def describe_number(name: str, claimed: str, exact: str) -> str:
    """Returns the sentence. `claimed` and `exact` are decimal numbers as text, or bits of a value that is not
    finite."""
    return f"{name} wrote {shorten(claimed)} where {shorten(exact)} is right"


def shorten(number: str) -> str:
    """Returns a decimal number with four digits that count; any other text as it is."""
    try:
        return f"{float(number):.4g}"
    except ValueError:
        return number
