#!/usr/bin/env python3
"""Checks the bill of materials of a build, which deploy/sbom writes: that it has the fields that SPDX 2.3
requires, and every library of others that our programs and libraries load.

    sbom_test.py BUILD          exit status 1 with a line for each finding
    sbom_test.py --self-test    checks that a document without a required field is found
"""
import copy
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# Headers alone, which no library shows.
HEADERS = {"Boost", "CLI11", "nlohmann-json"}
LICENSES = {"Apache-2.0", "BSD-3-Clause", "BSL-1.0", "GPL-3.0-or-later WITH GCC-exception-3.1",
            "IJG AND BSD-3-Clause AND Zlib", "LGPL-2.1-or-later", "LicenseRef-NVIDIA", "MIT", "Zlib", "blessing",
            "curl", "libpng-2.0"}
GOOD = {
    "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "leat-0.1.0",
    "documentNamespace": "urn:sha256:00",
    "creationInfo": {"created": "2026-01-31T12:00:00Z", "creators": ["Tool: leat-sbom-0.1.0"]},
    "packages": [{"SPDXID": "SPDXRef-leat", "name": "Leat", "versionInfo": "0.1.0",
                  "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
                  "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION"},
                 {"SPDXID": "SPDXRef-zlib", "name": "zlib", "versionInfo": "1.2.13",
                  "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
                  "licenseDeclared": "Zlib", "copyrightText": "NOASSERTION"}],
    "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                       "relatedSpdxElement": "SPDXRef-leat"},
                      {"spdxElementId": "SPDXRef-leat", "relationshipType": "DYNAMIC_LINK",
                       "relatedSpdxElement": "SPDXRef-zlib"}],
}


