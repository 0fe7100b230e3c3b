"""Be a catalog that puts tables wherever its callers say, and checks nothing: what a takeover needs."""

from __future__ import annotations

import copy
import json
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.catalog.scripted import Asked, Line, answer, error

WAREHOUSE = "s3://lakehouse/wh"

Key = tuple[tuple[str, ...], str]


class LaxCatalog:
    """A script for `scripted`: tables by namespace and name, in a warehouse, listed page by page."""

    def __init__(self, page: int = 1_000) -> None:
        self.namespaces: dict[tuple[str, ...], dict[str, str]] = {}
        self.tables: dict[Key, dict[str, Any]] = {}
        self.files: dict[str, dict[str, Any]] = {}
        """Metadata by the location of its file, as callers wrote it."""
        self.current: dict[Key, str] = {}
        """The file of each table that a caller registered or committed to; else it is the first below its location."""
        self.page = page
        self.made = 0

    def namespace(self, *levels: str, location: str = "") -> None:
        """Make a namespace; without a location it lies below the warehouse, as its levels do."""
        self.namespaces[levels] = {"location": location or "/".join((WAREHOUSE, *levels))}

    def put(self, namespace: str, name: str, location: str = "", uuid: str = "", **properties: str) -> dict[str, Any]:
        """Make a table past everything."""
        levels = tuple(namespace.split("."))
        if levels not in self.namespaces:
            self.namespace(*levels)
        self.made += 1
        metadata = {
            "format-version": 2,
            "table-uuid": uuid or f"6f1a3c5e-0000-4000-8000-{self.made:012}",
            "location": location or f"{self.namespaces[levels]['location']}/{name}",
            "properties": properties,
        }
        self.tables[levels, name] = metadata
        return metadata

    async def __call__(self, asked: Asked, line: Line) -> bytes:
        """Answer a call below `/v1/up/`."""
        path = [unquote(part) for part in asked.path.removeprefix("/v1/up/").split("/")]
        body = json.loads(asked.body) if asked.body else {}
        query = {name: values[0] for name, values in parse_qs(asked.target.partition("?")[2]).items()}
        if path == ["transactions", "commit"]:
            for change in body["table-changes"]:
                named = change["identifier"]
                self._commit((tuple(named["namespace"]), named["name"]), change)
            return answer(204)
        if path == ["tables", "rename"]:
            source, target = body["source"], body["destination"]
            old, new = ((tuple(each["namespace"]), each["name"]) for each in (source, target))
            self.tables[new] = self.tables.pop(old)
            if old in self.current:
                self.current[new] = self.current.pop(old)
            return answer(204)
        if path == ["namespaces"]:
            return self._namespaces(asked.method, body, query)
        levels = tuple(path[1].split("\x1f"))
        if levels not in self.namespaces:
            return error(404, "NoSuchNamespaceException")
        return self._below(asked.method, levels, path[2:], body, query)

    def _below(
        self, method: str, levels: tuple[str, ...], path: list[str], body: dict[str, Any], query: dict[str, str]
    ) -> bytes:
        match method, path:
            case "GET", []:
                return answer(200, {"namespace": levels, "properties": self.namespaces[levels]})
            case "POST", ["properties"]:
                self.namespaces[levels] |= body.get("updates", {})
                return answer(200, {"updated": list(body.get("updates", {})), "removed": []})
            case "GET", ["tables"]:
                names = [{"namespace": levels, "name": name} for at, name in sorted(self.tables) if at == levels]
                return answer(200, self._paged("identifiers", names, query))
            case "POST", ["tables"]:
                return self._create(levels, body)
            case "POST", ["register"]:
                # The file stays what it is, whatever is committed to the table.
                self.tables[levels, body["name"]] = copy.deepcopy(self.files[body["metadata-location"]])
                self.current[levels, body["name"]] = body["metadata-location"]
                return self._loaded((levels, body["name"]))
            case "GET" | "HEAD", ["tables", name]:
                return self._loaded((levels, name))
            case "POST", ["tables", name]:
                self._commit((levels, name), body)
                return self._loaded((levels, name))
            case "DELETE", ["tables", name]:
                gone = self.tables.pop((levels, name), None)
                self.current.pop((levels, name), None)
                return answer(204) if gone else error(404, "NoSuchTableException")
            case _:
                return error(404, "NotFoundException")

    def _namespaces(self, method: str, body: dict[str, Any], query: dict[str, str]) -> bytes:
        if method == "POST":
            levels = tuple(body["namespace"])
            self.namespace(*levels, location=body.get("properties", {}).get("location", ""))
            return answer(200, {"namespace": levels, "properties": self.namespaces[levels]})
        parent = tuple(query["parent"].split("\x1f")) if "parent" in query else ()
        below = [at for at in sorted(self.namespaces) if at[:-1] == parent]
        return answer(200, self._paged("namespaces", below, query))

    def _paged(self, member: str, found: list[Any], query: dict[str, str]) -> dict[str, Any]:
        start = int(query.get("pageToken") or 0)
        page: dict[str, Any] = {member: found[start : start + self.page]}
        if start + self.page < len(found):
            page["next-page-token"] = str(start + self.page)
        return page

    def _create(self, levels: tuple[str, ...], body: dict[str, Any]) -> bytes:
        if (levels, body["name"]) in self.tables:
            return error(409, "AlreadyExistsException")
        location = str(body.get("location") or "").rstrip("/")
        metadata = self.put(".".join(levels), body["name"], location, **body.get("properties", {}))
        found = self._loaded((levels, body["name"]))
        if body.get("stage-create"):
            del self.tables[levels, body["name"]]
            self.files[f"staged:{body['name']}"] = metadata
        return found

    def _commit(self, key: Key, body: dict[str, Any]) -> None:
        if key not in self.tables:
            self.tables[key] = self.files.pop(f"staged:{key[1]}")
        for update in body.get("updates", ()):
            match update["action"].lower():
                case "set-location":
                    self.tables[key]["location"] = update["location"]
                case "set-properties":
                    self.tables[key]["properties"] |= update["updates"]
                case "remove-properties":
                    for name in update["removals"]:
                        self.tables[key]["properties"].pop(name, None)
                case "assign-uuid":
                    self.tables[key]["table-uuid"] = update["uuid"]
                case _:
                    pass
        self.made += 1
        self.current[key] = f"{self.tables[key]['location']}/metadata/{self.made:05}.metadata.json"

    def _loaded(self, key: Key) -> bytes:
        metadata = self.tables.get(key)
        if metadata is None:
            return error(404, "NoSuchTableException")
        file = self.current.get(key, f"{metadata['location']}/metadata/00001.metadata.json")
        self.files.setdefault(file, metadata)
        return answer(200, {"metadata-location": file, "metadata": metadata, "config": {}})
