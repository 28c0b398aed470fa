"""Reads the sheets of an Excel file: values, notes and merged areas (ECMA-376, SpreadsheetML)."""

import lzma
import posixpath
import zipfile
import zlib
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from agentgym_rl.envs.tooluse import Refused
from agentgym_rl.envs.tooluse.sheet.formula import COLUMNS, ROWS, Place, Value, position
from agentgym_rl.envs.tooluse.sheet.grid import Grid, value_of

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_LINKS = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"

MAX_UNPACKED_BYTES = 16 << 20
"""Most bytes that are unpacked of a workbook; parsed, they take about thirty times as much."""

DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError),
    *(RuntimeError, ElementTree.ParseError, LookupError, ValueError, Refused),  # RuntimeError: it is encrypted
)
"""What reading a damaged or hostile file may raise."""


class _Archive(zipfile.ZipFile):
    """The files of a workbook, each counted as often as it is read."""

    left = MAX_UNPACKED_BYTES

    def xml(self, file: str) -> Element:
        self.left -= self.getinfo(file).file_size  # reading stops at the size that is told here
        if self.left < 0:
            raise ValueError(f"more than {MAX_UNPACKED_BYTES >> 20} MiB unpacked")
        return ElementTree.fromstring(self.read(file))


def read_xlsx(path: str | Path) -> dict[str, Grid]:
    """The sheets by name. A formula becomes the value that the file stores with it.

    Raises:
        ValueError: there is no such file, or it is no Excel file of this size; the message names file and fault.
    """
    if not Path(path).is_file():
        raise ValueError(f"no workbook at {path}; give AgentGym's toolusage/utils/sheet/Test Sheet-For Copy.xlsx")
    try:
        with _Archive(path) as archive:
            return _read(archive)
    except DAMAGE as error:
        raise ValueError(f"{path} cannot be read as an Excel workbook: {error!r}") from error


def _read(archive: _Archive) -> dict[str, Grid]:
    texts: list[str] = []
    if "xl/sharedStrings.xml" in archive.namelist():
        texts = [_text(entry) for entry in archive.xml("xl/sharedStrings.xml").iter(f"{_MAIN}si")]
    files = {link.attrib["Id"]: link.attrib["Target"] for link in _links(archive, "xl/workbook.xml")}
    return {
        sheet.attrib["name"]: _grid(archive, _beside("xl/workbook.xml", files[sheet.attrib[_LINK]]), texts)
        for sheet in archive.xml("xl/workbook.xml").iter(f"{_MAIN}sheet")
    }


def _grid(archive: _Archive, file: str, texts: list[str]) -> Grid:
    root = archive.xml(file)
    grid = Grid()
    for cell in root.iter(f"{_MAIN}c"):
        value = _value(cell, texts)
        if value != "":
            grid.cells[_place(cell.attrib["r"])] = value
    for area in root.iter(f"{_MAIN}mergeCell"):
        first, last = (_place(corner) for corner in area.attrib["ref"].split(":"))
        grid.merge((*first, *last))
    for link in _links(archive, file):
        if link.attrib["Type"].endswith("/comments"):
            for comment in archive.xml(_beside(file, link.attrib["Target"])).iter(f"{_MAIN}comment"):
                grid.notes[_place(comment.attrib["ref"])] = _text(comment)
    return grid


def _value(cell: Element, texts: list[str]) -> Value:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return _text(cell)
    text = cell.findtext(f"{_MAIN}v", "")
    if kind == "s":
        text = texts[int(text)]
    elif kind == "b":
        text = str(text == "1").upper()
    return value_of(text)


def _place(cell: str) -> Place:
    place = position(cell)
    if place is None:
        raise ValueError(f"cell {cell} is outside a sheet of {ROWS} rows and {COLUMNS} columns")
    return place


def _links(archive: _Archive, file: str) -> list[Element]:
    """The files a file refers to."""
    folder, base = posixpath.split(file)
    links = f"{folder}/_rels/{base}.rels"
    return list(archive.xml(links).iter(_LINKS)) if links in archive.namelist() else []


def _beside(file: str, target: str) -> str:
    """A path that is relative to a file of the archive, or begins at the archive's root."""
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(file), target)).lstrip("/")


def _text(element: Element) -> str:
    return "".join(part.text or "" for part in element.iter(f"{_MAIN}t"))
