"""Checks the SBOMs of a release with the official libraries: `sbom.py dist`."""

import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document


def faults(file: pathlib.Path) -> list[str]:
    if file.name.endswith(".spdx.json"):
        return [m.validation_message for m in validate_full_spdx_document(parse_file(str(file)))]
    fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read_text())
    return [str(fault)] if fault else []


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    files = sorted([*folder.glob("*.spdx.json"), *folder.glob("*.cdx.json")])
    if not files:
        print(f"{folder} has no SBOMs: build a release first, with `make release VERSION=v1.2.3`", file=sys.stderr)
        return 1
    found = {file.name: faults(file) for file in files}
    for name, messages in found.items():
        print(name, "; ".join(messages) or "valid")
    return int(any(found.values()))


sys.exit(main())
