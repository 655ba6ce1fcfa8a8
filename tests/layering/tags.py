"""Reads the names that C++ files define, with Universal Ctags."""
import json
import subprocess
import sys


def read_tags(root, folders, kinds, fields):
    """The tags of the folders below `root`, as dictionaries. `kinds` and `fields` are those of
    --kinds-C++ and --fields. Ends the program if ctags fails."""
    command = ["ctags", "--languages=C++", "--langmap=C++:.h.cc", f"--kinds-C++={kinds}", "-R",
               "--output-format=json", f"--fields=+{fields}", "-f", "-", *folders]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit(f"tags: expected ctags to read {', '.join(folders)}: {done.stderr}")
    tags = [json.loads(line) for line in done.stdout.splitlines()]
    return [tag for tag in tags if tag.get("_type") == "tag"]


def full_name(tag):
    return f"{tag['scope']}::{tag['name']}" if "scope" in tag else tag["name"]
