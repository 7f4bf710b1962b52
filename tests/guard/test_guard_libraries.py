"""Python libraries that act elsewhere are judged like the commands that do the same."""

from __future__ import annotations

from typing import Any

import pytest

API = "https://api.github.com/repos/team/engine"


def py(code: str) -> str:
    """The code as a heredoc."""
    return f"python3 - <<'END'\n{code}\nEND"


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (f"import requests; requests.post('{API}/issues', json={{}})", "push.publish"),
        (f"import requests\ns = requests.Session()\ns.patch('{API}/issues/3', json={{}})", "push.publish"),
        (f"import httpx; httpx.delete('{API}/git/refs/heads/x')", "push.publish"),
        (f"import httpx\nwith httpx.Client() as c:\n    c.put('{API}/pulls/1/merge')", "push.publish"),
        (f"import requests; requests.request('PUT', '{API}/pulls/1/merge')", "push.publish"),
        (f"import urllib.request as u; u.urlopen(u.Request('{API}/pulls', data=b'x', method='POST'))", "push.publish"),
        (f"import requests\nn = 3\nrequests.post(f'{API}/issues/{{n}}/{{unknown}}')", "push.publish"),
        ("import requests; requests.post('https://x.example/', files={'f': open('/nas/m.bin', 'rb')})", "data.upload"),
        ("import requests; requests.post('https://x.example/', data=open('out.txt'))", "data.upload"),
        ("import requests; requests.delete('http://store:9000/x')", "gate.server"),
        ("from huggingface_hub import HfApi; HfApi().upload_file(path_or_fileobj='w', repo_id='a/b')", "data.upload"),
        ("from huggingface_hub import upload_folder as up; up(repo_id='a/b', folder_path='/nas/w')", "data.upload"),
        ("from huggingface_hub import delete_repo; delete_repo('a/b')", "data.remote_delete"),
        ("from transformers import AutoModel\nm = AutoModel.from_pretrained('x')\nm.push_to_hub('me/x')", "data.upload"),
        ("import boto3; boto3.client('s3').upload_file('out.bin', 'bucket', 'key')", "data.upload"),
        ("import boto3; boto3.resource('s3').Bucket('b').objects.all().delete()", "data.remote_delete"),
        ("import paramiko\nc = paramiko.SSHClient()\nc.connect('gpu08')\nc.exec_command('pkill -9 vllm')", "process.by_name"),
        ("from fabric import Connection; Connection('gpu08').run('rm -rf /data/models')", "files.remote"),
        ("from fabric import Connection; Connection('gpu08').sudo('reboot')", "process.machine"),
        ("from kubernetes import client; client.CoreV1Api().delete_namespaced_pod('other-0', 'team')", "schedulers.foreign"),
        ("from kubernetes import client; client.CoreV1Api().delete_collection_namespaced_pod('team')", "schedulers.by_name"),
        ("import git; git.Repo('.').remotes.upstream.push('HEAD:main')", "push.remote"),
        ("import git; git.Repo('.').git.push('origin', 'HEAD:main', force=True)", "push.protected"),
        ("import git; git.Repo('.').head.reset('HEAD~1', working_tree=True)", "traceable.discard"),
        ("import git; git.Repo('.').index.commit('x', skip_hooks=True)", "traceable.hooks"),
        ("from github import Github; Github('x').get_repo('a/b').get_pull(1).merge()", "push.forge"),
        ("import tarfile; tarfile.open('x.tar').extractall('/data/models')", "files.shared"),
        ("import shutil; shutil.unpack_archive('x.zip', '/data/models')", "files.shared"),
    ],
)  # fmt: skip
def test_what_a_library_does_elsewhere_is_stopped(check: Any, code: str, rule: str) -> None:
    found = check(py(code))
    assert (found.verdict in ("deny", "ask"), found.rule_id) == (True, rule), found.why


