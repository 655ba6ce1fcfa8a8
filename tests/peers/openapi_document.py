#!/usr/bin/env python3
"""Checks the OpenAPI document of a master with openapi-spec-validator, and the answers of its paths
with the schemas that the document has for them. Needs openapi-spec-validator from PyPI.

    openapi_document.py BIN

BIN is the folder of leat and leatd. Exit status 1 if the document, or an answer, is not valid.
"""
import json
import sys
import urllib.request

from openapi_schema_validator import OAS30Validator
from openapi_spec_validator import validate

from dev_cluster import Cluster


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def resolved(schema, document):
    """The schema with the parts of the document that it names."""
    if isinstance(schema, list):
        return [resolved(each, document) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        part = document
        for name in schema["$ref"].removeprefix("#/").split("/"):
            part = part[name]
        return resolved(part, document)
    return {key: resolved(value, document) for key, value in schema.items()}


def schema_of(operation, document):
    """The schema of a JSON answer; None of an answer that is a stream or a text."""
    content = resolved(operation["responses"]["200"], document).get("content", {})
    return content.get("application/json", {}).get("schema")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    cluster = Cluster(sys.argv[1])
    wrong = checked = 0
    try:
        document = get(f"{cluster.http}/api/v1/openapi.json")
        validate(document)
        job = cluster.submit("name=described", "epochs=1")
        cluster.wait(job, "SUCCEEDED")
        for path, operations in document["paths"].items():
            schema = schema_of(operations["get"], document) if "get" in operations else None
            if schema is None:
                continue
            received = get(cluster.http + path.replace("{id}", job))
            for error in OAS30Validator(schema).iter_errors(received):
                print(f"{path}: {error.message} at {list(error.absolute_path)}")
                wrong += 1
            checked += 1
    finally:
        cluster.stop()
    if checked < 5:
        sys.exit(f"expected at least 5 paths with JSON, received {checked}")
    print(f"the document is valid; {wrong} findings in the answers of {checked} paths")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
