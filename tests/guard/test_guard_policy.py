from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer_forge.base.errors import HumanNeeded, InputUnusable
from infer_forge.guard import compiled, policy
from infer_forge.guard.context import from_dict
from infer_forge.guard.decide import check_with

OWN = {"run_id": "r", "cwd": "/data/runs/r", "owned_paths": ["/data/runs/r"]}


def verdict(command: str, made: dict[str, Any], **changes: Any) -> str:
    return check_with(command, from_dict({**OWN, **changes}), made).verdict


def write(folder: Path, text: str) -> None:
    (folder / "guard.yaml").write_text(text)


def test_a_custom_rule_matches_by_words_and_its_examples_are_checked_on_load(tmp_path: Path) -> None:
    rule = "custom:\n- id: team.deploy\n  prefix: [deployctl, [up, roll]]\n  decision: deny\n  why: releases go through the pipeline\n"
    write(
        tmp_path,
        rule + "  match: [deployctl up x, 'sudo deployctl roll']\n  not_match: [deployctl status, echo deployctl up]\n",
    )
    made = policy.compile_policy(str(tmp_path))
    assert verdict("nice deployctl up prod", made) == "deny"
    assert verdict("deployctl status", made) == "allow"
    write(tmp_path, rule + "  match: [deployctl status]\n")
    with pytest.raises(InputUnusable, match="is not matched"):
        policy.compile_policy(str(tmp_path))
    write(tmp_path, rule + "  not_match: ['bash -c \"deployctl up\"']\n")
    with pytest.raises(InputUnusable, match="is matched"):
        policy.compile_policy(str(tmp_path))


def test_a_project_may_tighten_and_never_loosen(tmp_path: Path) -> None:
    write(tmp_path, "rules: {push.force: deny}\nprotected_branches: [stable]\ngoverned_paths: ['^/data/governed/']\n")
    made = policy.compile_policy(str(tmp_path))
    remote = {"remotes": {"o": "git@h:me/x.git"}, "push_allowed": ["o"]}
    assert verdict("git push -f o mine", made, **remote) == "deny"
    assert verdict("git push o stable", made, **remote) == "deny"
    assert verdict("cp /data/governed/a.json .", made) == "deny"
    for loose in ("push: {allowed: [git@h:any/x.git]}", "rules: {push.force: allow}"):
        write(tmp_path, loose)
        with pytest.raises(InputUnusable):
            policy.compile_policy(str(tmp_path), person=True)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense: 1",
        "rules: {no.rule: deny}",
        "shared_paths: ['(']",
        "custom: [{id: x}]",
        "- a",
        "a: [",
        "rules: 2024-99-99",
        "production: [{hosts: [x]}]",
    ],
)
def test_a_wrong_guard_yaml_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    with pytest.raises(InputUnusable) as caught:
        policy.compile_policy(str(tmp_path))
    assert "guard.yaml" in str(caught.value)


def test_loosening_what_is_compiled_needs_a_person(tmp_path: Path) -> None:
    user = Path(compiled.user_file())
    user.parent.mkdir(parents=True, exist_ok=True)
    user.write_text("rules: {push.force: deny}\n")
    policy.compile_policy(str(tmp_path), person=False)
    user.write_text("push: {allowed: [git@h:me/x.git]}\nrules: {push.force: deny}\n")
    with pytest.raises(HumanNeeded):
        policy.current(str(tmp_path))
    policy.compile_policy(str(tmp_path), person=True)
    assert policy.current(str(tmp_path))["push_allowed"] == ["git@h:me/x.git"]
    user.write_text("")
    with pytest.raises(HumanNeeded):
        policy.compile_policy(str(tmp_path), person=False)


def test_production_is_read_only(tmp_path: Path) -> None:
    write(
        tmp_path,
        "production:\n- name: prod\n  hosts: ['prod-\\d+']\n  urls: ['llm\\.example\\.com']\n  contexts: [prod]\n",
    )
    made = policy.compile_policy(str(tmp_path))
    for reading in (
        "ssh prod-1 'tail -n 50 /var/log/llm.log | grep ERROR'",
        "curl -s https://llm.example.com/health",
        "kubectl --context prod get pods",
    ):
        assert verdict(reading, made) == "allow", reading
    for acting in (
        "ssh prod-1 'systemctl restart llm'",
        "ssh prod-1 'python3 x.py'",
        "curl -X POST https://llm.example.com/generate -d x",
        "kubectl --context prod apply -f x.yaml",
        "ssh prod-1 'echo x > /tmp/y'",
    ):
        assert verdict(acting, made) == "deny", acting


def test_every_rule_of_the_code_is_in_the_catalogue_with_a_way_out(project_root: Path) -> None:
    import re

    made = policy.compile_policy(keep=False)
    used: set[str] = set()
    for file in (project_root / "infer_forge" / "guard").rglob("*.py"):
        used |= set(re.findall(r"(?:ASK|DENY|verdict|hard[^\n]*), \"([a-z]+\.[a-z_]+)\"", file.read_text()))
    assert len(used) > 40
    assert used <= set(made["rules"]) | {"gate.tool"}
    constraints = {r["constraint"] for r in made["rules"].values()}
    assert len(constraints) == 8
    assert all(r["safer"] for r in made["rules"].values())


def test_protected_paths_of_a_project_are_as_safe_as_the_guards_own(tmp_path: Path) -> None:
    write(tmp_path, "protected_paths: [locked/contract.json]\n")
    made = policy.compile_policy(str(tmp_path))
    own = {"owned_paths": [str(tmp_path)], "cwd": str(tmp_path)}
    assert verdict("echo x > locked/contract.json", made, **own) == "deny"
    assert verdict("rm -rf locked", made, **own) == "deny"
    assert verdict("cat locked/contract.json", made, **own) == "allow"


def test_a_newer_version_of_the_shipped_rules_needs_no_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = policy.load_shipped

    def older() -> dict[str, Any]:
        data = dict(real())
        data["shared_paths"] = [*data["shared_paths"], "^/a/pattern/that/went/away/"]
        data["risk_words"] = [*data["risk_words"], "frobnicate"]
        return data

    monkeypatch.setattr(policy, "load_shipped", older)
    policy.compile_policy(str(tmp_path), person=False)
    monkeypatch.setattr(policy, "load_shipped", real)
    made = policy.compile_policy(str(tmp_path), person=False)
    assert "^/a/pattern/that/went/away/" not in made["shared_paths"]
