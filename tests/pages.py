"""What the tests of reports share: whether a page needs anything but itself."""

from html.parser import HTMLParser


class Tags(HTMLParser):
    """Checks that what is opened is closed, and collects attributes."""

    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def assert_needs_nothing_else(page: str) -> None:
    """It is well-formed, has sounds or pictures, all of them inside, and may load nothing."""
    tags = Tags(page)
    assert tags.open == []
    sources = [value for _, name, value in tags.attributes if name in ("src", "href")]
    assert sources
    assert all(value.startswith("data:") for value in sources)
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in page
