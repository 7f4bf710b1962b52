"""Pull-request numbers in commit messages: squash, merge and bors forms, of any length; and what a commit reverts."""

from __future__ import annotations

import re

# More digits are no number that a table can hold, and no pull request either.
_TRAILING = re.compile(r"\((?:[\w.-]+/[\w.-]+)?#([0-9]{1,18})\)\s*$")
_FORMS = (
    re.compile(r"^Merge pull request #([0-9]{1,18})\b", re.IGNORECASE),
    re.compile(r"^Auto merge of #([0-9]{1,18})\b", re.IGNORECASE),
    re.compile(r"^Merge #([0-9]{1,18})(?:\s|:|$)", re.IGNORECASE),
)
# GitLab writes the request into the body of its merge commit.
_GITLAB = re.compile(r"^See merge request \S*!([0-9]{1,18})\s*$", re.MULTILINE)
_REVERT = re.compile(
    r"^(?:\[[^\]]*\]\s*)*(?P<word>Revert|Reapply|Reland|Re-land|Re-apply)s?\b[\s:]*(?P<rest>.*)$", re.IGNORECASE
)
_REVERTED_SHA = re.compile(r"This reverts commit ([0-9a-f]{7,64})")
_REVERTED_NUMBER = re.compile(r"\bReverts? (?:[\w.-]+/[\w.-]+)?#([0-9]{1,18})(?![0-9])", re.IGNORECASE)
_ANY = re.compile(r"#([0-9]{1,18})(?![0-9])")


def number_of(subject: str, body: str = "") -> int | None:
    """The pull request that a commit brought in: trailing `(#N)` wins over all other numbers of the subject."""
    found = _TRAILING.search(subject)
    for form in _FORMS:
        found = found or form.search(subject)
    if found is None and subject.startswith("Merge "):
        found = _GITLAB.search(body)
    return int(found[1]) if found else None


def reverts_of(subject: str, body: str = "") -> tuple[set[int], set[str]]:
    """(numbers, commit ids) that a commit takes back, as its message says; a `Reapply` takes back nothing."""
    match = _REVERT.match(subject)
    shas = set(_REVERTED_SHA.findall(body))
    if match is None or not match["word"].lower().startswith("revert"):
        return set(), (shas if match is None else set())
    own = number_of(subject, body)
    numbers = {int(n) for n in _REVERTED_NUMBER.findall(body)}
    rest = _TRAILING.sub("", match["rest"]).strip().strip("\"'`“”")
    inner = number_of(rest)
    numbers |= {inner} if inner is not None else {int(n) for n in _ANY.findall(rest)}
    return numbers - {own}, shas


def title_of(subject: str, body: str = "") -> str:
    """A card's title: the subject without its number; of a merge commit the first line of its body, where the title stands."""
    of_gitlab = subject.startswith("Merge ") and _GITLAB.search(body)
    if of_gitlab or any(form.match(subject) for form in _FORMS):
        first = next((line.strip() for line in body.splitlines() if line.strip() and not _GITLAB.match(line)), "")
        return first or subject
    return _TRAILING.sub("", subject).strip() or subject
