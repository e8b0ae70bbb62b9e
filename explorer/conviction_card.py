"""Draws the card of a conviction, which other sites show beside a link.

As SVG, and as PNG if Pillow is installed (the extra `[cards]`)."""

import io
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from importlib import import_module
from importlib.util import find_spec

WIDTH, HEIGHT, MARGIN = 1200, 630, 70
"""Pixels; the size that sites show a card in."""
BACK, TEXT, SOFT, ACCENT = "#14181c", "#e4e8ec", "#a3adb8", "#ff8f84"
HEAD_SIZE, BODY_SIZE, LINE_HEIGHT = 58, 32, 1.25
HEAD_LETTERS, BODY_LETTERS = 34, 64
"""The most letters in a line."""
HEAD_LINES, BODY_LINES = 3, 6
FOOT = "Touchstone: strangers train one model together, and any number of it can be challenged."
HAS_PNG = find_spec("PIL") is not None
KEPT_CARDS = 32


@dataclass(frozen=True)
class CardLine:
    """A line of text: its baseline in pixels from the top, size and colour."""

    text: str
    baseline: int
    size: int
    color: str


def list_card_lines(headline: str, story: Sequence[str]) -> Iterator[CardLine]:
    """Yields the lines of a card. A text that is too long is cut, with an ellipsis."""
    at = float(MARGIN)
    for text in _wrap(headline, HEAD_LETTERS, HEAD_LINES):
        at += HEAD_SIZE * LINE_HEIGHT
        yield CardLine(text, round(at), HEAD_SIZE, ACCENT)
    at += BODY_SIZE
    for text in _wrap(" ".join(story), BODY_LETTERS, BODY_LINES):
        at += BODY_SIZE * LINE_HEIGHT
        yield CardLine(text, round(at), BODY_SIZE, TEXT)
    yield CardLine(FOOT, HEIGHT - MARGIN // 2, BODY_SIZE * 3 // 4, SOFT)


def _wrap(text: str, letters: int, lines: int) -> list[str]:
    return textwrap.wrap(text, letters, max_lines=lines, placeholder=" ...")


def draw_svg(headline: str, story: Sequence[str]) -> str:
    """Returns a card as SVG. It has no style and no script, so that a strict policy shows it too."""
    lines = "".join(
        f'<text x="{MARGIN}" y="{one.baseline}" font-size="{one.size}" fill="{one.color}" '
        f'font-family="system-ui, sans-serif">{escape(one.text)}</text>'
        for one in list_card_lines(headline, story)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}"><rect width="{WIDTH}" height="{HEIGHT}" fill="{BACK}"/>'
        f'<rect width="16" height="{HEIGHT}" fill="{ACCENT}"/>{lines}</svg>'
    )


@lru_cache(maxsize=KEPT_CARDS)
def draw_png(headline: str, story: tuple[str, ...]) -> bytes:
    """Returns a card as PNG, drawn by Pillow. Raises ImportError without it."""
    images, pens, fonts = (import_module(f"PIL.{name}") for name in ("Image", "ImageDraw", "ImageFont"))
    image = images.new("RGB", (WIDTH, HEIGHT), BACK)
    pen = pens.Draw(image)
    pen.rectangle((0, 0, 16, HEIGHT), fill=ACCENT)
    for one in list_card_lines(headline, story):
        font = fonts.load_default(one.size)
        pen.text((MARGIN, one.baseline), one.text, fill=one.color, font=font, anchor="ls")
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue()
