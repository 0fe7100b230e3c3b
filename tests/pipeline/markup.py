"""Parse a page as a browser does, for what it is made of and what it shows."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = ("meta", "link", "img", "br", "hr", "input", "base", "embed", "source")
WITHOUT_TEXT = ("style", "script", "title", "desc")


class Page(HTMLParser):
    """The elements of a page, with their attributes, and its text; elements that are not closed are remembered."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.shown: list[str] = []
        self.all_text: list[str] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.all_text.append(data)
        if not set(self.open) & set(WITHOUT_TEXT):
            self.shown.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.shown).split())

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]
