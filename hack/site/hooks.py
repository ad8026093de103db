"""Hooks of mkdocs: what the pages need to become a site that works without a network."""

import base64
import hashlib
import os
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

# The theme loads the script that draws diagrams from a CDN unless the page has loaded one.
MERMAID = "mermaid@11.9.0"
INTEGRITY = "YdPXn9slEwO0omQfQIsW6vS84weVQftIyyTGAZCwM//MGhPzL1+l6vO6bkf0wnP4tHigH1alZ5Ooy3HXI2gOag=="

LINK = re.compile(r"(\]\()((?:\.\./)+[^)\s]*)(\))")


def mermaid():
    """Returns the path of the script in the user's cache, and downloads it with npm if it is missing."""
    path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "csenv" / f"{MERMAID}.js"
    if path.exists():
        return path
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", "--pack-destination", folder, MERMAID], check=True,
                       stdout=subprocess.DEVNULL)
        packed = next(Path(folder).glob("*.tgz"))
        digest = base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode()
        if digest != INTEGRITY:
            raise PluginError(f"{MERMAID} has the SHA-512 digest {digest}, want {INTEGRITY}: it isn't the known package")
        with tarfile.open(packed) as archive:
            script = archive.extractfile("package/dist/mermaid.min.js").read()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(script)
    return path


def on_files(files, config):
    """Adds the scripts and the style to the site."""
    files.append(File.generated(config, "assets/mermaid.min.js", content=mermaid().read_bytes()))
    for name in "diagrams.js", "site.css":
        files.append(File.generated(config, f"assets/{name}", content=(Path(__file__).parent / name).read_bytes()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links to files outside docs, which aren't in the site, into links to the repository."""
    docs = Path(config.docs_dir).resolve()
    folder = (docs / page.file.src_uri).parent

    def absolute(match):
        target, hash_, anchor = match.group(2).partition("#")
        path = Path(os.path.normpath(folder / target))
        if path.is_relative_to(docs) or not path.exists():
            return match.group(0)
        kind = "tree" if path.is_dir() else "blob"
        url = f"{config.repo_url}/{kind}/main/{path.relative_to(docs.parent)}{hash_}{anchor}"
        return match.group(1) + url + match.group(3)

    return LINK.sub(absolute, markdown)