def findings(document):
    """What is wrong with a document, as texts: clauses 6, 7 and 11 of SPDX 2.3, as far as it uses them."""
    found = []

    def expect(holds, text):
        if not holds:
            found.append(f"expected {text}")

    def matches(record, key, pattern):
        value = record.get(key)
        expect(isinstance(value, str) and re.fullmatch(pattern, value), f"{key} as '{pattern}', received {value!r}")

    matches(document, "spdxVersion", r"SPDX-2\.3")
    matches(document, "dataLicense", r"CC0-1\.0")
    matches(document, "SPDXID", "SPDXRef-DOCUMENT")
    matches(document, "name", r".+")
    matches(document, "documentNamespace", r"[a-z]+:[^#\s]+")
    creation = document.get("creationInfo", {})
    matches(creation, "created", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
    creators = creation.get("creators", [])
    expect(creators and all(re.match(r"(Tool|Person|Organization): \S", each) for each in creators),
           f"a creator, received {creators}")
    licenses = LICENSES - {"LicenseRef-NVIDIA"}
    licenses |= {each.get("licenseId") for each in document.get("hasExtractedLicensingInfos", [])}
    ids = []
    for package in document.get("packages", []):
        matches(package, "SPDXID", r"SPDXRef-[A-Za-z0-9.-]+")
        matches(package, "name", r".+")
        matches(package, "versionInfo", r".+")
        matches(package, "downloadLocation", r"NOASSERTION|NONE|\S+")
        matches(package, "licenseConcluded", r"\S.*")
        matches(package, "copyrightText", r"\S.*")
        expect(package.get("licenseDeclared") in licenses,
               f"a license that SPDX lists, received {package.get('licenseDeclared')!r} of {package.get('name')}")
        expect(package.get("filesAnalyzed") is False, "filesAnalyzed to be false: there are no files")
        for reference in package.get("externalRefs", []):
            matches(reference, "referenceCategory", "PACKAGE-MANAGER")
            matches(reference, "referenceType", "purl")
            matches(reference, "referenceLocator", r"pkg:deb/debian/[a-z0-9.%B-]+@[^\s@]+\?arch=\w+")
        ids.append(package.get("SPDXID"))
    expect(ids, "a package")
    expect(len(set(ids)) == len(ids), f"each SPDXID once, received {ids}")
    related = set()
    for each in document.get("relationships", []):
        matches(each, "relationshipType", "DESCRIBES|DYNAMIC_LINK|STATIC_LINK")
        for key in ("spdxElementId", "relatedSpdxElement"):
            expect(each.get(key) in ids + ["SPDXRef-DOCUMENT"], f"{key} of the document, received {each.get(key)}")
        related.add(each.get("relatedSpdxElement"))
    expect(related == set(ids), f"a relationship for each package, none leads to {sorted(set(ids) - related)}")
    return found


def library_name(file):
    """'libcapnp-rpc' of 'libcapnp-rpc-0.9.2.so'."""
    return re.sub(r"-[0-9]+\.[0-9.]+$", "", file.split(".so")[0])


def check_build(build):
    leat = os.path.join(build, "bin", "leat")
    lines = subprocess.run([leat, "version", "--all", "--json"], capture_output=True, text=True, check=True).stdout
    version, *dependencies = [json.loads(line) for line in lines.splitlines()]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        texts = []
        for name in ("a.json", "b.json"):
            path = os.path.join(folder, name)
            subprocess.run([os.path.join(ROOT, "deploy", "sbom"), build, path], check=True, stdout=subprocess.DEVNULL)
            with open(path) as file:
                texts.append(file.read())
    if texts[0] != texts[1]:
        found.append("expected equal bytes of two documents of one build")
    document = json.loads(texts[0])
    found += findings(document)
    packages = {package["name"]: package for package in document["packages"]}
    if packages.get("Leat", {}).get("versionInfo", "").split("+")[0] != version["version"]:
        found.append(f"expected Leat {version['version']}, received {packages.get('Leat')}")
    for each in dependencies:
        received = packages.get(each["name"], {}).get("versionInfo")
        if received != (each["built"] or each["runs"]):
            found.append(f"{each['name']}: expected version {each['built']}, received {received}")
        if bool(each["libraries"]) != bool(each["files"]) and each["license"] != "LicenseRef-NVIDIA":
            found.append(f"{each['name']}: expected one of {each['libraries']} to be loaded, received {each['files']}")
    if not HEADERS <= set(packages):
        found.append(f"expected {sorted(HEADERS)}, received {sorted(packages)}")
    # Every library of others that ours load.
    known = {name: each["name"] for each in dependencies for name in each["libraries"]}
    seen = set()
    for path in glob.glob(os.path.join(build, "lib", "libleat_*.so")) + [leat, os.path.join(build, "bin", "leatd")]:
        needed = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
        for file in re.findall(r"\(NEEDED\)[^\[]*\[(.*)\]", needed):
            if file.startswith("libleat_"):
                continue
            seen.add(library_name(file))
            if library_name(file) not in known:
                found.append(f"{path}: expected a dependency that has {file} in daemon/base/dependencies.cc, found none")
    if len(seen) < 10:
        found.append(f"expected to see the libraries that ours load, received {sorted(seen)}")
    print("\n".join(found) if found else f"{len(packages)} packages, {len(seen)} libraries of others, all in the document")
    return 1 if found else 0


def self_test():
    failed = [f"expected no finding, received {each}" for each in findings(GOOD)]
    spoils = [(lambda d, k=key: d.pop(k), key) for key in ("spdxVersion", "dataLicense", "SPDXID", "name",
                                                        "documentNamespace")]
    spoils += [(lambda d, k=key: d["creationInfo"].pop(k), key[:7]) for key in ("created", "creators")]
    spoils += [(lambda d, k=key: d["packages"][1].pop(k), key)
               for key in ("SPDXID", "name", "versionInfo", "downloadLocation", "licenseConcluded", "copyrightText",
                           "filesAnalyzed")]
    spoils += [(lambda d: d["packages"][1].update(licenseDeclared="Free"), "a license that SPDX lists"),
               (lambda d: d["packages"][1].update(SPDXID="SPDXRef-leat"), "each SPDXID once"),
               (lambda d: d["relationships"].pop(), "a relationship for each package"),
               (lambda d: d["packages"].clear(), "a package"),
               (lambda d: d["creationInfo"].update(created="today"), "created"),
               (lambda d: d["packages"][1].update(externalRefs=[{}]), "referenceType")]
    for spoil, text in spoils:
        document = copy.deepcopy(GOOD)
        spoil(document)
        if not any(text in each for each in findings(document)):
            failed.append(f"expected a finding of '{text}', received {findings(document)}")
    if library_name("libcapnp-rpc-0.9.2.so") != "libcapnp-rpc" or library_name("libz.so.1") != "libz" or \
            library_name("ld-linux-x86-64.so.2") != "ld-linux-x86-64":
        failed.append("expected the names of libraries without versions")
    print("\n".join(failed) if failed else f"{len(spoils)} spoilt documents were found")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.exit(self_test() if sys.argv[1] == "--self-test" else check_build(sys.argv[1]))
