"""Fake `docker` and `ssh`: both run the command here, so that the runner's other two places are tried for real.

FAKE_HOSTS_LOG names a file that receives one JSON line for each call. A container is any name; its id is made of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time


def _log(program: str, argv: list[str]) -> None:
    place = os.environ.get("FAKE_HOSTS_LOG")
    if place:
        with open(place, "a", encoding="utf-8") as file:
            file.write(json.dumps({"program": program, "argv": argv, "at": time.time()}) + "\n")


def container_id(name: str) -> str:
    """The 64 hex digits that a container name stands for."""
    return hashlib.sha256(name.encode()).hexdigest()


def docker(argv: list[str]) -> int:
    """`docker exec [-i] [-d] [-w DIR] [-e K=V] NAME COMMAND..`, `docker inspect --format F NAME`."""
    _log("docker", argv)
    if argv[:1] == ["inspect"]:
        name = argv[-1]
        if name == "absent":
            print(f"Error: No such object: {name}", file=sys.stderr)
            return 1
        form = argv[argv.index("--format") + 1] if "--format" in argv else ""
        answers = {"{{.Id}}": container_id(name), "{{.Image}}": f"sha256:{container_id('image of ' + name)}"}
        print(" ".join(answers.get(word, "") for word in form.split()))
        return 0
    if argv[:1] != ["exec"]:
        print(f"fake docker: {argv[:1]} is not played", file=sys.stderr)
        return 1
    words, environment, directory = argv[1:], dict(os.environ), None
    while words and words[0].startswith("-"):
        flag = words.pop(0)
        if flag in ("-e", "--env"):
            key, _, value = words.pop(0).partition("=")
            environment[key] = value
        elif flag in ("-w", "--workdir"):
            directory = words.pop(0)
    name = words.pop(0)
    if name == "absent":
        print(f"Error response from daemon: No such container: {name}", file=sys.stderr)
        return 1
    environment["FAKE_CONTAINER"] = name
    return subprocess.run(words, env=environment, cwd=directory).returncode


def ssh(argv: list[str]) -> int:
    """`ssh [-o X] [-p N] HOST COMMAND..`: the words are joined and given to a shell, as ssh does."""
    _log("ssh", argv)
    words = list(argv)
    while words and words[0].startswith("-"):
        flag = words.pop(0)
        if flag in ("-o", "-p", "-i", "-l", "-F", "-J"):
            words.pop(0)
    host = words.pop(0)
    if host == "absent":
        print(f"ssh: Could not resolve hostname {host}: Name or service not known", file=sys.stderr)
        return 255
    return subprocess.run(["/bin/sh", "-c", " ".join(words)]).returncode
