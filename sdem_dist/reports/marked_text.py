"""A text with its most important stretches marked."""

from sdem_dist.reports.html import cell
from sdem_dist.visible import visible

FOR, AGAINST = "0,114,178", "213,94,0"
"""Blue and vermilion, which colour-blind people tell apart, too (Okabe and Ito)."""


class MarkedText:
    """What explanations with a `text` and `marks` share; the marks are (start, stop, value), value 0 for nothing."""

    text: str | None
    marks: tuple[tuple[int, int, float], ...]

    def stretches(self, least: float = 0.1) -> list[tuple[str, float]]:
        """Return the text cut into stretches with the value of each.

        0 for what lies between marks, or says less than `least` of what the loudest says.
        """
        text, found, end = self.text or "", [], 0
        top = max((abs(value) for _, _, value in self.marks), default=0.0)
        for start, stop, value in self.marks:
            if start < end or value == 0 or abs(value) < least * top:
                continue
            found += [(text[end:start], 0.0), (text[start:stop], value)]
            end = stop
        return [(piece, value) for piece, value in [*found, (text[end:], 0.0)] if piece]

    def _shown(self, value: float) -> str:
        """Return a part as brackets show it."""
        return f"{value:+.2f}"

    def _pieces(self) -> list[tuple[str, str]]:
        """Return the text cut into stretches, each with its part as it is shown, or nothing."""
        return [(piece, self._shown(v) if v else "") for piece, v in self.stretches(0.25)]

    def marked_text(self) -> str:
        """Return the text with the loudest words in brackets, with their parts; not those whose part rounds to 0."""
        return "".join(f"[{visible(t)} {v}]" if v and float(v) else visible(t) for t, v in self._pieces())

    @property
    def n_faint(self) -> int:
        """How many of the loudest words have no brackets, since their part rounds to 0."""
        return sum(bool(v) and not float(v) for _, v in self._pieces())

    def styled(self) -> list[tuple[str, str]]:
        """Return the text as (stretch, style) for rich: blue for the class, orange against it, loud words bold."""
        stretches = self.stretches()
        top = max((abs(v) for _, v in stretches), default=0.0)

        def style(value: float) -> str:
            color = "deep_sky_blue1" if value > 0 else "dark_orange"
            return "" if not value else f"bold {color}" if abs(value) > top / 3 else color

        return [(visible(text), style(value)) for text, value in stretches]

    def html_text(self, letters: int | None = None) -> str:
        """Return the text as HTML with its words marked: blue for the class, orange against it, stronger where louder.

        `letters` is how much of the text there is room for.
        """
        stretches = self.stretches()
        top = max((abs(v) for _, v in stretches), default=0.0)

        def piece(text: str, value: float) -> str:
            if not value:
                return cell(text)
            background = f"rgba({FOR if value > 0 else AGAINST},{0.15 + 0.45 * abs(value) / top:.2f})"
            return f'<mark title="{value:+.3f}" style="color:inherit;background:{background}">{cell(text)}</mark>'

        found: list[str] = []
        left = len(self.text or "") if letters is None else letters
        for text, value in stretches:
            if left <= 0:
                return "".join([*found, "…"])
            found.append(piece(text[:left], value))
            left -= len(text)
        return "".join([*found, "…"] if left < 0 else found)
