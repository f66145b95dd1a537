"""Requests made from the description of the interface: no 5xx. ``python -m campaigns.service.fuzz``
(``make service-fuzz``).

Deletions of streams come last, so that the other requests find the streams that they hit by chance.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.service.process import ServeProcess

import fadecount as fc
from fadecount.service.routes import openapi_document
from fadecount.service.write_routes import delete_stream

DELETION = delete_stream.__name__
CHECKS = (
    "not_a_server_error,status_code_conformance,"
    "content_type_conformance,response_schema_conformance"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        ServeProcess(Path(name)) as service,
    ):
        document = Path(name) / "openapi.json"
        document.write_bytes(openapi_document().body)
        with fc.Client(service.url, service.admin) as client:
            for stream in ("load", "0"):
                client.create(
                    stream,
                    tick="1s",
                    mechanism=fc.Gradual(epsilon=0.1, exponent=1.0),
                    keys=("a", "0"),
                )
        per_operation = -(-arguments.cases // 5)
        command = [
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            str(document),
            "--url",
            service.url,
        ]
        command += [
            "--header",
            f"Authorization: Bearer {service.admin}",
            "--checks",
            CHECKS,
            "--seed",
            str(arguments.seed),
        ]
        command += ["--max-examples", str(per_operation), "--generation-database", "none"]
        command += [
            "--phases",
            "examples,coverage,fuzzing",
            "--no-color",
            "--exclude-path",
            "/v1/streams/{name}/live",
        ]
        made: list[int] = []
        status = 0
        for choice in ("--exclude-operation-id", "--include-operation-id"):
            done = subprocess.run([*command, choice, DELETION], capture_output=True, text=True)
            print(done.stdout[-6000:], done.stderr[-2000:])
            made += [int(each) for each in re.findall(r"(\d+) generated", done.stdout)]
            status = status or done.returncode
        with fc.Client(service.url, service.admin) as client:
            assert client.streams()
        service.stop()
        print(f"log of the service: {service.log[-2000:].decode()!r}")
        failed = status or (0 if sum(made) >= arguments.cases else 1)
        print(
            f"service-fuzz: {sum(made):,} cases of {arguments.cases:,},"
            f" {'FAILED' if failed else 'no failure'}"
        )
        return failed


if __name__ == "__main__":
    sys.exit(main())