@pytest.mark.parametrize(
    "code",
    [
        f"import requests; print(requests.get('{API}/pulls').json())",
        "import requests; print(requests.post('http://127.0.0.1:30000/generate', json={'text': 'kill -9'}).json())",
        "import requests\nu = 'http://localhost:31000'\nrequests.post(u + '/flush_cache')",
        "import requests, sys\nrequests.post(sys.argv[1], json={})",
        "import urllib.request as u; print(u.urlopen('https://pypi.org/simple/x').read())",
        "import urllib.request as u; u.urlopen(u.Request('http://127.0.0.1:30000/generate', data=b'{}'))",
        "from huggingface_hub import snapshot_download; snapshot_download('a/b', local_dir='out')",
        "from huggingface_hub import HfApi; print(HfApi().model_info('a/b').sha)",
        "import boto3; boto3.client('s3').download_file('b', 'k', 'out.bin')",
        "from kubernetes import client; print(client.CoreV1Api().list_namespaced_pod('team'))",
        "from kubernetes import client; client.CoreV1Api().delete_namespaced_pod('run-abc-0', 'team')",
        "import git; print(git.Repo('.').git.log('-3')); git.Repo('.').remotes.origin.push('run-abc/fix')",
        "from github import Github; print(Github().get_repo('a/b').get_pull(1).title)",
        "import tarfile; tarfile.open('x.tar').extractall('out')",
    ],
)
def test_reading_and_the_runs_own_servers_pass(check: Any, code: str) -> None:
    found = check(py(code))
    assert found.verdict == "allow", (found.rule_id, found.why)


def test_a_request_that_profiles_stacks_of_a_busy_server_is_asked_about(check: Any) -> None:
    found = check(
        py("import requests; requests.post('http://127.0.0.1:31000/start_profile', json={'with_stack': True})")
    )
    assert found.rule_id == "gate.profile_stacks"


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("python -m zipfile -e x.zip /data/models", "deny"), ("python -m tarfile -e x.tar out", "allow"),
        ("python -m zipfile -l x.zip", "allow"),
        (f"node -e \"fetch('{API}/pulls', {{method: 'POST', body: '{{}}'}})\"", "ask"),
        (f"node -e \"axios.delete('{API}/git/refs/heads/x')\"", "deny"),
        ("node -e \"fetch('http://127.0.0.1:30000/generate', {method: 'POST', body: '{}'}).then(console.log)\"", "allow"),
    ],
)  # fmt: skip
def test_other_doors_to_the_same(check: Any, command: str, wanted: str) -> None:
    found = check(command)
    assert found.verdict == wanted, (found.rule_id, found.why)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("p = '/data/models'\nimport shutil\nshutil.rmtree(p)\np = 'out'", "deny"),
        ("import shutil\np = 'out'\nshutil.rmtree(p)\np = '/data/models'", "allow"),
        ("from pathlib import Path\np = Path('a.py')\np.write_text(p.read_text().replace('a', 'b'))", "allow"),
        ("from pathlib import Path\np = Path('a.py')\nt = p.read_text()\nt = t.replace('a', 'b', 1)\np.write_text(t)", "allow"),
        ("from pathlib import Path\nPath('/data/models/a').replace('out')", "deny"),
        ("import shutil, tempfile\nd = tempfile.mkdtemp()\nshutil.rmtree(d)", "allow"),
        ("import shutil, tempfile\nd = tempfile.mkdtemp()\nd = '/data/models'\nshutil.rmtree(d)", "deny"),
        ("import os, shutil, tempfile\nd = tempfile.mkdtemp()\nfor d in os.listdir('/data'):\n    shutil.rmtree(d)", "ask"),
        ("import shutil, tempfile\nd = tempfile.mkdtemp()\ndef drop(d):\n    shutil.rmtree(d)\ndrop('/data/models')", "ask"),
    ],
)  # fmt: skip
def test_a_name_has_the_value_that_it_has_at_that_place(check: Any, code: str, wanted: str) -> None:
    found = check(py(code))
    assert found.verdict == wanted, (found.rule_id, found.why)
