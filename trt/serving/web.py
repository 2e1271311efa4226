"""The page: its files are read once, when the server starts; requests name them, and nothing else."""

from pathlib import Path

from fastapi import FastAPI, Response

KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript"}
POLICY = "default-src 'self'; media-src blob:; img-src data:; connect-src 'self'; style-src 'self' 'unsafe-inline'"


def add_page(routes: FastAPI) -> None:
    """Serves the page at / and its parts under /page."""
    files = {path.name: path for path in (Path(__file__).parent / "page").iterdir() if path.suffix in KINDS}
    contents = {name: (path.read_bytes(), KINDS[path.suffix]) for name, path in files.items()}
    headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}

    @routes.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    @routes.api_route("/page/{name}", methods=["GET", "HEAD"], include_in_schema=False)
    async def page(name: str = "index.html") -> Response:
        if name not in contents:
            return Response(status_code=404)
        content, kind = contents[name]
        return Response(content, media_type=kind, headers=headers)
