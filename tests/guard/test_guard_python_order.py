"""Python code in its order: branches, folders, lists that grow, functions that are handed on, shells that are spoken to."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("import shutil\nif x:\n    p = '/data/models'\nelse:\n    p = 'out'\nshutil.rmtree(p)", "deny"),
        ("import shutil\np = 'out'\nif x:\n    p = 'out2'\nshutil.rmtree(p)", "allow"),
        ("import os\np = None\nif x:\n    p = 'out/a'\nos.remove(p)", "allow"),
        ("import os, shutil\nos.chdir('/data')\nshutil.rmtree('models')", "deny"),
        ("import os, shutil\nos.chdir('out')\nshutil.rmtree('models')", "allow"),
        ("import subprocess\nsubprocess.run(['rm', '-rf', 'models'], cwd='/data')", "deny"),
        ("import subprocess\nsubprocess.run('rm -rf models', shell=True, cwd='/data')", "deny"),
        ("import subprocess\nsubprocess.run(['ls'], cwd='/data')\nsubprocess.run(['rm', '-rf', 'models'])", "allow"),
        ("import subprocess\nc = ['rm', '-rf']\nc.append('/data/models')\nsubprocess.run(c)", "deny"),
        ("import subprocess\nc = ['rm', '-rf']\nc.extend(['out', 'out2'])\nsubprocess.run(c)", "allow"),
        ("import subprocess\nfiles = ['a.py']\nsubprocess.run(['python', '-m', 'pytest'] + files)", "allow"),
        ("import subprocess, sys\nsubprocess.run(['ls', '-l'] + sys.argv[1:])", "allow"),
        ("import subprocess\nsubprocess.run(['rm', '-rf'] + ['/data/models'])", "deny"),
        ("import subprocess\nsubprocess.run(['rm'] + ['-rf'] + rest)", "ask"),
        ("import functools, shutil\nfunctools.partial(shutil.rmtree, '/data/models')()", "deny"),
        ("import shutil\nlist(map(shutil.rmtree, ['out', '/data/models']))", "deny"),
        ("import shutil\nlist(map(shutil.rmtree, ['out', 'out2']))", "allow"),
        ("import os\nlist(map(os.remove, paths))", "ask"),
        ("import os, threading\nthreading.Thread(target=os.system, args=('pkill -9 vllm',)).start()", "deny"),
        ("import atexit, shutil, tempfile\nd = tempfile.mkdtemp()\natexit.register(shutil.rmtree, d)", "allow"),
        ("import subprocess\nsubprocess.run('bash', input='pkill -9 vllm', text=True)", "deny"),
        ("import subprocess\np = subprocess.Popen(['sh'], stdin=-1)\np.communicate(b'rm -rf /data/models')", "deny"),
        ("import subprocess\nsubprocess.run(['cat'], input='rm -rf /data/models', text=True)", "allow"),
        ("import sh\nsh.rm('-rf', '/data/models')", "deny"),
        ("import pexpect\npexpect.spawn('rm -rf /data/models')", "deny"),
        ("import ctypes\nctypes.CDLL(None).system(b'rm -rf /data/models')", "deny"),
        ("from docker import DockerClient\nfor x in DockerClient().containers.list():\n    x.stop()", "ask"),
        ("import redis\nredis.Redis('shared').flushall()", "ask"),
    ],
)  # fmt: skip
def test_code_is_judged_in_its_order(check: Any, code: str, wanted: str) -> None:
    found = check(f"python3 - <<'END'\n{code}\nEND")
    assert found.verdict == wanted, (found.rule_id, found.why)


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("ln -s ~/.claude/settings.json s.json && echo {} > s.json", "deny"), ("ln -s out/a b && echo x > b", "allow"),
        ("ln -s /data/models/x model && rm model", "allow"), ("ln -s /data/models/x model && ls model/", "allow"),
        ("git config --file ~/.claude/settings.json a.b c", "deny"), ("git config --file out/x.cfg a.b c", "allow"),
        ("gzip ~/.claude/settings.json", "deny"), ("gzip /data/models/x.bin", "deny"), ("gzip -k /data/models/x.bin", "allow"),
        ("gzip -9 out/trace.json", "allow"), ("zstd /data/models/x.bin -o out/x.zst", "allow"), ("zstd --rm /data/models/x", "deny"),
        ("cat ~/.ssh/*", "deny"), ("ls ~/.ssh/*", "allow"), ("cat out/*", "allow"),
    ],
)  # fmt: skip
def test_links_archives_and_patterns(check: Any, command: str, wanted: str) -> None:
    found = check(command)
    assert found.verdict == wanted, (found.rule_id, found.why)
